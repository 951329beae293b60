"""The cells that a sweep has finished, as JSON lines: an interrupted sweep goes on from them."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectr_verify import __version__
from spectr_verify.errors import InputError, said
from spectr_verify.simulate.corpus import Corpus
from spectr_verify.simulate.headroom import Headroom
from spectr_verify.simulate.plan import Cell, Settings
from spectr_verify.simulate.tally import Outcome

SCHEMA = "spectr-verify/simulate-cell/3"

NAMES = {"corpus": str, "temperature": float, "rule": str, "drafts": int, "length": int}

OTHERS = {
    "code": "another state of this package's code",
    "prompts": "other prompts or models",
    "rule": "another state of the rule's files",
    "machine": "other versions, another machine or number of threads",
}
"""What is told apart by the digests of a line, in this order, and how reports call what has another one."""


class LedgerError(InputError):
    """A log that a sweep cannot go on from: the message names the file and the line."""


@dataclass(frozen=True, eq=False)
class Line:
    """What a log keeps of a cell: what it counted, and the bound, if there was one."""

    outcome: Outcome
    bound: Headroom | None


class Ledger:
    """A file of finished cells."""

    def __init__(
        self, path: Path, settings: Settings, identities: dict[Cell, dict[str, str]], corpora: dict[str, Corpus]
    ) -> None:
        """Keep cells in ``path``.

        Args:
            path: the file; it need not be there yet.
            settings: those that all its lines must have; of bounds the number of samples.
            identities: what is asked for, and the digests, named as in ``OTHERS``, that a line of it must have.
            corpora: the sets of prompts.
        """
        self.path, self.identities, self.corpora, self.samples = path, identities, corpora, settings.samples
        self.run = {name: value for name, value in vars(settings).items() if name != "samples"}

    def read(self) -> tuple[dict[Cell, Line], list[str]]:
        """The finished cells that are asked for, and what is to be said about the file.

        A last line that was not written to its end is cut off the file, once the rest is known to be of a sweep.
        Cells that other code, prompts or models counted are left aside.

        Raises:
            LedgerError: a line is no cell, or of other settings.
        """
        if not self.path.exists():
            return {}, []
        try:
            whole, end, half = self.path.read_bytes().rpartition(b"\n")
            lines = whole.decode("utf-8").split("\n") if end else []
            unended = _is_object(half)  # whole, though its end of line is missing
            lines += [half.decode("utf-8")] if unended else []
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(f"{self.path} cannot be read: {said(error)}") from error
        found: dict[Cell, Line] = {}
        aside: dict[Cell, str] = {}
        for number, line in enumerate(lines, start=1):
            self._take(line, f"{self.path}, line {number}", found, aside)
        notes = self._left_aside({cell: why for cell, why in aside.items() if cell not in found})
        if unended:
            self._write("\n")
        elif half:
            self._cut(half, len(whole) + len(end))
            notes.append(f"{self.path}: the last line was not written to its end; its cell is run again")
        return found, notes

    def _take(self, line: str, where: str, found: dict[Cell, Line], aside: dict[Cell, str]) -> None:
        """Sort a line into what is of use and what is not."""
        written = _object(line, where)
        self._check_settings(written, where)
        try:
            cell = Cell(*(_of_kind(written[name], kind) for name, kind in NAMES.items()))
            digests = {name: str(written["of"][name]) for name in OTHERS}
            other = [name for name, digest in self.identities.get(cell, {}).items() if digests[name] != digest]
            same = cell in self.identities and not other
            read = _line(written, cell, self.corpora[cell.corpus] if same else None)
            usable = read.bound is not None and (not read.bound.estimated or written["samples"] == self.samples)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise LedgerError(f"{where} is damaged ({said(error)}); remove the line, its cell is run again") from error
        if other:
            aside[cell] = other[0]
        elif same:
            found[cell] = Line(read.outcome, read.bound if usable else None)

    def _left_aside(self, aside: dict[Cell, str]) -> list[str]:
        if not aside:
            return []
        counts = Counter(aside.values())
        why = ", ".join(f"{counts[name]:,} of {words}" for name, words in OTHERS.items() if name in counts)
        cells = "1 cell is" if len(aside) == 1 else f"{len(aside):,} cells are"
        return [f"{self.path}: {cells} left aside and run again: {why}"]

    def _cut(self, half: bytes, size: int) -> None:
        """Cut off what was not written to its end; it must begin as a cell does."""
        begin = json.dumps({"schema": SCHEMA})[:-1].encode()
        if not (half.startswith(begin) or begin.startswith(half)):
            raise LedgerError(
                f"{self.path} is no log of a sweep, or its last line is not one of it; remove that line, or name "
                "another file, or one that is not there yet"
            )
        try:
            os.truncate(self.path, size)
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be written: {said(error)}") from error

    def add(self, cell: Cell, line: Line) -> None:
        """Write a finished cell down.

        Raises:
            LedgerError: the file cannot be written.
        """
        written = {
            "schema": SCHEMA,
            "version": __version__,
            "run": self.run,
            "of": self.identities[cell],
            **vars(cell),
            "first_rounds": line.outcome.first_rounds,
            "prompts": line.outcome.to_json(),
            "samples": self.samples,
            "bound": None if line.bound is None else line.bound.to_json(),
        }
        self._write(json.dumps(written) + "\n")

    def _write(self, text: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be written: {said(error)}") from error

    def _check_settings(self, written: dict[str, Any], where: str) -> None:
        """Refuse what was counted in another way: the numbers of one table must be of one kind."""
        found = written.get("run")
        if not isinstance(found, dict):
            raise LedgerError(f"{where} is damaged (it has no run); remove the line, its cell is run again")
        for name, value in self.run.items():
            if name not in found:
                raise LedgerError(f"{where} does not say {name}; give this sweep another file")
            if found[name] != value:
                raise LedgerError(
                    f"{where} was written with {name} = {found[name]}, and this sweep has {name} = {value}; give it "
                    "another file, or the same settings"
                )


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        written = json.loads(line)
    except json.JSONDecodeError as error:
        raise LedgerError(f"{where} is not JSON: {error.msg}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, endless nesting
        raise LedgerError(f"{where} is not JSON that can be read: {said(error)}") from error
    schema = written.get("schema") if isinstance(written, dict) else None
    if isinstance(schema, str) and schema != SCHEMA and schema.startswith(SCHEMA.rpartition("/")[0]):
        raise LedgerError(
            f"{where} was written by another version of spectr-verify ({schema}); give this sweep another file"
        )
    if not isinstance(written, dict) or schema != SCHEMA:
        raise LedgerError(f"{where} is no cell of a sweep; name another file, or one that is not there yet")
    return written


def _line(written: dict[str, Any], cell: Cell, corpus: Corpus | None) -> Line:
    """What a line keeps, of these prompts if they are known.

    Raises:
        KeyError, TypeError, ValueError: it is damaged.
    """
    outcome = Outcome.from_json(written["prompts"], first_rounds=bool(written["first_rounds"]))
    if {len(tally.accepted) for tally in outcome.prompts} != {cell.length + 1}:
        raise ValueError(f"its counts are not those of drafts of {cell.length} tokens")
    if corpus is not None and len(outcome.prompts) != len(corpus.starts):
        raise ValueError(f"it has counts of {len(outcome.prompts)} prompts")
    if corpus is not None and corpus.timed and not all(t.wall and t.alone for t in outcome.prompts):
        raise ValueError("it has prompts that took no time")
    if outcome.exact and not outcome.first_rounds:
        raise ValueError("its counts are exact, and those of whole texts never are")
    bound = None if written["bound"] is None else Headroom.from_json(written["bound"])
    if bound is not None and not len(bound.values) == len(bound.errors) == len(outcome.prompts):
        raise ValueError("its bound is not one number a prompt")
    if bound is not None and not bound.estimated and (bound.values > cell.length + 1e-6).any():
        raise ValueError("its bound is of more tokens than a draft has")
    return Line(outcome, bound)


def _of_kind(value: Any, kind: Any) -> Any:
    """The value, if it is of this kind and not only like one; a temperature may be a whole number."""
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError(f"{value!r} is of type {type(value).__name__}")
    return kind(value)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
