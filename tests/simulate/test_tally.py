"""Counts and what follows from them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectr_verify.bounds import block_race
from spectr_verify.decoding import Seconds, decode
from spectr_verify.rules import RULES
from spectr_verify.simulate import Axes, Corpus, Outcome, Ratio, Settings, Tally, sweep, table_corpus
from toy_models import TableModel, ToyPair


def tally(**other: object) -> Tally:
    counts = {"texts": 2, "tokens": 20, "longest": 11, "calls": 5, "accepted": (1, 2, 4), "first": (0, 1, 1)}
    return Tally(**(counts | {"draft": 1.0, "target": 2.0, "verify": 0.5, "wall": 4.0, "alone": 6.0} | other))


def test_what_follows_from_counts() -> None:
    outcome = Outcome((tally(), tally(accepted=(3, 0, 0), first=(2, 0, 0), tokens=4, wall=2.0)))
    assert (outcome.total.rounds, outcome.total.emitted, outcome.total.tokens) == (10, 20, 24)
    assert outcome.block_efficiency.value == 2.0
    assert outcome.acceptance_rate == 10 / 20
    assert outcome.by_position == [0.6, 0.4]
    assert outcome.first_accepted.tolist() == [1.5, 0.0]
    assert outcome.tokens_per_second.value == 24 / 6
    assert outcome.speed_up.value == 12 / 6


def test_ratios_against_their_definitions() -> None:
    above, below = np.array([3.0, 8.0, 2.0]), np.array([1.0, 4.0, 2.0])
    ratio = Ratio.of(above, below)
    assert ratio.value == 13 / 7
    assert ratio.spread == pytest.approx(np.std([3.0, 2.0, 1.0], ddof=1))
    generator = np.random.default_rng(0)  # of many prompts the error is that of the ratio itself
    below = generator.integers(5, 20, (2_000, 40)).astype(float)
    above = below * 2 + generator.normal(size=below.shape) * 3
    errors = [Ratio.of(a, b).error for a, b in zip(above, below, strict=True)]
    values = [Ratio.of(a, b).value for a, b in zip(above, below, strict=True)]
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.06)
    assert Ratio.of(above[0, :1], below[0, :1]).error is None
    assert Ratio.of(np.array([1.0, 2.0]), np.array([0.0, 4.0])) == Ratio(0.75, 0.5, None)


def test_tallies_are_those_of_the_texts() -> None:
    corpus = laws_of(even_pair(4))
    (start,) = corpus.starts
    generator = torch.Generator().manual_seed(3)
    texts = decode(start.source, RULES["block"], [start.prompt] * 7, tokens=10, length=3, generator=generator)
    found = Tally.of(texts, 3, Seconds(1.0, 2.0, 3.0), 7.0, 0.0)
    assert (found.texts, found.tokens, found.longest, found.calls) == (7, 70, 10, len(texts.drafted))
    assert found.rounds == texts.rounds
    assert found.emitted == int((texts.accepted[texts.starts >= 0] + 1).sum())
    assert sum(found.first) == 7
    assert (found.draft, found.target, found.verify, found.wall) == (1.0, 2.0, 3.0, 7.0)
    joined = Tally.joined([found, found])
    assert joined.accepted == tuple(2 * count for count in found.accepted)
    assert joined.wall == 14.0


def laws_of(pair: ToyPair) -> Corpus:
    """The laws of a pair, to be decoded from: of tables first rounds alone are counted."""
    corpus = table_corpus("even", [pair])
    return replace(corpus, starts=tuple(replace(start, tables=None) for start in corpus.starts))


def even_pair(depth: int) -> ToyPair:
    """Every token is drawn anew from one law, so that every round of a text is like the first."""
    target, draft = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
    models = (TableModel(tuple(np.tile(law, (3**level, 1)) for level in range(depth))) for law in (draft, target))
    return ToyPair("even", *models)


def test_the_ends_of_texts_do_not_bias_block_efficiency() -> None:
    """Texts of five tokens and drafts of three: most texts end within a round, and tokens over rounds fall short."""
    pair = even_pair(4)
    exact = 1 + block_race(pair, 3, 2)
    seed = 5
    found = sweep(
        [laws_of(pair)],
        Axes([RULES["block-race"]], [2], [3], [1.0]),
        Settings(texts=20_000, batch=20_000, tokens=5, samples=0, seed=seed),
    )
    (outcome,) = found.outcomes.values()
    counts = np.array(outcome.total.accepted)
    accepted = np.repeat(np.arange(4), counts)
    error = accepted.std() / len(accepted) ** 0.5
    assert abs(outcome.block_efficiency.value - exact) < 4 * error, f"seed {seed}"
    assert outcome.total.tokens / outcome.total.rounds < exact - 20 * error


def test_outcomes_are_written_and_read() -> None:
    outcome = Outcome((tally(), tally(wall=1.5)))
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


@pytest.mark.parametrize(
    "damage",
    [
        {"tokens": -1},
        {"tokens": 1.5},
        {"calls": True},
        {"accepted": [1, "2"]},
        {"accepted": [1, 2]},
        {"accepted": [1, 0, 0], "first": [0, 1, 1]},
        {"first": [0, 0, 1]},
        {"texts": 0, "first": [0, 0, 0]},
        {"wall": -1},
        {"wall": float("nan")},
        {"draft": "soon"},
        {"longest": None},
    ],
)
def test_damaged_counts_are_refused(damage: dict) -> None:
    (written,) = Outcome((tally(),)).to_json()
    with pytest.raises((ValueError, TypeError)):
        Outcome.from_json([written | damage])


def test_counts_that_are_not_there_are_refused() -> None:
    for name in vars(tally()):
        (written,) = Outcome((tally(),)).to_json()
        with pytest.raises(KeyError):
            Outcome.from_json([{key: value for key, value in written.items() if key != name}])


def test_laws_are_tallies_without_an_error() -> None:
    outcome = Outcome((Tally.of_law([0.25, 0.75]), Tally.of_law([1.0, 0.0])), first_rounds=True)
    assert outcome.exact
    assert outcome.block_efficiency.value == 1.375
    assert outcome.block_efficiency.error is None
    assert outcome.block_efficiency.spread == pytest.approx(np.std([1.75, 1.0], ddof=1))
    assert outcome.by_position == [0.375]
    share = outcome.share(np.array([0.75, 0.75]))
    assert (share.value, share.error) == (0.5, None)
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json())), first_rounds=True) == outcome
    for damage in ({"accepted": [0.5, 0.6], "first": [0.5, 0.6]}, {"accepted": [1.5, -0.5], "first": [1.5, -0.5]}):
        with pytest.raises(ValueError, match=r"contradict|no probability"):
            Outcome.from_json([outcome.to_json()[0] | damage])


def test_sampled_first_rounds_have_the_error_of_their_texts() -> None:
    """Of pairs that somebody wrote down: how much these differ is no error."""
    one, other = tally(first=(2, 1, 1), texts=4), tally(first=(0, 0, 4), texts=4)
    outcome = Outcome((one.first_rounds(), other.first_rounds()), first_rounds=True)
    variance = np.var([0, 0, 1, 2], ddof=1) / 4
    assert outcome.block_efficiency.value == 1 + (0.75 + 2) / 2
    assert outcome.block_efficiency.error == pytest.approx(variance**0.5 / 2)
    assert outcome.share(np.array([2.0, 2.0])).error == pytest.approx(variance**0.5 / 2 / 2)
    assert [reached.value for reached in outcome.reached] == [0.75, 0.625]
    assert outcome.reached[0].error == pytest.approx((0.25 / 4) ** 0.5 / 2)
