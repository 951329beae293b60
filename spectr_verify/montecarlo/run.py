"""A Monte Carlo run: texts are decoded with the rule until the evidence is enough or the budget is used."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.decoding import Filters, ModelPair, Seconds, SeenRound, Texts, decode
from spectr_verify.errors import InputError
from spectr_verify.montecarlo.accepted import AcceptedRounds
from spectr_verify.montecarlo.evidence import Evidence
from spectr_verify.montecarlo.faults import DRAFTS, FAULTS, LENGTH, PlantedFault
from spectr_verify.montecarlo.first_token import first_token_test
from spectr_verify.montecarlo.learned import Alternatives
from spectr_verify.montecarlo.report import EndToEnd, MonteCarloReport
from spectr_verify.montecarlo.score import Reference, Scored, full_precision, short
from spectr_verify.montecarlo.steps import write_by_steps
from spectr_verify.replay import Verifier
from spectr_verify.replay.probabilities import Drawn
from spectr_verify.rules import RULES, Rule

DRAFTS_FOR_CODE = 0x5EED
"""Sets the drafts that anybody's code is given apart from what that code draws, where one number seeds both."""

POWER = 6.0
"""The least decimal logarithm of the e-value at which a planted fault counts as rejected."""


@dataclass(frozen=True)
class Settings:
    """What a run decodes and when it ends.

    Attributes:
        drafts: K.
        length: L.
        tokens: N, tokens of every text, fixed before: to stop where a round ends would bias the test.
        texts: how many texts at most.
        filters: of both models' laws.
        alpha: probability at which each test rejects a lossless rule.
        seed: draws everything.
        batch: texts that are decoded together.
        seconds: after how long no further batch begins; ``None``: until all texts are written.
        enough: decimal logarithm of the e-value at which the run ends; by default that of 1/alpha.

    Raises:
        InputError: a number is out of its range.
    """

    drafts: int = 3
    length: int = 4
    tokens: int = 24
    texts: int = 2_000
    filters: Filters = field(default_factory=Filters)
    alpha: float = 1e-3
    seed: int = 0
    batch: int = 200
    seconds: float | None = None
    enough: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(f"alpha is {self.alpha}; it must lie between 0 and 1")
        for name, count in (("texts", self.texts), ("batch", self.batch)):
            if count < 1:
                raise InputError(f"{name} is {count}; it must be at least 1")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"seed is {self.seed}; it must be a whole number from 0 on, below 2^63")
        if self.seconds is not None and not (self.seconds > 0 and math.isfinite(self.seconds)):
            raise InputError(f"seconds is {self.seconds}; it must be a number above 0, or left out")
        if self.enough is not None and not math.isfinite(self.enough):
            raise InputError(f"enough is {self.enough}; it must be a number")

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {**vars(self), "filters": vars(self.filters)}


Subject = Rule | Verifier
"""What can be tested: a rule, or anybody's function and how it is called."""


