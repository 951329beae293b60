"""Numbers that are too small or too large for their format: followed where that does not matter, else refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from replayed import chances, fresh, law, refusal
from torch import Tensor

from spectr_verify.replay import Budget
from spectr_verify.replay.runner import outcomes

F64 = torch.float64
SMALL = torch.tensor([2e-3, 3e-3, 5e-3])
Q = torch.tensor([0.01, 0.19, 0.3, 0.5])


def singles(*shape: int) -> Tensor:
    return torch.rand(*shape)


def powers() -> Tensor:
    return singles(3) ** (1 / SMALL)


def written_over() -> Tensor:
    noise = torch.empty(3)
    noise.copy_(torch.rand(3, dtype=F64) ** (1 / SMALL.double()))
    return noise.argmax()


def with_out() -> Tensor:
    return torch.pow(torch.rand(3, dtype=F64), 1 / SMALL.double(), out=torch.empty(3)).argmax()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "race of small weights": (lambda: powers().argmax(), "pow rounds to zero in float32 with probability 0.65"),
    "and its logarithms": (lambda: powers().log().argmax(), "pow rounds to zero in float32"),
    "and its negatives": (lambda: (1 - powers()).argmin(), "pow rounds to zero in float32"),
    "and its maximum": (lambda: powers().max() > 0.5, "pow rounds to zero in float32"),
    "in float64": (lambda: (torch.rand(3, dtype=F64) ** (1 / SMALL)).argmax(), "zero in float64 with probability"),
    "of reciprocals": (lambda: (singles(3) ** (-1 / SMALL)).argmin(), "pow overflows in float32 with probability 0.6"),
    "made smaller": (lambda: (torch.rand(3, dtype=F64) ** (1 / SMALL)).float().argmax(), r"to\(\) rounds to zero in"),
    "written into float32": (written_over, "copy_ rounds to zero in float32"),
    "out of float32": (with_out, "pow rounds to zero in float32"),
    "topk": (lambda: powers().topk(2), "pow rounds to zero"),
    "sort": (lambda: (singles(4) ** (1 / Q)).sort().indices, "pow rounds to zero in float32 with probability 0.42"),
    "smallest of them": (lambda: (singles(2) ** 50).argmin(), "pow rounds to zero in float32 with probability 0.17"),
    "compared with each other": (lambda: (p := powers())[0] < p[1], "pow rounds to zero"),
    "above zero": (lambda: powers() > 0, "pow rounds to zero"),
    "equal to zero": (lambda: powers() == 0, "pow rounds to zero"),
    "sign": (lambda: powers().sign(), "pow rounds to zero"),
    "up": (lambda: powers().ceil(), "pow rounds to zero"),
    "infinite": (lambda: powers().log().isinf(), "pow rounds to zero"),
    "searched for": (lambda: torch.searchsorted(torch.tensor([0.0, 0.5]), powers()), "pow rounds to zero"),
    "too large": (lambda: (200 * singles(2)).exp() < math.inf, "exp overflows in float32 with probability 0.56"),
    "too large with a sign": (lambda: (-(200 * singles(2)).exp()).argmin(), "exp overflows in float32"),
    "too large for an integer": (lambda: int((200 * singles(1)).exp()), "is asked for|overflows"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "says"), REFUSED.values(), ids=REFUSED)
def test_what_rounding_decides_is_refused(code: Callable[[], Any], says: str) -> None:
    message = refusal(lambda: code())
    assert "test_rounding.py:" in message
    assert re.search(says, message), message


def test_float32_really_decides_it() -> None:
    torch.manual_seed(0)
    first = torch.tensor([int(powers().argmax()) == 0 for _ in range(2000)]).double().mean()
    assert first > 0.4  # 0.2 by its weight


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_a_race_of_normalised_weights_is_followed(dtype: torch.dtype) -> None:
    """The smallest weight's number is zero quite often; the winner's never is."""
    assert law(lambda: (torch.rand(4, dtype=dtype) ** (1 / Q.to(dtype))).argmax()) == pytest.approx(
        dict(enumerate(Q.tolist())), abs=1e-6
    )


def test_an_extreme_value_is_no_reason_to_refuse_a_race() -> None:
    """One number is 0 then; that the other one rounds to 0 too is as unlikely as it was."""

    def race() -> int:
        return int((singles(2) ** torch.tensor([1.5, 9.0])).argmax())

    found = {(outcome.edge, outcome.result) for outcome in outcomes(race, "code", Budget(), fresh(), edges=True)}
    assert {(0.0, 0), (0.0, 1), (None, 0), (None, 1)} < found


def test_the_first_of_small_weights_may_be_drawn_in_logarithms() -> None:
    assert law(lambda: (singles(3).log() / SMALL).argmax()) == pytest.approx({0: 0.2, 1: 0.3, 2: 0.5}, abs=1e-6)


FOLLOWED: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "far from zero": (lambda: singles(2) ** 500 < 0.5, [0.5 ** (1 / 500)] * 2),
    "a guard": (lambda: (singles(1) ** 500).clamp(min=1e-30).log() < -1, [math.exp(-1 / 500)]),
    "what is left of it": (lambda: [bool((u := singles(1)) > 0.9), bool(u**500 > 0) if u > 0.9 else True], [0.1, 1]),
    "far from infinity": (lambda: (200 * singles(2)).exp() < math.exp(50), [0.25] * 2),
    "decided numbers": (lambda: torch.zeros(1).uniform_(2, 3) * torch.tensor([0.0]) > 0, [0]),
}


@pytest.mark.parametrize(("code", "expected"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_rounding_does_not_decide_is_followed(code: Callable[[], Any], expected: list[float]) -> None:
    assert chances(lambda: code()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_what_generators_draw_is_not_too_small(dtype: torch.dtype) -> None:
    assert chances(lambda: -(-torch.rand(2, dtype=dtype).log()).log() > 0) == pytest.approx([1 - math.exp(-1)] * 2)
    exponentials = chances(lambda: torch.empty(1, dtype=dtype).exponential_() / 8 < 0.125)
    assert exponentials == pytest.approx([1 - math.exp(-1)])
