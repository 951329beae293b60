"""Bounds on first rounds: exact ones of tables, and what is estimated from samples against exact level bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectr_verify.bounds import level_bound, stateful_optimum, stateless_optimum
from spectr_verify.decoding import Filters
from spectr_verify.errors import InputError
from spectr_verify.simulate import synthetic_corpus, table_corpus
from spectr_verify.simulate.headroom import Headrooms, _threshold, _value, sampled_level_bound, written_down
from spectr_verify.simulate.plain import continuations
from toy_models import ToyPair, family_pairs, recorded_pairs
from toy_models.synthetic import SyntheticPair

PAIRS = [family_pairs(0, 4, 2)[number] for number in (0, 2, 4)]


def samples(pair: ToyPair, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    (start,) = table_corpus("it", [pair]).starts
    generator = torch.Generator().manual_seed(seed)
    asked = [start.prompt] * count
    return continuations(start.source, asked, tokens=2, filters=Filters(), generator=generator)[1:]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_continuations_are_scored_by_both_models(pair: ToyPair) -> None:
    log_p, log_q = samples(pair, 2_000)
    joint = {round(p, 9): 0.0 for p in pair.target.joint(2)}
    for p in pair.target.joint(2):
        joint[round(p, 9)] += p
    texts = {(round(p, 9), round(q, 9)) for p, q in zip(pair.draft.joint(2), pair.target.joint(2), strict=True)}
    found = torch.stack([log_p.sum(dim=1), log_q.sum(dim=1)], dim=1).exp().numpy().round(9)
    assert {tuple(row) for row in found.tolist()} <= texts
    for probability, mass in joint.items():
        share = float(np.isclose(found[:, 1], probability, rtol=0, atol=2e-9).mean())
        assert abs(share - mass) < 5 * (mass * (1 - mass) / 2_000) ** 0.5 + 1e-9


@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_estimate_is_no_less_than_the_level_bound_and_near_it(pair: ToyPair, drafts: int) -> None:
    log_p, log_q = samples(pair, 64 * 100)
    parts = zip(log_p.split(64), log_q.split(64), strict=True)
    found, errors = (
        np.array(column) for column in zip(*(sampled_level_bound(p, q, drafts) for p, q in parts), strict=True)
    )
    exact = np.array([level_bound(pair, length, drafts) for length in (1, 2)])
    error = found.std(axis=0, ddof=1) / 10
    assert (found.mean(axis=0) > exact - 4 * error - 1e-9).all()
    many, _ = sampled_level_bound(log_p, log_q, drafts)
    assert np.abs(many - exact).max() < 0.05
    # What the choice of sets adds to the variance is not in the error: the estimate is of the sets that were chosen.
    assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(found.std(axis=0, ddof=1), rel=0.35, abs=1e-6)


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_the_value_of_a_set_is_estimated_without_bias(drafts: int) -> None:
    """Over all samples of three weights, each in proportion to its probability."""
    weights, law, threshold, n = torch.tensor([0.2, 0.8, 4.0], dtype=torch.float64), [0.5, 0.3, 0.2], 1.0, 5
    mean = 0.0
    for number in range(3**n):
        chosen = [number // 3**place % 3 for place in range(n)]
        probability = np.prod([law[index] for index in chosen])
        mean += probability * float(_value(weights[chosen][:, None], torch.tensor([threshold]).double(), drafts)[0])
    off = 0.5 * 0.2 + 0.3 * 0.8
    assert mean == pytest.approx(0.2 + 1 - (1 - off) ** drafts, rel=1e-12)


@pytest.mark.parametrize("drafts", [1, 3])
def test_the_best_set_is_chosen(drafts: int) -> None:
    weights = torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    threshold = _threshold(weights, drafts)

    def plug_in(t: torch.Tensor) -> torch.Tensor:
        inside = weights >= t
        off = torch.where(inside, 0.0, weights).mean(dim=0)
        return inside.double().mean(dim=0) + 1 - (1 - off).clamp(min=0) ** drafts

    best = plug_in(threshold)
    for candidate in [*weights.flatten(), torch.tensor(torch.inf)]:
        assert (best <= plug_in(candidate) + 1e-12).all()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_small_tables_have_their_optimum(temperature: float) -> None:
    pairs = recorded_pairs()[:2]
    rooms = Headrooms(table_corpus("recorded", pairs), Filters(temperature), 4, 64, 0)
    for kind, solve in (("stateless", stateless_optimum), ("stateful", stateful_optimum)):
        found = rooms.bound(kind, 2, 2)
        assert found.what == "optimum"
        exact = [solve(pair, 2, 2).value for pair in pairs]
        assert (found.values == pytest.approx(exact, abs=1e-7)) == (temperature == 1)
        assert found.error is None
    assert rooms.bound("stateless", 2, 4) == f"the tables of {pairs[0].name} reach drafts of 3 tokens"
    assert "variables, more than the 200,000 allowed" in rooms.bound("stateless", 5, 3)


def test_synthetic_pairs_of_few_tokens_have_their_optimum() -> None:
    """And the laws that it is of are those that texts are decoded from."""
    corpus = synthetic_corpus(SyntheticPair(3, 0.6))
    few = replace(corpus, starts=corpus.starts[:2])
    filters = Filters(0.7)
    found = Headrooms(few, filters, 2, 64, 0).bound("stateful", 2, 2)
    assert found.what == "optimum"
    for start, value in zip(few.starts, found.values, strict=True):
        pair = written_down(start, filters, 2)
        assert value == pytest.approx(stateful_optimum(pair, 2, 2).value, abs=1e-7)
        for model, reader in zip((pair.target, pair.draft), start.source.readers(1), strict=True):
            laws = filters.law(reader.read(torch.tensor([[*start.prompt, 2, 1]]), last=3))[0].double()
            for place, text in enumerate(([], [2], [2, 1])):
                assert model.law(text) == pytest.approx(laws[place].numpy(), abs=1e-6)
    assert Headrooms(few, filters, 9, 64, 0).bound("stateful", 2, 9).what == "level bound", "3^10 numbers are too many"


def test_other_laws_have_an_estimate_where_the_samples_are_enough() -> None:
    corpus = synthetic_corpus(SyntheticPair(300, 0.6))
    rooms = Headrooms(corpus, Filters(), 3, 8, 0)
    found = [rooms.bound("stateless", 2, length) for length in (1, 2, 3)]
    assert {each.what for each in found} == {"level bound"}
    assert {each.values.shape for each in found} == {(20,)}
    means = [each.values.mean() for each in found]
    assert means == sorted(means)
    assert all(each.error > 0 for each in found)
    assert rooms.bound("stateless", 5, 3) == "the level bound of 5 drafts needs 10 texts a prompt (--samples)"
    again = Headrooms(corpus, Filters(), 3, 8, 0).bound("stateful", 2, 3)
    assert (again.values == found[2].values).all()


def test_identical_models_can_accept_everything() -> None:
    rooms = Headrooms(synthetic_corpus(SyntheticPair(300, 1.0)), Filters(), 3, 8, 0)
    assert rooms.bound("stateless", 2, 3).values == pytest.approx([3.0] * 20)


def test_one_sample_is_refused() -> None:
    with pytest.raises(InputError, match="samples is 3"):
        Headrooms(table_corpus("it", PAIRS), Filters(), 2, 3, 0)


@pytest.mark.parametrize(("overlap", "samples"), [(0.3, 16), (0.3, 64), (0.9, 16)])
def test_no_estimate_jumps(overlap: float, samples: int) -> None:
    """A single text of a large P/Q decides nothing: bounds of a level lie in 0 to 1, estimates not far outside."""
    corpus = synthetic_corpus(SyntheticPair(1_000, overlap, 0))
    for start in corpus.starts[:3]:
        prompts = [start.prompt] * (samples * 10)
        generator = torch.Generator().manual_seed(0)
        _, log_p, log_q = continuations(start.source, prompts, tokens=4, filters=Filters(), generator=generator)
        several = zip(log_p.split(samples), log_q.split(samples), strict=True)
        levels = np.diff([[0.0, *sampled_level_bound(p, q, 3)[0]] for p, q in several], axis=1)
        assert levels.min() > -0.5
        assert levels.max() < 1.5
