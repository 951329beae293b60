"""Torch under replay: each way of drawing has the law that it must have, and what is not followed is refused."""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from replayed import EXACT, chances, fresh, law, refusal
from torch import Tensor, distributions

from spectr_verify.chance import smallest_uniform_law

F64 = torch.float64
P = torch.tensor([0.5, 0.3, 0.2], dtype=F64)
Q = torch.tensor([0.1, 0.6, 0.3], dtype=F64)
PRECISION = {F64: EXACT, torch.float32: 3e-7}


def uniforms(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=F64)


def exponentials(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=F64).exponential_()


def gumbels(*shape: int) -> Tensor:
    return -torch.log(-torch.log(uniforms(*shape)))


def successive(weights: list[float], count: int) -> dict[tuple[int, ...], float]:
    """Drawing without replacement (Plackett-Luce)."""
    found = {}
    for order in itertools.permutations(range(len(weights)), count):
        left, probability = sum(weights), 1.0
        for i in order:
            probability *= weights[i] / left
            left -= weights[i]
        found[order] = probability
    return found


# One token ------------------------------------------------------------------------------------------------------------


@torch.jit.script
def scripted(q: Tensor) -> Tensor:
    u = torch.rand([1], dtype=q.dtype)
    return (q.cumsum(0) > u).int().argmax()


def by_hand(q: Tensor) -> Tensor:
    left = torch.rand((), dtype=q.dtype).item()
    for i, probability in enumerate(q.tolist()):
        left -= probability
        if left < 0:
            return torch.tensor(i)
    return torch.tensor(len(q) - 1)


def maximum_in_inference(q: Tensor) -> Tensor:
    with torch.inference_mode():
        u = torch.max(torch.rand(1, dtype=q.dtype), torch.zeros((), dtype=q.dtype)).square().sqrt()
        return torch.searchsorted(torch.where(q > 0, q, 0.0).cumsum(0), u)[0]


def preallocated(q: Tensor) -> Tensor:
    noise = torch.zeros(2, 5, dtype=q.dtype)
    noise[1, 1:4].exponential_()
    return (q / noise[1, 1:4]).argmax()


def inference(q: Tensor) -> Tensor:
    with torch.inference_mode():
        return (q / torch.empty_like(q).exponential_(1)).argmax(-1)


def in_place(q: Tensor) -> Tensor:
    noise = torch.rand_like(q)
    noise.log_().neg_().log_().neg_().add_(q.log())
    return noise.argmax()


def with_out(q: Tensor) -> Tensor:
    noise, score = torch.empty(0, dtype=q.dtype), torch.rand_like(q)
    torch.rand(3, out=noise)
    torch.pow(noise, 1 / q, out=score)
    return score.argmax()


TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "multinomial": lambda q: torch.multinomial(q, 1)[0],
    "multinomial of a batch": lambda q: torch.multinomial(q.expand(1, 3), 1)[0, 0],
    "generator": lambda q: torch.multinomial(q, 1, generator=torch.Generator().manual_seed(3))[0],
    "Categorical": lambda q: distributions.Categorical(q).sample(),
    "Categorical of logits": lambda q: distributions.Categorical(logits=q.log()).sample(),
    "OneHotCategorical": lambda q: distributions.OneHotCategorical(q).sample().argmax(),
    "searchsorted": lambda q: torch.searchsorted(q.cumsum(0), torch.rand(1, dtype=q.dtype))[0],
    "searchsorted, right": lambda q: torch.searchsorted(q.cumsum(0), torch.rand(1, dtype=q.dtype), right=True)[0],
    "bucketize": lambda q: torch.bucketize(torch.rand((), dtype=q.dtype), q.cumsum(0)),
    "first above": lambda q: (q.cumsum(0) > torch.rand(1, dtype=q.dtype)).int().argmax(),
    "counted below": lambda q: (q.cumsum(0) <= torch.rand((), dtype=q.dtype)).sum(),
    "exponential race": lambda q: (q / torch.empty_like(q).exponential_()).argmax(),
    "exponential race of times": lambda q: (torch.empty_like(q).exponential_() / q).argmin(),
    "exponential race in logs": lambda q: (q.log() - torch.empty_like(q).exponential_().log()).argmax(),
    "Exponential": lambda q: distributions.Exponential(q).sample().argmin(),
    "gumbel": lambda q: (q.log() - torch.log(-torch.log(torch.rand_like(q)))).argmax(),
    "gumbel, clamped": lambda q: (q.log() - torch.log(-torch.log(torch.rand_like(q).clamp(min=1e-30)))).argmax(),
    "gumbel with a guard": lambda q: (q.log() - torch.log(-torch.log(torch.rand_like(q) + 1e-20) + 1e-20)).argmax(),
    "gumbel of an exponential": lambda q: (q.log() - torch.empty_like(q).exponential_().log()).max(-1).indices,
    "Gumbel": lambda q: (q.log() + distributions.Gumbel(0 * q, 0 * q + 1).sample()).argmax(),
    "u ** (1/q)": lambda q: (torch.rand_like(q) ** (1 / q)).argmax(),
    "log(u) / q": lambda q: (torch.rand_like(q).log() / q).topk(1).indices[0],
    "log1p(-u) / q": lambda q: torch.sort(torch.log1p(-torch.rand_like(q)) / q, descending=True).indices[0],
    "bernoulli cascade": lambda q: torch.bernoulli(q / (1 - q.cumsum(0) + q)).argmax(),
    "jit": scripted,
    "by hand": by_hand,
    "preallocated": preallocated,
    "inference mode": inference,
    "inference mode, composed": maximum_in_inference,
    "in place": in_place,
    "out": with_out,
    "vmap": lambda q: torch.vmap(
        lambda x: torch.searchsorted(x.cumsum(0), torch.rand(1, dtype=F64)), randomness="same"
    )(q[None].double())[0, 0],
}


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("draw", TOKENS.values(), ids=TOKENS)
def test_a_token_is_drawn_from_its_law(draw: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    seen = fresh()
    # The guards of some of these, and Gumbel's own, are as large as one rounding step.
    precision = PRECISION[dtype] if draw is not TOKENS["Gumbel"] else max(PRECISION[dtype], 1e-14)
    found = law(lambda: draw(Q.to(dtype)), seen=seen)
    assert [found[i] for i in range(3)] == pytest.approx(Q.tolist(), abs=precision)
    assert seen.single == (dtype != F64)


def test_rows_of_a_batch_are_independent() -> None:
    def rows() -> Tensor:
        laws = torch.stack([P, Q])
        return torch.cat([(laws / exponentials(2, 3)).argmax(-1), torch.multinomial(laws, 1)[:, 0]])

    found = law(rows)
    for tokens in itertools.product(range(3), repeat=4):
        expected = P[tokens[0]] * Q[tokens[1]] * P[tokens[2]] * Q[tokens[3]]
        assert found[tokens] == pytest.approx(float(expected), abs=EXACT)


ORDERS: dict[str, Callable[[], Tensor]] = {
    "multinomial": lambda: torch.multinomial(Q, 2),
    "topk": lambda: (Q / exponentials(3)).topk(2).indices,
    "smallest topk": lambda: torch.topk(exponentials(3) / Q, 2, largest=False).indices,
    "gumbel topk": lambda: (Q.log() + gumbels(3)).topk(2).indices,
    "argsort": lambda: (exponentials(3) / Q).argsort()[:2],
    "sort in a column": lambda: (exponentials(3) / Q)[:, None].sort(dim=0, stable=True).indices[:2, 0],
    "with impossible ones": lambda: (torch.cat([Q, torch.zeros(2, dtype=F64)]) / exponentials(5)).topk(2).indices,
}


@pytest.mark.parametrize("draw", ORDERS.values(), ids=ORDERS)
def test_tokens_are_drawn_without_replacement(draw: Callable[[], Tensor]) -> None:
    found, expected = law(draw), successive(Q.tolist(), 2)
    assert found.keys() == expected.keys()
    assert [found[order] for order in expected] == pytest.approx(list(expected.values()), abs=EXACT)


def test_whole_numbers_are_equally_likely() -> None:
    def draw() -> list[int]:
        over = uniforms(2)
        over.random_(0, 2)
        return [
            *torch.randint(2, 4, (1,)).tolist(),
            *torch.randint_like(torch.zeros(1, dtype=torch.int64), 2).tolist(),
            int(over[0]),
            int(torch.randperm(2)[0]),
        ]

    found = law(draw)
    assert found.keys() == set(itertools.product((2, 3), (0, 1), (0, 1), (0, 1)))
    assert list(found.values()) == pytest.approx([1 / 16] * 16, abs=EXACT)


# Coins ----------------------------------------------------------------------------------------------------------------


def over_undecided(u: Tensor) -> Tensor:
    u[0] = 0.1
    u[1:].mul_(2)
    return u < 0.5


def through_a_view(u: Tensor) -> Tensor:
    u.view(3, 1)[1:].mul_(0.5)
    return u < 0.3


def through_data(u: Tensor) -> Tensor:
    other = torch.zeros(3, dtype=F64)
    other.data = u
    return other < 0.3


def swapped(u: Tensor) -> Tensor:
    u = u * torch.tensor([1.0, 2.0, 4.0])
    u[0], u[2] = u[2].clone(), u[0].clone()
    return u < 0.8


COINS: list[tuple[str, Callable[[Tensor], Any], list[float]]] = [
    ("less", lambda u: u < Q, [0.1, 0.6, 0.3]),
    ("at most", lambda u: u <= Q, [0.1, 0.6, 0.3]),
    ("greater", lambda u: u > Q, [0.9, 0.4, 0.7]),
    ("from the other side", lambda u: torch.ge(Q, u), [0.1, 0.6, 0.3]),
    ("ratio", lambda u: u * P < Q, [0.2, 1, 1]),
    ("ratio of logs", lambda u: u.log() < Q.log() - P.log(), [0.2, 1, 1]),
    ("clamped ratio", lambda u: u < (Q / P).clamp(max=1), [0.2, 1, 1]),
    ("negative factor", lambda u: -2 * u + 1 < 0.5, [0.75] * 3),
    ("divided into", lambda u: 0.5 / u > 1, [0.5] * 3),
    ("infinity", lambda u: torch.stack([u[0] < math.inf, u[1] > math.inf, u[2] < math.nan]), [1, 0, 0]),
    ("itself", lambda u: torch.stack([u[0] == u[0], u[1] <= u[1].clone(), u[2] != u[2]]), [1, 1, 0]),
    ("another", lambda u: torch.stack([u[0] == u[1], u[1] != u[2], u[2] == 0.5]), [0, 1, 0]),
    ("zero factor", lambda u: u * torch.tensor([0.0, 1.0, math.inf]) < 0.5, [1, 0.5, 0]),
    ("zero divisor", lambda u: u / torch.tensor([0.0, 1.0, math.inf]) < 0.5, [0, 0.5, 1]),
    ("infinite shift", lambda u: u + torch.tensor([math.inf, -math.inf, math.nan]) < 0.5, [0, 1, 0]),
    ("powers", lambda u: torch.stack([u[0] ** -2 < 4, 4 ** u[1] < 2, u[2] ** 0 < 0.5]), [0.5, 0.5, 0]),
    ("square", lambda u: u.square() < 0.25, [0.5] * 3),
    ("roots", lambda u: torch.stack([u[0].sqrt() < 0.5, u[1].rsqrt() < 2, 1 / u[2] < 2]), [0.25, 0.75, 0.5]),
    ("logs", lambda u: torch.stack([u[0].log2() < -1, u[1].log10() < -1, u[2].log1p() < math.log(1.5)]),
     [0.5, 0.1, 0.5]),
    ("exps", lambda u: torch.stack([u[0].exp2() < 2**0.5, u[1].expm1() < math.e - 1, u[2].exp() < 1]), [0.5, 1, 0]),
    ("absolute", lambda u: (u - 2).abs() < 1.5, [0.5] * 3),
    ("sign", lambda u: (u - Q).sign() > 0, [0.9, 0.4, 0.7]),
    ("floor", lambda u: (u * 4 - 2).floor() == -1, [0.25] * 3),
    ("trunc", lambda u: (u * 4 - 2).trunc() == 0, [0.5] * 3),
    ("ceil", lambda u: (u * 4 - 2).ceil() == 0, [0.25] * 3),
    ("to integers", lambda u: (u * 4 - 2).long() == 0, [0.5] * 3),
    ("Python's int", lambda u: [int(x * 3) == 1 for x in u], [1 / 3] * 3),
    ("finite", lambda u: torch.stack([u[0].isnan(), u[1].isfinite(), u[2].log().isinf()]), [0, 1, 0]),
    ("nan_to_num", lambda u: torch.nan_to_num(u.log()) < -1, [math.exp(-1)] * 3),
    ("clamp", lambda u: torch.stack([u[0].clamp(0.4, 0.6) <= 0.4, u[1].clamp(max=0.3) < 0.2, u[2].clamp(0.5) < 0.6]),
     [0.4, 0.2, 0.6]),
    ("clamp to nothing", lambda u: u.clamp(min=torch.tensor([math.nan, 0.5, 0.0])) > 0.4, [0, 1, 0.6]),
    ("maximum", lambda u: torch.maximum(u, torch.tensor([0.3, 0.6, 0.0])) < 0.5, [0.5, 0, 0.5]),
    ("minimum", lambda u: torch.minimum(torch.tensor([0.3, 0.6, 2.0]), u) < 0.5, [1, 0.5, 0.5]),
    ("where", lambda u: torch.where(torch.tensor([True, False, True]), u, 0.2) < 0.5, [0.5, 1, 0.5]),
    ("masked", lambda u: u.masked_fill(torch.tensor([True, False, False]), -math.inf) < 0.5, [1, 0.5, 0.5]),
    ("padded", lambda u: torch.nn.functional.pad(u[:1], (1, 1)) < 0.5, [1, 0.5, 1]),
    ("padded with ones", lambda u: torch.nn.functional.pad(u[:1], (1, 1), value=1.0) < 0.5, [0, 0.5, 0]),
    ("triangle", lambda u: u.expand(3, 3).tril()[1] < 0.5, [0.5, 0.5, 1]),
    ("zeroed", lambda u: u.clone().zero_() < 0.5, [1, 1, 1]),
    ("resized", lambda u: u.zero_().resize_(4).uniform_() < 0.25, [0.25] * 4),
    ("filled", lambda u: u.fill_(0.7) < 0.5, [0, 0, 0]),
    ("copied over", lambda u: u.copy_(Q) < 0.5, [1, 0, 1]),
    ("coins over it", lambda u: u.bernoulli_(0.3) > 0, [0.3] * 3),
    ("written over", over_undecided, [1, 0.25, 0.25]),
    ("written through a view", through_a_view, [0.3, 0.6, 0.6]),
    ("data", through_data, [0.3] * 3),
    ("swapped", swapped, [0.2, 0.4, 0.8]),
    ("permuted", lambda u: (u * Q)[[2, 0, 1]] < 0.05, [1 / 6, 0.5, 1 / 12]),
    ("transposed and joined", lambda u: (u * Q).expand(2, 3).t().reshape(-1)[::2] < 0.05, [0.5, 1 / 12, 1 / 6]),
    ("cat and stack", lambda u: torch.stack([torch.cat([u[1:], 2 * u[:1]])])[0] < 0.5, [0.5, 0.5, 0.25]),
    ("strided", lambda u: u.repeat(2).as_strided((3,), (1,), 2).flip(0).roll(1) < P, [0.5, 0.3, 0.2]),
    ("gather", lambda u: (u * Q).gather(0, torch.tensor([1, 2, 0])) < 0.05, [1 / 12, 1 / 6, 0.5]),
    ("scatter", lambda u: torch.zeros(3, dtype=F64).scatter_(0, torch.tensor([2, 0]), u[1:]) < 0.5, [0.5, 1, 0.5]),
    ("masked write", lambda u: torch.ones(3, dtype=F64).masked_scatter_(Q < 0.5, u) < 0.5, [0.5, 0, 0.5]),
    ("indexed write", lambda u: torch.ones(3, dtype=F64).index_put_((torch.tensor([1]),), u[:1]) < 0.5, [0, 0.5, 0]),
    ("shapes only", lambda u: torch.zeros_like(u) + u.new_full((3,), 0.5) + torch.full_like(u, 0.1) < u, [0.4] * 3),
    ("narrower and back", lambda u: u.float().double() < 0.5, [0.5] * 3),
    ("lists", lambda u: [x < 0.5 for x in u.tolist()], [0.5] * 3),
    ("items", lambda u: [bool(x.item() < 0.5) for x in u], [0.5] * 3),
    ("from items", lambda u: torch.tensor([x.item() for x in u], dtype=F64) < Q, [0.1, 0.6, 0.3]),
    ("Python's min", lambda u: [min(1.0, 2 * x) < 1 for x in u.tolist()], [0.5] * 3),
    ("a copy", lambda u: copy.deepcopy(u) < 0.5, [0.5] * 3),
    ("vmap", lambda u: torch.vmap(lambda x: 2 * x < 0.5)(u), [0.25] * 3),
    ("out", lambda u: torch.lt(u, 0.4, out=torch.empty(3, dtype=torch.bool)), [0.4] * 3),
    ("out into itself", lambda u: torch.mul(P, 1.0, out=u) < 0.4, [0, 1, 1]),
    ("metadata in place", lambda u: u.unsqueeze_(0).t_().squeeze_(1) < Q, [0.1, 0.6, 0.3]),
    ("gradients on", lambda u: u * torch.ones(3, dtype=F64, requires_grad=True) < Q, [0.1, 0.6, 0.3]),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), [case[1:] for case in COINS], ids=[case[0] for case in COINS])
