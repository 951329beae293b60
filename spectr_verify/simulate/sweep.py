"""Decode with every rule, K, L, temperature and set of prompts, and count."""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from spectr_verify import __version__
from spectr_verify.decoding import Filters, Seconds, decode
from spectr_verify.errors import InputError
from spectr_verify.rules import RULES, Rule
from spectr_verify.simulate.corpus import Corpus, Start, check_corpora
from spectr_verify.simulate.headroom import Headroom, Headrooms
from spectr_verify.simulate.ledger import Ledger
from spectr_verify.simulate.plain import seconds_alone
from spectr_verify.simulate.tally import Outcome, Ratio, Tally

ALONE = "autoregressive"
"""The rule that is no cell: the target alone is timed beside every other one."""

SAMPLE = 4
"""The target alone writes one in so many tokens, for its time; on a shared machine that must be taken beside."""


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep.

    Attributes:
        corpus: the set of prompts.
        temperature: of both models' laws.
        rule: its name.
        drafts: K, as many as the rule uses.
        length: L.
    """

    corpus: str
    temperature: float
    rule: str
    drafts: int
    length: int


@dataclass(frozen=True)
class Axes:
    """What is swept; of every list no value twice.

    Attributes:
        rules: acceptance rules.
        drafts: values of K.
        lengths: values of L.
        temperatures: of both models' laws.
    """

    rules: Sequence[Rule]
    drafts: Sequence[int]
    lengths: Sequence[int]
    temperatures: Sequence[float]

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if ALONE in names:
            raise InputError(f"{ALONE} is what all rules are compared with, and in every table: leave it out of them")
        axes = {"rule": names, "drafts": self.drafts, "length": self.lengths, "temperature": self.temperatures}
        for axis, values in axes.items():
            if not values:
                raise InputError(f"there is no {axis} to sweep over")
            for value in values:
                if list(values).count(value) > 1:
                    raise InputError(f"{axis}: {value} is asked for more than once; name every value once")
        for axis, values in (("drafts", self.drafts), ("length", self.lengths)):
            if min(values) < 1:
                raise InputError(f"{axis} is {min(values)}; it must be at least 1")


@dataclass(frozen=True)
class Settings:
    """What all cells of a sweep have in common.

    Attributes:
        texts: after each prompt.
        tokens: N of each text.
        batch: texts of one prompt that are decoded together.
        top_k, top_p, min_p: as in ``Filters``.
        samples: texts a prompt that the level bound is estimated from; 0: no bounds at all.
        seed: draws everything.

    Raises:
        InputError: a number is out of its range.
    """

    texts: int = 1
    tokens: int = 64
    batch: int = 1
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("texts", "tokens", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.samples < 0 or self.samples == 1:
            raise InputError(f"samples is {self.samples}; it must be 2 or more, or 0 for no bounds")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"seed is {self.seed}; it must be a whole number from 0 on, below 2^63")

    def filters(self, temperature: float) -> Filters:
        """The filters of a cell."""
        return Filters(temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep found.

    Attributes:
        axes, settings: what was asked for.
        rules: by name.
        timed: the sets of prompts whose time means something.
        outcomes: what the finished cells counted.
        headrooms: the most that any lossless rule of the rule's class accepts in first rounds, where it is known.
        planned: how many cells were asked for.
        restored: how many of the finished ones an earlier sweep had written down.
        notes: what is to be said about all of it.
        interrupted: whether it was.
    """

    axes: Axes
    settings: Settings
    timed: dict[str, bool]
    outcomes: dict[Cell, Outcome]
    headrooms: dict[Cell, Headroom]
    planned: int
    restored: int
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def rules(self) -> dict[str, Rule]:
        """By name."""
        return {rule.name: rule for rule in self.axes.rules}

    def share(self, cell: Cell) -> Ratio | None:
        """What first rounds accept as a share of the most that any lossless rule accepts in them, where it is known."""
        bound = self.headrooms.get(cell)
        if bound is None or not bound.values.sum() > 0:
            return None
        return Ratio.of(self.outcomes[cell].first_accepted, bound.values)


def cells(corpora: Sequence[Corpus], axes: Axes) -> list[Cell]:
    """All cells, each once: a rule of a single draft has one for all K."""
    every = product(corpora, axes.temperatures, axes.lengths, axes.drafts, axes.rules)
    return list(
        dict.fromkeys(
            Cell(corpus.name, temperature, rule.name, rule.used_drafts(drafts), length)
            for corpus, temperature, length, drafts, rule in every
        )
    )


