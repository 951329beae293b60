"""The guess at the kind of fault: right where the fault is planted, silent where nothing is wrong or known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from spectr_verify.audit import Instance, judge
from spectr_verify.audit.diagnosis import diagnose
from spectr_verify.replay import verifier
from spectr_verify.rules import RULES
from toy_models import TableModel, ToyPair

PAIR = ToyPair(
    "three tokens",
    TableModel.parse([[["1/5", "3/10", "1/2"]], [["1/4", "1/4", "1/2"], ["1/5", "1/5", "3/5"], ["1/3", "1/3", "1/3"]]]),
    TableModel.parse([[["3/10", "1/2", "1/5"]], [["1/2", "1/4", "1/4"], ["2/3", "1/6", "1/6"], ["1/6", "1/3", "1/2"]]]),
)

Accept = Callable[[Tensor, Tensor], Tensor]
Correct = Callable[[Tensor, Tensor], Tensor]


def ratio(p: Tensor, q: Tensor) -> Tensor:
    return q / p


def residual(p: Tensor, q: Tensor) -> Tensor:
    return (q - p).clamp(min=0)


def only(index: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(index, 3).double()


def variant(
    accept: Accept = ratio, correct: Correct = residual, bonus: Correct = lambda p, q: q[1]
) -> Callable[..., Tensor]:
    """Token verification for L = 1 with one of its three parts exchanged."""

    def verify(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
        if (torch.rand(1) < accept(p[0], q[0])[tokens]).item():
            return torch.cat([tokens, torch.multinomial(bonus(p, q), 1)])
        return torch.multinomial(correct(p[0], q[0]), 1)

    return verify


FAULTS: dict[str, Callable[..., Tensor]] = {
    "the first token follows the draft": variant(accept=lambda p, q: torch.ones(3)),
    "the residual is not subtracted": variant(correct=lambda p, q: q),
    "the correction comes from the draft": variant(correct=lambda p, q: p),
    "the correction is the target's likeliest token": variant(correct=lambda p, q: only(q.argmax())),
    "the acceptance ratio is p/q": variant(accept=lambda p, q: p / q),
    "if it is the target's likeliest": variant(accept=lambda p, q: only(q.argmax()), correct=lambda p, q: q),
    "the first token is always the target's likeliest": lambda tokens, p, q: q[0].argmax(keepdim=True),
    "of the position before": variant(bonus=lambda p, q: q[0]),
    "does not follow the target": variant(bonus=lambda p, q: q[1] * p[0]),
}


@pytest.mark.parametrize("says", list(FAULTS))
def test_planted_faults_are_named(says: str) -> None:
    verdict = judge(verifier(FAULTS[says], "probabilities"), Instance(PAIR, 1, 1))
    guess = diagnose(verdict)
    assert guess is not None
    assert says in guess


def test_the_residuals_likeliest_token() -> None:
    pair = ToyPair("residual", PAIR.draft, TableModel.parse([[["2/5", "9/20", "3/20"]], [["1/3", "1/3", "1/3"]] * 3]))
    argmax = variant(correct=lambda p, q: only(residual(p, q).argmax()))
    assert "the residual's likeliest" in (
        diagnose(judge(verifier(argmax, "probabilities"), Instance(pair, 1, 1))) or ""
    )


def test_a_bonus_from_the_draft() -> None:
    def decode(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
        p, n = draft(ids).logits[0, -1].softmax(-1), ids.shape[1]
        ids = torch.cat([ids, torch.multinomial(p, 1)[None]], dim=1)
        emitted = variant(bonus=lambda _, __: draft(ids).logits[0, -1].softmax(-1))(
            ids[0, n:], p[None], target(ids).logits[0, n - 1 :].softmax(-1)
        )
        return torch.cat([ids[:, :n], emitted[None]], dim=1)

    assert diagnose(judge(verifier(decode, "step"), Instance(PAIR, 1, 1))) == "the bonus token comes from the draft"


def test_support_and_edges_and_later_rounds() -> None:
    zero = ToyPair("zero", PAIR.draft, TableModel.parse([[["1/2", "1/2", "0"]], [["1/3", "1/3", "1/3"]] * 3]))
    smooth = variant(correct=lambda p, q: q + 0.1)
    assert "support violated" in (diagnose(judge(verifier(smooth, "probabilities"), Instance(zero, 1, 1))) or "")

    def at_zero(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
        if (torch.rand(1) * p[0][tokens] <= q[0][tokens]).item():
            return torch.cat([tokens, torch.multinomial(q[1], 1)])
        return torch.multinomial(residual(p[0], q[0]), 1)

    edge = judge(verifier(at_zero, "probabilities"), Instance(zero, 1, 1), edges=True)
    assert "a test that holds at zero" in (diagnose(edge) or "")

    later = judge(verifier(_forgetful, "step"), Instance(PAIR, 1, 1), tokens=3)
    assert "later ones are not" in (diagnose(later) or "")


def _forgetful(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
    """Reads the start of the text alone."""
    return torch.cat([ids, torch.multinomial(target(ids[:, :1]).logits[0, -1].softmax(-1), 1)[None]], dim=1)


def test_nothing_is_guessed_about_what_is_right_or_unknown() -> None:
    assert diagnose(judge(verifier(variant(), "probabilities"), Instance(PAIR, 1, 1), edges=True)) is None
    assert diagnose(judge(RULES["spectr-gbv-released"], Instance(PAIR, 1, 2))) is None
