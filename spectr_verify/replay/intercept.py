"""Torch under replay: every random call is answered from the tape, and undecided numbers are followed.

A random number that was drawn and not yet asked about lies in its tensor as NaN; beside the tensor's storage a shadow
holds, entry by entry, which number it is. Views share the shadow as they share the storage, copies copy it, arithmetic
makes new numbers of it, comparisons and argmax put questions to the tape. Whatever else is done to such an entry is
refused: NaN never reaches the code under test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves

from spectr_verify.errors import InputError, said
from spectr_verify.replay.arrays import UndecidedArray
from spectr_verify.replay.monotone import Undecided, UnfollowedError
from spectr_verify.replay.operations import (
    ASKS,
    COARSE,
    DRAWS,
    ELEMENTWISE,
    LARGEST,
    MOVES,
    OVERWRITES,
    SHAPE_ONLY,
    entry,
    rounded,
)
from spectr_verify.replay.questions import Number, Questions, ReusedError
from spectr_verify.replay.rounding import check_kept, rounded_to
from spectr_verify.replay.streams import Streams
from spectr_verify.replay.where import where

DECIDED = 0
"""The shadow of an ordinary number: where an operation fills up with zeros, its shadow is right too."""

KEPT = -1
"""The shadow of a number that was drawn, and not decided, in an earlier run."""

INSTEAD = (
    "Draw by a comparison, searchsorted, multinomial or an argmax race, or run the code as it is on real models: "
    "spectr-verify mc takes the same --calls and --arg"
)
"""What to do where there is no exact law."""


@dataclass
class Shadow:
    """Which entries of a storage are undecided.

    Attributes:
        storage: kept, for its address must not be given to another one in this run.
        dtype: what the storage holds.
        handles: int64 [entries]: the number, counted from 1; ``DECIDED``; or ``KEPT``.
    """

    storage: torch.UntypedStorage
    dtype: torch.dtype
    handles: Tensor

    def covers(self) -> bool:
        """Whether any entry is undecided."""
        return bool(self.handles.any())

    def grow(self) -> None:
        """Follow a storage that was resized."""
        missing = self.storage.nbytes() // self.dtype.itemsize - self.handles.numel()
        if missing > 0:
            self.handles = torch.cat([self.handles, torch.full((missing,), DECIDED)])


@dataclass(frozen=True)
class Remains:
    """A storage with undecided numbers at the end of a run, which the code under test may have kept.

    Attributes:
        storage, dtype, handles: as in ``Shadow``; the storage lives only as long as somebody else keeps it.
    """

    storage: StorageWeakRef
    dtype: torch.dtype
    handles: Tensor


class Replay(TorchDispatchMode):
    """Answers torch's random operations from a tape while it and its ``functions`` are entered.

    Attributes:
        questions: answers what is asked of undecided numbers.
        functions: stops undecided numbers from leaving torch.
        streams: the generators that the code under test draws from.
        notes: what else the author of the code under test may want to know.
    """

    def __init__(self, questions: Questions, kept: Iterable[Remains] = ()) -> None:
        """Answer through ``questions``; numbers ``kept`` from earlier runs have no answers."""
        TorchDispatchMode.__init__(self)
        self.questions = questions
        self.notes: list[str] = []
        self.streams = Streams(self._refuse_rewound)
        self._thread = threading.get_ident()
        self._numbers: list[Undecided] = []
        self._fitting: set[tuple[int, torch.dtype]] = set()  # handles, and formats that they were rounded to
        self._operation = ""
        self._shadows: dict[int, Shadow] = {}
        self._lent: dict[int, torch.UntypedStorage] = {}  # kept, for an address must not be given to another one
        self.functions = Functions(self)
        for remains in kept:
            storage = torch.UntypedStorage._new_with_weak_ptr(remains.storage.cdata)
            if storage is not None:
                self._shadows[storage._cdata] = Shadow(storage, remains.dtype, remains.handles.clone())

    def close(self) -> list[Remains]:
        """End the run; what is still undecided and kept by somebody else."""
        remains = [
            Remains(StorageWeakRef(shadow.storage), shadow.dtype, torch.where(shadow.handles == DECIDED, DECIDED, KEPT))
            for shadow in self._shadows.values()
            if shadow.covers()
        ]
        self._shadows.clear()
        self._lent.clear()
        return [each for each in remains if not each.storage.expired()]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch hides the mode from its compiler, which it would import for that, and which never runs here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every operation below autograd."""
        with torch._C.DisableTorchFunction():  # what is done here is not the code under test's doing
            return self._dispatch(func, args, dict(kwargs or {}))

    def _dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.removeprefix("aten::")
        draw = DRAWS.get(name)
        if draw is None and torch.Tag.nondeterministic_seeded in func.tags:
            self.refuse(f"torch's {name} draws random numbers of a kind that is not followed")
        looked_at = args[1:] if name in OVERWRITES else (*args, *kwargs.values())
        touched = any(self.undecided(tensor) for tensor in _tensors(looked_at))
        if draw is not None:
            if touched:
                self.refuse(f"torch's {name} takes its law from random numbers that are still undecided")
            self.streams.draw_of_torch(kwargs.get("generator"))
            return draw(self, *args, **kwargs)
        if not touched:
            return self._plainly(func, args, kwargs)
        if func.is_view or name in SHAPE_ONLY:
            return func(*args, **kwargs)
        if func._can_decompose():  # in inference mode torch leaves that to us
            with self:
                return func.decompose(*args, **kwargs)
        return self._follow_or_refuse(func, name, args, kwargs)

    def _follow_or_refuse(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        shown = self._operation = _SHOWN.get(name, f"torch's {name.removeprefix('_')}")
        try:
            return self._follow(func, name, args, kwargs)
        except ReusedError:
            self.refuse(
                f"{shown} asks about random numbers that decide more than one race (an argmax, or a comparison among "
                "them); their joint law is not followed"
            )
        except UnfollowedError as error:
            why = str(error).replace(where(), "") or (  # the line is told in the end
                "what is followed are comparisons, monotone functions of one uniform, searchsorted, and argmax, topk "
                "and sort of races"
            )
            self.refuse(f"{shown} is done to random numbers that are still undecided; {why}")
        except InputError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # torch's own, or of how we do it
            self.refuse(f"{shown}, done to random numbers that are still undecided, raised {said(error)}")

    def _plainly(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation on ordinary numbers."""
        result = func(*args, **kwargs)
        if func._schema.name == "aten::_to_copy" and isinstance(args[0], Tensor):  # vmap hands over numbers too
            self.questions.single |= _less_precise(args[0], result)
        return result

    # Shadows ---------------------------------------------------------------------------------------------------------

    def shadow(self, tensor: Tensor) -> Tensor | None:
        """The shadow of a tensor, int64 of its shape; ``None`` where its storage has none."""
        if not self._shadows or tensor.layout != torch.strided:
            return None
        found = self._shadows.get(tensor.untyped_storage()._cdata)
        if found is None:
            return None
        if tensor.dtype != found.dtype or tensor.is_neg():
            if found.covers():
                self.refuse("the memory of random numbers that are still undecided is read as numbers of another kind")
            return None
        found.grow()
        return found.handles.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def undecided(self, tensor: Tensor) -> bool:
        """Whether any entry is undecided."""
        shadow = self.shadow(tensor)
        return shadow is not None and bool(shadow.any())

    def holds_undecided(self, tree: Any) -> bool:
        """Whether any tensor in lists, tuples and dicts has an undecided entry, for whoever is not called by torch."""
        leaves = (leaf.tensor if isinstance(leaf, UndecidedArray) else leaf for leaf in tree_leaves(tree))
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return any(self.undecided(leaf) for leaf in leaves if isinstance(leaf, Tensor))

    def mark(self, tensor: Tensor, handles: Tensor) -> Tensor:
        """Give a tensor these handles; the entries that they make undecided become NaN."""
        undecided = bool(handles.any())
        shadow = self.shadow(tensor)
        if undecided:
            self._refuse_shared(tensor.untyped_storage())
        if shadow is None:
            if not undecided:
                return tensor
            shadow = self._new_shadow(tensor)
        shadow.copy_(self._rounded(handles, tensor.dtype) if undecided else handles)
        if undecided:
            tensor.masked_fill_((handles != DECIDED).to(tensor.device), float("nan"))
        return tensor

    def _rounded(self, handles: Tensor, dtype: torch.dtype) -> Tensor:
        """The same numbers as far as a format keeps them; on an edge path, whose weights mean nothing, as they are."""
        if self.questions.edge is not None:
            return handles
        changed = {}
        for handle in set(handles.flatten().tolist()):
            if handle > DECIDED and (handle, dtype) not in self._fitting:
                number = rounded_to(self._numbers[handle - 1], dtype, self._operation, where)
                changed[handle] = handle if number is self._numbers[handle - 1] else self._handle(number)
                self._fitting.add((changed[handle], dtype))
        return handles.clone().apply_(lambda handle: changed.get(handle, handle)) if changed else handles

    def _new_shadow(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            raise UnfollowedError  # a whole number that is still undecided
        self._check_format(tensor.dtype)
        storage = tensor.untyped_storage()
        entries = storage.nbytes() // tensor.element_size()
        self._shadows[storage._cdata] = Shadow(storage, tensor.dtype, torch.full((entries,), DECIDED))
        shadow = self.shadow(tensor)
        assert shadow is not None
        return shadow

    def _check_format(self, dtype: torch.dtype) -> None:
        if dtype.is_floating_point and dtype not in LARGEST:
            self.refuse(f"random numbers that are still undecided become numbers of type {dtype}; {COARSE}")

    def _refuse_shared(self, storage: torch.UntypedStorage) -> None:
        """Refuse to write NaN where others would read it, whether they share the memory for long or since just now."""
        if not storage.resizable() or storage._cdata in self._lent:  # so torch marks memory that numpy sees too
            self.refuse(
                "random numbers are written into memory shared with numpy, or handed out as a storage or an address, "
                "where they cannot be followed"
            )

    def lend(self, tensor: Tensor) -> None:
        """Remember that memory is handed out in a way that torch does not mark."""
        storage = tensor.untyped_storage()
        self._lent[storage._cdata] = storage

    def place(self, tensor: Tensor, numbers: Sequence[Number]) -> Tensor:
        """Fill a tensor with numbers, in the order of its entries."""
        values = torch.tensor([0.0 if isinstance(n, Undecided) else n for n in numbers], dtype=torch.float64)
        tensor.copy_(values.reshape(tensor.shape))
        handles = torch.tensor([self._handle(n) for n in numbers], dtype=torch.int64)
        return self.mark(tensor, handles.reshape(tensor.shape))

    def filled(self, shape: Sequence[int], draw: Callable[[], Number]) -> Tensor:
        """A new float64 tensor of numbers that are drawn one by one, for whoever is not called by torch."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return self.place(torch.empty(shape, dtype=torch.float64), [draw() for _ in range(prod(shape))])

    def _handle(self, number: Number) -> int:
        if not isinstance(number, Undecided):
            return DECIDED
        self._numbers.append(number)
        return len(self._numbers)

    def numbers(self, tensor: Tensor) -> list[Number]:
        """The entries of a tensor, in order."""
        return self._spread(tensor, tensor.shape)

    def _spread(self, operand: Any, shape: torch.Size) -> list[Number]:
        """The entries of a tensor, or a number, that is broadcast to ``shape``."""
        if isinstance(operand, complex) or (isinstance(operand, Tensor) and operand.is_complex()):
            raise UnfollowedError
        if not isinstance(operand, Tensor):
            return [float(operand)] * shape.numel()
        values: list[Number] = operand.detach().expand(shape).to(torch.float64).flatten().tolist()
        shadow = self.shadow(operand)
        if shadow is None:
            return values
        handles = shadow.expand(shape).flatten().tolist()
        return [v if h == DECIDED else self._number(h) for v, h in zip(values, handles, strict=True)]

    def _number(self, handle: int) -> Undecided:
        if handle == KEPT:
            self.refuse("it asks about random numbers that it has kept, undecided, from an earlier call")
        return self._numbers[handle - 1]

    def handles(self, tensor: Tensor) -> Tensor:
        """The shadow of a tensor, made up of ``DECIDED`` where it has none."""
        shadow = self.shadow(tensor)
        return torch.full(tensor.shape, DECIDED) if shadow is None else shadow

    # Operations on undecided entries ----------------------------------------------------------------------------------

    def _follow(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if name.endswith("_") and not name.startswith("_"):  # in place: the operation, with its result written over
            out, name = args[0], name[:-1]
        if any(isinstance(value, Tensor) for value in kwargs.values()):  # two results, each with its "out"
            raise UnfollowedError
        func = func if out is None else getattr(torch.ops.aten, name, None)
        if name in MOVES:
            result = self.move(func, name, args, kwargs)
        elif name in ASKS:
            result = ASKS[name](self, name, *args, **kwargs)
        elif name in ELEMENTWISE:
            result = self._elementwise(func, name, args, kwargs)
        else:
            raise UnfollowedError
        return result if out is None else self._write(out, result)

    def _write(self, out: Any, result: Any) -> Tensor:
        if not isinstance(out, Tensor) or not isinstance(result, Tensor):
            raise UnfollowedError
        handles = self.handles(result).clone()
        if out.shape != result.shape:
            out.resize_(result.shape)  # as torch does
        return self.mark(out.copy_(result), handles)

    def _elementwise(self, func: Any, name: str, args: Any, kwargs: Any) -> Tensor:
        """Arithmetic and comparisons, entry by entry; the operation itself tells shape, format and decided entries."""
        operands: tuple[Any, ...]
        if name == "clamp":
            bounds = dict(zip(("min", "max"), args[1:], strict=False)) | kwargs
            lower, upper = bounds.get("min"), bounds.get("max")
            operands = (args[0], -inf if lower is None else lower, inf if upper is None else upper)
        elif name == "nan_to_num":
            operands = args[:1]
        elif kwargs:  # alpha, rounding_mode
            raise UnfollowedError
        else:
            operands = args
        if len(operands) == 2:
            self._check_format(torch.result_type(*operands))
        self.questions.single |= any(_imprecise(x) and not self.undecided(x) for x in operands if isinstance(x, Tensor))
        result: Tensor = func(*args, **kwargs)
        rows = zip(*(self._spread(operand, result.shape) for operand in operands), strict=True)
        numbers = [
            entry(self.questions, name, row) if any(isinstance(x, Undecided) for x in row) else value
            for row, value in zip(rows, result.flatten().tolist(), strict=True)
        ]
        return self.place(result, numbers)

    def move(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Copies, gathers, joins: done to the shadows as they are done to the entries."""
        if name == "_to_copy" and not (kwargs.get("dtype") or args[0].dtype).is_floating_point:
            return self._to_integers(func, args, kwargs)
        if "reduce" in kwargs or (name == "index_put" and any(args[3:])):
            raise UnfollowedError  # entries are combined, not moved
        moved = [self._moved(arg, i in MOVES[name]) for i, arg in enumerate(args)]
        handles = func(*moved, **{key: value for key, value in kwargs.items() if key not in _FORM})
        return self.mark(func(*args, **kwargs), handles.clone())

    def _moved(self, argument: Any, is_data: bool) -> Any:
        if not is_data:
            if isinstance(argument, Tensor) and self.undecided(argument):
                raise UnfollowedError
            return argument
        if isinstance(argument, list | tuple):
            return [self.handles(tensor) for tensor in argument]
        return self.handles(argument) if isinstance(argument, Tensor) else DECIDED

    def _to_integers(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        if kwargs["dtype"] == torch.bool:
            raise UnfollowedError
        check_kept(self.numbers(args[0]))
        whole = [rounded(self.questions, "trunc", number) for number in self.numbers(args[0])]
        result: Tensor = func(torch.tensor(whole, dtype=torch.float64).reshape(args[0].shape), **kwargs)
        return result

    def truncated(self, tensor: Tensor) -> int:
        """Python's ``int`` of a tensor of one entry."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            (number,) = self.numbers(tensor.reshape(()))
            try:
                check_kept([number])
                return int(rounded(self.questions, "trunc", number))
            except UnfollowedError:
                self.refuse("the value (int()) of random numbers that are still undecided is asked for")

    def require_followed(self) -> None:
        """Refuse where torch calls no replay: there an undecided number would be NaN to all that is done to it."""
        if threading.get_ident() != self._thread:
            self.refuse("random numbers are drawn or used in another thread, where they cannot be followed")
        if not any(isinstance(mode, Replay) for mode in _get_current_dispatch_mode_stack()):
            self.refuse(
                "random numbers are drawn or used in the body of an operator of torch.library, or where torch's modes "
                "are switched off, where they cannot be followed; call the function itself, not the operator made of it"
            )

    def _refuse_rewound(self) -> NoReturn:
        self.questions.tape.refuse(
            "it rewinds a random generator (seeds it again with the same seed, sets an earlier state, or copies it): "
            "the numbers drawn here are those drawn before, which is not followed",
            "Seed at most once, outside of the loop over positions, and let each generator go on",
        )

    def note(self, sentence: str) -> None:
        """Remember what is not wrong and yet worth saying."""
        self.notes.append(sentence)

    def text(self) -> str:
        """What an undecided number is in print."""
        self.note("it prints or formats a random number that was still undecided: the text says 'undecided' instead")
        return "undecided"

    def refuse(self, what: str) -> NoReturn:
        """Raise ``ReplayError``: what was done, at which line, and what else can be done."""
        self.questions.tape.refuse(what, INSTEAD)


class Functions(TorchFunctionMode):
    """Stops undecided numbers from leaving torch: as Python numbers, as numpy arrays, as memory."""

    def __init__(self, replay: Replay) -> None:
        """Stop what ``replay`` follows."""
        super().__init__()
        self.replay = replay

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every function of its Python interface."""
        name = getattr(func, "__name__", "")
        if name in _LEAVES and args and isinstance(args[0], Tensor) and self.replay.undecided(args[0]):
            return self._left(name, args[0])
        if func in _CONSTRUCTORS and args and isinstance(args[0], UndecidedArray):
            return self._of_array(args[0], is_copy=func is torch.tensor, **(kwargs or {}))
        if func in _CONSTRUCTORS and args and not isinstance(args[0], Tensor) and self.replay.holds_undecided(args[0]):
            return self._of_lists(args[0], **(kwargs or {}))
        if isinstance(generator := (kwargs or {}).get("generator"), torch.Generator):
            self.replay.streams.meet(generator)
        if name in _CALL_PYTHON and self.replay.holds_undecided(args):
            self.replay.refuse(f"torch's {name} hands random numbers that are still undecided to a function of Python")
        if name in _LENDS and args and isinstance(args[0], Tensor):
            self.replay.lend(args[0])
        return func(*args, **(kwargs or {}))

    def _left(self, name: str, tensor: Tensor) -> Any:
        if name in ("item", "tolist"):
            return self._nested(tensor if name == "tolist" else tensor.reshape(()))
        if name in ("__repr__", "__str__", "__format__"):
            return self.replay.text()
        if name == "__deepcopy__":
            return tensor.clone()
        if name == "__int__":
            return self.replay.truncated(tensor)
        return self.replay.refuse(f"{_LEAVES[name]} of random numbers that are still undecided is asked for")

    def _nested(self, tensor: Tensor) -> Any:
        """Lists of numbers; an undecided one stays a tensor without dimensions, which behaves like a number."""
        if tensor.ndim:
            return [self._nested(part) for part in tensor]
        return tensor.clone() if self.replay.undecided(tensor) else tensor.item()

    def _of_array(
        self, array: UndecidedArray, *, is_copy: bool = False, copy: bool | None = None, **form: Any
    ) -> Tensor:
        """A tensor of an array, whose memory it shares as far as torch's would; of a number, which shares none."""
        if array.ndim == 0:
            return self._of_lists(array, **form)
        tensor = array.tensor.detach().to(form.get("dtype") or array.tensor.dtype)
        return tensor.clone() if is_copy or copy else tensor

    def _of_lists(self, data: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
        """A new tensor of nested lists of numbers, some of them undecided."""
        kind = dtype or torch.get_default_dtype()
        if isinstance(data, list | tuple):
            return torch.stack([self._of_lists(part, dtype=kind) for part in data])
        if isinstance(data, UndecidedArray):
            return data.tensor.to(kind, copy=True)
        return torch.as_tensor(data, dtype=kind)


_LEAVES = {
    "item": "",
    "tolist": "",
    "__repr__": "",
    "__str__": "",
    "__format__": "",
    "__deepcopy__": "",
    "__int__": "",
    "__bool__": "the truth",
    "is_nonzero": "the truth",
    "__float__": "the value (float(), or a function of Python's math)",
    "__index__": "the value (as an index)",
    "__complex__": "the value (complex())",
    "numpy": "a numpy copy",
    "__array__": "a numpy copy",
    "__array_wrap__": "a numpy copy",
    "__reduce_ex__": "a pickled copy",
    "data_ptr": "the memory",
    "__dlpack__": "the memory",
    "untyped_storage": "the memory",
    "_typed_storage": "the memory",
    "storage": "the memory",
}

_LENDS = ("__dlpack__", "data_ptr", "untyped_storage", "_typed_storage", "storage")
"""Functions that hand out the memory of a tensor, which may be read after numbers were drawn into it."""

_CALL_PYTHON = ("apply_", "map_", "map2_")
"""Functions that read entries without an operation that is dispatched."""

_SHOWN = {
    "_local_scalar_dense": "taking the value as a Python number",
    "_to_copy": "torch's to()",
    "lift_fresh_copy": "torch's tensor()",
}
"""What users call operations whose name in torch tells them nothing."""

_CONSTRUCTORS = (torch.tensor, torch.as_tensor, torch.asarray)


def _tensors(arguments: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an operation of torch, which are at most in lists."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _tensors(argument)


def _imprecise(operand: Tensor) -> bool:
    """Whether an operand is less precise than float64 and counts in the result's precision."""
    return operand.ndim > 0 and operand.is_floating_point() and operand.dtype != torch.float64


def _less_precise(before: Tensor, after: Tensor) -> bool:
    return before.dtype == torch.float64 and after.is_floating_point() and after.dtype != torch.float64


_FORM = ("dtype", "device", "layout", "pin_memory", "non_blocking", "memory_format", "copy")
"""Arguments that say how a result is laid out, not what is in it."""