def test_a_comparison_has_its_probability(answer: Callable[[Tensor], Any], expected: list[float]) -> None:
    assert chances(lambda: answer(uniforms(3))) == pytest.approx(expected, abs=EXACT)


DRAWN: list[tuple[str, Callable[[], Tensor], float]] = [
    ("rand", lambda: torch.rand(1) < 0.25, 0.25),
    ("rand with a generator", lambda: torch.rand(1, generator=torch.Generator()) < 0.25, 0.25),
    ("rand with out", lambda: torch.rand(1, out=torch.empty(3)) < 0.25, 0.25),
    ("a coin in bfloat16", lambda: torch.empty(1, dtype=torch.bfloat16).bernoulli_(0.25) > 0, 0.25),
    ("rand_like", lambda: torch.rand_like(Q[:1]) < 0.25, 0.25),
    ("uniform_", lambda: torch.empty(1, dtype=F64).uniform_(-1, 3) < 0, 0.25),
    ("uniform_ to", lambda: torch.empty(1, dtype=F64).uniform_(to=2) < 0.5, 0.25),
    ("uniform_ of no width", lambda: torch.empty(1, dtype=F64).uniform_(0.3, 0.3) < 0.5, 1.0),
    ("initialised", lambda: torch.nn.init.uniform_(torch.empty(1, dtype=F64), -1, 3) < 0, 0.25),
    ("exponential_", lambda: exponentials(1) < 0.5, 1 - math.exp(-0.5)),
    ("exponential_ of a rate", lambda: torch.empty(1, dtype=F64).exponential_(lambd=2) < 0.5, 1 - math.exp(-1)),
    ("bernoulli", lambda: torch.bernoulli(Q[1:2]) > 0, 0.6),
    ("bernoulli of p", lambda: torch.bernoulli(torch.zeros(1), p=0.25) > 0, 0.25),
    ("bernoulli_ of a tensor", lambda: torch.empty(1).bernoulli_(Q[1:2]) > 0, 0.6),
    ("dropout", lambda: torch.nn.functional.dropout(torch.ones(1), 0.25) > 0, 0.75),
    ("Uniform", lambda: distributions.Uniform(-Q[:1], 3 * Q[:1]).sample() < 0, 0.25),
    ("Bernoulli", lambda: distributions.Bernoulli(Q[1:2]).sample() > 0, 0.6),
    ("Exponential", lambda: distributions.Exponential(2 * P[:1]).sample() < 0.5, 1 - math.exp(-0.5)),
]


