"""Refusals of enumerations that are too large: counts that are right, and advice that fits."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from spectr_verify.errors import InputError
from spectr_verify.exact import LimitError, Limits, round_law, text_law
from spectr_verify.rules import RULES
from toy_models import TableModel, ToyPair, family_pairs

CHEAP = RULES["autoregressive"]
"""A rule of any number of drafts with one random choice."""


def sparse_pair(seed: int, V: int, depth: int) -> ToyPair:
    """Draft laws with about half of their entries zero, so that counts follow the supports and not V."""
    generator = np.random.default_rng(seed)

    def table(zeros: float) -> TableModel:
        levels = []
        for i in range(depth):
            laws = generator.random((V**i, V)) * (generator.random((V**i, V)) >= zeros)
            laws[laws.sum(axis=-1) == 0] = 1
            levels.append(laws / laws.sum(axis=-1, keepdims=True))
        return TableModel(tuple(levels))

    return ToyPair("sparse", table(0.5), table(0.0))


sparse_pairs = st.builds(sparse_pair, st.integers(0, 10_000), st.integers(2, 3), st.just(3))


@cache
def supported(pair: ToyPair, context: tuple[int, ...], L: int) -> int:
    """How many drafts of L tokens are possible after a context."""
    texts = product(range(pair.vocab), repeat=L)
    return sum(prod(pair.draft.law((*context, *x[:i]))[x[i]] for i in range(L)) > 0 for x in texts)


def round_count(pair: ToyPair, L: int, K: int) -> int:
    return supported(pair, (), L) ** K


def text_count(pair: ToyPair, L: int, K: int, tokens: int) -> int:
    """Rounds start after every text shorter than ``tokens``, as far as the tables tell texts apart."""
    lengths = range(min(tokens, pair.draft.depth))
    contexts = (context for n in lengths for context in product(range(pair.vocab), repeat=n))
    return sum(supported(pair, context, L) ** K for context in contexts)


def advice(message: str) -> list[tuple[int, int]]:
    """The (L, K) that a message says would fit."""
    return [(int(L), int(K)) for L, K in re.findall(r"L=(\d+) with K=(\d+)", message.partition("What fits:")[2])]


def stated_count(message: str) -> int:
    return int(message.partition(" has ")[2].partition(" draft tuples")[0].replace(",", ""))


@given(sparse_pairs, st.integers(1, 2), st.integers(1, 5), st.integers(1, 500))
@settings(max_examples=60)
def test_a_round_is_refused_by_its_true_count_and_the_advice_fits(pair: ToyPair, L: int, K: int, most: int) -> None:
    count, limits = round_count(pair, L, K), Limits(tuples=most)
    if count <= most:
        round_law(CHEAP, pair, L, K, limits=limits)
        return
    with pytest.raises(LimitError) as refusal:
        round_law(CHEAP, pair, L, K, limits=limits)
    message = str(refusal.value)
    assert stated_count(message) == count
    assert f"the limit is {most:,}" in message
    fits = dict(advice(message))
    for shorter in range(1, L + 1):
        largest = max((k for k in range(1, K + 1) if round_count(pair, shorter, k) <= most), default=0)
        assert fits.get(shorter, 0) == largest
    assert fits or "no K and L of this pair" in message


@given(sparse_pairs, st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(1, 500))
@settings(max_examples=40)
def test_a_text_is_refused_by_its_true_count_and_the_advice_fits(
    pair: ToyPair, L: int, K: int, tokens: int, most: int
) -> None:
    count, limits = text_count(pair, L, K, tokens), Limits(tuples=most)
    if count <= most:
        return
    with pytest.raises(LimitError) as refusal:
        text_law(CHEAP, pair, L, K, tokens, limits=limits)
    message = str(refusal.value)
    assert stated_count(message) == count
    for shorter, k in advice(message):
        assert text_count(pair, shorter, k, tokens) <= most
        assert k == K or text_count(pair, shorter, k + 1, tokens) > most


def test_the_advice_is_taken() -> None:
    """Not only counted: what is advised runs under the same limits."""
    pair, limits = family_pairs(0, 3, 3)[0], Limits(tuples=300)
    with pytest.raises(LimitError) as refusal:
        round_law(CHEAP, pair, 3, 6, limits=limits)
    sizes = advice(str(refusal.value))
    assert sizes == [(3, 1), (2, 2), (1, 5)]
    for L, K in sizes:
        round_law(CHEAP, pair, L, K, limits=limits)
        with pytest.raises(LimitError):
            round_law(CHEAP, pair, L, K + 1, limits=limits)


def test_exactly_the_limit_is_allowed() -> None:
    pair = family_pairs(0, 2, 2)[0]
    assert round_law(CHEAP, pair, 2, 3, limits=Limits(tuples=4**3)).worlds == 4**3 * 2
    with pytest.raises(LimitError, match=r"L=2, K=3 has 64 draft tuples; the limit is 63\."):
        round_law(CHEAP, pair, 2, 3, limits=Limits(tuples=63))


def test_the_message_names_rule_pair_part_and_what_to_do() -> None:
    pair = family_pairs(0, 2, 2)[0]
    with pytest.raises(LimitError, match=rf"rule 'autoregressive' on pair '{pair.name}': one round with V=2, L=2, K=9"):
        round_law(CHEAP, pair, 2, 9, limits=Limits(tuples=63))
    with pytest.raises(
        LimitError, match=r"the law of 3 tokens with V=2, L=2, K=4 .* What fits: .*\. Or raise the limit"
    ):
        text_law(CHEAP, pair, 2, 4, 3, limits=Limits(tuples=63))


def test_a_rule_of_one_draft_is_counted_with_one() -> None:
    pair = family_pairs(0, 2, 2)[0]
    assert round_law(RULES["block"], pair, 2, 1000, limits=Limits(tuples=4)).worlds > 0
    with pytest.raises(LimitError, match=r"K=1 has 4 draft tuples; .* What fits: L=1 with K=1\."):
        round_law(RULES["block"], pair, 2, 1000, limits=Limits(tuples=3))


@pytest.mark.parametrize("K", [30, 300, 1_000])
def test_counts_beyond_every_float_are_refused_in_words(K: int) -> None:
    pair = family_pairs(0, 2, 2)[0]
    with pytest.raises(
        LimitError, match=rf"has about 10\^{2 * K * 0.30103:.0f} draft tuples.*L=2 with K=11, L=1 with K=22"
    ):
        round_law(CHEAP, pair, 2, K)


def test_nothing_fits() -> None:
    with pytest.raises(LimitError, match="no K and L of this pair"):
        round_law(CHEAP, family_pairs(0, 3, 1)[0], 1, 2, limits=Limits(tuples=2))


# --- texts --------------------------------------------------------------------------------------------------------


@given(st.integers(2, 5), st.integers(1, 40), st.integers(1, 5000))
def test_texts_are_counted(V: int, tokens: int, most: int) -> None:
    limits = Limits(texts=most)
    if V**tokens <= most:
        limits.check_texts(V, tokens, "it")
        return
    with pytest.raises(LimitError, match=f"it: .* of {tokens} tokens with V={V}; the limit is {most:,}") as refusal:
        limits.check_texts(V, tokens, "it")
    fits = int(re.findall(r"texts of (\d+) tokens keep", str(refusal.value))[0])
    assert V**fits <= most < V ** (fits + 1)
    if V**tokens < 10**15:
        assert f"there are {V**tokens:,} texts" in str(refusal.value)


def test_a_text_of_a_hundred_thousand_tokens_is_refused_in_words() -> None:
    with pytest.raises(LimitError, match=r"about 10\^100000 texts of 100,000 tokens with V=10"):
        Limits().check_texts(10, 100_000, "it")


def test_a_round_of_too_many_texts_is_refused() -> None:
    with pytest.raises(LimitError, match=r"there are 27 texts of 3 tokens .* which texts of 2 tokens keep"):
        round_law(CHEAP, family_pairs(0, 3, 2)[0], 2, 1, limits=Limits(texts=26))


# --- worlds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["block-race", "k-seq", "exact-match"])
def test_the_worlds_that_there_are_are_the_least_limit(name: str) -> None:
    pair = family_pairs(0, 2, 2)[0]
    there_are = round_law(RULES[name], pair, 2, 2).worlds
    assert round_law(RULES[name], pair, 2, 2, limits=Limits(worlds=there_are)).worlds == there_are
    with pytest.raises(LimitError, match=rf"about {there_are:,} worlds .* the limit is {there_are - 1:,}\."):
        round_law(RULES[name], pair, 2, 2, limits=Limits(worlds=there_are - 1))


def test_too_many_worlds_are_foretold_from_the_first_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first of several pieces, and then the number is nearly right."""
    pair = family_pairs(0, 3, 2)[0]
    there_are = round_law(RULES["k-seq"], pair, 2, 3).worlds
    monkeypatch.setattr("spectr_verify.exact.engine.ROUND_BYTES", 1)
    with pytest.raises(LimitError) as refusal:
        round_law(RULES["k-seq"], pair, 2, 3, limits=Limits(worlds=there_are // 2))
    foretold, enumerated = (
        int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:worlds|enum)", str(refusal.value))
    )
    assert enumerated < there_are // 4
    assert foretold == pytest.approx(there_are, rel=0.1)


def test_worlds_are_counted_while_they_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draft tuples fit into one piece, so nothing can be foretold: the rule is stopped within one batch."""
    pair, batch = family_pairs(0, 2, 2)[0], 64
    monkeypatch.setattr("spectr_verify.exact.engine.ROUND_BYTES", 1)
    assert round_law(RULES["block-race"], pair, 2, 3).worlds > 3_000
    with pytest.raises(LimitError) as refusal:
        round_law(RULES["block-race"], pair, 2, 3, limits=Limits(worlds=500))
    (enumerated,) = re.findall(r"\((\d+) enumerated", str(refusal.value))
    assert 500 < int(enumerated) <= 500 + batch


@pytest.mark.parametrize("name", ["tuples", "worlds", "texts"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_below_one_is_refused(name: str, value: int) -> None:
    with pytest.raises(InputError, match=f"the limit of {name} is {value}; it must be at least 1"):
        Limits(**{name: value})
