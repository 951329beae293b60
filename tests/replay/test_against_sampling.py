"""The enumerated laws of many operations, compared with what torch, numpy and Python really draw."""

# ruff: noqa: NPY002 - people use numpy.random

from __future__ import annotations

import bisect
import copy
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from replayed import law, plain
from scipy.stats import chi2
from torch import Tensor, distributions
from torch.nn import functional

F64 = torch.float64
Q = torch.tensor([0.2, 0.3, 0.5], dtype=F64)
SAMPLES = 2_000

FALSE_ALARM = 1e-7
"""How likely a right law would fail; the seeds are fixed, so that it fails always or never."""


def uniforms(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=F64)


def exponentials(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=F64).exponential_()


def gumbels(*shape: int) -> Tensor:
    return -(-torch.rand(*shape).log()).log()


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=F64)


# Memory that is shared, written over and copied -----------------------------------------------------------------------


def strided_view() -> Tensor:
    u = uniforms(4)
    u.as_strided((2, 2), (1, 2))[0, 1] = 0.1
    return u < 0.5


def overlapping_write() -> Tensor:
    u = uniforms(2)
    u[0] = u[1]
    return torch.stack([u[0] < 0.3, u[1] < 0.3])


def shared_data() -> Tensor:
    u, w = uniforms(2), zeros(2)
    w.data = u
    w[0] = 0.9
    return torch.stack([u[0] < 0.5, w[1] < 0.5, u[1] < 0.5])


def zeroed_chunk() -> Tensor:
    a, b = uniforms(4).chunk(2)
    a.zero_()
    return torch.stack([a < 0.3, b < 0.3])


def deep_copy() -> Tensor:
    u = uniforms(2)
    w = copy.deepcopy(u)
    w[0] = 0.9
    return torch.stack([u < 0.4, w < 0.6])


def python_number_into_a_tensor(write: Callable[[Tensor, Any], Any]) -> Callable[[], Tensor]:
    def code() -> Tensor:
        tensor = zeros(2)
        write(tensor, random.random())
        return tensor < 0.3

    return code


def masked_write() -> Tensor:
    u = uniforms(2)
    u[u < 0.5] = 2.0
    return u < 1


def scatter_in_rows() -> Tensor:
    x = torch.zeros(2, 3)
    x.scatter_(1, torch.tensor([[0], [1]]), torch.rand(2, 1))
    return x < 0.3


def index_put() -> Tensor:
    t = zeros(3)
    t[torch.tensor([0, 2])] = uniforms(2)
    return t < 0.3


def into_single() -> Tensor:
    return torch.zeros(2).copy_(uniforms(2)) < 0.3


def product_into_out() -> Tensor:
    return torch.mul(uniforms(3), 2, out=torch.empty(3, dtype=F64)) < 0.3


def written_over_by_out() -> Tensor:
    o = uniforms(3)
    torch.mul(torch.ones(3, dtype=F64), 0.1, out=o)
    return o < 0.3


def array_view_in_place() -> Any:
    a = np.random.rand(3)
    b = a[:2]
    b *= 0.1
    return a < 0.3


def array_part(part: Callable[[Any], Any]) -> Callable[[], Any]:
    """A write to a part of an array, or to a copy of it, seen in the array."""

    def code() -> Any:
        a = np.random.rand(2, 2)
        part(a)[0] = 0.9
        return [a[0, 0] < 0.3, a[0, 1] < 0.6]

    return code


def array_in_torch(to_torch: Callable[[Any], Tensor]) -> Callable[[], Any]:
    def code() -> Any:
        a = np.random.rand(2)
        to_torch(a)[0] = 0.9
        return [a[0] < 0.3, a[1] < 0.3]

    return code


# Questions that depend on earlier ones --------------------------------------------------------------------------------


def race_of_halved() -> Tensor:
    u = uniforms(3)
    above = u < torch.tensor([0.5, 0.6, 0.7])
    return torch.cat([above.long(), u.argmax()[None]])


def asked_before_a_race() -> list[int]:
    e = exponentials(2)
    return [int(e[0] < 1), int(e.argmin())]


