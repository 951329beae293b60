"""The fast paths are the plain formulas: residuals and their sums, lazy coins, k-seq's search, choices among many."""

from __future__ import annotations

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.stats import chi2
from torch import Tensor

import spectr_verify.chance
from spectr_verify.chance import Chance, Sampled, stopping_law
from spectr_verify.exact import round_law
from spectr_verify.rounds import Round
from spectr_verify.rules import RULES
from spectr_verify.rules._path import Places, any_of, on_paths, residual
from spectr_verify.rules._residuals import Residuals
from spectr_verify.rules.block import coin_bound, running_weight
from spectr_verify.rules.k_seq import smallest_scale
from toy_models import family_pairs

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}
SIZES = st.sampled_from([2, 3, 7, 600, 1100])
"""Below, and above, what is added up in blocks."""


@st.composite
def laws(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Draft and target [V] in float64: of every kind that a residual can have trouble with."""
    V, seed = draw(SIZES), draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)

    def law(sharpness: float) -> Tensor:
        return (torch.randn(V, generator=generator, dtype=torch.float64) * sharpness).softmax(dim=-1)

    kind = draw(st.sampled_from(["any", "close", "zeros", "points", "ratios", "equal"]))
    q = law(3.0)
    if kind == "equal":
        return q, q
    if kind == "close":
        size = draw(st.sampled_from([1e-2, 1e-5, 1e-9]))
        p = q * (1 + size * torch.randn(V, generator=generator, dtype=torch.float64).clamp(-3, 3))
        return p / p.sum(), q
    if kind == "ratios":
        return law(60.0), law(60.0)
    if kind == "points":
        p = torch.zeros_like(q)
        p[draw(st.integers(0, V - 1))] = 1.0
        return (p, q) if draw(st.booleans()) else (q, p)
    p = law(3.0)
    if kind == "zeros":
        p[torch.rand(V, generator=generator) < 0.3] = 0.0
        q[torch.rand(V, generator=generator) < 0.3] = 0.0
        p[0], q[-1] = 1e-3, 1e-3
    return p / p.sum(), q / q.sum()


weights = st.one_of(
    st.sampled_from([1.0, 1 - 1e-12, 1 - 1e-6, 0.5, 1e-3, 1e-20, 1e-300]), st.floats(1e-6, 1.0), st.floats(1.0, 1e6)
)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@given(laws(), weights, st.sampled_from([torch.float64, torch.float32]))
@settings(max_examples=300)
def test_the_residual_is_the_plain_formula(drawn: tuple[Tensor, Tensor], w: float, form: torch.dtype) -> None:
    """Entry by entry within (|q - p| + 3 |1 - 1/w| p + r) u: small where draft and target are close."""
    p, q = (law.to(form) for law in drawn)
    found = residual(column(w)[0], q, p).to(torch.float64)
    p, q = p.to(torch.float64), q.to(torch.float64)
    plain = ((q - p) + (1 - 1 / w) * p).clamp(min=0.0)
    allowed = UNIT[form] * ((q - p).abs() + 3 * abs(1 - 1 / w) * p + plain) * (1 + 1e-6) + 1e-44
    if form is torch.float64:
        allowed = 4 * allowed  # the plain formula is no more exact
    assert ((found - plain).abs() <= allowed).all()
    if w == 1 and form is torch.float32:
        assert torch.equal(found, (q - p).clamp(min=0.0).to(form).to(torch.float64))  # one rounding of the difference


def places(p: Tensor, q: Tensor, count: int) -> Places:
    at = torch.zeros(count, dtype=torch.int64)
    return Places(q[None], at, p[None], at)


@given(laws(), st.lists(weights.filter(lambda w: w <= 1), min_size=1, max_size=3))
@settings(max_examples=300)
def test_the_mass_of_float32_laws_is_that_of_the_same_numbers_in_float64(
    drawn: tuple[Tensor, Tensor], several: list[float]
) -> None:
    p, q = (law.float() for law in drawn)
    found = places(p, q, len(several)).masses(column(*several))
    p, q = p.double(), q.double()
    for mass, w in zip(found.tolist(), several, strict=True):
        plain = float((w * (q - p) - (1 - w) * p).clamp(min=0.0).sum())
        touched = w * q + 1e-6 >= p * (1 - 1e-6)  # where a rounding can come to anything
        entries = (w * (q - p).abs() + 3 * (1 - w) * p)[touched].sum()
        # 512 are added up in float32, which is 511 roundings in the worst order.
        allowed = UNIT[torch.float32] * (float(entries) + (1 + min(511, len(p))) * plain) * (1 + 1e-3) + 1e-37
        assert abs(mass - plain) <= allowed


@given(laws(), st.lists(weights.filter(lambda w: w <= 1), min_size=1, max_size=3))
@settings(max_examples=200)
def test_masses_in_float64_are_the_plain_sum(drawn: tuple[Tensor, Tensor], several: list[float]) -> None:
    p, q = drawn
    found = places(p, q, len(several)).masses(column(*several))
    for mass, w in zip(found.tolist(), several, strict=True):
        assert mass == pytest.approx(math.fsum((w * q - p).clamp(min=0.0).tolist()), abs=1e-12)


def test_close_laws_leave_an_accurate_residual_in_float32() -> None:
    """A difference of 1e-6, where w q - p as it stands would keep one digit."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1000, generator=generator).softmax(dim=-1)
    p = q * (1 + 1e-6 * torch.randn(1000, generator=generator))
    w = 1 - 1e-7
    exact = float((w * q.double() - p.double()).clamp(min=0.0).sum())
    ours = float(places(p, q, 1).masses(column(w)))
    as_it_stands = float((torch.tensor(w, dtype=torch.float32) * q - p).clamp(min=0.0).sum(dtype=torch.float64))
    assert abs(ours / exact - 1) < 1e-5
    assert abs(as_it_stands / exact - 1) > 1e-3


@pytest.mark.parametrize(("form", "rounding"), [(torch.float64, 1e-9), (torch.float32, 1e-6)])
@pytest.mark.parametrize("capped", [True, False])
@given(st.integers(0, 2**16), st.integers(1, 3), st.integers(1, 6), st.sampled_from([2, 5, 40]))
@settings(max_examples=50)
def test_no_coin_of_block_verification_is_above_its_bound(
    capped: bool, form: torch.dtype, rounding: float, seed: int, K: int, L: int, V: int
) -> None:
    """As the rule tosses them, of laws whose sums are off by rounding."""
    round = drawn_round(torch.Generator().manual_seed(seed), 2, K, L, V)
    round = replace(round, draft_probs=round.draft_probs.to(form), target_probs=round.target_probs.to(form))
    weight = running_weight(round.drafts, round.draft_probs, round.target_probs, capped=capped)
    p, q = on_paths(round.drafts, round.draft_probs, round.target_probs)
    bound = coin_bound(weight.clamp(max=1.0), p, q)
    path, place = (part.flatten() for part in torch.meshgrid(torch.arange(2 * K), torch.arange(L), indexing="ij"))
    mass = Residuals(round, weight).masses(path, place).view(2, K, L)
    before = weight[..., :-1]
    coin = torch.where(before < 1, mass / (mass + 1 - before), 1.0)
    assert (coin <= bound[..., :-1] + rounding).all()
    assert (bound[..., :-1] <= before.clamp(max=1.0) + rounding).all()  # and it is of use
    assert torch.equal(bound[..., -1], weight[..., -1].clamp(max=1.0))


def drawn_round(generator: torch.Generator, B: int, K: int, L: int, V: int) -> Round:
    def law(levels: int) -> Tensor:
        logits = torch.randn(B, 1, levels, V, generator=generator, dtype=torch.float64) * 3
        return logits.softmax(dim=-1).expand(B, K, levels, V).clone()

    p, q = law(L), law(L + 1)
    drafts = torch.multinomial(p.flatten(0, 2), 1, generator=generator).view(B, K, L)
    return Round(drafts, p, q)


class Luck(Sampled):
    """Draws prescribed numbers."""

    def __init__(self, luck: Tensor) -> None:
        super().__init__(torch.Generator())
        self.luck = luck

    def _uniform(self, *shape: int) -> Tensor:
        assert self.luck.shape == shape
        return self.luck


numbers = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1 - 2.0**-53]), st.floats(0, 1, exclude_max=True))