def monte_carlo(
    pair: ModelPair,
    rule: Subject,
    prompts: Sequence[Sequence[int]],
    settings: Settings | None = None,
    *,
    reference: Reference | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> MonteCarloReport:
    """Decode texts with a rule and test that they follow the target.

    Texts do not end at an end of text, which is a token like others here. An interrupted run reports what it has.

    Args:
        pair: the models.
        rule: what is tested. A function that is called "probabilities" or "step" runs as it is, text after text, and
            draws from generators of its own: seed them. What a step took for the target's laws is not known, so its
            text is tested against the independent call alone, by models in float32 or finer.
        prompts: token ids of prompts, taken in turn.
        settings: what to decode and when to stop.
        reference: both models for the independent call; by default those of ``pair`` in float32.
        progress: called with a line after every batch.

    Raises:
        InputError: what cannot be decoded, see ``decode``; a step on coarser models.
    """
    settings = settings or Settings()
    reference = reference or Reference(pair, settings.filters)
    run = _Run(pair, rule, settings, reference)
    started, ended = time.monotonic(), "texts"
    try:
        for batch in _batches(prompts, settings):
            run.decode(batch)
            log10_e = run.own.log10_e
            progress(f"{rule.name}: {run.texts:,} of {settings.texts:,} texts, log10 e = {log10_e:.2f}")
            if log10_e >= (settings.enough if settings.enough is not None else -math.log10(settings.alpha)):
                ended = "e-value"
                break
            if settings.seconds is not None and time.monotonic() - started > settings.seconds:
                ended = "seconds"
                break
    except KeyboardInterrupt:
        ended = "interrupted"
    try:
        return run.report(ended)
    except KeyboardInterrupt:
        return run.report("interrupted")


def power(
    pair: ModelPair,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    *,
    reference: Reference | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[PlantedFault, MonteCarloReport]]:
    """Run every planted fault as it is asked for, each until it is rejected with log10 e of ``POWER`` or more.

    K and L are those that all of them are faults at, the other settings as given.

    Raises:
        InputError: at temperature 0 most faults write what they should.
    """
    if settings.filters.temperature == 0:
        raise InputError("at temperature 0 most planted faults write what they should; ask for power at another one")
    reference = reference or Reference(pair, settings.filters)
    tokens = max(settings.tokens, LENGTH)
    enough = max(POWER, -math.log10(settings.alpha))
    hunted = replace(settings, drafts=DRAFTS, length=LENGTH, tokens=tokens, enough=enough)
    return (
        (fault, monte_carlo(pair, fault.rule, prompts, hunted, reference=reference, progress=progress))
        for fault in FAULTS
    )


def _batches(prompts: Sequence[Sequence[int]], settings: Settings) -> Iterator[list[tuple[int, Sequence[int]]]]:
    """Prompts in turn, with their numbers."""
    if not prompts:
        raise InputError("there is no prompt")
    for begin in range(0, settings.texts, settings.batch):
        numbers = range(begin, min(begin + settings.batch, settings.texts))
        yield [(number % len(prompts), prompts[number % len(prompts)]) for number in numbers]


class _Watcher:
    """What the laws that the rule saw say of the tokens of a batch.

    Attributes:
        log_ratios: float64 [B, N, J], of every alternative.
        log_draft: float64 [B, N], log-probability of every token under the draft.
        first: [B, V], the target's laws of the first token.
        seconds: what all this took.
    """

    def __init__(self, texts: int, tokens: int, alternatives: Alternatives, device: torch.device) -> None:
        self.alternatives = alternatives
        self.log_ratios = torch.zeros(texts, tokens, len(alternatives.names), dtype=torch.float64, device=device)
        self.log_draft = torch.zeros(texts, tokens, dtype=torch.float64, device=device)
        self.first: Tensor | None = None
        self.seconds = 0.0

    def __call__(self, seen: SeenRound) -> None:
        started = time.perf_counter()
        if self.first is None:
            self.first = seen.target_probs[:, 0].clone()
        text = seen.texts[:, None].expand_as(seen.place)[seen.written], seen.place[seen.written]
        tokens, draft = seen.tokens[seen.written], seen.draft_probs[seen.written]
        self.log_ratios[text] = self.alternatives(seen.target_probs[seen.written], draft, tokens)
        self.log_draft[text] = draft.gather(1, tokens[:, None])[:, 0].to(torch.float64).log()
        self.seconds += time.perf_counter() - started


class _Run:
    """Everything that is counted over the batches."""

    def __init__(self, pair: ModelPair, subject: Subject, settings: Settings, reference: Reference) -> None:
        self.pair, self.settings, self.reference = pair, settings, reference
        self.step = subject if isinstance(subject, Verifier) and subject.calls == "step" else None
        self.judged = full_precision(pair.target.dtype)
        # The independent call's laws are compared with the accepted length only where they are those of the decoding.
        self.comparable = self.judged and full_precision(pair.draft.dtype)
        if self.step is not None:
            if not self.judged:
                raise InputError(
                    f"{subject.name} is a step, and the target runs in {short(pair.target.dtype)}: its text would be "
                    "told from that of an independent call by the rounding alone; load the models in float32"
                )
            self.reference = reference.apart()  # a step holds the models and may change them
        self.rule = Rule(subject.name, Drawn(subject)) if isinstance(subject, Verifier) else subject
        seed = settings.seed
        if RULES.get(subject.name) is not subject and not any(subject is fault.rule for fault in FAULTS):
            seed = int(np.random.SeedSequence([DRAFTS_FOR_CODE, seed]).generate_state(1)[0])
        self.generator = torch.Generator(device=pair.device).manual_seed(seed)
        self.alternatives, self.end_to_end = (Alternatives(pair.vocab, pair.device) for _ in range(2))
        self.own, self.independent = (Evidence(Alternatives.names) for _ in range(2))
        self.accepted_length, self.accepted_end_to_end = (AcceptedRounds(self.rule, settings.drafts) for _ in range(2))
        self.seconds, self.scoring = Seconds(), 0.0
        self.texts = self.rounds = self.accepted = self.drafted = self.edge = 0
        self.numerical = 0.0
        self.first: dict[int, tuple[NDArray[np.floating], NDArray[np.int64]]] = {}
        self.at_an_edge: set[int] = set()

    def decode(self, batch: list[tuple[int, Sequence[int]]]) -> None:
        """Decode and count one batch of texts."""
        watcher = _Watcher(len(batch), self.settings.tokens, self.alternatives, self.pair.device)
        texts = self._texts([prompt for _, prompt in batch], watcher)
        started = time.perf_counter()
        scored, prompts = self.reference.score(texts, self.end_to_end), [number for number, _ in batch]
        self._count(texts, scored, watcher)
        if self.step is not None:
            at_an_edge = scored.edge[:, 0].tolist()
            self.at_an_edge.update(number for number, edge in zip(prompts, at_an_edge, strict=True) if edge)
        self._count_first(texts, scored.first if watcher.first is None else watcher.first, prompts)
        self.alternatives.learn()
        self.end_to_end.learn()
        self.scoring += watcher.seconds + time.perf_counter() - started

    def _texts(self, prompts: list[Sequence[int]], watcher: _Watcher) -> Texts:
        settings = self.settings
        if self.step is not None:
            return write_by_steps(
                self.pair,
                self.step,
                prompts,
                tokens=settings.tokens,
                drafts=settings.drafts,
                length=settings.length,
                seconds=self.seconds,
            )
        return decode(
            self.pair,
            self.rule,
            prompts,
            tokens=settings.tokens,
            drafts=settings.drafts,
            length=settings.length,
            filters=settings.filters,
            generator=self.generator,
            stops=False,
            seconds=self.seconds,
            watch=watcher,
        )

    def _count(self, texts: Texts, scored: Scored, watcher: _Watcher) -> None:
        log_q, log_p = scored.log_target.flatten(), scored.log_draft.flatten()
        ratios = scored.log_ratios.flatten(0, 1)
        clear = ~scored.edge.flatten()
        self.edge += int(scored.edge.sum())
        self.comparable &= not bool(scored.edge.any() or scored.draft_edge.any())
        self.independent.add((ratios + log_q[:, None])[clear], log_q[clear], log_p[clear])
        if self.step is None:
            own = texts.target_probs.log().flatten()
            self.own.add(watcher.log_ratios.flatten(0, 1) + own[:, None], own, watcher.log_draft.flatten())
            # The mean of (1 - q/q')+ over tokens from q' is the total-variation distance of q from q'.
            self.numerical += float((1 - (log_q - own).exp())[own > -torch.inf].clamp(min=0.0).sum())
            self.accepted_length.add(texts, watcher.log_draft, texts.target_probs.log())
            self.accepted_end_to_end.add(texts, scored.log_draft, scored.log_target)
        else:  # what a step took for the laws is not known, and it drafts as it likes
            self.own.add((ratios + log_q[:, None])[clear], log_q[clear], log_p[clear])
        self.texts += len(texts.prompts)
        self.rounds += texts.rounds
        happened = texts.starts >= 0
        self.accepted += int(texts.accepted[happened].sum())
        self.drafted += int(texts.drafted.to(happened.device).expand_as(happened)[happened].sum())

    def _count_first(self, texts: Texts, laws: Tensor, prompts: list[int]) -> None:
        for row, (number, token) in enumerate(zip(prompts, texts.tokens[:, 0].tolist(), strict=True)):
            if number not in self.first:
                self.first[number] = np.zeros(self.pair.vocab), np.zeros(self.pair.vocab, dtype=np.int64)
            # One prompt's law has other roundings in other batches; near a filter's edge they decide what is possible.
            law, count = self.first[number]
            law += laws[row].double().cpu().numpy()
            count[token] += 1

    def report(self, ended: str) -> MonteCarloReport:
        """What was found so far."""
        settings, started = self.settings, time.perf_counter()
        # After a prompt where rounding decided what a step may write, its counts do not fit the independent call's law.
        compared = [first for number, first in self.first.items() if number not in self.at_an_edge]
        laws, counts = (list(column) for column in zip(*compared, strict=True)) if compared else ([], [])
        means = [law / count.sum() for law, count in zip(laws, counts, strict=True)]
        first = first_token_test(means, counts, seed=settings.seed) if laws else None
        return MonteCarloReport(
            rule=self.rule.name,
            alpha=settings.alpha,
            log10_e=self.own.log10_e,
            worst_alternative=self.own.worst_alternative,
            impossible=self.own.impossible,
            by_alternative=self.own.by_alternative,
            effect_upper_bound=self.own.effect_upper_bound(settings.alpha),
            end_to_end=EndToEnd(
                self.independent.log10_e,
                self.independent.worst_alternative,
                self.independent.impossible,
                self.numerical / max(self.own.tokens, 1) if self.step is None else None,
                short(self.reference.target.dtype),
                self.judged,
                self.edge,
                self.accepted_end_to_end.compare() if self.comparable else None,
            ),
            first_token=first,
            accepted=self.accepted_length.compare(),
            texts=self.texts,
            tokens=self.texts * settings.tokens,
            rounds=self.rounds,
            block_efficiency=(self.accepted + self.rounds) / max(self.rounds, 1),
            acceptance_rate=self.accepted / max(self.drafted, 1) if self.step is None else None,
            seconds=self.seconds,
            scoring=self.scoring + time.perf_counter() - started,
            ended=ended,
            settings=settings.to_json(),
        )
