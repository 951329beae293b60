"""Sets of drafts: which there are, how likely, and how a kernel shares them out."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectr_verify.bounds.selection import DraftSets, free_flow_count
from toy_models.strategies import laws

LAWS = st.integers(2, 5).flatmap(laws).map(lambda law: np.array(law, dtype=np.float64))


def members(sets: DraftSets) -> list[tuple[int, ...]]:
    return [tuple(drawn.tolist()) for drawn in np.split(sets.member, sets.starts[1:])]


def by_enumeration(law: np.ndarray, drafts: int) -> dict[frozenset[int], float]:
    """Probability of each set of distinct drafts, from all ordered draws."""
    chances: dict[frozenset[int], float] = defaultdict(float)
    for drawn in product(np.flatnonzero(law).tolist(), repeat=drafts):
        chances[frozenset(drawn)] += prod(law[list(drawn)])
    return chances


@given(LAWS, st.integers(1, 5))
def test_every_set_has_the_probability_of_the_draws_that_show_it(law: np.ndarray, drafts: int) -> None:
    sets = DraftSets.of(law, np.ones_like(law), drafts)
    found = {frozenset(drawn): weight for drawn, weight in zip(members(sets), sets.weights, strict=True)}
    expected = by_enumeration(law, drafts)
    assert len(found) == sets.weights.size
    assert found.keys() == expected.keys()
    for drawn, chance in expected.items():
        assert found[drawn] == pytest.approx(chance, rel=1e-12, abs=0)


@given(LAWS, st.integers(1, 5))
def test_the_count_of_free_flows_is_what_gets_built(law: np.ndarray, drafts: int) -> None:
    sets = DraftSets.of(law, np.ones_like(law), drafts)
    assert free_flow_count(np.count_nonzero(law), drafts) == sets.free.size == sets.member.size - sets.weights.size


@pytest.mark.parametrize("drafts", [16, 64, 1000])
def test_many_drafts_show_sets_of_total_probability_one(drafts: int) -> None:
    law = np.array([0.5, 0.3, 0.15, 0.05 - 1e-9, 1e-9])
    sets = DraftSets.of(law, np.ones(5), drafts)
    assert sets.weights.sum() == pytest.approx(1, abs=1e-12)
    alone = [weight for drawn, weight in zip(members(sets), sets.weights, strict=True) if drawn == (0,)]
    assert alone == [pytest.approx(0.5**drafts, rel=1e-12, abs=0)]


def test_two_drafts_on_four_to_the_fourth_texts_have_65536_flows() -> None:
    sets = DraftSets.of(np.full(256, 1 / 256), np.ones(256), 2)
    assert (sets.weights.size, sets.member.size, sets.free.size) == (32_896, 65_536, 32_640)


def test_the_favourite_of_a_set_has_the_largest_target_to_draft_ratio() -> None:
    draft, target = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.3, 0.5, 0.1, 0.1])
    sets = DraftSets.of(draft, target, 3)
    ratio = {text: target[text] / draft[text] for text in range(3)}
    assert {drawn[0] for drawn in members(sets)} == {0, 1, 2}
    for drawn in members(sets):
        assert drawn[0] == max(drawn, key=ratio.__getitem__)


@given(LAWS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_whatever_the_solver_says_becomes_a_kernel(law: np.ndarray, drafts: int, random: Random) -> None:
    sets = DraftSets.of(law, np.ones_like(law), drafts)
    said = np.array([random.uniform(-1, 2) for _ in range(sets.free.size)])
    flows = sets.kernel(said)
    assert (flows >= 0).all()
    assert np.add.reduceat(flows, sets.starts) == pytest.approx(sets.weights, rel=1e-12, abs=1e-300)


@given(LAWS, st.integers(1, 4))
def test_a_kernel_is_left_as_it_is(law: np.ndarray, drafts: int) -> None:
    sets = DraftSets.of(law, np.ones_like(law), drafts)
    size = np.diff(np.append(sets.starts, sets.member.size))
    even = (sets.weights / size)[sets.owner]
    assert sets.kernel(even[sets.free]) == pytest.approx(even, rel=1e-12)


def test_largest_takes_the_dearest_member_of_each_set() -> None:
    sets = DraftSets.of(np.array([0.5, 0.0, 0.5]), np.array([1.0, 0.0, 0.0]), 2)
    value = {(0,): 7.0, (2,): 9.0, (0, 2): 9.0}
    assert sets.largest(np.array([7.0, 99.0, 9.0])).tolist() == [value[drawn] for drawn in members(sets)]