@given(st.data(), st.integers(1, 3), st.integers(1, 6))
@settings(max_examples=200)
def test_coins_that_are_tossed_lazily_fall_as_all_would(data: st.DataObject, rows: int, places: int) -> None:
    def table(entries: st.SearchStrategy[float]) -> Tensor:
        return torch.tensor([[data.draw(entries) for _ in range(places)] for _ in range(rows)], dtype=torch.float64)

    luck, bound = table(numbers), table(st.one_of(numbers, st.just(1.0)))
    bound[:, 0] = 1.0
    coin = torch.where(bound >= 1, 1.0, bound * table(st.floats(0, 1)))
    asked: list[tuple[int, int]] = []

    def success(row: Tensor, place: Tensor) -> Tensor:
        asked.extend(zip(row.tolist(), place.tolist(), strict=True))
        return coin[row, place]

    found = Luck(luck).last_success(bound[:, None], success)[:, 0]
    plain = [max(i for i in range(places) if luck[row, i] < coin[row, i]) for row in range(rows)]
    assert found.tolist() == plain
    assert all(luck[row, place] < bound[row, place] < 1 for row, place in asked)


class Recorded(Chance):
    """Keeps the law that it is asked to choose from, and answers 0."""

    def __init__(self) -> None:
        self.asked: list[Tensor] = []

    def categorical(self, weights: Tensor) -> Tensor:
        self.asked.append(weights)
        return torch.zeros(weights.shape[:-1], dtype=torch.int64)

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        return torch.zeros(len(low), dtype=torch.int64)


