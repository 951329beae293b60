"""Exact laws of rounds and texts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from costly import costly
from hypothesis import given, settings

from spectr_verify.errors import InputError
from spectr_verify.exact import EnumerationError, LimitError, Limits, round_law, text_law, total_variation
from spectr_verify.exact import law as law_module
from spectr_verify.rounds import Emission, EmissionError, Round
from spectr_verify.rules import RULES, Rule
from toy_models import TableError, TableModel, ToyPair, family_pairs
from toy_models.strategies import pairs

SMALL = pairs(max_vocab=3, max_length=2, max_drafts=2)


def pair_of(draft: list, target: list, name: str = "pair") -> ToyPair:
    return ToyPair(name, TableModel.parse(draft), TableModel.parse(target))


HALVES = pair_of(
    [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/3", "2/3"]], [["1/2", "1/2"]] * 4],
    [[["1/3", "2/3"]], [["3/4", "1/4"], ["1/2", "1/2"]], [["1/5", "4/5"]] * 4],
    "halves",
)


def test_token_verification_worked_by_hand() -> None:
    """p = (1/2, 1/2), q = (1/3, 2/3): token 1 always passes, token 0 with 2/3, and then the correction is token 1."""
    law = round_law(RULES["token"], HALVES, 1, 1)
    assert law.emissions[0] == pytest.approx([0, 1 / 6])  # nothing accepted: the correction
    # Accepted 0 (mass 1/3), then the target's (3/4, 1/4); accepted 1 (mass 1/2), then (1/2, 1/2).
    assert law.emissions[1] == pytest.approx([1 / 4, 1 / 12, 1 / 4, 1 / 4])
    assert law.expected_accepted == pytest.approx(5 / 6)
    assert law.completed == pytest.approx([1 / 4, 1 / 12, 1 / 3, 1 / 3])
    assert law.worlds == 5


def greedy_text_reference(pair: ToyPair, L: int, N: int) -> dict[tuple[int, ...], Fraction]:
    """Greedy block verification with nested modified targets, in exact scalars, from the definition of its masses.

    A round accepts exactly v with the mass of min(P, Q)(v) that its children do not take, and the text after v goes on
    with (Q - P)+ for L - |v| positions counted from v, then with the round's own target.
    """
    V = pair.vocab
    text: dict[tuple[int, ...], Fraction] = {}

    def exact(model: TableModel, prefix: tuple[int, ...]) -> list[Fraction]:
        after = model.after(prefix, 1).fractions
        assert after is not None
        return list(after[0][0])

    def run(start: tuple[int, ...], weight: Fraction, target) -> None:
        if len(start) >= N:
            text[start[:N]] = text.get(start[:N], Fraction(0)) + weight
            return

        def mass(law, v: tuple[int, ...]) -> Fraction:
            total = Fraction(1)
            for i, token in enumerate(v):
                total *= law(v[:i])[token]
            return total

        def draft(v: tuple[int, ...]) -> list[Fraction]:
            return exact(pair.draft, start + v)

        def modified(v: tuple[int, ...]) -> list[Fraction]:
            left = [max(mass(target, (*v, c)) - mass(draft, (*v, c)), Fraction(0)) for c in range(V)]
            return [x / sum(left) for x in left] if sum(left) else target(v)

        def onward(v: tuple[int, ...]) -> list[Fraction]:
            return modified(v) if len(v) < L else target(v)

        for length in range(L + 1):
            for v in product(range(V), repeat=length):
                accepted = min(mass(draft, v), mass(target, v))
                if length < L:
                    accepted -= sum(min(mass(draft, (*v, c)), mass(target, (*v, c))) for c in range(V))
                for c in range(V):
                    share = accepted * onward(v)[c]
                    if share:
                        u = (*v, c)
                        run(start + u, weight * share, lambda w, u=u: onward(u + w))

    run((), Fraction(1), lambda v: exact(pair.target, v))
    return text


@given(pair=pairs(max_vocab=2, max_length=2, max_drafts=1))
@settings(max_examples=10)
def test_greedy_block_text_equals_an_independent_exact_recursion(pair: ToyPair) -> None:
    N = pair.length + 2
    law = text_law(RULES["greedy-block"], pair, pair.length, 1, N)
    reference = greedy_text_reference(pair, pair.length, N)
    expected = [float(reference.get(text, Fraction(0))) for text in product(range(2), repeat=N)]
    np.testing.assert_allclose(law.law, expected, atol=1e-14)


@pytest.mark.parametrize("name", costly(RULES))
@given(pair=SMALL)
@settings(max_examples=10)
def test_text_of_one_round_is_the_completed_round(name: str, pair: ToyPair) -> None:
    """Rounds compose: the completed law of one round and the text over rounds agree on the first token always, and on
    all L + 1 tokens where the rule is lossless (later rounds then complete as the target does)."""
    rule = RULES[name]
    one = round_law(rule, pair, pair.length, pair.drafts)
    first = text_law(rule, pair, pair.length, pair.drafts, 1)
    assert total_variation(first.law, one.first_token) <= 1e-12
    if rule.lossless:
        text = text_law(rule, pair, pair.length, pair.drafts, pair.length + 1)
        assert total_variation(text.law, one.completed) <= 1e-12


@pytest.mark.parametrize("name", ["typical", "greedy-block", "spectr-gbv-published", "block-race"])
def test_longer_texts_have_shorter_ones_as_marginals(name: str) -> None:
    pair = HALVES
    longer = text_law(RULES[name], pair, 2, 2, 5).law
    for tokens in range(1, 5):
        shorter = text_law(RULES[name], pair, 2, 2, tokens).law
        np.testing.assert_allclose(longer.reshape(2**tokens, -1).sum(axis=1), shorter, atol=1e-14)


@pytest.mark.parametrize("name", costly(RULES))
def test_the_law_does_not_depend_on_how_the_work_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = family_pairs(0, 3, 2)[2]
    whole = round_law(RULES[name], pair, 2, 2)
    monkeypatch.setattr("spectr_verify.exact.engine.ROUND_BYTES", 1)
    pieces = round_law(RULES[name], pair, 2, 2)
    assert whole.worlds == pieces.worlds
    for a, b in zip(whole.emissions, pieces.emissions, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)


def test_a_text_beyond_the_tables_follows_their_markov_chain() -> None:
    pair = family_pairs(5, 2, 1)[0]
    law = text_law(RULES["block-race"], pair, 1, 2, 8)
    assert law.tv_text <= 1e-12
    first, then = pair.target.levels
    chain = first[0]
    for _ in range(7):
        chain = (chain.reshape(-1, 2)[:, :, None] * then).ravel()
    np.testing.assert_allclose(law.target, chain, atol=1e-15)


@pytest.mark.parametrize(
    ("length", "drafts", "what"), [(0, 1, "length"), (3, 1, "length"), (1, 0, "drafts"), (1, -2, "drafts")]
)
def test_sizes_out_of_range_are_refused(length: int, drafts: int, what: str) -> None:
    with pytest.raises(TableError, match=f"'halves'.*{what}"):
        round_law(RULES["block"], HALVES, length, drafts)


def test_a_text_needs_a_token() -> None:
    with pytest.raises(InputError, match="at least 1"):
        text_law(RULES["block"], HALVES, 1, 1, 0)


def test_too_many_draft_tuples_are_refused_before_the_rule_runs() -> None:
    def never(round: Round, chance: object) -> Emission:
        raise AssertionError("the rule ran")

    with pytest.raises(LimitError, match=r"256 draft tuples.*limit is 100.*L=2 with K=3"):
        round_law(Rule("never", never), HALVES, 2, 4, limits=Limits(tuples=100))


def test_too_many_worlds_are_refused_while_they_are_few() -> None:
    with pytest.raises(LimitError, match="worlds"):
        round_law(RULES["block-race"], HALVES, 2, 4, limits=Limits(worlds=5_000))


def test_too_long_texts_are_refused() -> None:
    with pytest.raises(LimitError, match="texts of 9 tokens keep"):
        text_law(RULES["token"], HALVES, 1, 1, 12, limits=Limits(texts=1_000))


def test_weights_that_do_not_sum_to_one_are_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law_module, "TOTAL_TOLERANCE", -1.0)
    with pytest.raises(EnumerationError, match="sum to"):
        round_law(RULES["token"], HALVES, 1, 1)


@pytest.mark.parametrize("fault", ["outside", "prefix"])
def test_a_rule_that_emits_what_it_may_not_gets_no_verdict(fault: str) -> None:
    pair = pair_of(
        [[["1/2", "1/4", "1/4"]], [["1/3", "1/3", "1/3"]] * 3], [[["1/2", "1/2", "0"]], [["1/3", "1/3", "1/3"]] * 3]
    )

    def wrong(round: Round, chance: object) -> Emission:
        B = round.rows
        first = {
            "outside": torch.full((B,), 3),
            "prefix": (round.drafts[:, 0, 0] + 1) % 3,
        }
        accept = fault != "outside"
        tokens = torch.full((B, 2), -1)
        tokens[:, 0] = first[fault]
        tokens[:, 1] = 0 if accept else -1
        return Emission(tokens, torch.full((B,), 1 + accept), torch.full((B,), 0 if accept else -1))

    says = {"outside": "vocabulary 0..2", "prefix": "not a prefix"}
    with pytest.raises(EmissionError, match=says[fault]):
        round_law(Rule("wrong", wrong), pair, 1, 1)


def test_a_modified_target_of_the_wrong_shape_is_refused() -> None:
    rule = replace(RULES["greedy-block"], modified_target=lambda tokens, p, q, K: q[:, :1])
    with pytest.raises(EmissionError, match="modified_target must return finite floating-point weights"):
        round_law(rule, HALVES, 2, 1)


def test_a_modified_target_that_looks_at_the_last_token_is_refused() -> None:
    """The law at the last position must not depend on the token that stands there."""
    greedy = RULES["greedy-block"].modified_target
    assert greedy is not None

    def peeking(tokens, p, q, K):
        return torch.where((tokens[:, -1] == 0)[:, None, None], greedy(tokens, p, q, K), q)

    with pytest.raises(EmissionError, match="after the same tokens"):
        round_law(replace(RULES["greedy-block"], modified_target=peeking), HALVES, 2, 1)


def test_the_size_of_a_modified_targets_weights_is_of_no_matter() -> None:
    greedy = RULES["greedy-block"].modified_target
    assert greedy is not None

    def huge(tokens, p, q, K):
        weights = greedy(tokens, p, q, K)
        return weights / weights.max() * 1.7e308

    assert round_law(replace(RULES["greedy-block"], modified_target=huge), HALVES, 2, 1).tv_round <= 1e-12


def test_contexts_of_few_drafts_are_counted_too() -> None:
    """One draft of probability one: few draft tuples, but a law of many emissions after each of many contexts."""
    certain = [[["1", "0"]] * 2**i for i in range(9)]
    even = [[["1/2", "1/2"]] * 2**i for i in range(9)]
    with pytest.raises(LimitError, match="entries"):
        text_law(RULES["greedy-block"], pair_of(certain, even), 8, 1, 20)


def test_a_bare_function_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"Rule\('a name', function\)"):
        round_law(RULES["token"].verify, HALVES, 1, 1)
