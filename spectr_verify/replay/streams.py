"""Which states random generators were drawn from.

Answers come from the tape and take nothing from the generators of the code under test. What such a generator would
have drawn is told by its state: two draws from one state are the same numbers in real use, and no law of independent
answers is theirs. So each answer moves its generator on as a draw would, and a state that comes again is that of a
generator that was rewound: seeded again, set back, or copied.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

APART = 0x5EC7_8A11
"""Where the global generators go for a run: no seed of the code under test should meet them as they were found."""


class Stream(Protocol):
    """A random generator, by its state; ``owner`` tells it from others."""

    owner: Any

    def read(self) -> Hashable:
        """The state."""

    def write(self, state: Any) -> None:
        """Go to a state."""

    def step(self) -> None:
        """Move on as a draw does."""


@dataclass
class TorchStream:
    """A generator of torch."""

    owner: torch.Generator

    def read(self) -> bytes:
        """The state."""
        return bytes(self.owner.get_state().numpy().tobytes())

    def write(self, state: Any) -> None:
        """Go to a state."""
        self.owner.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def step(self) -> None:
        """Move on as a draw does."""
        torch.empty(1, device=self.owner.device).uniform_(generator=self.owner)

    def is_fresh(self) -> bool:
        """Whether it was seeded and not drawn from since."""
        seeded = torch.Generator(self.owner.device).manual_seed(self.owner.initial_seed())
        return torch.equal(self.owner.get_state(), seeded.get_state())


@dataclass
class PythonStream:
    """A generator of Python's random, by the methods of C that no stand-in replaces."""

    owner: random.Random

    def read(self) -> Hashable:
        """The state."""
        return super(random.Random, self.owner).getstate()

    def write(self, state: Any) -> None:
        """Go to a state."""
        super(random.Random, self.owner).setstate(state)

    def step(self) -> None:
        """Move on as a draw does."""
        super(random.Random, self.owner).random()


@dataclass
class NumpyStream:
    """The generator behind the functions of numpy.random."""

    owner: np.random.RandomState

    def read(self) -> Hashable:
        """The state."""
        return tuple(
            part.tobytes() if isinstance(part, np.ndarray) else part for part in self.owner.get_state(legacy=True)
        )

    def write(self, state: Any) -> None:
        """Go to a state."""
        name, key, *rest = state
        self.owner.set_state((name, np.frombuffer(key, dtype=np.uint32), *rest))

    def step(self) -> None:
        """Move on as a draw does."""
        self.owner.random_sample()


@dataclass
class _Moved:
    """A generator that was found at one state and left at another."""

    stream: Stream
    found: Any
    left: Any


class Streams:
    """The generators of one run.

    Attributes:
        seeded: generators of torch that were drawn from right after they were seeded.
    """

    def __init__(self, rewound: Callable[[], None]) -> None:
        """Call ``rewound`` where a state is drawn from again."""
        self.seeded: list[weakref.ref[torch.Generator]] = []
        self._rewound = rewound
        self._drawn_from: set[int] = set()  # hashes, for states are long
        self._moved: list[_Moved] = []

    def draw(self, stream: Stream) -> None:
        """Notice a draw from a generator, and move it on."""
        state = stream.read()
        if hash(state) in self._drawn_from:
            self._rewound()
        self._drawn_from.add(hash(state))
        stream.step()
        last = self._moved[-1]
        if last.stream.owner is stream.owner and last.left == state:
            last.left = stream.read()
        else:
            self._moved.append(_Moved(stream, state, stream.read()))

    def draw_of_torch(self, generator: torch.Generator | None) -> None:
        """The same for a generator of torch, or its global one."""
        self.draw(TorchStream(generator or torch.default_generator))

    def meet(self, generator: torch.Generator) -> None:
        """Notice a seed. This is for the object that the code holds: operations are given another one each time."""
        if TorchStream(generator).is_fresh():
            self.seeded.append(weakref.ref(generator))

    @contextmanager
    def set_apart(self) -> Iterator[None]:
        """Keep the global generators from meeting others; then put all back that the code has not moved itself."""
        for stream in _global_streams():
            found = stream.read()
            _SEED[type(stream)](stream.owner)
            self._moved.append(_Moved(stream, found, stream.read()))
        try:
            yield
        finally:
            while self._moved:
                _put_back(self._moved.pop())  # the last first: each was found as the one before left it

    def made_here(self) -> bool:
        """Whether one of ``seeded`` is gone with the run: it was made, from a seed, in it."""
        return any(generator() is None for generator in self.seeded)


def _put_back(moved: _Moved) -> None:
    if moved.stream.read() == moved.left:
        moved.stream.write(moved.found)


def _global_streams() -> tuple[Stream, ...]:
    of_numpy, of_python = vars(np.random.mtrand)["_rand"], vars(random)["_inst"]
    return NumpyStream(of_numpy), PythonStream(of_python), TorchStream(torch.default_generator)


_SEED: dict[type, Callable[[Any], Any]] = {
    NumpyStream: lambda generator: generator.seed(APART),
    PythonStream: lambda generator: super(random.Random, generator).seed(APART),
    TorchStream: lambda generator: generator.manual_seed(APART),
}