def test_any_other_chance_is_asked_for_one_choice_by_the_stopping_law() -> None:
    bound = column(1.0, 0.5, 0.8).expand(1, 2, 3)
    coins = torch.tensor([[1.0, 0.25, 0.9], [1.0, 0.5, 0.1]], dtype=torch.float64)
    chance = Recorded()
    chance.last_success(bound, lambda path, place: coins[path, place])
    expected = stopping_law(torch.minimum(coins, bound[0]))
    assert torch.equal(torch.cat(chance.asked)[0], expected)


@given(laws(), st.integers(1, 7))
@settings(max_examples=150)
def test_the_scale_of_k_seq_is_the_smallest_that_is_valid(drawn: tuple[Tensor, Tensor], K: int) -> None:
    p, q = (law[None] for law in drawn)
    k = column(float(K))
    s = smallest_scale(p, q, k)

    def excess(s: Tensor) -> float:
        beta = torch.minimum(p, q / s[:, None]).sum(dim=-1)
        return float(s * beta - any_of(beta, k))

    assert 1 <= float(s) <= K
    assert excess(s) >= -1e-14  # valid
    if float(s) > 1:
        below = 1 + (s - 1) * (1 - 1e-9) - 1e-12
        assert excess(below.clamp(min=1.0)) <= 1e-14  # and none much smaller is


def test_the_search_of_k_seq_takes_few_looks_at_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    from spectr_verify.rules import k_seq

    plain = k_seq._capped
    monkeypatch.setattr(k_seq, "_capped", lambda p, q, s: looks.append(1) or plain(p, q, s))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        logits = torch.randn(1, 2000, generator=generator, dtype=torch.float64) * 3
        other = logits + torch.randn(1, 2000, generator=generator, dtype=torch.float64)
        smallest_scale(other.softmax(dim=-1), logits.softmax(dim=-1), column(3.0))
    assert len(looks) / 20 < 15