@pytest.mark.parametrize(("coin", "probability"), [case[1:] for case in DRAWN], ids=[case[0] for case in DRAWN])
def test_a_coin_has_its_probability(coin: Callable[[], Tensor], probability: float) -> None:
    assert chances(coin) == pytest.approx([probability], abs=1e-7)


def test_answers_are_remembered() -> None:
    """A number below 0.3 is below 0.6 too; joint probabilities are those of one number."""
    u_law = law(lambda: (uniforms(1) < torch.tensor([0.3, 0.6, 0.1], dtype=F64)).int())
    assert u_law == pytest.approx({(1, 1, 1): 0.1, (1, 1, 0): 0.2, (0, 1, 0): 0.3, (0, 0, 0): 0.4}, abs=EXACT)


def test_a_race_knows_what_was_answered_before() -> None:
    """Given e0 < 1/2, of two exponentials."""

    def call() -> list[int]:
        e = exponentials(2)
        return [int(e[0] < 0.5), int(e.argmin())]

    found = law(call)
    early = (1 - math.exp(-1)) / 2  # e0 is first and below 1/2
    assert found[1, 0] == pytest.approx(early, abs=EXACT)
    assert found[0, 0] == pytest.approx(0.5 - early, abs=EXACT)
    assert found[1, 1] == pytest.approx(1 - math.exp(-0.5) - early, abs=EXACT)


