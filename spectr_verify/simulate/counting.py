"""What one cell of a sweep counts: decoded texts, or the law of a round where it is small enough to be known."""

from __future__ import annotations

import hashlib
import time
from itertools import pairwise

import torch

from spectr_verify.bounds import block_race
from spectr_verify.decoding import Filters, Seconds, decode
from spectr_verify.exact import LimitError, Limits, round_law
from spectr_verify.rules import RULES, Rule
from spectr_verify.simulate.corpus import Corpus, Start
from spectr_verify.simulate.headroom import filtered
from spectr_verify.simulate.plain import seconds_alone
from spectr_verify.simulate.plan import Cell, Settings
from spectr_verify.simulate.tally import Outcome, Tally
from toy_models import ToyPair

SAMPLE = 4
"""The target alone writes one in so many tokens, for its time; on a shared machine that must be taken beside."""

MOST_TUPLES = 1 << 14
"""Most draft tuples, of all pairs of a set together, whose law is enumerated."""

MOST_WORLDS = 1 << 20
"""Most worlds of one pair."""


def law_of_rounds(corpus: Corpus, rule: Rule, drafts: int, length: int, filters: Filters) -> Outcome | None:
    """What a round from the start of every pair of tables accepts, exactly; ``None`` if that is too much work.

    Raises:
        InputError: the rule breaks its contract.
    """
    pairs = [start.tables for start in corpus.starts if start.tables is not None]
    if length > min(pair.max_length for pair in pairs):
        return None
    pairs = [filtered(pair, filters) for pair in pairs]
    if rule is RULES.get("block-race"):
        return Outcome(tuple(Tally.of_law(_by_level(pair, drafts, length)) for pair in pairs), first_rounds=True)
    limits = Limits(tuples=max(1, MOST_TUPLES // len(pairs)), worlds=MOST_WORLDS)
    try:
        laws = [round_law(rule, pair, length, drafts, limits=limits) for pair in pairs]
    except LimitError:
        return None
    return Outcome(
        tuple(Tally.of_law([float(level.sum()) for level in law.emissions]) for law in laws), first_rounds=True
    )


def _by_level(pair: ToyPair, drafts: int, length: int) -> list[float]:
    """The law of what the block race accepts, 0 to L tokens, from its closed form.

    It has as many drafts as anybody likes, and no world of its own for each of their orders. How many rounds accept i
    tokens or more does not depend on what L is beyond i.
    """
    means = [0.0, *(block_race(pair, i, drafts) for i in range(1, length + 1))]
    reached = [1.0, *(after - before for before, after in pairwise(means)), 0.0]
    return [max(now - onward, 0.0) for now, onward in pairwise(reached)]


def counted(corpus: Corpus, cell: Cell, rule: Rule, settings: Settings) -> Outcome:
    """What a cell counts: of tables the law of the first round where it can be known, else decoded texts.

    Raises:
        InputError: see ``decode``, or the rule breaks its contract.
    """
    if corpus.written_down:
        law = law_of_rounds(corpus, rule, cell.drafts, cell.length, settings.filters(cell.temperature))
        if law is not None:
            return law
    tallies = []
    for number, start in enumerate(corpus.starts):
        parts = []
        for begin in range(0, settings.texts, settings.batch):
            texts, seed = min(settings.batch, settings.texts - begin), seed_of(settings.seed, cell, number, begin)
            parts.append(decoded(corpus, start, cell, rule, settings, texts=texts, seed=seed))
        tallies.append(Tally.joined(parts))
    if corpus.written_down:
        return Outcome(tuple(tally.first_rounds() for tally in tallies), first_rounds=True)
    return Outcome(tuple(tallies))


def decoded(
    corpus: Corpus, start: Start, cell: Cell, rule: Rule, settings: Settings, *, texts: int, seed: int
) -> Tally:
    """Decode some texts of one prompt, over tables one round each; where time means something, the target alone too."""
    generator = torch.Generator(device=start.source.device).manual_seed(seed)
    prompts, seconds, filters = [start.prompt] * texts, Seconds(), settings.filters(cell.temperature)
    started = time.perf_counter()
    written = decode(
        start.source,
        rule,
        prompts,
        tokens=cell.length if corpus.written_down else settings.tokens,
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


def seed_of(seed: int, cell: Cell, prompt: int, begin: int) -> int:
    """A seed of its own for every batch, so that cells do not depend on which were run before them."""
    words = f"{seed} {sorted(vars(cell).items())} {prompt} {begin}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7], "big")
