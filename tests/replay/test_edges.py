"""The edge pass: what a uniform of exactly 0, or the largest below 1, leads to."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from spectr_verify.replay import edge_violation, replayed_laws, verifier
from toy_models import TableModel, ToyPair

ZERO = ToyPair(
    "the target never writes token 1",
    TableModel.parse([[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]]]),
    TableModel.parse([[["1", "0"]], [["1", "0"], ["1", "0"]]]),
)
"""Token 0 is first and certain."""

FIRST = ToyPair(
    "the target never writes token 0",
    ZERO.draft,
    TableModel.parse([[["0", "1"]], [["0", "1"], ["0", "1"]]]),
)


def holds_at_zero(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return _verify(tokens, p, q, torch.rand(1) <= q[0, tokens] / p[0, tokens])


def strict(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return _verify(tokens, p, q, torch.rand(1) < q[0, tokens] / p[0, tokens])


def mirrored(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return _verify(tokens, p, q, 1 - torch.rand(1) <= q[0, tokens] / p[0, tokens])


def _verify(tokens: Tensor, p: Tensor, q: Tensor, accepted: Tensor) -> Tensor:
    if accepted.item():
        return torch.cat([tokens, torch.multinomial(q[1], 1)])
    return torch.multinomial((q[0] - p[0]).clamp(min=0), 1)


def test_an_acceptance_that_holds_at_zero() -> None:
    subject = verifier(holds_at_zero, "probabilities")
    assert replayed_laws(subject, ZERO, 1, 1)[0].tv_round <= 1e-12
    found = edge_violation(subject, ZERO, 1, 1)
    assert found is not None
    assert (found.edge, found.tokens, found.position) == (0.0, (1, 0), 0)
    assert "exactly 0" in str(found)
    assert "token 1 at position 0" in str(found)


@pytest.mark.parametrize("function", [strict, mirrored])
@pytest.mark.parametrize("pair", [ZERO, FIRST], ids=lambda pair: pair.name)
def test_an_acceptance_that_does_not(function: object, pair: ToyPair) -> None:
    assert callable(function)
    assert edge_violation(verifier(function, "probabilities"), pair, 1, 1) is None


def by_search(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return torch.searchsorted(q[0].cumsum(0), torch.rand(1, dtype=torch.float64))


def test_a_search_that_stops_at_an_empty_step() -> None:
    subject = verifier(by_search, "probabilities")
    assert replayed_laws(subject, FIRST, 1, 1)[0].tv_first_token <= 1e-12
    found = edge_violation(subject, FIRST, 1, 1)
    assert found is not None
    assert (found.edge, found.tokens) == (0.0, (0,))
    assert edge_violation(subject, ZERO, 1, 1) is None


def past_the_end(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """The sum ends at the largest number below 1, which is also the largest that is drawn."""
    return torch.searchsorted(q[0].cumsum(0) * (1 - 2.0**-53), torch.rand(1, dtype=torch.float64), right=True)


def test_an_error_at_an_extreme_is_a_violation() -> None:
    subject = verifier(past_the_end, "probabilities")
    assert replayed_laws(subject, FIRST, 1, 1)[0].tv_first_token <= 1e-12
    found = edge_violation(subject, FIRST, 1, 1)
    assert found is not None
    assert found.edge == 1 - 2.0**-53
    assert "vocabulary" in found.says


def steps(draft: nn.Module, target: nn.Module, ids: Tensor) -> Tensor:
    """An inverse-CDF sampler whose first token comes at u = 0 whatever its probability."""
    law = target(ids).logits[0, -1].softmax(-1)
    token = (law.cumsum(0) < torch.rand((), dtype=law.dtype)).sum()
    return torch.cat([ids, token.reshape(1, 1)], dim=1)


def test_steps_have_edges_too() -> None:
    assert replayed_laws(verifier(steps, "step"), FIRST, 1, 1)[0].tv_round <= 1e-12
    found = edge_violation(verifier(steps, "step"), FIRST, 1, 1)
    assert found is not None
    assert (found.edge, found.tokens) == (0.0, (0,))


def by_gumbel(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """float32 noise over three tokens; what is impossible is masked, so that no noise can bring it back."""
    noise = -torch.log(-torch.log(torch.rand(3)))
    return (q[0].log() + noise).masked_fill(q[0] == 0, -torch.inf).argmax(keepdim=True)


def by_buffer(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """A verifier that draws uniforms for more positions than it needs."""
    return _verify(tokens, p, q, torch.rand(64)[:1] < q[0, tokens] / p[0, tokens])


def at_zero_from_buffer(tokens: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return _verify(tokens, p, q, torch.rand(64)[40:41] <= q[0, tokens] / p[0, tokens])


THREE = ToyPair(
    "three tokens",
    TableModel.parse([[["1/3", "1/3", "1/3"]], [["1/3", "1/3", "1/3"]] * 3]),
    TableModel.parse([[["1/10", "9/10", "0"]], [["1/3", "1/3", "1/3"]] * 3]),
)


def test_extremes_among_many_numbers() -> None:
    assert edge_violation(verifier(by_gumbel, "probabilities"), THREE, 1, 1) is None
    assert edge_violation(verifier(by_buffer, "probabilities"), ZERO, 1, 1) is None
    found = edge_violation(verifier(at_zero_from_buffer, "probabilities"), ZERO, 1, 1)
    assert found is not None
    assert (found.edge, found.tokens) == (0.0, (1, 0))