def sweep(
    corpora: Sequence[Corpus],
    axes: Axes,
    settings: Settings | None = None,
    *,
    log: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Sweep:
    """Decode every cell. An interrupted sweep returns what it has.

    Args:
        corpora: sets of prompts.
        axes: what is swept.
        settings: what all cells have in common.
        log: a file of JSON lines, to which every finished cell is added; cells that it has already are not run again.
        progress: called with a line before every cell.

    Raises:
        InputError: what cannot be decoded, or a log of other settings.
    """
    settings = settings or Settings()
    if settings.tokens < max(axes.lengths):
        raise InputError(
            f"a text of {settings.tokens} tokens is shorter than a draft of {max(axes.lengths)}; ask for longer texts "
            "or shorter drafts"
        )
    check_corpora(corpora, settings.tokens, max(axes.lengths))
    for temperature in axes.temperatures:
        settings.filters(temperature)
    planned = cells(corpora, axes)
    rules, sets = {rule.name: rule for rule in axes.rules}, {corpus.name: corpus for corpus in corpora}
    outcomes: dict[Cell, Outcome] = {}
    notes: list[str] = []
    ledger = None if log is None else _ledger(log, corpora, axes, settings)
    if ledger is not None:
        counted, notes = ledger.read()
        outcomes = {cell: counted[key] for cell in planned if (key := tuple(vars(cell).values())) in counted}
    restored = len(outcomes)
    found = Sweep(axes, settings, {c.name: c.timed for c in corpora}, outcomes, {}, len(planned), restored, notes)
    try:
        warm: set[str] = set()
        for number, cell in enumerate(planned, start=1):
            if cell in outcomes:
                continue
            progress(f"{number} of {len(planned)}: {said(cell)}")
            corpus = sets[cell.corpus]
            if corpus.timed and corpus.name not in warm:
                _decoded(corpus, corpus.starts[0], cell, rules[cell.rule], settings, 1, 0)
                warm.add(corpus.name)
            outcomes[cell] = _counted(corpus, cell, rules[cell.rule], settings)
            if ledger is not None:
                ledger.add(vars(cell), outcomes[cell])
        _bounded(found, sets, progress)
    except KeyboardInterrupt:
        return Sweep(**{**vars(found), "interrupted": True})
    return found


def said(cell: Cell) -> str:
    """A cell in words."""
    where = f"{cell.corpus}, temperature {cell.temperature:g}"
    return f"{cell.rule}, {where}, K = {cell.drafts}, L = {cell.length}"


def _counted(corpus: Corpus, cell: Cell, rule: Rule, settings: Settings) -> Outcome:
    tallies = []
    for number, start in enumerate(corpus.starts):
        parts = []
        for begin in range(0, settings.texts, settings.batch):
            texts, seed = min(settings.batch, settings.texts - begin), _seed(settings.seed, cell, number, begin)
            parts.append(_decoded(corpus, start, cell, rule, settings, texts, seed))
        tallies.append(Tally.joined(parts))
    return Outcome(tuple(tallies))


def _decoded(corpus: Corpus, start: Start, cell: Cell, rule: Rule, settings: Settings, texts: int, seed: int) -> Tally:
    """Decode some texts of one prompt; where time means something, the target alone too."""
    generator = torch.Generator(device=start.source.device).manual_seed(seed)
    prompts, seconds, filters = [start.prompt] * texts, Seconds(), settings.filters(cell.temperature)
    started = time.perf_counter()
    written = decode(
        start.source,
        rule,
        prompts,
        tokens=settings.tokens,
        drafts=cell.drafts,
        length=cell.length,
        filters=filters,
        generator=generator,
        seconds=seconds,
    )
    wall, alone = time.perf_counter() - started, 0.0
    if corpus.timed:
        longest, sample = int(written.lengths.max()), max(settings.tokens // SAMPLE, 2)
        alone = seconds_alone(
            start.source, prompts, tokens=longest, sample=sample, filters=filters, generator=generator
        )
    return Tally.of(written, cell.length, seconds, wall, alone)


def _bounded(found: Sweep, sets: dict[str, Corpus], progress: Callable[[str], None]) -> None:
    """Add the bounds of all cells."""
    settings, rules = found.settings, found.rules
    if not settings.samples:
        return
    for name, temperature in product(sets, found.axes.temperatures):
        filters = settings.filters(temperature)
        seed = _seed(settings.seed, Cell(name, temperature, ALONE, 1, 1), 0, 0)
        bounds = Headrooms(sets[name], filters, max(found.axes.lengths), settings.samples, seed)
        for cell in found.outcomes:
            if (cell.corpus, cell.temperature) == (name, temperature):
                progress(f"bound: {said(cell)}")
                bound = bounds.bound(rules[cell.rule].kind, cell.drafts, cell.length)
                if bound is not None:
                    found.headrooms[cell] = bound


def _seed(seed: int, cell: Cell, prompt: int, begin: int) -> int:
    """A seed of its own for every batch, so that cells do not depend on which were run before them."""
    words = f"{seed} {sorted(vars(cell).items())} {prompt} {begin}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7], "big")


def _ledger(path: Path, corpora: Sequence[Corpus], axes: Axes, settings: Settings) -> Ledger:
    prompts = {corpus.name: len(corpus.starts) for corpus in corpora}
    return Ledger(path, _run(settings), _identities(corpora, axes.rules), prompts)


def _run(settings: Settings) -> dict[str, Any]:
    """What all lines of a log must have in common; bounds are not in it."""
    return {"version": __version__} | {name: value for name, value in vars(settings).items() if name != "samples"}


def _identities(corpora: Sequence[Corpus], rules: Sequence[Rule]) -> dict[str, str]:
    """What tells prompts, models and rules from others of the same name."""
    own = {rule.name: _source(rule) for rule in rules if RULES.get(rule.name) is not rule}
    return {corpus.name: corpus.identity for corpus in corpora} | own


def _source(rule: Rule) -> str:
    """The file that anybody's rule is written in, as a digest."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(rule.verify))
        return hashlib.sha256(Path(file or "").read_bytes()).hexdigest()[:16]
    except (TypeError, OSError):  # it is written in no file
        return "unknown"