# --- choices among many -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_choices_among_many_follow_the_weights(dtype: torch.dtype) -> None:
    """More than two blocks, the last one short; grouped so that every group is seen often."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(1300, generator=generator, dtype=torch.float64).pow(8).to(dtype)
    weights[::3] = 0
    n = 20_000
    drawn = Sampled(generator).categorical(weights.expand(n, -1))
    law = weights.double().numpy() / float(weights.double().sum())
    counts = np.bincount(drawn.numpy(), minlength=1300)
    assert counts[law == 0].sum() == 0
    group = np.arange(1300) // 26
    expected, seen = np.bincount(group, law) * n, np.bincount(group, counts)
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, len(expected) - 1) > 1e-4
    inside = counts[:26], law[:26] / law[:26].sum() * counts[:26].sum()
    assert ((inside[0] - inside[1]) ** 2)[law[:26] > 0].sum() <= 40 * counts[:26].sum()


@given(st.lists(st.sampled_from([0.0, 0.0, 1e-300, 0.3, 5.0]), min_size=3, max_size=9).filter(any), numbers, numbers)
@settings(max_examples=300)
def test_no_index_of_weight_zero_is_drawn_from_blocks(weights: list[float], block: float, entry: float) -> None:
    class Two(Sampled):
        def __init__(self) -> None:
            super().__init__(torch.Generator())
            self.left = [block, entry]

        def _uniform(self, *shape: int) -> Tensor:
            return torch.full(shape, self.left.pop(0), dtype=torch.float64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectr_verify.chance, "BLOCK", 2)
        index = int(Two().categorical(torch.tensor([weights], dtype=torch.float64)))
    assert weights[index] > 0


# --- what rules do with what they are given -------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_no_rule_writes_into_its_round(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = drawn_round(generator, 3, RULES[name].max_drafts or 3, 4, 20)
    for _ in range(20):
        round = Round(drawn.drafts.clone(), drawn.draft_probs.to(dtype), drawn.target_probs.to(dtype))
        before = [part.clone() for part in (round.drafts, round.draft_probs, round.target_probs)]
        RULES[name].verify(round, Sampled(generator))
        after = (round.drafts, round.draft_probs, round.target_probs)
        assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", list(RULES))
def test_laws_that_carry_gradients_are_verified_like_others(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = drawn_round(generator, 3, RULES[name].max_drafts or 3, 4, 20)
    plain = RULES[name].verify(drawn, Sampled(torch.Generator().manual_seed(5)))
    graded = Round(drawn.drafts, drawn.draft_probs.requires_grad_(), drawn.target_probs.requires_grad_())
    assert torch.equal(RULES[name].verify(graded, Sampled(torch.Generator().manual_seed(5))).tokens, plain.tokens)


@pytest.mark.parametrize("name", ["block", "block-race", "greedy-block", "recursive-rejection", "k-seq"])
def test_laws_that_are_worked_with_a_row_at_a_time_give_the_same_law(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are where the vocabulary is large."""
    pair = family_pairs(0, 3, 2)[0]
    whole = round_law(RULES[name], pair, 2, 2)
    monkeypatch.setattr("spectr_verify.rules._path._ENTRIES", 1)
    for one, other in zip(round_law(RULES[name], pair, 2, 2).emissions, whole.emissions, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["token", "block", "greedy-block", "block-race"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_token_that_is_chosen_by_block_and_entry_has_the_same_law(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is where the vocabulary is large."""
    for pair in family_pairs(0, 3, 2)[:3]:
        whole = round_law(RULES[name], pair, 2, 2)
        with monkeypatch.context() as patched:
            for module in ("chance", "rules._path", "rules._residuals"):
                patched.setattr(f"spectr_verify.{module}.BLOCK", size)
            in_blocks = round_law(RULES[name], pair, 2, 2)
        for one, other in zip(in_blocks.emissions, whole.emissions, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if name != "typical"])
def test_laws_of_any_layout_give_the_same_emissions(name: str) -> None:
    """Laws that several drafts share, or that are a part of larger ones, need not be laid out one behind the other."""
    generator = torch.Generator().manual_seed(3)
    B, K, L, V = 5, 3, 2, 700
    laws = torch.rand(2, B, L + 2, V + 9, generator=generator, dtype=torch.float64)[:, :, 1:, 4:-5] ** 4
    p, q = laws / laws.sum(dim=-1, keepdim=True)
    shared = [law[:, None].expand(-1, K, -1, -1) for law in (p[:, :L], q)]
    drafts = torch.multinomial(p[:, :L].reshape(-1, V), K, replacement=True, generator=generator)
    drafts = drafts.view(B, L, K).transpose(1, 2)
    found = [
        RULES[name].verify(Round(drafts, *each), Sampled(torch.Generator().manual_seed(0)))
        for each in (shared, [law.contiguous() for law in shared])
    ]
    assert torch.equal(found[0].tokens, found[1].tokens)
