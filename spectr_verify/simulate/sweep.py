"""Decode with every rule, K, L, temperature and set of prompts, and count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from spectr_verify.rules import Rule
from spectr_verify.simulate.corpus import Corpus, check_corpora
from spectr_verify.simulate.counting import counted, decoded, seed_of
from spectr_verify.simulate.headroom import Headroom, Headrooms
from spectr_verify.simulate.identity import code_digest, machine_digest, rule_digest
from spectr_verify.simulate.ledger import Ledger, Line
from spectr_verify.simulate.plan import ALONE, Axes, Cell, Settings, cells, said
from spectr_verify.simulate.tally import Outcome, Ratio


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep found.

    Attributes:
        axes, settings: what was asked for.
        timed: the sets of prompts, and whether their time means something.
        sources: what the sets are of, as ``Corpus.source``.
        planned: how many cells were asked for.
        outcomes: what the finished cells counted.
        headrooms: the most that any lossless rule of the rule's class accepts in first rounds, where it is known.
        unbounded: why it is not, where it was asked for.
        restored: how many of the finished ones an earlier sweep had written down.
        notes: what is to be said about all of it.
        interrupted: whether it was.
    """

    axes: Axes
    settings: Settings
    timed: dict[str, bool]
    sources: dict[str, dict[str, object]]
    planned: int
    outcomes: dict[Cell, Outcome] = field(default_factory=dict)
    headrooms: dict[Cell, Headroom] = field(default_factory=dict)
    unbounded: dict[Cell, str] = field(default_factory=dict)
    restored: int = 0
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
        return self.outcomes[cell].share(bound.values)


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
        log: a file of JSON lines, to which every finished cell is added with its bound; cells that it has already, of
            the same code, prompts and models, are not run again.
        progress: called with a line before every cell.

    Raises:
        InputError: what cannot be decoded, or a log of other settings.
    """
    settings = settings or Settings()
    check_corpora(corpora, settings.tokens, max(axes.lengths))
    for temperature in axes.temperatures:
        settings.filters(temperature)
    running = _Running(corpora, axes, settings, log, progress)
    try:
        running.run()
    except KeyboardInterrupt:
        return replace(running.found, interrupted=True)
    return running.found


class _Running:
    """A sweep under way."""

    def __init__(
        self,
        corpora: Sequence[Corpus],
        axes: Axes,
        settings: Settings,
        log: Path | None,
        progress: Callable[[str], None],
    ) -> None:
        self.settings, self.progress = settings, progress
        self.corpora = {corpus.name: corpus for corpus in corpora}
        self.planned, self.rules = cells(corpora, axes), {rule.name: rule for rule in axes.rules}
        self.ledger = None if log is None else _ledger(log, self.corpora, self.rules, self.planned, settings)
        lines, notes = ({}, []) if self.ledger is None else self.ledger.read()
        self.found = Sweep(
            axes,
            settings,
            {corpus.name: corpus.timed for corpus in corpora},
            {corpus.name: corpus.source for corpus in corpora},
            len(self.planned),
            outcomes={cell: lines[cell].outcome for cell in self.planned if cell in lines},
            headrooms={c: line.bound for c, line in lines.items() if settings.samples and line.bound is not None},
            restored=len(lines),
            notes=notes,
        )
        self.warm: set[str] = set()
        longest = max(axes.lengths)
        self.bounds = {
            (name, temperature): Headrooms(
                corpus,
                settings.filters(temperature),
                longest,
                settings.samples,
                seed_of(settings.seed, Cell(name, temperature, ALONE, 1, 1), 0, 0),
            )
            for (name, corpus), temperature in product(self.corpora.items(), axes.temperatures)
            if settings.samples
        }

    def run(self) -> None:
        found = self.found
        for number, cell in enumerate(self.planned, start=1):
            self.progress(f"{number} of {len(self.planned)}: {said(cell)}")
            bound = None if cell in found.headrooms else self._bound(cell)
            news = cell not in found.outcomes or isinstance(bound, Headroom)
            if cell not in found.outcomes:
                found.outcomes[cell] = self._counted(cell)
            if isinstance(bound, Headroom):
                found.headrooms[cell] = bound
            elif bound is not None:
                found.unbounded[cell] = bound
            if self.ledger is not None and news:
                self.ledger.add(cell, Line(found.outcomes[cell], found.headrooms.get(cell)))

    def _bound(self, cell: Cell) -> Headroom | str | None:
        """The most that any lossless rule accepts there, or why that is not known; ``None``: nobody asks."""
        if not self.settings.samples:
            return None
        return self.bounds[cell.corpus, cell.temperature].bound(self.rules[cell.rule].kind, cell.drafts, cell.length)

    def _counted(self, cell: Cell) -> Outcome:
        corpus, rule = self.corpora[cell.corpus], self.rules[cell.rule]
        if corpus.timed and corpus.name not in self.warm:
            decoded(corpus, corpus.starts[0], cell, rule, self.settings, texts=1, seed=0)
            self.warm.add(corpus.name)
        return counted(corpus, cell, rule, self.settings)


def _ledger(
    path: Path, corpora: dict[str, Corpus], rules: dict[str, Rule], planned: Sequence[Cell], settings: Settings
) -> Ledger:
    files = {name: rule_digest(rule) for name, rule in rules.items()}
    machines = {
        name: machine_digest(corpus.starts[0].source.device if corpus.timed else None)
        for name, corpus in corpora.items()
    }
    identities = {
        cell: {
            "code": code_digest(),
            "prompts": corpora[cell.corpus].identity,
            "rule": files[cell.rule],
            "machine": machines[cell.corpus],
        }
        for cell in planned
    }
    return Ledger(path, settings, identities, corpora)
