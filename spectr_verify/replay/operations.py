"""What torch's random operations, and its operations on undecided numbers, come to on the tape: tables by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spectr_verify.replay.monotone import GUARD, Undecided, UnfollowedError
from spectr_verify.replay.questions import BELOW_ONE, BELOW_ONE_SINGLE, Number, Questions, combine
from spectr_verify.replay.rounding import check_comparison, check_kept, check_race

if TYPE_CHECKING:
    from spectr_verify.replay.intercept import Replay

LARGEST = {torch.float64: BELOW_ONE, torch.float32: BELOW_ONE_SINGLE}
"""The largest uniform that torch draws, for each number format that is followed as if it were continuous."""

COARSE = "draw in float32 or float64, and compare there: a uniform number of bfloat16 has 256 values, of float16 2048"
"""What is wrong with the other formats."""

# Draws ----------------------------------------------------------------------------------------------------------------


def _rand(replay: Replay, size: Any, *, out: Tensor | None = None, **form: Any) -> Tensor:
    return _uniform_(replay, _new(size, out, form))


def _rand_like(replay: Replay, like: Tensor, **form: Any) -> Tensor:
    return _uniform_(replay, torch.empty_like(like, **_unseeded(form)))


def _uniform_(replay: Replay, tensor: Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> Tensor:
    _check_format(replay, tensor)
    below_one = LARGEST[tensor.dtype]
    return replay.place(tensor, [replay.questions.uniform(below_one, low, high) for _ in range(tensor.numel())])


def _check_format(replay: Replay, tensor: Tensor) -> None:
    if tensor.dtype not in LARGEST:
        replay.refuse(f"random numbers of type {tensor.dtype} are drawn, which are not followed; {COARSE}")


def _exponential_(replay: Replay, tensor: Tensor, rate: float = 1.0, **_: Any) -> Tensor:
    _check_format(replay, tensor)
    return replay.place(tensor, [replay.questions.exponential(rate) for _ in range(tensor.numel())])


def _bernoulli(replay: Replay, tensor: Tensor, p: Any = None, *, out: Tensor | None = None, **_: Any) -> Tensor:
    result = torch.empty_like(tensor) if out is None else out.resize_(tensor.shape)
    return _bernoulli_(replay, result, tensor if p is None else p)


def _bernoulli_(replay: Replay, tensor: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    if isinstance(p, Tensor):
        _note_precision(replay, p)
        probabilities = p.to(torch.float64).expand(tensor.shape).flatten().tolist()
    else:
        probabilities = [float(p)] * tensor.numel()
    if not all(0 <= p <= 1 for p in probabilities):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")  # as torch does
    replay.questions.count(tensor.numel())
    return replay.place(tensor, [float(replay.questions.tape.choose([1 - p, p])) for p in probabilities])


def _multinomial(
    replay: Replay, weights: Tensor, count: int, replacement: bool = False, *, out: Tensor | None = None, **_: Any
) -> Tensor:
    _note_precision(replay, weights)
    rows = weights.to(torch.float64).reshape(-1, weights.shape[-1])
    _check_multinomial(rows, count, replacement)
    drawn = [replay.questions.sample(row, count, replacement=replacement) for row in rows.tolist()]
    result = torch.tensor(drawn, dtype=torch.int64, device=weights.device).reshape(*weights.shape[:-1], count)
    return result if out is None else out.resize_(result.shape).copy_(result)


def _check_multinomial(rows: Tensor, count: int, replacement: bool) -> None:
    """Raise what torch raises."""
    if not bool((torch.isfinite(rows) & (rows >= 0)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if bool((rows.sum(-1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and bool(((rows > 0).sum(-1) < count).any()):
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
        )


def _note_precision(replay: Replay, weights: Tensor) -> None:
    replay.questions.single |= weights.dtype != torch.float64


def _randint(replay: Replay, *args: Any, out: Tensor | None = None, **form: Any) -> Tensor:
    *ends, size = args
    return _random_(replay, _new(size, out, {**form, "dtype": form.get("dtype") or torch.int64}), *ends)


def _randint_like(replay: Replay, like: Tensor, *ends: int, **form: Any) -> Tensor:
    return _random_(replay, torch.empty_like(like, **_unseeded(form)), *ends)


def _random_(replay: Replay, tensor: Tensor, *ends: Any, **_: Any) -> Tensor:
    if not ends or ends[-1] is None:
        replay.refuse("torch's random_ without bounds draws among too many numbers")
    low, high = ends if len(ends) == 2 else (0, ends[0])
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return replay.place(tensor, [float(low + replay.questions.below(high - low)) for _ in range(tensor.numel())])


def _randperm(replay: Replay, n: int, *, out: Tensor | None = None, **form: Any) -> Tensor:
    result = _new([n], out, {**form, "dtype": form.get("dtype") or torch.int64})
    return replay.place(result, [float(i) for i in replay.questions.sample([1.0] * n, n, replacement=False)])


def _new(size: Any, out: Tensor | None, form: dict[str, Any]) -> Tensor:
    return torch.empty(size, **_unseeded(form)) if out is None else out.resize_(size)


def _unseeded(form: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in form.items() if key not in ("generator", "names")}


DRAWS: dict[str, Callable[..., Tensor]] = {
    "rand": _rand,
    "rand_like": _rand_like,
    "uniform_": _uniform_,
    "exponential_": _exponential_,
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_,
    "multinomial": _multinomial,
    "randint": _randint,
    "randint_like": _randint_like,
    "random_": _random_,
    "randperm": _randperm,
}

OVERWRITES = {"rand", "rand_like", "uniform_", "exponential_", "random_", "bernoulli_", "randint_like"}
"""Draws that do not look at what is in the first tensor that they are given."""

# Entry by entry -------------------------------------------------------------------------------------------------------


def entry(ask: Questions, name: str, row: Sequence[Number]) -> Number:
    """One entry of the result of an elementwise operation, some of whose operands are undecided."""
    if name in _COMPARISONS:
        check_comparison(row[0], row[1])
        return float(_COMPARISONS[name](ask, row[0], row[1]))
    if name in _WHOLE or name in _CERTAIN:
        check_kept(row)
    if name in _CERTAIN:
        return _CERTAIN[name]
    if name in _WHOLE:
        return rounded(ask, name, row[0])
    if name == "sign":
        check_comparison(row[0], 0.0)
        return float(ask.less(0.0, row[0])) - float(ask.less(row[0], 0.0))
    if name == "clamp":
        return _clamped(ask, row[0], row[1], row[2])
    if name in ("clamp_min", "maximum"):
        return _clamped(ask, row[0], row[1], inf)
    if name in ("clamp_max", "minimum"):
        return _clamped(ask, row[0], -inf, row[1])
    return combine(name, *row)


def rounded(ask: Questions, name: str, value: Number) -> float:
    """``value``, rounded to a whole number by "floor", "ceil" or "trunc"."""
    if name == "floor":
        return ask.floor(value)
    if name == "ceil":
        return -ask.floor(combine("neg", value) if isinstance(value, Undecided) else -value)
    return ask.floor(value) if ask.less(0.0, value) else rounded(ask, "ceil", value)


def _clamped(ask: Questions, value: Number, low: Number, high: Number) -> Number:
    for bound in (low, high):
        if not isinstance(bound, Undecided) and isnan(bound):
            return bound
    if _cut(value, low) and ask.less(value, low):
        value = low
    if _cut(high, value) and ask.less(high, value):
        value = high
    return value


def _cut(low: Number, high: Number) -> bool:
    """Whether it is worth asking if ``low < high``: bounds that only guard against a zero are passed over."""
    if isinstance(low, Undecided) and not isinstance(high, Undecided):
        return float(low.below(high)) > GUARD
    if isinstance(high, Undecided) and not isinstance(low, Undecided):
        return 1 - float(high.below(low)) > GUARD
    return True


_COMPARISONS: dict[str, Callable[[Questions, Number, Number], bool]] = {
    "lt": lambda ask, a, b: ask.less(a, b),
    "le": lambda ask, a, b: ask.equal(a, b) or ask.less(a, b),
    "gt": lambda ask, a, b: ask.less(b, a),
    "ge": lambda ask, a, b: ask.equal(a, b) or ask.less(b, a),
    "eq": lambda ask, a, b: ask.equal(a, b),
    "ne": lambda ask, a, b: not ask.equal(a, b),
}

_CERTAIN = {"isnan": 0.0, "isinf": 0.0, "isfinite": 1.0}
"""Answers that no undecided number can change."""

_WHOLE = ("floor", "trunc", "ceil")

ELEMENTWISE = {
    *_COMPARISONS,
    *_CERTAIN,
    *_WHOLE,
    *("sign", "clamp", "clamp_min", "clamp_max", "maximum", "minimum"),
    *("neg", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "reciprocal", "sqrt", "rsqrt", "square", "abs"),
    *("nan_to_num", "add", "sub", "rsub", "mul", "div", "pow"),
}

# Along a dimension ----------------------------------------------------------------------------------------------------


def _argmax(replay: Replay, name: str, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _winners(replay, tensor, dim, keepdim, largest=name.endswith("argmax"))


def _winners(replay: Replay, tensor: Tensor, dim: int | None, keepdim: bool, *, largest: bool) -> Tensor:
    if dim is None:
        (row,) = _rows(replay, tensor[(None,) * (tensor.ndim == 0)], tensor.numel())
        winner = _winner(replay.questions, row, largest)
        return torch.tensor(winner).reshape([1] * tensor.ndim if keepdim else [])
    moved = tensor.movedim(dim, -1)
    rows = _rows(replay, moved, moved.shape[-1])
    winners = torch.tensor([_winner(replay.questions, row, largest) for row in rows]).reshape(moved.shape[:-1])
    return winners.unsqueeze(dim) if keepdim else winners


def _winner(ask: Questions, row: list[Number], largest: bool) -> int:
    check_race(row, 1, largest=largest)
    return ask.winner(row, largest=largest)


def _rows(replay: Replay, tensor: Tensor, width: int) -> list[list[Number]]:
    _note_precision(replay, tensor)
    numbers = replay.numbers(tensor)
    return [numbers[i : i + width] for i in range(0, len(numbers), width)]


def _extreme(replay: Replay, name: str, tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """``max`` and ``min``: over a dimension with indices, over everything the value alone."""
    largest = name.endswith("max")
    if dim is None:
        index = _winners(replay, tensor, None, False, largest=largest)
        return replay.move(torch.ops.aten.take.default, "take", (tensor, index), {})
    index = _winners(replay, tensor, dim, True, largest=largest)
    values = replay.move(torch.ops.aten.gather.default, "gather", (tensor, dim, index), {})
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _extreme_value(replay: Replay, name: str, tensor: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """``amax`` and ``amin``."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) > 1 or (keepdim and not dims):
        raise UnfollowedError
    return _extreme(replay, name, tensor, dims[0], keepdim)[0] if dims else _extreme(replay, name, tensor)


