"""numpy.random and Python's random under replay."""

from __future__ import annotations

import gc
import itertools
import os
import random
import secrets
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import comb
from multiprocessing import pool
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.random import bit_generator
from torch.utils import dlpack

from spectr_verify.replay.arrays import UndecidedArray, is_single, leaving
from spectr_verify.replay.intercept import Replay
from spectr_verify.replay.questions import BELOW_ONE, Number, Questions
from spectr_verify.replay.streams import NumpyStream, PythonStream, Stream
from spectr_verify.replay.where import importing, may_be_under_test

_running: list[Replay] = []
"""The replay that answers now, last; whoever keeps one of the stand-ins asks the replay of its day."""

SCRATCH = (np.random.RandomState(0), np.random.default_rng(0))
"""Generators whose numbers mean nothing. They check arguments as numpy does, and tell the shape of what is drawn."""


@contextmanager
def answered_sources(replay: Replay, imported: Sequence[Imported] = ()) -> Iterator[None]:
    """Answer numpy.random and random from the tape too, also by ``imported`` names, and stop what is out of reach."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _STAND_INS]
    _running.append(replay)
    for owner, name, stand_in in _STAND_INS:
        setattr(owner, name, stand_in)
    for each in imported:
        each.globals[each.name] = each.stand_in
    try:
        with replay.streams.set_apart(), _own_defaults():
            yield
    finally:
        for each in imported:
            if each.globals.get(each.name) is each.stand_in:  # the code may have put something else there
                each.globals[each.name] = each.original
        for owner, name, original in before:
            setattr(owner, name, original)
        _running.pop()
        if replay.streams.made_here():
            replay.note(SEEDED)


@contextmanager
def _own_defaults() -> Iterator[None]:
    """Keep the default format and device of torch's tensors, which code may set, from outliving it."""
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None)
            if torch.get_default_device() != device:
                torch.set_default_device(device)


@dataclass(frozen=True)
class Imported:
    """A name in a module of other people, such as ``default_rng``, that is one of the originals itself."""

    globals: dict[str, Any]
    name: str
    original: Any
    stand_in: Any


def imported_names() -> list[Imported]:
    """All such names in the modules that exist now."""
    stand_ins = {}
    for owner, name, stand_in in _STAND_INS:
        if isinstance(owner, ModuleType):
            stand_ins[id(getattr(owner, name))] = stand_in
    originals = [getattr(owner, name) for owner, name, _ in _STAND_INS if isinstance(owner, ModuleType)]
    return [
        Imported(space, name, value, stand_ins[id(value)])
        for space in gc.get_referrers(*originals)
        if isinstance(space, dict) and "__builtins__" in space and _may_be_replaced(space)
        for name, value in space.items()
        if id(value) in stand_ins
    ]


def _may_be_replaced(module: dict[str, Any]) -> bool:
    return may_be_under_test(str(module.get("__file__") or Path("interactive").absolute()))


def _replay() -> Replay:
    _running[-1].require_followed()
    return _running[-1]


def _uniform() -> Number:
    return _replay().questions.uniform(BELOW_ONE)


def _exponential() -> Number:
    return _replay().questions.exponential(1.0)


def _drawn(draw: Callable[[], Number], shape: Sequence[int] = ()) -> Any:
    """An array of independent numbers; a float without a shape."""
    return leaving(_replay().filled(shape, draw), _replay())


SEEDED = (
    "it makes a random generator from a seed: in real use every call with that seed draws the same numbers, "
    "whatever text it continues. The laws are those of a generator that goes on from call to call"
)


# numpy ----------------------------------------------------------------------------------------------------------------


