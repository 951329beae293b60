"""The cells that a sweep has finished, as JSON lines: an interrupted sweep goes on from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from spectr_verify.errors import InputError, said
from spectr_verify.simulate.tally import Outcome

SCHEMA = "spectr-verify/simulate-cell/1"

Key = tuple[Any, ...]
"""Set of prompts, temperature, rule, K and L."""

NAMES = {"corpus": str, "temperature": float, "rule": str, "drafts": int, "length": int}


class LedgerError(InputError):
    """A log that a sweep cannot go on from: the message names the file and the line."""


class Ledger:
    """A file of finished cells."""

    def __init__(self, path: Path, run: dict[str, Any], identities: dict[str, str], prompts: dict[str, int]) -> None:
        """Keep cells in ``path``.

        Args:
            path: the file; it need not be there yet.
            run: settings that all its lines must have.
            identities: of the prompts and rules by name, where their lines must have the same.
            prompts: how many there are in each set.
        """
        self.path, self.run, self.identities, self.prompts = path, run, identities, prompts

    def read(self) -> tuple[dict[Key, Outcome], list[str]]:
        """The finished cells, and what is to be said about the file.

        A last line that was not written to its end is cut off the file, once the rest is known to be of a sweep.

        Raises:
            LedgerError: a line is no cell, or of other settings, prompts, models or rules.
        """
        if not self.path.exists():
            return {}, []
        try:
            whole, end, half = self.path.read_bytes().rpartition(b"\n")
            lines = whole.decode("utf-8").split("\n") if end else []
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(f"{self.path} cannot be read: {said(error)}") from error
        found: dict[Key, Outcome] = {}
        for number, line in enumerate(lines, start=1):
            key, outcome = self._cell(line, f"{self.path}, line {number}")
            found[key] = outcome
        if half:
            self._cut(half, len(whole) + len(end), alone=not lines)
        notes = [f"{self.path}: the last line was not written to its end; its cell is run again"] if half else []
        return found, notes

    def _cut(self, half: bytes, size: int, *, alone: bool) -> None:
        """Cut off what was not written to its end; a file that holds nothing else must begin as a cell does."""
        begin = json.dumps({"schema": SCHEMA})[:-1].encode()
        if alone and not (half.startswith(begin) or begin.startswith(half)):
            raise LedgerError(f"{self.path} is no log of a sweep; name another file, or one that is not there yet")
        try:
            os.truncate(self.path, size)
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be written: {said(error)}") from error

    def add(self, cell: dict[str, Any], outcome: Outcome) -> None:
        """Write a finished cell down.

        Raises:
            LedgerError: the file cannot be written.
        """
        identities = {name: self.identities[name] for name in cell.values() if name in self.identities}
        line = {"schema": SCHEMA, "run": self.run, "identities": identities, **cell, "prompts": outcome.to_json()}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be written: {said(error)}") from error

    def _cell(self, line: str, where: str) -> tuple[Key, Outcome]:
        try:
            written = json.loads(line)
        except json.JSONDecodeError as error:
            raise LedgerError(f"{where} is not JSON: {error.msg}, column {error.colno}") from error
        if not isinstance(written, dict) or written.get("schema") != SCHEMA:
            raise LedgerError(f"{where} is no cell of a sweep; name another file, or one that is not there yet")
        self._check("run", written, self.run, where)
        self._check("identities", written, self.identities, where)
        try:
            key = tuple(kind(written[name]) for name, kind in NAMES.items())
            outcome = Outcome.from_json(written["prompts"])
            sizes = {len(tally.accepted) for tally in outcome.prompts}
            if sizes != {written["length"] + 1}:
                raise ValueError(f"its counts are not those of drafts of {written['length']} tokens")
            if len(outcome.prompts) != self.prompts.get(written["corpus"], len(outcome.prompts)):
                raise ValueError(f"it has counts of {len(outcome.prompts)} prompts")
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{where} is damaged ({said(error)}); remove the line, its cell is run again") from error
        return key, outcome

    def _check(self, part: str, written: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
        """Refuse what was counted in another way: the numbers of one table must be of one kind."""
        found = written.get(part)
        if not isinstance(found, dict):
            raise LedgerError(f"{where} is damaged (it has no {part}); remove the line, its cell is run again")
        for name, value in wanted.items():
            if part == "run" and name not in found:
                raise LedgerError(f"{where} does not say {name}; give this sweep another file")
            if found.get(name, value) != value:
                other = f"{name} = {found[name]}" if part == "run" else f"another {name} (prompts, models or code)"
                this = f"{name} = {value}" if part == "run" else "its own"
                raise LedgerError(
                    f"{where} was written with {other}, and this sweep has {this}; give it another file, or the same "
                    "settings"
                )