def _order(ask: Questions, row: list[Number], count: int, largest: bool) -> list[int]:
    check_race(row, count, largest=largest)
    return ask.order(row, count, largest=largest)


def _topk(
    replay: Replay, name: str, tensor: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    moved = tensor.movedim(dim, -1)
    orders = [_order(replay.questions, row, k, largest) for row in _rows(replay, moved, moved.shape[-1])]
    index = torch.tensor(orders, dtype=torch.int64).reshape(*moved.shape[:-1], k).movedim(-1, dim)
    return replay.move(torch.ops.aten.gather.default, "gather", (tensor, dim, index), {}), index


def _sort(
    replay: Replay, name: str, tensor: Tensor, dim: int = -1, descending: bool = False, *, stable: Any = None
) -> tuple[Tensor, Tensor]:
    return _topk(replay, name, tensor, tensor.shape[dim], dim, descending)


def _argsort(replay: Replay, name: str, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return _sort(replay, name, tensor, *args, **kwargs)[1]


def _searchsorted(
    replay: Replay,
    name: str,
    edges: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if replay.undecided(edges) or sorter is not None or not isinstance(values, Tensor):
        raise UnfollowedError
    _note_precision(replay, edges)
    rows = edges.to(torch.float64).reshape(-1, edges.shape[-1]).tolist()
    numbers = replay.numbers(values)
    each = len(numbers) // len(rows)
    side = side or ("right" if right else "left")
    places = [_place(replay.questions, number, rows[i // each], side) for i, number in enumerate(numbers)]
    return torch.tensor(places, dtype=torch.int32 if out_int32 else torch.int64).reshape(values.shape)


def _place(ask: Questions, number: Number, edges: list[float], side: Any) -> int:
    if isinstance(number, Undecided):
        for edge in edges:
            check_comparison(number, edge)
        return ask.place(number, edges)
    return int(np.searchsorted(edges, number, side=side))


def _bucketize(replay: Replay, name: str, values: Any, edges: Tensor, **options: Any) -> Tensor:
    return _searchsorted(replay, name, edges, values, **options)


ASKS: dict[str, Callable[..., Any]] = {
    "argmax": _argmax,
    "argmin": _argmax,
    "max": _extreme,
    "min": _extreme,
    "amax": _extreme_value,
    "amin": _extreme_value,
    "topk": _topk,
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "bucketize": _bucketize,
}
"""Operations that put questions to the tape. Each is given the replay, the operation's name, and its arguments."""

# Without a look at the entries ----------------------------------------------------------------------------------------

MOVES: dict[str, tuple[int, ...]] = {
    "clone": (0,),
    "copy": (0, 1),
    "_to_copy": (0,),
    "_unsafe_view": (0,),
    "lift_fresh_copy": (0,),
    "cat": (0,),
    "stack": (0,),
    "index": (0,),
    "index_select": (0,),
    "gather": (0,),
    "take": (0,),
    "where": (1, 2),
    "masked_select": (0,),
    "repeat": (0,),
    "flip": (0,),
    "roll": (0,),
    "constant_pad_nd": (0, 2),
    "tril": (0,),
    "triu": (0,),
    "fill": (0, 1),
    "zero": (0,),
    "masked_fill": (0, 2),
    "masked_scatter": (0, 2),
    "index_put": (0, 2),
    "index_fill": (0, 3),
    "index_copy": (0, 3),
    "scatter": (0, 3),
    "select_scatter": (0, 1),
    "slice_scatter": (0, 1),
}
"""Operations that only move entries, and which of their arguments hold entries."""

SHAPE_ONLY = {
    *("empty_like", "zeros_like", "ones_like", "full_like"),
    *("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"),
    *("squeeze_", "unsqueeze_", "t_", "transpose_", "detach_"),
}
"""Operations that look at shapes and formats alone, or change nothing else."""