def test_a_race_of_intervals() -> None:
    low, high = torch.tensor([0.0, 0.2, 0.3], dtype=F64), torch.tensor([0.5, 0.9, 0.4], dtype=F64)
    found = law(lambda: (low + uniforms(3) * (high - low)).argmin())
    expected = smallest_uniform_law(low[None], high[None])[0]
    assert [found[i] for i in range(3)] == pytest.approx(expected.tolist(), abs=EXACT)


def test_the_winner_is_the_largest_value() -> None:
    def call() -> list[int]:
        scores = uniforms(2, 3) * torch.arange(1, 7).reshape(2, 3)
        return [int(scores.t().argmax()), *(scores == scores.max()).t().flatten().int().tolist()]

    for result in law(call):
        assert result[1:] == tuple(int(i == result[0]) for i in range(6))


def test_constants_take_part_in_races() -> None:
    """A constant in the middle: 0.6 is the largest of 0.6 and two uniforms with probability 0.36."""

    def call() -> list[int]:
        values = torch.cat([torch.tensor([-math.inf, 0.6], dtype=F64), uniforms(2), torch.tensor([0.6], dtype=F64)])
        return [int(values.argmax()), int(values[2] < 0.6)]

    found = law(call)
    assert found == pytest.approx({(1, 1): 0.36, (2, 0): 0.24 + 0.08, (3, 0): 0.08, (3, 1): 0.24}, abs=EXACT)


def test_the_first_of_equals_wins() -> None:
    def call() -> list[int]:
        u = uniforms(2)
        twice = torch.cat([u, u])
        same = twice[torch.tensor([0, 2])]
        return [int(twice.argmax()), int(same.argmax()), int(same.argmin()), *(twice == u.max()).int().tolist()]

    assert law(call) == pytest.approx({(0, 0, 0, 1, 0, 1, 0): 0.5, (1, 0, 0, 0, 1, 0, 1): 0.5}, abs=EXACT)


@pytest.mark.parametrize("where", [0, 2])
def test_what_is_not_a_number_wins(where: int) -> None:
    values = [torch.tensor([0.5], dtype=F64), torch.tensor([0.7], dtype=F64)]
    values.insert(where, torch.tensor([math.nan], dtype=F64))
    assert law(lambda: torch.cat([uniforms(1), *values]).argmax()) == {where + 1: 1.0}
    assert law(lambda: torch.cat([uniforms(1), *values]).argmin()) == {where + 1: 1.0}


def test_two_numbers_are_compared() -> None:
    assert chances(lambda: 2 * uniforms(1) < uniforms(1)) == pytest.approx([0.25], abs=EXACT)
    assert law(lambda: [max(range(2), key=uniforms(2).tolist().__getitem__)])[(0,)] == pytest.approx(0.5, abs=EXACT)


def test_weights_of_a_repeated_winner_are_not_counted_twice() -> None:
    def call() -> list[int]:
        scores = Q / exponentials(3)
        return [int(scores.argmax()), int(scores.max(-1).indices), int(scores.argmax(-1, keepdim=True))]

    assert law(call) == pytest.approx({(i, i, i): float(q) for i, q in enumerate(Q)}, abs=EXACT)


