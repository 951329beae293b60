"""Undecided numbers as numpy arrays and as Python numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor
from torch.utils._pytree import tree_map_only

from spectr_verify.errors import InputError, said

if TYPE_CHECKING:
    from spectr_verify.replay.intercept import Replay


class UndecidedArray(NDArrayOperatorsMixin):
    """Stands for an array, or for a float, some of whose entries are undecided.

    Whatever is done to it is done by torch to a tensor of the replay; what is decided becomes an ordinary array.

    Attributes:
        tensor: float64, followed by the replay.
        replay: follows it.
    """

    __array_priority__ = 1000.0

    def __init__(self, tensor: Tensor, replay: Replay) -> None:
        """Stand for ``tensor``."""
        self._tensor, self.replay = tensor, replay

    @property
    def tensor(self) -> Tensor:
        """The numbers, for torch to work on where the replay follows it."""
        self.replay.require_followed()
        return self._tensor

    # What numpy and torch call ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _UFUNCS.get(ufunc.__name__)
        (out,) = kwargs.pop("out", (None,))
        if operation is None or method != "__call__" or kwargs:
            self._refuse(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
        self.replay.questions.single |= any(map(is_single, inputs))
        with self._refusing(ufunc.__name__):
            result = operation(*map(_tensor, inputs))
            if isinstance(out, UndecidedArray) and out.ndim > 0:
                out.tensor.copy_(result)
                return out
        if isinstance(out, np.ndarray):
            self._refuse(f"{ufunc.__name__} into an array")
        return result if any(isinstance(x, Tensor) for x in inputs) else self._out(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        answer = _FUNCTIONS.get(func.__name__)
        if answer is None:
            self._refuse(func.__name__)
        with self._refusing(func.__name__):
            return self._out(answer(*args, **kwargs))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch where one of its functions is given an array of ours."""
        args, kwargs = tree_map_only(cls, lambda array: array.tensor, (args, kwargs or {}))
        return func(*args, **kwargs)

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse_value("a numpy copy")

    # What Python calls ------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        self._refuse_value("the truth")

    def __float__(self) -> float:
        self._refuse_value("the value (float(), or a function of Python's math)")

    def __round__(self, *_: int) -> int:
        self._refuse_value("the rounded value")

    def __int__(self) -> int:
        return self.replay.truncated(self.tensor)

    __trunc__ = __int__

    def __floor__(self) -> int:
        return int(self.tensor.floor().item())

    def __ceil__(self) -> int:
        return int(self.tensor.ceil().item())

    def __repr__(self) -> str:
        return self.replay.text()

    def __format__(self, _: str) -> str:
        return self.replay.text()

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Iterator[Any]:
        return (self._out(part) for part in self.tensor)

    def __getitem__(self, key: Any) -> Any:
        with self._refusing("indexing"):
            return self._out(self.tensor[_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._refusing("indexing"):
            self.tensor[_key(key)] = _tensor(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _ATTRIBUTES:
            return _ATTRIBUTES[name](self)
        if name not in _METHODS:
            self._refuse(name)
        return lambda *args, **kwargs: self._method(name, args, kwargs)

    def _method(self, name: str, args: Any, kwargs: Any) -> Any:
        with self._refusing(name):
            return self._out(_METHODS[name](self.tensor, *args, **kwargs))

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        """Refuse what is numpy's, and not done by its stand-in: another argument, a negative step."""
        try:
            yield
        except InputError:
            raise
        except TypeError:
            self._refuse(f"{name} with these arguments")
        except (RuntimeError, ValueError, IndexError) as error:
            self._refuse(name, f"; that raised {said(error)}")

    def _out(self, result: Any) -> Any:
        return leaving(result, self.replay) if isinstance(result, Tensor) else result

    def _refuse_value(self, what: str) -> NoReturn:
        self.replay.refuse(f"{what} of random numbers that are still undecided is asked for")

    def _refuse(self, name: str, why: str = "") -> NoReturn:
        self.replay.refuse(f"numpy's {name} is done to random numbers that are still undecided{why}")


def leaving(tensor: Tensor, replay: Replay) -> Any:
    """What numpy has in the place of a tensor: an array that shares its memory, or a number that does not."""
    if replay.holds_undecided(tensor):
        return UndecidedArray(tensor, replay)
    return tensor.numpy() if tensor.ndim else tensor.clone().numpy()[()]


def is_single(value: Any) -> bool:
    """Whether a value is numpy's and less precise than float64."""
    is_numpy = isinstance(value, np.ndarray | np.generic)
    return is_numpy and np.issubdtype(value.dtype, np.floating) and value.dtype.itemsize < 8


def _tensor(value: Any) -> Any:
    """What stands for a value among torch's arguments."""
    if isinstance(value, UndecidedArray):
        return value.tensor
    return torch.tensor(np.asarray(value)) if isinstance(value, np.ndarray | np.generic | list | tuple) else value


def _key(key: Any) -> Any:
    """An index; arrays in it become tensors."""
    return tuple(map(_key, key)) if isinstance(key, tuple) else _tensor(key) if isinstance(key, np.ndarray) else key


def _always_tensor(value: Any) -> Tensor:
    """A tensor of numpy's precision also for a Python number."""
    tensor = _tensor(value)
    return tensor if isinstance(tensor, Tensor) else torch.tensor(np.asarray(tensor))


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": lambda a, b: a - b,
    "multiply": torch.mul,
    "divide": lambda a, b: a / b,
    "negative": torch.neg,
    "positive": torch.clone,
    "absolute": torch.abs,
    "reciprocal": torch.reciprocal,
    "power": lambda a, b: a**b,
    "square": torch.square,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "maximum": lambda a, b: torch.maximum(_always_tensor(a), _always_tensor(b)),
    "minimum": lambda a, b: torch.minimum(_always_tensor(a), _always_tensor(b)),
}


def _searchsorted(a: Any, v: Any, side: str = "left") -> Tensor:
    return torch.searchsorted(_always_tensor(a), _always_tensor(v), side=side)


def _digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    return _searchsorted(bins, x, "left" if right else "right")


def _where(condition: Any, x: Any, y: Any) -> Any:
    return torch.where(_always_tensor(condition), _always_tensor(x), _always_tensor(y))


def _clip(a: Any, a_min: Any = None, a_max: Any = None) -> Tensor:
    result = _always_tensor(a) if a_min is None else torch.maximum(_always_tensor(a), _always_tensor(a_min))
    return result if a_max is None else torch.minimum(result, _always_tensor(a_max))


def _joined(join: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda arrays, axis=0: join([_always_tensor(array) for array in arrays], axis)


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function over one axis, or over all of them, that numpy calls ``axis`` and torch ``dim``."""
    return lambda a, axis=None, keepdims=False: function(_tensor(a), dim=axis, keepdim=keepdims)


def _largest(a: Any, axis: int | None = None) -> Any:
    return _tensor(a).max() if axis is None else _tensor(a).amax(axis)


def _smallest(a: Any, axis: int | None = None) -> Any:
    return _tensor(a).min() if axis is None else _tensor(a).amin(axis)


def _argsort(a: Any, axis: int = -1) -> Any:
    return _tensor(a).argsort(axis)


def _sorted(a: Any, axis: int = -1) -> Any:
    return _tensor(a).sort(axis).values


def _reshape(a: Any, *shape: Any) -> Any:
    return _tensor(a).reshape(*shape)


def _transpose(a: Any, *axes: Any) -> Any:
    """The axes in the given order, one by one or as one tuple, or turned around."""
    given = axes[0] if len(axes) == 1 else axes
    return _tensor(a).permute(*(given or reversed(range(_tensor(a).ndim))))


def _astype(a: Tensor, dtype: Any, *_: Any, **__: Any) -> Tensor:
    return a.to(torch.from_numpy(np.empty(0, dtype)).dtype)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "searchsorted": _searchsorted,
    "digitize": _digitize,
    "where": _where,
    "clip": _clip,
    "argmax": _along(torch.argmax),
    "argmin": _along(torch.argmin),
    "max": _largest,
    "amax": _largest,
    "min": _smallest,
    "amin": _smallest,
    "argsort": _argsort,
    "sort": _sorted,
    "concatenate": _joined(torch.cat),
    "stack": _joined(torch.stack),
    "reshape": _reshape,
    "ravel": lambda a: _tensor(a).flatten(),
    "squeeze": lambda a: _tensor(a).squeeze(),
    "expand_dims": lambda a, axis: _tensor(a).unsqueeze(axis),
    "transpose": lambda a, axes=None: _transpose(a, axes),
    "copy": lambda a: _tensor(a).clone(),
    "shape": lambda a: tuple(_tensor(a).shape),
    "ndim": lambda a: _tensor(a).ndim,
    "size": lambda a: _tensor(a).numel(),
}

_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _FUNCTIONS[name] for name in ("argmax", "argmin", "max", "min", "argsort", "clip", "reshape", "ravel")},
    **{name: _FUNCTIONS[name] for name in ("squeeze", "copy")},
    "transpose": _transpose,
    "flatten": lambda a: a.flatten().clone(),
    "astype": _astype,
    "item": lambda a, *index: a.flatten()[index[0]] if index else a.reshape(()),
}

_ATTRIBUTES: dict[str, Callable[[UndecidedArray], Any]] = {
    "shape": lambda array: tuple(array.tensor.shape),
    "ndim": lambda array: array.tensor.ndim,
    "size": lambda array: array.tensor.numel(),
    "dtype": lambda array: np.dtype(str(array.tensor.dtype).removeprefix("torch.")),
    "T": lambda array: array.transpose(),
    "tolist": lambda array: lambda: [part.tolist() for part in array] if array.ndim else array,
}
