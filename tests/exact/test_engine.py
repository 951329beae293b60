"""The engine: what a modified target may be, probabilities too small for a number format, threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from spectr_verify.exact import round_law, text_law
from spectr_verify.exact.engine import one_thread
from spectr_verify.rounds import EmissionError
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.greedy_block import modified_target
from toy_models import TableModel, ToyPair, family_pairs

PAIR = family_pairs(0, 2, 3)[0]
Modified = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def with_target(modified: Modified) -> Rule:
    return replace(RULES["greedy-block"], name="mine", modified_target=modified)


@pytest.mark.parametrize("error", [ValueError("no"), ZeroDivisionError("no"), SystemExit("no")])
def test_whatever_a_modified_target_raises_is_a_refusal_that_names_it(error: BaseException) -> None:
    def raising(tokens: Tensor, p: Tensor, q: Tensor, K: int) -> Tensor:
        raise error

    with pytest.raises(
        EmissionError, match=f"rule 'mine' on pair '{PAIR.name}': modified_target raised {type(error).__name__}: no"
    ):
        round_law(with_target(raising), PAIR, 3, 1)


def first_entry(weights: Tensor, value: float) -> Tensor:
    weights = weights.clone()
    weights[0, 0, 0] = value
    return weights


@pytest.mark.parametrize(
    "modified",
    [
        lambda tokens, p, q, K: None,
        lambda tokens, p, q, K: q.numpy(),
        lambda tokens, p, q, K: q[0],
        lambda tokens, p, q, K: q[..., :1],
        lambda tokens, p, q, K: q[:, :2],
        lambda tokens, p, q, K: first_entry(q, float("nan")),
        lambda tokens, p, q, K: first_entry(q, float("inf")),
        lambda tokens, p, q, K: first_entry(q, -1e-30),
        lambda tokens, p, q, K: q - p,
    ],
)
@pytest.mark.parametrize("law", [lambda rule: round_law(rule, PAIR, 3, 1), lambda rule: text_law(rule, PAIR, 3, 1, 4)])
def test_a_modified_target_that_is_none_is_refused(modified: Modified, law: Callable[[Rule], object]) -> None:
    with pytest.raises(
        EmissionError, match=r"'mine' on .*: modified_target must return finite .* of shape \[4, 3, 2\]"
    ):
        law(with_target(modified))


@pytest.mark.parametrize(
    "modified",
    [
        lambda tokens, p, q, K: torch.nn.functional.one_hot(tokens, 2).double() + q,  # the position's own token
        lambda tokens, p, q, K: q + tokens.roll(-1, 1)[..., None],  # the token after it
        lambda tokens, p, q, K: q + torch.arange(len(q))[:, None, None],  # the place in the batch
    ],
)
def test_a_modified_target_that_knows_later_tokens_is_refused(modified: Modified) -> None:
    with pytest.raises(EmissionError, match=r"'mine' on .* may depend on the first i tokens only"):
        round_law(with_target(modified), PAIR, 3, 1)


@pytest.mark.parametrize(
    "modified",
    [lambda *given: 7 * modified_target(*given), lambda *given: modified_target(*given) / 3],
)
def test_weights_of_a_modified_target_need_not_sum_to_one(modified: Modified) -> None:
    mine, known = (text_law(rule, PAIR, 3, 1, 5).law for rule in (with_target(modified), RULES["greedy-block"]))
    np.testing.assert_allclose(mine, known, atol=1e-15)


@pytest.mark.parametrize("modified", [lambda tokens, p, q, K: 0 * q, lambda tokens, p, q, K: q])
def test_rows_of_zeros_stand_for_the_plain_target(modified: Modified) -> None:
    stateless = Rule("plain", RULES["greedy-block"].verify, max_drafts=1)
    for law in (lambda rule: round_law(rule, PAIR, 3, 1).completed, lambda rule: text_law(rule, PAIR, 3, 1, 5).law):
        np.testing.assert_allclose(law(with_target(modified)), law(stateless), atol=1e-15)


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("tiny", [5e-324, 1e-50, 1e-45, 1e-39])
def test_probabilities_too_small_for_the_number_format_do_no_harm(name: str, tiny: float) -> None:
    """A token that has no probability in float32 is not drafted there; what is lost is the probability itself."""
    little = TableModel((np.array([[tiny, 1.0]]), np.array([[1.0, tiny], [tiny, 1.0]])))
    even = TableModel((np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [1.0, tiny]])))
    for draft, target in ((little, even), (even, little), (little, little)):
        pair = ToyPair("tiny", draft, target)
        for drafts in (1, 2):
            exact, rounded = (round_law(RULES[name], pair, 1, drafts, dtype=d) for d in (torch.float64, torch.float32))
            assert exact.total == pytest.approx(1, abs=1e-12)
            assert rounded.total == pytest.approx(1, abs=1e-12)
            assert rounded.expected_accepted == pytest.approx(exact.expected_accepted, abs=1e-6)


def test_threads_are_given_back_whatever_happens() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ValueError, match="inside"), one_thread():
            raise ValueError("inside")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