def test_a_winner_stays_the_winner() -> None:
    """Against all others, against some, turned around in a pair, and as the value that ``max`` returns."""

    def call() -> list[int]:
        scores = Q / exponentials(3)
        best = int(scores.argmax())
        others = [i for i in range(3) if i != best]
        among = [int(scores[[best, i]].argmax()) + int(scores[[i, best]].argmin()) for i in others]
        return [best, *(scores >= scores.max()).int().tolist(), *(scores[others] < scores[best]).int().tolist(), *among]

    expected = {(i, *(int(i == j) for j in range(3)), 1, 1, 0, 0): float(q) for i, q in enumerate(Q)}
    assert law(call) == pytest.approx(expected, abs=EXACT)


def test_a_narrower_format_is_noticed_where_it_counts() -> None:
    for call, single in [
        (lambda: uniforms(1) < Q[:1], False),
        (lambda: uniforms(1) < Q[:1].float(), True),
        (lambda: uniforms(1) < torch.tensor([0.3]), True),
        (lambda: torch.multinomial(Q.float(), 1), True),
        (lambda: torch.rand(1) < 0.3, False),
    ]:
        seen = fresh()
        law(call, seen=seen)
        assert seen.single == single


# Refusals -------------------------------------------------------------------------------------------------------------


def pickled(u: Tensor) -> bytes:
    return pickle.dumps(u)


def view_from_before(_: Tensor) -> Tensor:
    buffer = torch.empty(2, dtype=F64)
    bits = buffer.view(torch.int64)
    buffer.uniform_()
    return bits > 0


def array_from_before(_: Tensor) -> bool:
    array = np.zeros(2)
    torch.from_numpy(array).uniform_()
    return array[0] < 0.5


def array_of_a_tensor_from_before(_: Tensor) -> bool:
    tensor = torch.zeros(2)
    array = tensor.numpy()
    tensor.uniform_()
    return array[0] < 0.5