def race_and_its_pair() -> list[int]:
    u = uniforms(2)
    return [int(u.argmax()), int(u.argmin()), int(u[0] > u[1])]


def number_by_item() -> list[bool]:
    u = uniforms(1).item()
    return [bool(u < 0.3), bool(u * 2 < 1), bool(1 - u < 0.5)]


def itself() -> Tensor:
    u = uniforms(1)
    return torch.stack([u <= u, u < u, u * 2 <= u * 2, u == u.clone()])


def chained() -> bool:
    u = random.random()
    return bool(0.2 < u < 0.5)


def where_of_both() -> Tensor:
    u = uniforms(2)
    return torch.where(u < 0.5, u, 1 - u) < 0.25


def numpy_where_of_both() -> Any:
    u = np.random.rand(2)
    return np.where(u < 0.5, u, 1 - u) < 0.2


def changed_clone() -> Tensor:
    u = uniforms(2)
    return torch.stack([u.clone().mul_(2) < 1, u < 0.25])


def shuffled() -> list[int]:
    entries = [0, 1, 2]
    random.shuffle(entries)
    return entries


CODE: dict[str, Callable[[], Any]] = {
    # memory
    "a view by strides": strided_view,
    "a write among numbers": overlapping_write,
    "data": shared_data,
    "a chunk": zeroed_chunk,
    "deepcopy": deep_copy,
    "a Python number filled in": python_number_into_a_tensor(lambda t, x: t.fill_(x)),
    "a Python number written": python_number_into_a_tensor(lambda t, x: t.__setitem__(0, x)),
    "a masked write": masked_write,
    "scatter": scatter_in_rows,
    "scatter of a number": lambda: zeros(3).scatter_(0, torch.tensor([1]), uniforms(1)) < 0.3,
    "index_put": index_put,
    "copy_ into float32": into_single,
    "out": product_into_out,
    "out over it": written_over_by_out,
    "rand with out": lambda: torch.rand(3, out=torch.empty(3, dtype=F64)) < 0.3,
    "an array's view": array_view_in_place,
    "an array's row": array_part(lambda a: a[0]),
    "an array's ravel": array_part(lambda a: a.ravel()),
    "an array's flatten": array_part(lambda a: a.flatten()),
    "an array's reshape": array_part(lambda a: a.reshape(4)),
    "an array's copy": array_part(lambda a: a.copy()[0]),
    "an array's T": array_part(lambda a: a.T[0]),
    "as_tensor of an array": array_in_torch(torch.as_tensor),
    "from_numpy": array_in_torch(lambda a: torch.from_numpy(a)),
    "tensor of an array": array_in_torch(torch.tensor),
    # shapes
    "expand": lambda: uniforms(1).expand(3).clone() < torch.tensor([0.2, 0.5, 0.9]),
    "flip": lambda: uniforms(3).flip(0)[:1] < 0.3,
    "stack": lambda: torch.stack([uniforms(1), torch.full((1,), 0.1, dtype=F64)]).max(0).indices,
    "cat": lambda: torch.cat([uniforms(1), torch.full((2,), 0.1, dtype=F64)]) < 0.3,
    "repeat_interleave": lambda: uniforms(1).repeat_interleave(2) < 0.3,
    "gather": lambda: uniforms(3).gather(0, torch.tensor([1, 1])) < 0.3,
    "tril": lambda: uniforms(2, 2).tril() < 0.3,
    "pad": lambda: functional.pad(torch.rand(2), (1, 1), value=0.1) < 0.3,
    "split": lambda: torch.split(torch.rand(4), [1, 3])[1] < 0.3,
    "how many are selected": lambda: (u := uniforms(3))[u < 0.5].shape[0],
    "nonzero": lambda: len((uniforms(3) > 0.5).nonzero()),
    "vmap": lambda: torch.vmap(lambda x: x < 0.3)(uniforms(3)),
    "einsum": lambda: torch.einsum("i,j->ij", uniforms(2), torch.tensor([1.0, 2.0], dtype=F64)) < 0.5,
    "transpose of three axes": lambda: (np.arange(3).reshape(3, 1, 1) / 3 > np.random.rand(2, 1, 3).T).sum(),
    # functions of one number
    "where": where_of_both,
    "numpy's where": numpy_where_of_both,
    "a changed clone": changed_clone,
    "clamp": lambda: uniforms(1).clamp(0.2, 0.6) <= 0.2,
    "clamp, equal": lambda: uniforms(1).clamp(0.2, 0.6) == 0.2,
    "clamp_min": lambda: -(torch.rand(2).clamp_min(1e-10).log()) < 0.5,
    "floor": lambda: (uniforms(2) * 3).floor().long(),
    "narrower": lambda: uniforms(2).float() < 0.3,
    "guarded log": lambda: (uniforms(2) + 1e-20).log() < torch.tensor([-1.0, -2.0], dtype=F64),
    "maximum": lambda: torch.maximum(uniforms(1), torch.tensor(0.4, dtype=F64)) < 0.5,
    "bucketize": lambda: torch.bucketize(uniforms(2), torch.tensor([0.2, 0.6], dtype=F64)),
    "nan": lambda: torch.rand(2) < torch.tensor([math.nan, 0.7]),
    "infinite factors": lambda: torch.rand(2) * torch.tensor([0.0, math.inf]) < 0.3,
    "a zero divided": lambda: torch.tensor([0.1, 0.0]) / torch.rand(2) < 0.3,
    "zero divisors": lambda: torch.rand(2) / torch.tensor([0.0, 0.5]) < 0.3,
    "nan_to_num": lambda: torch.nan_to_num(uniforms(2) / torch.tensor([0.0, 1.0]), posinf=0.1) < 0.3,
    "a range": lambda: torch.zeros(2).uniform_(1, 2) < 1.3,
    "equal and not": lambda: torch.stack([torch.rand(1) == 0, torch.rand(1) >= 0, torch.rand(1) != 0.5]),
    "itself": itself,
    "item": number_by_item,
    "a chained comparison": chained,
    "power": lambda: [bool(random.random() ** 2 < 0.25), bool(2 ** random.random() < 1.5)],
    "abs": lambda: bool(abs(random.random() - 2) < 1.3),
    "whole numbers of it": lambda: [f(random.random() * 3) for f in (int, math.trunc, math.ceil, math.floor)],
    "min and sorted": lambda: [bool(min(random.random(), 0.4) < 0.3), bool(sorted([random.random(), 0.5])[0] < 0.3)],
    "bisect": lambda: bisect.bisect([0.2, 0.5, 0.9], random.random()),
    # races
    "two compared": lambda: torch.lt(*uniforms(2)),
    "exponential times": lambda: torch.empty(3).exponential_(2.0).argmin(),
    "the last of exponential times": lambda: exponentials(3).argmax(),
    "of two kinds": lambda: torch.cat([exponentials(2), uniforms(1)]).argmin(),
    "of factors": lambda: (torch.rand(3) * torch.tensor([1.0, 2.0, 3.0])).argmax(),
    "of shifts": lambda: (torch.rand(3) + torch.tensor([0.0, 0.1, 0.2])).argmin(),
    "with a constant": lambda: torch.cat([torch.rand(2), torch.tensor([0.5])]).argmax(),
    "asked before": race_of_halved,
    "asked before, exponential": asked_before_a_race,
    "argmax and argmin of two": race_and_its_pair,
    "of one number": lambda: torch.tensor([1.0, 1.0]).mul(torch.rand(1)).argmax(),
    "of decided numbers": lambda: torch.where(torch.rand(2) < 0.5, 1.0, 0.0).argmax(),
    "gumbel with an impossible one": lambda: (torch.tensor([0.0, -math.inf, 1.0]) + gumbels(3)).argmax(),
    "gumbel, cooler": lambda: (torch.tensor([0.0, 0.5, 1.0]) + gumbels(3) * 0.7).argmax(),
    "rows": lambda: uniforms(2, 3).argmax(1, keepdim=True),
    "smallest of columns": lambda: torch.rand(2, 2).min(1).indices,
    "topk": lambda: (Q / exponentials(3)).topk(2).indices,
    "sort": lambda: (Q / exponentials(3)).sort(descending=True).indices,
    "powers": lambda: (torch.rand(3) ** (1 / Q.float())).argmax(),
    "numpy's factors": lambda: int(np.argmax(np.random.rand(3) * np.array([1, 2, 3]))),
    "numpy's gumbel": lambda: int((np.log(Q.numpy()) + np.random.gumbel(size=3)).argmax()),
    "numpy's rows": lambda: np.random.rand(2, 3).argmax(axis=1),
    # draws
    "bernoulli": lambda: torch.bernoulli(Q),
    "bernoulli_": lambda: torch.zeros(2).bernoulli_(0.3),
    "dropout": lambda: functional.dropout(torch.ones(3), 0.5),
    "multinomial": lambda: torch.multinomial(torch.tensor([[0.0, 1, 2], [1, 0, 1]]), 2),
    "multinomial with replacement": lambda: torch.multinomial(torch.tensor([1.0, 2]), 3, replacement=True),
    "randint": lambda: torch.randint(0, 3, (2,)),
    "randperm": lambda: torch.randperm(3),
    "Uniform": lambda: distributions.Uniform(0.0, 2.0).sample((2,)) < 0.5,
    "Gumbel": lambda: distributions.Gumbel(torch.tensor([0.0, 1.0]), torch.ones(2)).sample().argmax(),
    "Categorical": lambda: distributions.Categorical(Q).sample((2,)),
    "Exponential": lambda: distributions.Exponential(torch.tensor([1.0, 2.0])).sample().argmin(),
    "Bernoulli": lambda: distributions.Bernoulli(torch.tensor([0.2, 0.4])).sample(),
    "rand": lambda: np.array([0.2, 0.7, 1.0]) < np.random.rand(),
    "float32 of numpy": lambda: np.random.rand(2).astype(np.float32) < 0.3,
    "searchsorted": lambda: int(np.searchsorted(np.cumsum(Q.numpy()), np.random.rand())),
    "numpy's choice": lambda: np.random.choice(3, p=Q.numpy()),
    "numpy's choice of two": lambda: np.random.choice(3, 2, replace=False, p=Q.numpy()),
    "numpy's multinomial": lambda: np.random.multinomial(2, Q.numpy()),
    "numpy's permutation": lambda: np.random.permutation(3),
    "an array's numbers": lambda: [bool(x < y) for x, y in zip(np.random.rand(2), [0.2, 0.3], strict=True)],
    "choices": lambda: random.choices([0, 1, 2], weights=[1, 2, 3], k=2),
    "sample": lambda: random.sample(range(4), 2),
    "shuffle": shuffled,
    "randint of Python": lambda: random.randint(1, 3),
    "uniform": lambda: bool(random.uniform(1, 3) < 2.5),
    "expovariate": lambda: bool(random.expovariate(2) < 0.5),
}


def g_statistic(law: dict[Any, float], counts: Counter[Any]) -> float:
    """``2 sum O log(O / E)``; infinite where something came that the law says never comes."""
    total = counts.total()
    if any(law.get(outcome, 0.0) <= 0 for outcome in counts):
        return math.inf
    return 2 * sum(count * math.log(count / (total * law[outcome])) for outcome, count in counts.items())


@pytest.mark.parametrize("code", CODE.values(), ids=CODE)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_the_law_is_that_of_samples(code: Callable[[], Any]) -> None:
    found = law(lambda: code())
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    counts = Counter(plain(code()) for _ in range(SAMPLES))
    assert g_statistic(found, counts) <= chi2.isf(FALSE_ALARM, max(len(found) - 1, 1))


def test_a_wrong_law_is_noticed() -> None:
    torch.manual_seed(1)
    counts = Counter(bool(torch.rand(()) < 0.3) for _ in range(SAMPLES))
    limit = chi2.isf(FALSE_ALARM, 1)
    assert g_statistic({True: 0.3, False: 0.7}, counts) < limit < g_statistic({True: 0.37, False: 0.63}, counts)
    assert g_statistic({False: 1.0}, counts) == math.inf
