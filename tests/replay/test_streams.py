"""Generators that are rewound draw the same numbers again; that is refused, and what only looks like it is not."""

# ruff: noqa: NPY002 - people use numpy.random

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from replayed import EXACT, chances, fresh, refusal

Acceptance = Callable[[], bool]


def torch_coin(generator: torch.Generator | None = None) -> bool:
    return bool(torch.rand(1, generator=generator) < 0.25)


def twice(draw: Acceptance) -> list[bool]:
    """Two positions, each with the same code."""
    return [draw(), draw()]


# Rewound --------------------------------------------------------------------------------------------------------------


def forked() -> bool:
    with torch.random.fork_rng(devices=[]):
        return torch_coin()


def drawn_after_a_fork() -> list[bool]:
    return [forked(), torch_coin()]


def set_back(draw: Acceptance, state: Callable[[], Any], to: Callable[[Any], Any]) -> list[bool]:
    before = state()
    first = draw()
    to(before)
    return [first, draw()]


def set_back_in_torch() -> list[bool]:
    generator = torch.Generator()
    generator.seed()
    return set_back(lambda: torch_coin(generator), generator.get_state, generator.set_state)


def set_back_in_python() -> list[bool]:
    generator = random.Random()
    return set_back(lambda: generator.random() < 0.25, generator.getstate, generator.setstate)


def state_taken_over() -> list[bool]:
    one, other = torch.Generator(), torch.Generator()
    one.seed()
    other.set_state(one.get_state())
    return [torch_coin(one), torch_coin(other)]


def copied(make: Callable[[], Any], by: Callable[[Any], Any]) -> list[bool]:
    one = make()
    other = by(one)
    return [one.random() < 0.25, other.random() < 0.25]


def seeded(seed: Callable[[int], Any], draw: Acceptance) -> bool:
    seed(1234)
    return draw()


KEPT = torch.Generator()

REWOUND: dict[str, Callable[[], list[bool]]] = {
    "a generator of torch per position": lambda: twice(lambda: torch_coin(torch.Generator().manual_seed(1234))),
    "the same without a seed": lambda: twice(lambda: torch_coin(torch.Generator())),
    "a kept one seeded per position": lambda: twice(lambda: torch_coin(KEPT.manual_seed(7))),
    "torch seeded per position": lambda: twice(lambda: seeded(torch.manual_seed, torch_coin)),
    "torch's random module": lambda: twice(lambda: seeded(torch.random.manual_seed, torch_coin)),
    "torch's global generator": lambda: twice(lambda: seeded(torch.default_generator.manual_seed, torch_coin)),
    "global and own": lambda: [
        seeded(torch.manual_seed, torch_coin),
        torch_coin(torch.Generator().manual_seed(1234)),
    ],
    "numpy seeded per position": lambda: twice(lambda: seeded(np.random.seed, lambda: np.random.rand() < 0.25)),
    "python seeded per position": lambda: twice(lambda: seeded(random.seed, lambda: random.random() < 0.25)),
    "default_rng per position": lambda: twice(lambda: np.random.default_rng(5).random() < 0.25),
    "of another whole number": lambda: [
        np.random.default_rng(np.int64(5)).random() < 0.25,
        np.random.Generator(np.random.PCG64(5)).random() < 0.25,
    ],
    "RandomState per position": lambda: twice(lambda: np.random.RandomState(5).rand() < 0.25),
    "a sequence of seeds": lambda: twice(lambda: np.random.default_rng(np.random.SeedSequence(5)).random() < 0.25),
    "Random per position": lambda: twice(lambda: random.Random("seed").random() < 0.25),
    "choices": lambda: twice(lambda: random.Random(5).choices([True, False], [1, 3])[0]),
    "randrange": lambda: twice(lambda: random.Random(5).randrange(4) == 0),
    "multinomial": lambda: twice(
        lambda: int(torch.multinomial(torch.ones(4), 1, generator=torch.Generator().manual_seed(1))) == 0
    ),
    "a fork per position": lambda: twice(forked),
    "drawn after a fork": drawn_after_a_fork,
    "set back in torch": lambda: set_back(torch_coin, torch.get_rng_state, torch.set_rng_state),
    "set back in a generator of torch": set_back_in_torch,
    "set back in numpy": lambda: set_back(
        lambda: np.random.rand() < 0.25, np.random.get_state, np.random.set_state
    ),
    "set back in python": lambda: set_back(lambda: random.random() < 0.25, random.getstate, random.setstate),
    "set back in a generator of python": set_back_in_python,
    "a state taken over": state_taken_over,
    "a copy of Python's": lambda: copied(random.Random, copy.deepcopy),
    "a copy of numpy's": lambda: copied(np.random.default_rng, copy.deepcopy),
    "a pickle of numpy's": lambda: copied(np.random.default_rng, lambda one: pickle.loads(pickle.dumps(one))),
}  # fmt: skip


