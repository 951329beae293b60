"""Torch under replay: every random call is answered from the tape, and undecided numbers are followed.

A random number that was drawn and not yet asked about lies in its tensor as NaN; beside the tensor's storage a shadow
holds, entry by entry, which number it is. Views share the shadow as they share the storage, copies copy it, arithmetic
makes new numbers of it, comparisons and argmax put questions to the tape. Whatever else is done to such an entry is
refused: NaN never reaches the code under test.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from spectr_verify.replay.monotone import GUARD, Undecided, Unfollowed
from spectr_verify.replay.questions import Number, Questions, Reused, combine
from spectr_verify.replay.tape import ReplayError

DECIDED = -1
"""The shadow of an entry that is an ordinary number."""

BELOW_ONE = {torch.float64: 1 - 2.0**-53, torch.float32: 1 - 2.0**-24, torch.bfloat16: 1 - 2.0**-8, torch.float16: 1 - 2.0**-11}
"""The largest uniform that torch draws, for each number format."""

MONTE_CARLO = "A Monte Carlo test can judge this code where an exact law cannot"


class Replay(TorchDispatchMode):
    """Answers torch's random operations from a tape while it is entered.

    Attributes:
        questions: answers what is asked of undecided numbers.
        single: whether a number less precise than float64 took part in a decision.
    """

    def __init__(self, questions: Questions) -> None:
        """Answer through ``questions``."""
        super().__init__()
        self.questions = questions
        self.single = False
        self._numbers: list[Undecided] = []
        self._shadows: dict[int, tuple[Any, Tensor]] = {}
        self._functions = _Functions(self)

    def __enter__(self) -> Replay:
        super().__enter__()
        self._functions.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._functions.__exit__(*error)
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every operation below autograd."""
        with torch._C.DisableTorchFunction():  # what is done here is not the code under test's doing
            return self._dispatch(func, args, dict(kwargs or {}))

    def _dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.removeprefix("aten::")
        draw = _DRAWS.get(name)
        if draw is None and torch.Tag.nondeterministic_seeded in func.tags:
            self._refuse(f"torch's {name} draws random numbers of a kind that is not followed")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        touched = any(self.undecided(tensor) for tensor in tensors)
        if draw is not None:
            if touched and name not in _OVERWRITES:
                self._refuse(f"torch's {name} takes its law from random numbers that are still undecided")
            return draw(self, *args, **kwargs)
        if not touched:
            return self._plainly(func, args, kwargs)
        if func.is_view:
            return func(*args, **kwargs)
        if func._can_decompose() and name not in _KNOWN:  # in inference mode torch leaves that to us
            with self:
                return func.decompose(*args, **kwargs)
        try:
            return self._follow(func, name, args, kwargs)
        except Reused:
            self._refuse(
                f"{_called(name)} asks again about random numbers that already decided a race (an argmax or a "
                "comparison among them); their joint law is not followed"
            )
        except Unfollowed:
            self._refuse(
                f"{_called(name)} is done to random numbers that are still undecided; what is followed are comparisons, "
                "monotone functions of one uniform, searchsorted, and argmax, topk and sort of races"
            )

    def _plainly(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation on ordinary numbers. It may still write over undecided ones that share the storage."""
        result = func(*args, **kwargs)
        if func._schema.name == "aten::_to_copy" and _less_precise(args[0], result):
            self.single = True
        return result

    # Shadows ---------------------------------------------------------------------------------------------------------

    def shadow(self, tensor: Tensor) -> Tensor | None:
        """The shadow of a tensor, int64 of its shape; ``None`` where its storage has none."""
        if not self._shadows or tensor.layout != torch.strided:
            return None
        found = self._shadows.get(tensor.untyped_storage()._cdata)
        if found is None:
            return None
        return found[1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def undecided(self, tensor: Tensor) -> bool:
        """Whether any entry is undecided."""
        shadow = self.shadow(tensor)
        return shadow is not None and bool((shadow >= 0).any())

    def mark(self, tensor: Tensor, handles: Tensor) -> Tensor:
        """Give a tensor these handles; the entries that they make undecided become NaN."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._shadows:
            if not bool((handles >= 0).any()):
                return tensor
            entries = storage.nbytes() // tensor.element_size()
            # The storage is kept too: its address must not be given to another one in this run.
            self._shadows[storage._cdata] = (storage, torch.full((entries,), DECIDED, dtype=torch.int64))
        shadow = self.shadow(tensor)
        assert shadow is not None
        shadow.copy_(handles)
        if bool((handles >= 0).any()):
            tensor.masked_fill_((handles >= 0).to(tensor.device), float("nan"))
        return tensor

    def place(self, tensor: Tensor, numbers: Sequence[Number]) -> Tensor:
        """Fill a tensor with numbers, in the order of its entries."""
        values = torch.tensor([0.0 if isinstance(n, Undecided) else float(n) for n in numbers], dtype=torch.float64)
        tensor.copy_(values.reshape(tensor.shape))
        return self.mark(tensor, torch.tensor([self._handle(n) for n in numbers], dtype=torch.int64).reshape(tensor.shape))

    def _handle(self, number: Number) -> int:
        if not isinstance(number, Undecided):
            return DECIDED
        self._numbers.append(number)
        return len(self._numbers) - 1

    def numbers(self, tensor: Tensor) -> list[Number]:
        """The entries of a tensor, in order."""
        values = tensor.detach().to(torch.float64).flatten().tolist()
        shadow = self.shadow(tensor)
        if shadow is None:
            return values
        return [self._numbers[h] if h >= 0 else v for v, h in zip(values, shadow.flatten().tolist(), strict=True)]

    def handles(self, tensor: Tensor) -> Tensor:
        """The shadow of a tensor, made up of ``DECIDED`` where it has none."""
        shadow = self.shadow(tensor)
        return torch.full(tensor.shape, DECIDED, dtype=torch.int64) if shadow is None else shadow

    # Operations on undecided entries ----------------------------------------------------------------------------------

    def _follow(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if name.endswith("_") and not name.startswith("_") and name not in _IN_PLACE_MOVES:
            out, func, name = args[0], getattr(getattr(torch.ops.aten, name[:-1]), func._overloadname), name[:-1]
        if name in _MOVES or name in _IN_PLACE_MOVES:
            result = self._move(func, name, args, kwargs)
        elif name in _ASKS:
            result = _ASKS[name](self, func, *args, **kwargs)
        elif func._schema.name.startswith("aten::"):
            result = self._elementwise(func, name, args, kwargs)
        else:
            raise Unfollowed
        if out is None:
            return result
        if not isinstance(out, Tensor) or not isinstance(result, Tensor):
            raise Unfollowed
        handles = self.handles(result).clone()
        out.copy_(result)
        return self.mark(out, handles)

    def _elementwise(self, func: Any, name: str, args: Any, kwargs: Any) -> Tensor:
        """Arithmetic and comparisons, entry by entry; the operation itself tells shape, format and decided entries."""
        if name not in _ELEMENTWISE:
            raise Unfollowed
        if kwargs.get("alpha", 1) != 1 or kwargs.get("rounding_mode") is not None:
            raise Unfollowed
        operands = args[:1] if name in ("nan_to_num", "isnan", "isinf", "isfinite", "clamp") else args[:2]
        if len(args) > len(operands) and name not in ("nan_to_num", "clamp"):
            raise Unfollowed
        result: Tensor = func(*args, **kwargs)
        columns = [self._column(operand, result.shape) for operand in operands]
        bounds = [self._column(bound, result.shape) for bound in _clamp_bounds(args, kwargs)] if name == "clamp" else []
        found = [
            row[0] if not any(isinstance(x, Undecided) for x in row) and name != "clamp" else self._entry(name, row)
            for row in zip(*columns, *bounds, strict=True)
        ]
        decided = [not any(isinstance(x, Undecided) for x in row) for row in zip(*columns, *bounds, strict=True)]
        kept = self.numbers(result) if result.dtype != torch.bool else result.flatten().tolist()
        return self.place(result, [k if d else f for k, d, f in zip(kept, decided, found, strict=True)])

    def _column(self, operand: Any, shape: torch.Size) -> list[Number]:
        if not isinstance(operand, Tensor):
            return [operand if operand is None else float(operand)] * shape.numel()
        if operand.is_floating_point() and operand.dtype != torch.float64 and operand.ndim and not self.undecided(operand):
            self.single = True
        spread = operand.expand(shape)
        shadow = self.shadow(operand)
        values = spread.detach().to(torch.float64).flatten().tolist()
        if shadow is None:
            return list(values)
        handles = shadow.expand(shape).flatten().tolist()
        return [self._numbers[h] if h >= 0 else v for v, h in zip(values, handles, strict=True)]

    def _entry(self, name: str, row: Sequence[Number]) -> Number:
        ask = self.questions
        if name in _COMPARISONS:
            return float(_COMPARISONS[name](ask, row[0], row[1]))
        if name in ("isnan", "isinf"):
            return 0.0
        if name == "isfinite":
            return 1.0
        if name in ("floor", "trunc", "ceil"):
            return _rounded(ask, name, row[0])
        if name == "sign":
            return float(ask.less(0.0, row[0])) - float(ask.less(row[0], 0.0))
        if name in ("clamp", "clamp_min", "clamp_max", "maximum", "minimum"):
            return _clamped(ask, name, row)
        return combine(name, *row)

    def _move(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Copies, gathers, joins: done to the shadows as they are done to the entries."""
        data = {**dict.fromkeys(_MOVES.get(name, ())), **dict.fromkeys(_IN_PLACE_MOVES.get(name, ()))}
        moved = [self._shadowed(arg, i in data, name) for i, arg in enumerate(args)]
        options = {key: value for key, value in kwargs.items() if key not in ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format", "copy")}
        if name == "_to_copy":
            target = kwargs.get("dtype") or args[0].dtype
            if not target.is_floating_point:
                return self._to_integers(func, args, kwargs)
            return self.mark(func(*args, **kwargs), self.handles(args[0]).clone())
        if name == "copy_":
            handles = self.handles(args[1]).expand(args[0].shape).clone()
            return self.mark(func(*args, **kwargs), handles)
        if name in _IN_PLACE_MOVES:
            written = self.handles(args[0]).clone()
            func(written, *moved[1:], **options)
            return self.mark(func(*args, **kwargs), written)
        handles = func(*moved, **options)
        return self.mark(func(*args, **kwargs), handles)

    def _shadowed(self, argument: Any, is_data: bool, name: str) -> Any:
        if not is_data:
            if isinstance(argument, Tensor) and self.undecided(argument):
                raise Unfollowed
            return argument
        if isinstance(argument, list | tuple):
            return [self.handles(tensor) for tensor in argument]
        return self.handles(argument) if isinstance(argument, Tensor) else DECIDED

    def _to_integers(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        numbers = [_rounded(self.questions, "trunc", number) for number in self.numbers(args[0])]
        if kwargs["dtype"] == torch.bool:
            raise Unfollowed
        decided = torch.zeros(args[0].shape, dtype=torch.float64)
        result: Tensor = func(self.place(decided, numbers), **kwargs)
        return result

    def _refuse(self, what: str) -> NoReturn:
        self.questions.tape.refuse(f"{what}{where()}. {MONTE_CARLO}")
        raise AssertionError  # refuse raises


class _Functions(TorchFunctionMode):
    """Stops undecided numbers from leaving torch: as Python numbers, as numpy arrays, as memory."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every function of its Python interface."""
        name = getattr(func, "__name__", "")
        tensor = args[0] if args else None
        if name in _LEAVES and isinstance(tensor, Tensor) and self.replay.undecided(tensor):
            if name == "item":
                return tensor.reshape(()).clone()  # a number that is still undecided, and behaves like one
            if name == "tolist":
                return _nested(tensor)
            if name in ("__repr__", "__str__", "__format__"):
                return "undecided"
            self.replay._refuse(f"{_LEAVES[name]} of random numbers that are still undecided is asked for")
        return func(*args, **(kwargs or {}))


_LEAVES = {
    "item": "",
    "tolist": "",
    "__repr__": "",
    "__str__": "",
    "__format__": "",
    "__bool__": "the truth",
    "is_nonzero": "the truth",
    "__float__": "the value (float(), or a function of Python's math)",
    "__int__": "the value (int())",
    "__index__": "the value (as an index)",
    "__complex__": "the value (complex())",
    "numpy": "a numpy copy",
    "__array__": "a numpy copy",
    "__array_wrap__": "a numpy copy",
    "data_ptr": "the memory",
    "__dlpack__": "the memory",
    "untyped_storage": "the memory",
    "storage": "the memory",
}


def _nested(tensor: Tensor) -> Any:
    return tensor.clone() if tensor.ndim == 0 else [_nested(part) for part in tensor]


def _less_precise(before: Tensor, after: Tensor) -> bool:
    return before.dtype == torch.float64 and after.is_floating_point() and after.dtype != torch.float64


def where() -> str:
    """The line of the code under test that is being run: ", at file.py:12: `the line`"."""
    frame = sys._getframe(1)
    inside = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(inside) and not file.startswith("<"):
            line = linecache.getline(file, frame.f_lineno).strip()
            return f", at {file}:{frame.f_lineno}: `{line}`"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _called(name: str) -> str:
    return f"torch's {name.removeprefix('_')}"


# Draws ----------------------------------------------------------------------------------------------------------------


def _uniforms(replay: Replay, result: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    count = result.numel()
    replay.questions.count(0)
    below_one = BELOW_ONE.get(result.dtype, BELOW_ONE[torch.float64])
    numbers: list[Number] = []
    for _ in range(count):
        number = replay.questions.uniform(below_one)
        if (low, high) != (0.0, 1.0):
            number = low + (high - low) * number if not isinstance(number, Undecided) else _stretched(number, low, high)
        numbers.append(number)
    return replay.place(result, numbers)


def _stretched(number: Undecided, low: float, high: float) -> Number:
    return combine("add", combine("mul", number, high - low), low)


def _rand(replay: Replay, size: Any, *, generator: Any = None, names: Any = None, out: Tensor | None = None, **form: Any) -> Tensor:
    return _uniforms(replay, torch.empty(size, **form) if out is None else out.resize_(size))


def _rand_like(replay: Replay, like: Tensor, **form: Any) -> Tensor:
    form.pop("generator", None)
    return _uniforms(replay, torch.empty_like(like, **form))


def _uniform_(replay: Replay, tensor: Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> Tensor:
    return _uniforms(replay, tensor, low, high)


def _exponential_(replay: Replay, tensor: Tensor, rate: float = 1.0, **_: Any) -> Tensor:
    return replay.place(tensor, [replay.questions.exponential(rate) for _ in range(tensor.numel())])


def _bernoulli(replay: Replay, tensor: Tensor, p: Any = None, *, out: Tensor | None = None, **_: Any) -> Tensor:
    return _coins(replay, torch.empty_like(tensor) if out is None else out, tensor if p is None else p)


def _bernoulli_(replay: Replay, tensor: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    return _coins(replay, tensor, p)


def _coins(replay: Replay, result: Tensor, probability: Any) -> Tensor:
    replay.questions.count(result.numel())
    if isinstance(probability, Tensor):
        _note_precision(replay, probability)
        probabilities = probability.to(torch.float64).expand(result.shape).flatten().tolist()
    else:
        probabilities = [float(probability)] * result.numel()
    if not all(0 <= p <= 1 for p in probabilities):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")  # as torch does
    return replay.place(result, [float(replay.questions.tape.choose([1 - p, p])) for p in probabilities])


def _multinomial(
    replay: Replay, weights: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Tensor | None = None
) -> Tensor:
    _note_precision(replay, weights)
    rows = weights.to(torch.float64).reshape(-1, weights.shape[-1])
    replay.questions.count(len(rows) * num_samples)
    if not bool((torch.isfinite(rows) & (rows >= 0)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")  # as torch does
    if bool((rows.sum(-1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and bool(((rows > 0).sum(-1) < num_samples).any()):
        raise RuntimeError("invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)")
    drawn = [_sample(replay.questions, row, num_samples, replacement) for row in rows.tolist()]
    result = torch.tensor(drawn, dtype=torch.int64, device=weights.device).reshape(*weights.shape[:-1], num_samples)
    return result if out is None else out.resize_(result.shape).copy_(result)


def _sample(ask: Questions, weights: list[float], count: int, replacement: bool) -> list[int]:
    left, drawn = list(weights), []
    for _ in range(count):
        drawn.append(ask.category(left))
        if not replacement:
            left[drawn[-1]] = 0.0
    return drawn


def _note_precision(replay: Replay, weights: Tensor) -> None:
    if weights.dtype != torch.float64:
        replay.single = True


def _randint(replay: Replay, *args: Any, **form: Any) -> Tensor:
    form.pop("generator", None)
    *ends, size = args
    low, high = (0, ends[0]) if len(ends) == 1 else ends
    form["dtype"] = form.get("dtype") or torch.int64
    return _integers(replay, torch.empty(size, **form), low, high)


def _randint_like(replay: Replay, like: Tensor, *ends: int, **form: Any) -> Tensor:
    low, high = (0, ends[0]) if len(ends) == 1 else ends
    return _integers(replay, torch.empty_like(like, **form), low, high)


def _random_(replay: Replay, tensor: Tensor, *ends: Any, **_: Any) -> Tensor:
    low, high = (0, ends[0]) if len(ends) == 1 else ends if len(ends) == 2 else (0, None)
    if high is None:
        replay._refuse("torch's random_ without bounds draws among too many numbers")
    return _integers(replay, tensor, low, high)


def _integers(replay: Replay, result: Tensor, low: int, high: int) -> Tensor:
    replay.questions.count(result.numel())
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    drawn = [low + replay.questions.category([1.0] * (high - low)) for _ in range(result.numel())]
    return result.copy_(torch.tensor(drawn).reshape(result.shape))


def _randperm(replay: Replay, n: int, *, generator: Any = None, **form: Any) -> Tensor:
    form["dtype"] = form.get("dtype") or torch.int64
    order = _sample(replay.questions, [1.0] * n, n, replacement=False)
    return torch.tensor(order, **form)


_DRAWS: dict[str, Callable[..., Tensor]] = {
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

_OVERWRITES = ("rand", "rand_like", "uniform_", "exponential_", "bernoulli_", "randint_like", "random_", "randint")
"""Draws that do not look at what is in the tensors that they are given."""


# Questions ------------------------------------------------------------------------------------------------------------


def _rounded(ask: Questions, name: str, value: Number) -> float:
    if name == "floor":
        return ask.floor(value)
    if name == "ceil":
        return -ask.floor(combine("neg", value) if isinstance(value, Undecided) else -value)
    if not isinstance(value, Undecided):
        return float(int(value))
    low, high = value.range()
    if low < 0 < high:
        raise Unfollowed
    return ask.floor(value) if low >= 0 else _rounded(ask, "ceil", value)


def _clamp_bounds(args: Any, kwargs: Any) -> list[Any]:
    lower = args[1] if len(args) > 1 else kwargs.get("min")
    upper = args[2] if len(args) > 2 else kwargs.get("max")
    return [lower, upper]


def _clamped(ask: Questions, name: str, row: Sequence[Any]) -> Number:
    value, *bounds = row
    lower, upper = {"clamp_min": (bounds[0], None), "clamp_max": (None, bounds[0]), "maximum": (bounds[0], None), "minimum": (None, bounds[0])}.get(
        name, (bounds[0], bounds[-1])
    )
    if lower is not None and _cut(value, lower) and ask.less(value, lower):
        value = lower
    if upper is not None and _cut(upper, value) and ask.less(upper, value):
        value = upper
    number: Number = value
    return number


def _cut(low: Number, high: Number) -> bool:
    """Whether it is worth asking if ``low < high``: bounds that only guard against a zero are passed over."""
    if isinstance(low, Undecided) and not isinstance(high, Undecided):
        return float(low.below(high)) > GUARD
    if isinstance(high, Undecided) and not isinstance(low, Undecided):
        return 1 - float(high.below(low)) > GUARD
    return True


def _argmax(replay: Replay, func: Any, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    largest = func._schema.name.endswith("argmax")
    if dim is None:
        winner = replay.questions.winner(_ranked(replay, tensor), largest=largest)
        return torch.tensor(winner).reshape([1] * tensor.ndim if keepdim else [])
    moved = tensor.movedim(dim, -1)
    rows = _rows(replay, moved)
    winners = torch.tensor([replay.questions.winner(row, largest=largest) for row in rows]).reshape(moved.shape[:-1])
    return winners.unsqueeze(dim) if keepdim else winners


def _ranked(replay: Replay, tensor: Tensor) -> list[Number]:
    if tensor.dtype != torch.float64:
        replay.single = True
    return replay.numbers(tensor)


def _rows(replay: Replay, tensor: Tensor) -> list[list[Number]]:
    width = tensor.shape[-1]
    numbers = _ranked(replay, tensor)
    return [numbers[i : i + width] for i in range(0, len(numbers), width)]


def _extreme(replay: Replay, func: Any, tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """``max`` and ``min``: over a dimension with indices, over everything the value alone."""
    largest = func._schema.name.endswith("max")
    which = torch.ops.aten.argmax.default if largest else torch.ops.aten.argmin.default
    if dim is None:
        index = _argmax(replay, which, tensor)
        return replay._move(torch.ops.aten.index_select.default, "index_select", (tensor.flatten(), 0, index.reshape(1)), {}).reshape(())
    index = _argmax(replay, which, tensor, dim, True)
    values = replay._move(torch.ops.aten.gather.default, "gather", (tensor, dim, index), {})
    kept = (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))
    return getattr(torch.return_types, "max" if largest else "min")(kept)


def _maximum_of(replay: Replay, func: Any, tensor: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """``amax`` and ``amin``."""
    largest = func._schema.name.endswith("max")
    which = torch.ops.aten.max.dim if largest else torch.ops.aten.min.dim
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 1:
        raise Unfollowed
    return _extreme(replay, which, tensor, dims[0], keepdim)[0]


def _topk(replay: Replay, func: Any, tensor: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    moved = tensor.movedim(dim, -1)
    orders = [replay.questions.order(row, k, largest=largest) for row in _rows(replay, moved)]
    index = torch.tensor(orders).reshape(*moved.shape[:-1], k).movedim(-1, dim)
    return replay._move(torch.ops.aten.gather.default, "gather", (tensor, dim, index), {}), index


def _sort(replay: Replay, func: Any, tensor: Tensor, *args: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    positional = [arg for arg in args]
    if func._overloadname == "stable" and positional:
        positional = positional[1:]
    dim = positional[0] if positional else dim
    descending = positional[1] if len(positional) > 1 else descending
    return _topk(replay, func, tensor, tensor.shape[dim], dim, descending)


def _argsort(replay: Replay, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    index: Tensor = _sort(replay, func, tensor, *args, **kwargs)[1]
    return index


def _searchsorted(replay: Replay, func: Any, edges: Tensor, values: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None) -> Tensor:
    if replay.undecided(edges) or sorter is not None or not isinstance(values, Tensor):
        raise Unfollowed
    _note_precision(replay, edges)
    rows = edges.to(torch.float64).reshape(-1, edges.shape[-1]).tolist()
    each = values.numel() // len(rows) if edges.ndim > 1 else values.numel()
    numbers = replay.numbers(values)
    right = right or side == "right"
    places = [_place(replay.questions, number, rows[i // each if edges.ndim > 1 else 0], right) for i, number in enumerate(numbers)]
    return torch.tensor(places, dtype=torch.int32 if out_int32 else torch.int64).reshape(values.shape)


def _place(ask: Questions, number: Number, edges: list[float], right: bool) -> int:
    if isinstance(number, Undecided):
        return ask.place(number, edges)
    return sum(edge <= number if right else edge < number for edge in edges)


def _bucketize(replay: Replay, func: Any, values: Any, edges: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _searchsorted(replay, func, edges, values, out_int32=out_int32, right=right)


_ASKS: dict[str, Callable[..., Any]] = {
    "argmax": _argmax,
    "argmin": _argmax,
    "max": _extreme,
    "min": _extreme,
    "amax": _maximum_of,
    "amin": _maximum_of,
    "topk": _topk,
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "bucketize": _bucketize,
}

_COMPARISONS: dict[str, Callable[[Questions, Number, Number], bool]] = {
    "lt": lambda ask, a, b: ask.less(a, b),
    "le": lambda ask, a, b: ask.less(a, b),
    "gt": lambda ask, a, b: ask.less(b, a),
    "ge": lambda ask, a, b: ask.less(b, a),
    "eq": lambda ask, a, b: False,
    "ne": lambda ask, a, b: True,
}

_ELEMENTWISE = {
    *_COMPARISONS,
    *("isnan", "isinf", "isfinite", "floor", "trunc", "ceil", "sign"),
    *("clamp", "clamp_min", "clamp_max", "maximum", "minimum"),
    *("neg", "log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "reciprocal", "sqrt", "rsqrt", "square", "abs"),
    *("nan_to_num", "add", "sub", "rsub", "mul", "div", "pow"),
}

_MOVES: dict[str, tuple[int, ...]] = {
    "clone": (0,),
    "_to_copy": (0,),
    "cat": (0,),
    "stack": (0,),
    "index": (0,),
    "index_select": (0,),
    "gather": (0,),
    "take": (0,),
    "where": (1, 2),
    "masked_fill": (0, 2),
    "masked_select": (0,),
    "repeat": (0,),
    "flip": (0,),
    "roll": (0,),
    "constant_pad_nd": (0, 2),
    "index_put": (0, 2),
    "scatter": (0, 3),
    "tril": (0,),
    "triu": (0,),
    "lift_fresh_copy": (0,),
    "select_scatter": (0, 1),
    "slice_scatter": (0, 1),
}
"""Operations that only move entries, and which of their arguments hold entries."""

_IN_PLACE_MOVES: dict[str, tuple[int, ...]] = {
    "copy_": (0, 1),
    "index_put_": (0, 2),
    "masked_fill_": (0, 2),
    "fill_": (0, 1),
    "zero_": (0,),
    "scatter_": (0, 3),
}

_KNOWN = {*_ELEMENTWISE, *_MOVES, *_IN_PLACE_MOVES, *_ASKS, *(name + "_" for name in _ELEMENTWISE)}
"""Operations that are followed as they are."""

__all__ = ["Replay", "ReplayError", "where"]