def drawn_into_after(lend: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Decided numbers are handed to numpy, and drawn into again."""

    def code(u: Tensor) -> Any:
        u[0] = 0.1
        array = lend(u[:1])
        u[:1].uniform_()
        return array < 0.3

    return code


def moved_into_after(u: Tensor) -> Any:
    u[0] = 0.1
    array = u[:1].numpy()
    u[0] = u[1]
    return array < 0.3


def storage_from_before(lend: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """The memory is handed out first, and drawn into then."""

    def code(_: Tensor) -> Any:
        buffer = torch.zeros(2, dtype=F64)
        memory = lend(buffer)
        buffer.uniform_()
        return memory

    return code


REFUSED: list[tuple[str, Callable[[Tensor], Any], str]] = [
    ("drawn into after numpy()", drawn_into_after(lambda u: u.numpy()), "memory shared with numpy"),
    ("drawn into after asarray", drawn_into_after(np.asarray), "memory shared with numpy"),
    ("drawn into after from_dlpack", drawn_into_after(np.from_dlpack), "memory shared with numpy"),
    ("drawn into after torch's", drawn_into_after(torch.from_dlpack), "memory shared with numpy"),
    ("moved into after numpy()", moved_into_after, "memory shared with numpy"),
    ("sum", lambda u: u.sum() < 1, "torch's sum is done to random numbers that are still undecided"),
    ("advice", lambda u: u.sum() < 1, "Draw by a comparison, searchsorted, multinomial or an argmax race, or run"),
    ("written to what is expanded", lambda u: u[:1].expand(3).mul_(2), "torch's mul_, done to .* raised RuntimeError"),
    ("shapes that do not fit", lambda u: u + torch.ones(4), "torch's add, done to .* raised RuntimeError: The size"),
    ("truth of each", lambda u: u.bool(), r"torch's to\(\) is done to"),
    ("mean", lambda u: u.mean() < 1, "torch's mean is done to"),
    ("cumsum", lambda u: u.cumsum(0) < 1, "torch's cumsum is done to"),
    ("softmax", lambda u: u.softmax(0), "torch's softmax is done to"),
    ("matmul", lambda u: u @ P, "torch's dot is done to"),
    ("product of two", lambda u: u[0] * u[1] < 0.5, "torch's mul is done to"),
    ("square by hand", lambda u: u * u < 0.5, "torch's mul is done to"),
    ("sum of two", lambda u: u[0] + u[1] < 0.5, "torch's add is done to"),
    ("alpha", lambda u: torch.add(u, 1, alpha=2) < 0.5, "torch's add is done to"),
    ("rounding mode", lambda u: torch.div(u, 0.3, rounding_mode="floor"), "torch's div is done to"),
    ("remainder", lambda u: u % 0.5 < 0.2, "torch's remainder is done to"),
    ("not monotone", lambda u: (u - 0.5).abs() < 0.2, "torch's abs is done to"),
    ("log of a negative", lambda u: (u - 0.5).log() < 0, "torch's log is done to"),
    ("equal in another way", lambda u: u.log().exp() == u, "torch's eq is done to"),
    ("complex", lambda u: (u * torch.tensor(1j)).imag < 1, "torch's mul is done to"),
    ("added in place", lambda u: torch.zeros(3).double().index_add_(0, torch.tensor([0]), u[:1]), "torch's index_add_"),
    ("scatter and reduce", lambda u: u.scatter_(0, torch.tensor([0]), P, reduce="add"), "torch's scatter_ is done to"),
    ("accumulated", lambda u: u.index_put_((torch.tensor([0]),), P[:1], accumulate=True), "torch's index_put_ is done"),
    ("into integers", lambda u: torch.zeros(3, dtype=torch.int64).copy_(u), "torch's copy_ is done to"),
    ("topk of uniforms", lambda u: (u * Q).topk(2), "torch's topk is done to"),
    ("topk with a constant between", lambda u: torch.cat([u, P[:1]]).topk(2), "torch's topk is done to"),
    ("topk with nan", lambda u: torch.cat([u.log() / Q, P[:1] * math.nan]).topk(2), "torch's topk is done to"),
    ("as weights", lambda u: torch.multinomial(u, 1), "torch's multinomial takes its law from random numbers"),
    ("as probabilities", lambda u: torch.bernoulli(u), "torch's bernoulli takes its law from random numbers"),
    ("edges with nan", lambda u: torch.searchsorted(P * math.nan, u), "torch's searchsorted is done to"),
    ("edges that fall", lambda u: torch.searchsorted(P, u), "torch's searchsorted is done to"),
    ("as edges", lambda u: torch.searchsorted(u, P), "torch's searchsorted is done to"),
    ("losers' race", lambda u: torch.where(u == u.max(), 0, u).argmax(), "torch's argmax asks about random numbers"),
    ("race turned around", lambda u: (u.argmax(), u.argmin()), "torch's argmin asks about random numbers that decide"),
    ("winner's value", lambda u: u.max() < 0.5, "torch's lt asks about random numbers that decide more than one race"),
    ("shared in a race", lambda u: torch.stack([u[0], 1 - u[0]]).argmax(), "torch's argmax asks about"),
    ("float", lambda u: float(u[0]) < 0.5, r"the value \(float\(\)"),
    ("math.log", lambda u: math.log(u[0]) < -1, "or a function of Python's math"),
    ("bool", lambda u: bool(u[0]), "the truth of random numbers"),
    ("if", lambda u: 1 if u[0] else 0, "the truth of random numbers"),
    ("index", lambda u: [1, 2][u[0]], r"the value \(as an index\)"),
    ("numpy", lambda u: u.numpy(), "a numpy copy of random numbers"),
    ("asarray", lambda u: np.asarray(u), "a numpy copy of random numbers"),
    ("numpy's function", lambda u: np.log(u), "a numpy copy of random numbers"),
    ("memory", lambda u: u.data_ptr(), "the memory of random numbers"),
    ("dlpack", lambda u: torch.utils.dlpack.to_dlpack(u), "the memory of random numbers"),
    ("pickle", pickled, "the memory of random numbers"),
    ("saved", lambda u: torch.save(u, io.BytesIO()), "the memory of random numbers|a pickled copy"),
    ("saved in a dict", lambda u: torch.save({"u": u[:1]}, io.BytesIO()), "the memory of|a pickled copy"),
    ("deep copy of a pickle", lambda u: pickle.loads(pickle.dumps([u])), "the memory of random numbers"),
    ("shared memory", lambda u: bool(u.share_memory_()[0] < 0.5), "the memory of random|numbers of another kind"),
    ("typed storage", lambda u: u.storage()[0] < 0.5, "the memory of random numbers"),
    ("untyped storage", lambda u: u.untyped_storage()[0] < 5, "the memory of random numbers"),
    ("storage from before", storage_from_before(lambda u: u.untyped_storage()), "handed out as a storage"),
    ("typed from before", storage_from_before(lambda u: u.storage()), "handed out as a storage or an address"),
    ("address from before", storage_from_before(lambda u: u.data_ptr()), "handed out as a storage or an address"),
    ("apply_", lambda u: u.apply_(lambda x: x * x) < 0.5, "torch's apply_ hands random numbers"),
    ("map_", lambda u: u.map_(P, lambda x, y: float(x < y)), "torch's map_ hands random numbers"),
    ("map_ with", lambda u: torch.zeros(3).double().map_(u, lambda x, y: float(y < 0.5)), "torch's map_ hands random"),
    ("map2_", lambda u: torch.zeros(3).double().map2_(P, u, lambda x, y, z: z), "torch's map2_ hands random numbers"),
    ("bits", lambda u: u.view(torch.int64) > 0, "read as numbers of another kind"),
    ("bits from before", view_from_before, "read as numbers of another kind"),
    ("numpy's memory", array_from_before, "memory shared with numpy"),
    ("memory lent to numpy", array_of_a_tensor_from_before, "memory shared with numpy"),
    ("a full tensor", lambda u: torch.full((2,), u[0].item()) < 0.5, "taking the value as a Python number is done to"),
    ("jit's float", lambda u: torch.jit.script(_jit_float)(u), "taking the value as a Python number is done to"),
    ("bfloat16", lambda _: torch.rand(2, dtype=torch.bfloat16) < 0.3, "bfloat16 are drawn, .* draw in float32 or"),
    ("float16", lambda _: torch.rand(2, dtype=torch.float16).double() < 0.3, "float16 are drawn, .* of float16 2048"),
    ("exponential in float16", lambda _: torch.zeros(2).half().exponential_().argmin(), "float16 are drawn"),
    ("like bfloat16", lambda u: torch.rand_like(u.new_zeros(2).bfloat16()) < 0.3, "bfloat16 are drawn"),
    ("to bfloat16", lambda u: u.bfloat16() < 0.3, "become numbers of type torch.bfloat16; draw in float32"),
    ("to float16 and back", lambda u: u.half().double() < 0.3, "become numbers of type torch.float16"),
    ("to float8", lambda u: u.to(torch.float8_e4m3fn).double() < 0.3, "become numbers of type torch.float8_e4m3fn"),
    ("written to bfloat16", lambda u: torch.zeros(3).bfloat16().copy_(u) < 0.3, "become numbers of type torch.bf"),
    ("a number in bfloat16", lambda u: u[0] < P.bfloat16(), "become numbers of type torch.bfloat16"),
    ("times bfloat16", lambda u: u[0] * P.bfloat16() < 0.3, "become numbers of type torch.bfloat16"),
    ("bounded in bfloat16", lambda u: u[0].clamp(min=P.bfloat16()) < 0.3, "become numbers of type torch.bfloat16"),
    ("randn", lambda u: torch.randn(2) < u[:2], "torch's randn draws random numbers of a kind that is not followed"),
    ("normal_", lambda u: u.normal_() < 0, "torch's normal_ draws random numbers of a kind"),
    ("geometric_", lambda u: u.geometric_(0.5), "torch's geometric_ draws random numbers of a kind"),
    ("complex uniforms", lambda _: torch.rand(2, dtype=torch.complex64), "complex64 are drawn, which are not followed"),
    ("many whole numbers", lambda _: torch.randint(0, 2**31, (1,)), "a whole number below 2,147,483,648"),
    ("any whole number", lambda u: u.random_(), "random_ without bounds"),
]  # fmt: skip


@pytest.mark.parametrize("result", [lambda: uniforms(2), lambda: [1, {"u": uniforms(1).tolist()}]])
def test_undecided_numbers_are_not_returned(result: Callable[[], Any]) -> None:
    message = refusal(result)
    assert "it returns random numbers that are still undecided" in message
    assert ", at " not in message  # it has returned: no line of it is being run


def _jit_float(u: Tensor) -> float:
    return float(u[0])


@pytest.mark.parametrize(("use", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_not_followed_is_refused_with_its_line(use: Callable[[Tensor], Any], says: str) -> None:
    def code_under_test() -> Any:
        return use(uniforms(3))

    message = refusal(code_under_test)
    assert message.startswith("code: ")
    assert re.search(says, message), message
    assert "test_intercept.py:" in message


@pytest.mark.parametrize(
    "show", [repr, str, lambda u: f"{u[0]:.3f}", lambda u: f"{u[0].item():.3f}", lambda _: repr(random.random())]
)
def test_undecided_numbers_in_print_are_noted_once(show: Callable[[Tensor], str]) -> None:
    seen = fresh()
    assert law(lambda: show(u := uniforms(2)) + str(bool(u[0] < 0.25)), seen=seen) == pytest.approx(
        {"undecidedTrue": 0.25, "undecidedFalse": 0.75}
    )
    (note,) = seen.notes
    assert note.startswith("it prints or formats a random number that was still undecided")


def test_a_race_that_does_not_add_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.replay.monotone.ADDS_UP", -1.0)
    message = refusal(lambda: (uniforms(3) * torch.tensor([1.0, 2.0, 3.25])).argmax())  # an integral of its own
    assert "torch's argmax is done to random numbers that are still undecided; the race of 3 of them could not be" in (
        message
    )
    assert "what is followed" not in message


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (torch.zeros(3), r"sum of probabilities <= 0"),
        (-P, "`inf`, `nan` or element < 0"),
        (P * math.nan, "`inf`, `nan` or element < 0"),
    ],
)
def test_torch_s_own_errors_are_kept(weights: Tensor, says: str) -> None:
    assert says in refusal(lambda: torch.multinomial(weights, 1))
    with pytest.raises(RuntimeError, match=says):
        torch.multinomial(weights, 1)


def test_more_samples_than_tokens_are_torch_s_error() -> None:
    assert "not enough non-negative category" in refusal(lambda: torch.multinomial(torch.tensor([1.0, 0.0]), 2))


def test_replaying_leaves_torch_as_it_was() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    law(lambda: torch.rand(2) < 0.5)
    refusal(lambda: torch.rand(2).sum())
    assert torch.equal(torch.rand(3), expected)