class AnsweredGenerator:
    """Stands for numpy's ``Generator`` and ``RandomState``, and its ``rand`` and so on are those of numpy.random."""

    def __init__(self, seed: Any = None) -> None:
        """Draw from the tape, whatever the seed, which tells only whether numbers come again."""
        self._stream: Stream
        if isinstance(seed, AnsweredGenerator):
            self._stream = seed._stream
        else:
            self._stream = seed if isinstance(seed, AnsweredBits) else AnsweredBits(seed)

    def _questions(self) -> Questions:
        """Answers the questions of one draw."""
        replay = _replay()
        replay.streams.draw(self._stream)
        return replay.questions

    def _uniform(self, shape: Sequence[int]) -> Any:
        return _drawn(partial(self._questions().uniform, BELOW_ONE), shape)

    def _exponential(self, shape: Sequence[int]) -> Any:
        return _drawn(partial(self._questions().exponential, 1.0), shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _replay().refuse(f"numpy.random's {name} draws random numbers of a kind that is not followed")

    def rand(self, *shape: int) -> Any:
        """Uniform on [0, 1)."""
        return self._uniform(shape)

    def random(self, size: Any = None, **_: Any) -> Any:
        """Uniform on [0, 1)."""
        return self._uniform(np.shape(SCRATCH[0].random(size)))

    random_sample = random
    ranf = random
    sample = random

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on [low, high)."""
        number = self._uniform(np.shape(SCRATCH[0].uniform(low, high, size)))
        return number * np.subtract(high, low) + low

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with that mean."""
        return self._exponential(np.shape(SCRATCH[0].exponential(scale, size))) * scale

    def standard_exponential(self, size: Any = None, **_: Any) -> Any:
        """Exponential of rate 1."""
        return self.exponential(size=size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """``loc - scale log e`` of an exponential e."""
        return -np.log(self._exponential(np.shape(SCRATCH[0].gumbel(loc, scale, size)))) * scale + loc

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, **options: Any) -> Any:
        """Entries of ``a``, or of ``range(a)``."""
        if options.get("axis") or not options.get("shuffle", True):
            _replay().refuse("numpy.random's choice is asked for an axis, or not to shuffle, which is not followed")
        shape = np.shape(SCRATCH[0].choice(a, size, replace, p))
        entries = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        weights = [1.0] * len(entries) if p is None else _weights(p).tolist()
        count = int(np.prod(shape))
        return entries[np.reshape(self._questions().sample(weights, count, replacement=replace), shape).astype(int)]

    def multinomial(self, n: int, pvals: Any, size: Any = None) -> Any:
        """Counts of n trials."""
        result = SCRATCH[0].multinomial(n, pvals, size)
        weights = _weights(pvals).tolist()
        weights[-1] = max(0.0, 1 - sum(weights[:-1]))  # numpy does not look at the last one
        for row in result.reshape(-1, len(weights)):
            row[:] = np.bincount(self._questions().sample(weights, n, replacement=True), minlength=len(weights))
        return result

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """How many of n trials succeed."""
        result = np.array(SCRATCH[0].binomial(n, p, size))
        trials, chances = np.broadcast_to(n, result.shape), np.broadcast_to(_weights(p), result.shape)
        for place in np.ndindex(result.shape):
            k, c = int(trials[place]), float(chances[place])
            law = [comb(k, i) * c**i * (1 - c) ** (k - i) for i in range(k + 1)]
            result[place] = self._questions().sample(law, 1, replacement=True)[0]
        return result[()]

    def integers(self, low: int, high: Any = None, size: Any = None, dtype: Any = int, endpoint: bool = False) -> Any:
        """Whole numbers from low to high, without the end unless ``endpoint``."""
        if np.ndim(low) or np.ndim(high):
            _replay().refuse("numpy.random draws whole numbers between arrays of bounds, which is not followed")
        result = np.array(SCRATCH[1].integers(low, high, size, dtype, endpoint))
        first, end = (0, low) if high is None else (low, high)
        for place in np.ndindex(result.shape):
            result[place] = first + self._questions().below(int(end) + endpoint - int(first))
        return result[()]

    def randint(self, low: int, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Whole numbers from low to high, without the end."""
        return self.integers(low, high, size, dtype)

    def permutation(self, x: Any) -> Any:
        """The entries of ``x``, or of ``range(x)``, in random order."""
        entries = np.arange(x) if np.ndim(x) == 0 else np.array(x)
        self.shuffle(entries)
        return entries

    def shuffle(self, x: Any) -> None:
        """Bring ``x`` into random order."""
        order = self._questions().sample([1.0] * len(x), len(x), replacement=False)
        x[:] = x[order] if isinstance(x, np.ndarray) else [x[i] for i in order]


def _weights(given: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Probabilities in float64, after a look at how precise they were."""
    weights = np.asarray(given)
    _replay().questions.single |= is_single(weights)
    return weights.astype(np.float64)


class AnsweredBits:
    """Stands for numpy's bit generators, ``PCG64`` and so on, of which generators are made."""

    def __init__(self, seed: Any = None) -> None:
        """Give no bits, whatever the seed."""
        self.owner = self
        self._steps = 0
        if seed is None or isinstance(seed, np.random.BitGenerator):
            self._start: Hashable = next(_UNSEEDED)
        else:
            sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
            self._start = sequence.generate_state(4).tobytes()
            _replay().note(SEEDED)

    def read(self) -> Hashable:
        """The state."""
        return self._start, self._steps

    def write(self, state: Any) -> None:
        """Go to a state."""
        self._start, self._steps = state

    def step(self) -> None:
        """Move on as a draw does."""
        self._steps += 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _replay().refuse(f"the {name} of a bit generator of numpy.random is asked for, which is not followed")


_UNSEEDED = itertools.count()
"""Tells generators without a seed apart."""


def _numpy_stand_ins() -> Iterator[tuple[Any, str, Any]]:
    generator = AnsweredGenerator()
    generator._stream = NumpyStream(vars(np.random.mtrand)["_rand"])
    not_draws = ("default_rng", "seed", "get_state", "set_state")
    for name in np.random.__all__:
        if name[0].islower() and name not in not_draws:
            yield np.random, name, _method(generator, name)
    for name in ("default_rng", "Generator", "RandomState"):
        yield np.random, name, AnsweredGenerator
    for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        yield np.random, name, AnsweredBits
    yield (
        bit_generator,
        "randbits",
        _answered(vars(bit_generator)["randbits"], _of_the_system),
    )  # where numpy finds entropy


def _method(generator: AnsweredGenerator, name: str) -> Callable[..., Any]:
    """The method of that name, or its refusal when it is called."""
    return lambda *args, **kwargs: getattr(generator, name)(*args, **kwargs)


# Python ---------------------------------------------------------------------------------------------------------------


def _python_stand_ins() -> Iterator[tuple[Any, str, Any]]:
    for kind in (random.Random, random.SystemRandom):  # all that these classes draw, they draw by these methods
        yield kind, "_randbelow", _answered(vars(random.Random)["_randbelow"], lambda n: _replay().questions.below(n))
    yield random.Random, "seed", _seed
    yield random.SystemRandom, "randbytes", _answered(random.SystemRandom.randbytes, _of_the_system)
    yield secrets, "token_bytes", _answered(secrets.token_bytes, _of_the_system)
    yield secrets, "randbits", _answered(secrets.randbits, lambda k: _replay().questions.below(2**k))
    yield os, "urandom", _urandom
    for owner in (random, random.Random, random.SystemRandom):
        yield owner, "random", _answered(owner.random, lambda: _drawn(_uniform))
        yield owner, "expovariate", _answered(owner.expovariate, lambda rate=1.0: _drawn(_exponential) / rate)
        yield owner, "getrandbits", _answered(owner.getrandbits, lambda k: _replay().questions.below(2**k))


_real_seed = random.Random.seed


def _seed(generator: random.Random, *seed: Any) -> None:
    if seed and seed[0] is not None and not importing():
        _replay().note(SEEDED)
    _real_seed(generator, *seed)


def _of_the_system(*_: Any) -> Any:
    _replay().refuse(
        "it draws from a generator that cannot be answered: it takes random bits from the system (os.urandom, secrets, "
        "or the seed of a generator of numpy that was not made by np.random's names)"
    )


_real_urandom = os.urandom


def _urandom(count: int) -> bytes:
    """Python's own modules, which name files and such by it, may go on."""
    if may_be_under_test(sys._getframe(1).f_code.co_filename) and not importing():
        _of_the_system()
    return _real_urandom(count)


def _answered(real: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    """A function, or a method of a class, with another answer; modules that draw while they are imported may do so."""
    is_method = not hasattr(real, "__self__")

    def stand_in(*args: Any) -> Any:
        if importing():
            return real(*args)
        owner = args[0] if is_method else real.__self__
        if isinstance(owner, random.Random) and not isinstance(owner, random.SystemRandom):
            _replay().streams.draw(PythonStream(owner))
        return answer(*args[is_method:])

    return stand_in


# What would lead out of reach -----------------------------------------------------------------------------------------


def _start(*_: Any, **__: Any) -> None:
    _replay().refuse("it starts a thread; random numbers in other threads cannot be answered")


def _submit(*_: Any, **__: Any) -> None:
    _replay().refuse("it hands work to a pool; random numbers in other threads and processes cannot be answered")


_original_from_numpy = torch.from_numpy


def _from_numpy(array: Any) -> torch.Tensor:
    return array.tensor.detach() if isinstance(array, UndecidedArray) else _original_from_numpy(array)


def _to_dlpack(tensor: torch.Tensor) -> Any:
    if _replay().holds_undecided(tensor):
        _replay().refuse("the memory of random numbers that are still undecided is asked for")
    _replay().lend(tensor)
    return _original_to_dlpack(tensor)


_original_to_dlpack: Callable[[torch.Tensor], Any] = vars(dlpack)["to_dlpack"]

_STAND_INS = (
    *_numpy_stand_ins(),
    *_python_stand_ins(),
    (threading.Thread, "start", _start),
    (ThreadPoolExecutor, "submit", _submit),
    (ProcessPoolExecutor, "submit", _submit),
    (pool.Pool, "apply_async", _submit),
    (pool.Pool, "_map_async", _submit),
    (pool.Pool, "imap", _submit),
    (pool.Pool, "imap_unordered", _submit),
    (torch, "from_numpy", _from_numpy),
    (torch, "to_dlpack", _to_dlpack),
    (dlpack, "to_dlpack", _to_dlpack),
)
"""What is put in the place of which attribute of which module or class."""