@pytest.mark.parametrize("code", REWOUND.values(), ids=REWOUND)
def test_a_rewound_generator_is_refused(code: Callable[[], list[bool]]) -> None:
    message = refusal(code)
    assert "it rewinds a random generator" in message
    assert "test_streams.py:" in message


# Not rewound ----------------------------------------------------------------------------------------------------------


def seeds_by_position() -> list[bool]:
    return [torch_coin(torch.Generator().manual_seed(100 + position)) for position in range(2)]


def seeded_and_forked() -> list[bool]:
    """All draws are inside, as if the rest of the program were not to notice."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return twice(torch_coin)


def goes_on_elsewhere() -> list[bool]:
    one, other = torch.Generator().manual_seed(5), torch.Generator()
    first = torch_coin(one)
    other.set_state(one.get_state())
    return [first, torch_coin(other)]


def all_seeded() -> list[bool]:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    return [random.random() < 0.25, np.random.rand() < 0.25, torch_coin()]


def shared_bits() -> list[bool]:
    bits = np.random.PCG64(3)
    one, other = np.random.Generator(bits), np.random.default_rng(bits)
    return [one.random() < 0.25, other.random() < 0.25, np.random.default_rng(one).random() < 0.25]


GOES_ON: dict[str, Callable[[], list[bool]]] = {
    "seeds by position": seeds_by_position,
    "seeded and forked": seeded_and_forked,
    "goes on elsewhere": goes_on_elsewhere,
    "all seeded with one seed": all_seeded,
    "shared bits": shared_bits,
    "numpy's generators without seeds": lambda: twice(lambda: np.random.default_rng().random() < 0.25),
    "Python's generators without seeds": lambda: twice(lambda: random.Random().random() < 0.25),
    "Python's of the system": lambda: twice(lambda: random.SystemRandom().random() < 0.25),
    "a copy that shares its bits": lambda: copied(np.random.default_rng, copy.copy),
    "set before anything is drawn": lambda: [torch.set_rng_state(torch.get_rng_state()) is None and torch_coin()],
}


@pytest.mark.parametrize("code", GOES_ON.values(), ids=GOES_ON)
def test_a_generator_that_goes_on_is_answered(code: Callable[[], list[bool]]) -> None:
    found = chances(code)
    assert found == pytest.approx([0.25] * len(found), abs=EXACT)


def test_a_generator_of_torch_made_in_the_call_is_noted() -> None:
    seen, from_before = fresh(), torch.Generator().manual_seed(3)
    chances(lambda: twice(lambda: torch_coin(from_before)), seen=seen)
    assert not seen.notes
    chances(seeds_by_position, seen=seen)
    (note,) = seen.notes
    assert note.startswith("it makes a random generator from a seed: in real use every call with that seed draws")


# As they were ---------------------------------------------------------------------------------------------------------


def states() -> Iterator[Any]:
    yield torch.get_rng_state().tolist()
    yield torch.initial_seed()
    yield KEPT.get_state().tolist()
    yield random.getstate()
    yield str(np.random.get_state())


def test_generators_are_found_again_as_they_were() -> None:
    torch.rand(3)
    random.random()
    np.random.rand()
    before = list(states())
    chances(lambda: [torch_coin(), torch_coin(KEPT), random.random() < 0.25, np.random.rand() < 0.25])
    refusal(lambda: twice(forked))
    assert list(states()) == before


def test_a_program_that_has_seeded_nothing_is_not_mistaken() -> None:
    """In a new process torch's global generator has the seed that every other one has, too."""
    state = torch.get_rng_state()
    torch.default_generator.set_state(torch.Generator().get_state())
    try:
        assert chances(lambda: [torch_coin(torch.Generator()), torch_coin()]) == pytest.approx([0.25] * 2, abs=EXACT)
    finally:
        torch.set_rng_state(state)
