"""The guess at the kind of fault: right where the fault is planted, silent where nothing is wrong or known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from spectr_verify.audit import Instance, Verdict, audit, judge
from spectr_verify.audit.diagnosis import diagnose
from spectr_verify.replay import verifier
from spectr_verify.rules import RULES
from toy_models import TableModel, ToyPair

PAIR = ToyPair(
    "three tokens",
    TableModel.parse([[[".2", ".35", ".45"]], [["1/4", "1/4", "1/2"], ["1/5", "1/5", "3/5"], ["1/3", "1/3", "1/3"]]]),
    TableModel.parse([[[".4", ".45", ".15"]], [["1/2", "1/4", "1/4"], ["2/3", "1/6", "1/6"], ["1/6", "1/3", "1/2"]]]),
)

Accept = Callable[[Tensor, Tensor], Tensor]
Correct = Callable[[Tensor, Tensor], Tensor]


def diagnose_one(verdict: Verdict) -> str | None:
    return diagnose([verdict])


def ratio(p: Tensor, q: Tensor) -> Tensor:
    return q / p


def residual(p: Tensor, q: Tensor) -> Tensor:
    return (q - p).clamp(min=0)


def likeliest(law: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(law.argmax(), len(law)).double()


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
    "the first token follows the draft": variant(accept=lambda p, q: torch.ones_like(p)),
    "the residual is not subtracted": variant(correct=lambda p, q: q),
    "the correction comes from the draft": variant(correct=lambda p, q: p),
    "the correction is the target's likeliest token": variant(correct=lambda p, q: likeliest(q)),
    "the acceptance ratio is p/q": variant(accept=lambda p, q: p / q),
    "if it is the target's likeliest": variant(accept=lambda p, q: likeliest(q), correct=lambda p, q: q),
    "the first token is always the target's likeliest": lambda tokens, p, q: q[0].argmax(keepdim=True),
    "of the position before": variant(bonus=lambda p, q: q[0]),
    "draft and target are exchanged": variant(accept=lambda p, q: p / q, correct=lambda p, q: (p - q).clamp(min=0)),
}


@pytest.mark.parametrize("says", list(FAULTS))
def test_planted_faults_are_named(says: str) -> None:
    verdict = judge(verifier(FAULTS[says], "probabilities"), Instance(PAIR, 1, 1))
    guess = diagnose_one(verdict)
    assert guess is not None
    assert says in guess


def test_the_residuals_likeliest_token() -> None:
    pair = ToyPair("residual", PAIR.draft, TableModel.parse([[[".4", ".45", ".15"]], [["1/3", "1/3", "1/3"]] * 3]))
    argmax = variant(correct=lambda p, q: likeliest(residual(p, q)))
    assert "the residual's likeliest" in (
        diagnose_one(judge(verifier(argmax, "probabilities"), Instance(pair, 1, 1))) or ""
    )


def test_a_bonus_from_the_draft() -> None:
    def decode(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
        p, n = draft(ids).logits[0, -1].softmax(-1), ids.shape[1]
        ids = torch.cat([ids, torch.multinomial(p, 1)[None]], dim=1)
        emitted = variant(bonus=lambda _, __: draft(ids).logits[0, -1].softmax(-1))(
            ids[0, n:], p[None], target(ids).logits[0, n - 1 :].softmax(-1)
        )
        return torch.cat([ids[:, :n], emitted[None]], dim=1)

    assert diagnose_one(judge(verifier(decode, "step"), Instance(PAIR, 1, 1))) == "the bonus token comes from the draft"


def test_support_and_edges_and_later_rounds() -> None:
    zero = ToyPair("zero", PAIR.draft, TableModel.parse([[["1/2", "1/2", "0"]], [["1/3", "1/3", "1/3"]] * 3]))
    smooth = variant(correct=lambda p, q: q + 0.1)
    assert "support violated" in (diagnose_one(judge(verifier(smooth, "probabilities"), Instance(zero, 1, 1))) or "")

    def at_zero(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
        if (torch.rand(1) * p[0][tokens] <= q[0][tokens]).item():
            return torch.cat([tokens, torch.multinomial(q[1], 1)])
        return torch.multinomial(residual(p[0], q[0]), 1)

    edge = judge(verifier(at_zero, "probabilities"), Instance(zero, 1, 1), edges=True)
    assert "a test that holds at zero" in (diagnose_one(edge) or "")

    later = judge(verifier(_forgetful, "step"), Instance(PAIR, 1, 1), tokens=3)
    assert "later ones are not" in (diagnose_one(later) or "")


def _forgetful(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
    """Reads the start of the text alone."""
    return torch.cat([ids, torch.multinomial(target(ids[:, :1]).logits[0, -1].softmax(-1), 1)[None]], dim=1)


def test_nothing_is_guessed_about_what_is_right_or_unknown() -> None:
    assert diagnose_one(judge(verifier(variant(), "probabilities"), Instance(PAIR, 1, 1), edges=True)) is None
    assert diagnose_one(judge(RULES["spectr-gbv-released"], Instance(PAIR, 1, 2))) is None


@pytest.mark.slow
@pytest.mark.parametrize("says", list(FAULTS))
def test_on_the_pairs_of_an_audit_only_what_fits_everywhere_is_said(says: str) -> None:
    report = audit(verifier(FAULTS[says], "probabilities"), length=1, max_examples=10)
    assert report.verdict == "biased"
    assert says in (report.guess or "")


def test_what_fits_two_faults_is_not_said() -> None:
    """Draft (1/2, 1/2) and target (1/3, 2/3): accepting with p/q leaves the draft's law, as accepting all does."""
    small = ToyPair(
        "small", TableModel.parse([[["1/2", "1/2"]], [["1/2", "1/2"]] * 2]),
        TableModel.parse([[["1/3", "2/3"]], [["1/2", "1/2"]] * 2]),
    )  # fmt: skip
    verdict = judge(verifier(FAULTS["the acceptance ratio is p/q"], "probabilities"), Instance(small, 1, 1))
    assert verdict.round.first_token == pytest.approx([0.5, 0.5])
    assert "follows the draft" not in (diagnose_one(verdict) or "")
