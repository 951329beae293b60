"""Closed forms against golden values, exact sums from their definitions, and the edges of float64."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from spectr_verify.bounds import closed_form as module
from spectr_verify.bounds import closed_forms, level_bound, relaxed_bound
from toy_models import TableError, TableModel, ToyPair, read_pairs
from toy_models.strategies import pairs

GOLDEN = Path(__file__).parent.parent / "data" / "golden.json"
NAMES = {"token": "token_k1", "block": "block_k1", "greedy_block": "greedy_block_k1"}
ONE_DRAFT = tuple(NAMES)

Node = tuple[int, ...]
Masses = dict[Node, Fraction]


def binary_pair(draft: list[float], target: list[float]) -> ToyPair:
    """Two tokens, L = 1, the same law everywhere."""
    models = (TableModel(tuple(np.array([law] * rows) for rows in (1, 2))) for law in (draft, target))
    return ToyPair("binary", *models)


def node_laws(model: TableModel, length: int) -> tuple[Masses, Masses]:
    """Probability of every node, and of its last token given the rest, exact."""
    assert model.fractions is not None
    joint: Masses = {(): Fraction(1)}
    step: Masses = {}
    for size in range(1, length + 1):
        for node in product(range(model.vocab), repeat=size):
            step[node] = model.fractions[size - 1][model.index(node[:-1])][node[-1]]
            joint[node] = joint[node[:-1]] * step[node]
    del joint[()]
    return joint, step


def reference(pair: ToyPair, length: int, drafts: int) -> dict[str, Fraction]:
    """Every closed form from its definition, node by node in exact fractions."""
    (P, p), (Q, q) = node_laws(pair.draft, length), node_laws(pair.target, length)
    r = {v: min(P[v] / Q[v], Fraction(1)) if Q[v] else Fraction(1) for v in P}
    prefixes = {v: [v[:size] for size in range(1, len(v) + 1)] for v in P}
    rho = {v: min(r[u] for u in prefixes[v]) for v in P}

    def any_of(x: Fraction) -> Fraction:
        return 1 - (1 - x) ** drafts

    def level(nodes: list[Node]) -> Fraction:
        subsets = (subset for size in range(len(nodes) + 1) for subset in combinations(nodes, size))
        return 1 + min(sum(Q[v] for v in A) - Fraction(sum(P[v] for v in A)) ** drafts for A in subsets)

    return {
        "token": sum((prod(min(p[u], q[u]) for u in prefixes[v]) for v in P), Fraction(0)),
        "block": sum((Q[v] * rho[v] for v in P), Fraction(0)),
        "greedy_block": sum((min(P[v], Q[v]) for v in P), Fraction(0)),
        "block_race": sum((Q[v] * any_of(rho[v]) for v in P), Fraction(0)),
        "claimed_bound": sum((Q[v] * any_of(r[v]) for v in P), Fraction(0)),
        "level_bound": sum((level([v for v in P if len(v) == i]) for i in range(1, length + 1)), Fraction(0)),
        "relaxed_bound": sum((min(Q[v], any_of(P[v])) for v in P), Fraction(0)),
    }


@pytest.mark.parametrize("number", range(14))
def test_golden_values(number: int) -> None:
    pair = read_pairs(GOLDEN)[number]
    expected = json.loads(GOLDEN.read_text())["instances"][number]["expected"]
    found = closed_forms(pair, pair.length, pair.drafts)
    compared = [name for name in found if NAMES.get(name, name) in expected]
    assert len(compared) == 6  # all but the relaxed bound
    for name in compared:
        assert found[name] == pytest.approx(expected[NAMES.get(name, name)], abs=1e-12), name


@given(pairs(max_vocab=3, max_length=2, max_drafts=5) | pairs(max_vocab=2, max_length=3, max_drafts=3))
def test_closed_forms_are_their_definitions_and_the_sort_finds_the_least_of_all_subsets(pair: ToyPair) -> None:
    exact = reference(pair, pair.length, pair.drafts)
    found = closed_forms(pair, pair.length, pair.drafts)
    assert found.keys() == exact.keys()
    for name, value in found.items():
        assert value == pytest.approx(float(exact[name]), rel=1e-13, abs=0), name


def test_the_dictionary_holds_what_the_functions_return() -> None:
    pair = read_pairs(GOLDEN)[8]
    for name, value in closed_forms(pair, 2, 3).items():
        drafts = () if name in ONE_DRAFT else (3,)
        assert value == getattr(module, name)(pair, 2, *drafts)


@pytest.mark.parametrize("drafts", [1, 2, 64])
def test_a_rare_draft_keeps_its_relative_precision(drafts: int) -> None:
    """p = 1e-300 where the target puts everything: each bound is K times that, where 1 - (1 - x)^K would give 0."""
    pair = binary_pair([1e-300, 1.0], [1.0, 0.0])
    found = closed_forms(pair, 1, drafts)
    for name, value in found.items():
        assert value == pytest.approx(1e-300 * (1 if name in ONE_DRAFT else drafts), rel=1e-12, abs=0), name


def test_a_rare_miss_keeps_the_bounds_below_one() -> None:
    """p = 1 - 1e-12 for a token of target mass 1/2, the rest on the other: the other caps what can be accepted."""
    pair = binary_pair([1 - 1e-12, 1e-12], [0.5, 0.5])
    for drafts in (1, 4, 64):
        assert level_bound(pair, 1, drafts) == pytest.approx(0.5 + drafts * 1e-12, rel=0, abs=1e-16)
        assert relaxed_bound(pair, 1, drafts) == pytest.approx(0.5 + drafts * 1e-12, rel=0, abs=1e-16)


@pytest.mark.parametrize("draft", [[1.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("drafts", [1, 3, 64])
def test_point_masses_are_accepted_always_or_never(draft: list[float], drafts: int) -> None:
    pair = binary_pair(draft, [1.0, 0.0])
    assert set(closed_forms(pair, 1, drafts).values()) == {draft[0]}


@pytest.mark.parametrize("tiny", [5e-324, 1e-308, 1e-200])
def test_ratios_beyond_float64_neither_overflow_nor_warn(tiny: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        for pair in (binary_pair([tiny, 1.0], [1.0, tiny]), binary_pair([1.0, tiny], [tiny, 1.0])):
            assert all(0 <= value <= 200 * tiny for value in closed_forms(pair, 1, 64).values())


@pytest.mark.parametrize(("length", "drafts"), [(0, 1), (2, 1), (-1, 1), (1, 0), (1, -2)])
def test_sizes_out_of_range_are_refused_by_number(length: int, drafts: int) -> None:
    pair = binary_pair([0.5, 0.5], [0.25, 0.75])
    number = drafts if drafts < 1 else length
    for name in ("block_race", "claimed_bound", "level_bound", "relaxed_bound", "closed_forms"):
        with pytest.raises(TableError, match=rf"'binary'.* is {number}\b.*at (least|most) 1"):
            getattr(module, name)(pair, length, drafts)
    if drafts == 1:
        for name in ONE_DRAFT:
            with pytest.raises(TableError, match=rf"'binary'.* is {number}\b"):
                getattr(module, name)(pair, length)
