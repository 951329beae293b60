"""Runs code under test along every path, and watches what it does besides returning a result."""

from __future__ import annotations

import gc
import io
import pickle
import random
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from spectr_verify.errors import said
from spectr_verify.exact.engine import one_thread
from spectr_verify.replay.arguments import ArgumentError
from spectr_verify.replay.intercept import Remains, Replay
from spectr_verify.replay.questions import Questions
from spectr_verify.replay.sources import SCRATCH, Imported, answered_sources, imported_names
from spectr_verify.replay.tape import STATE, Budget, BudgetError, ReplayError, Tape, paths
from spectr_verify.replay.where import may_be_under_test


@dataclass
class Seen:
    """What was noticed about code under test, over all its runs.

    Attributes:
        single: a number less precise than float64 took part in a random decision.
        notes: other things that its author may want to know, one sentence each.
        kept: random numbers that it has kept from earlier runs without having decided them.
        generators: numpy generators that were there before it ran.
        imported: names of its module, and others, that are random functions themselves.
    """

    single: bool = False
    notes: dict[str, None] = field(default_factory=dict)
    kept: list[Remains] = field(default_factory=list, repr=False)
    generators: list[Any] | None = field(default=None, repr=False)
    imported: list[Imported] = field(default_factory=list, repr=False)

    def note(self, start: str, rest: str = "") -> None:
        """Remember a sentence, once; of sentences that start alike and go on differently, the first."""
        if not rest or not any(known.startswith(start) for known in self.notes):
            self.notes.setdefault(start + rest)

    def note_failure(self, failure: Failure, weight: float) -> None:
        """Remember what goes wrong on a path that is likely enough to be met."""
        if weight > RARE[False]:
            self.note("it goes wrong on paths of little probability, ", f"here {weight:.1g}: {failure.says}")


RARE = {False: 1e-12, True: 1e-6}
"""Paths of this probability may be there because of rounding alone: of float64, and of float32."""


@dataclass(frozen=True)
class Failure:
    """What went wrong at an edge coin, or on a path that hardly has any weight, in place of a result."""

    says: str


@dataclass(frozen=True)
class Outcome:
    """What one path came to.

    Attributes:
        weight: its probability; without meaning on an edge path.
        result: what the code returned; a ``Failure`` where an edge coin made it raise.
        edge: the extreme value that a uniform took, ``None`` on an ordinary path.
        excused: whether what goes wrong here is a finding, and does not end the whole enumeration: at an extreme value,
            and on a path that rounding has opened.
    """

    weight: float
    result: Any
    edge: float | None
    excused: bool


def outcomes(
    call: Callable[[], Any], name: str, budget: Budget, seen: Seen, *, edges: bool = False
) -> Iterator[Outcome]:
    """Every path of ``call``.

    Args:
        call: runs the code under test once, on inputs that are new each time.
        name: what messages call the code.
        budget: how many paths and seconds there are.
        seen: collects what is noticed.
        edges: whether uniforms also take the extreme values that their generators produce, one at most in a run.

    Raises:
        BudgetError: the budget is used up.
        ReplayError: no exact law of this code; the message says why and what to do.
    """

    def run(tape: Tape) -> Outcome:
        questions = Questions(tape, edges=edges)
        replay = Replay(questions, seen.kept)
        try:
            result = _one_run(call, name, replay, budget, seen)
        except _RaisedError as raised:
            if questions.edge is None and tape.weight > RARE[questions.single]:
                likely = "" if tape.weight == 1 else f" (with probability {tape.weight:.2g})"
                raise ReplayError(f"{raised}{likely}{_advice(raised.__cause__)}") from raised.__cause__
            result = Failure(str(raised))
        finally:
            seen.kept = replay.close()
            seen.single |= questions.single
            for sentence in replay.notes:
                seen.note(sentence)
        if tape.refusal is not None:
            raise ReplayError(f"{name}: {tape.refusal}")
        excused = questions.edge is not None or tape.weight <= RARE[questions.single]
        return Outcome(tape.weight, result, questions.edge, excused)

    first_run = not edges

    def twice(tape: Tape) -> Outcome:
        """The first path runs twice: code that keeps state does not return the same again."""
        nonlocal first_run
        outcome = run(tape)
        if first_run:
            again = Tape(tape.trail)
            repeated = run(again)
            if again.asked != tape.asked:
                raise ReplayError(". ".join(STATE))
            if not _alike(outcome.result, repeated.result):
                raise ReplayError(UNLIKE)
        first_run = False
        return outcome

    if seen.generators is None:
        seen.generators, seen.imported = _numpy_generators(), imported_names()
    with one_thread():
        try:
            total = 0.0
            for weight, outcome in paths(twice, budget):
                total += weight
                yield outcome
            if not edges and abs(total - 1) > TOTAL:
                raise ReplayError(f"the probabilities of all its outcomes add up to {total:.12g} instead of 1; {MANY}")
        except ReplayError as error:
            raise error if str(error).startswith(name) else ReplayError(f"{name}: {error}") from error


TOTAL = 1e-9
"""How far from 1 the weights of all paths may sum."""

MANY = "it has too many outcomes of tiny probability. Take fewer tokens or drafts"

UNLIKE = (
    "it returned something else when it ran again with the same inputs and the same random choices: it keeps state "
    "between calls, or has randomness of its own. Make each call start afresh"
)


def _alike(one: Any, other: Any) -> bool:
    """Whether two results are the same, as far as they are made of tensors, arrays and plain values."""
    leaves = tree_leaves(one), tree_leaves(other)
    return len(leaves[0]) == len(leaves[1]) and all(map(_same, *leaves))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, np.ndarray | np.generic | bool | int | float | str):
        return np.array_equal(one, other)
    return type(one) is type(other)


class _RaisedError(Exception):
    """The code under test raised; the message says what and where."""


def _one_run(call: Callable[[], Any], name: str, replay: Replay, budget: Budget, seen: Seen) -> Any:
    printed = io.StringIO()
    limit = min(budget.run_seconds, max(budget.left, 0.01))
    try:
        with (
            # First of all: it imports the compiler, which draws random numbers while it is imported.
            torch.compiler.set_stance("force_eager"),
            _own_randomness(replay, seen),
            torch.no_grad(),
            redirect_stdout(printed),
            redirect_stderr(io.StringIO()),
            answered_sources(replay, seen.imported),
            replay,
            replay.functions,
        ):
            result = _timed(call, limit)
            if replay.holds_undecided(result):
                replay.refuse("it returns random numbers that are still undecided")
            return result
    except _LateError:
        if limit < budget.run_seconds:
            raise BudgetError(f"the limit of {budget.seconds:g} seconds is reached; raise it (--max-seconds)") from None
        raise ReplayError(
            f"{name} did not return within {limit:g} seconds on a model of a few tokens; does it loop? "
            "Give it a bound on its tokens and rounds as an argument (--arg)"
        ) from None
    except (KeyboardInterrupt, BudgetError, ArgumentError):
        raise
    except BaseException as error:  # the code under test is anybody's
        if replay.questions.tape.refusal is None:
            raise _RaisedError(f"{name} raised {said(error)}{_at(error)}") from error
        return None
    finally:
        if printed.getvalue():
            seen.note("it prints; ", f"what it printed first begins {printed.getvalue().strip()[:60]!r}")


def _at(error: BaseException) -> str:
    """Where the code under test raised: the last line of its own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if may_be_under_test(frame.filename)]
    return f", at {frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""


def _advice(error: BaseException | None) -> str:
    """What to do about errors of the machine and not of the code."""
    if "CUDA" in str(error) and not torch.cuda.is_available():
        return ". This machine has no CUDA: audit on the CPU, with the device an argument or that of the inputs"
    return ""


class _LateError(BaseException):
    """A run takes too long. Not an ``Exception``, so that the code under test does not catch it."""


def _timed(call: Callable[[], Any], seconds: float) -> Any:
    """Call, and raise ``_LateError`` in it after that long. Only a main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    running, over = True, False

    def late(*_: Any) -> None:
        nonlocal over
        if running:
            over = True
            raise _LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)  # again and again, for code that catches even that
    try:
        result = call()
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if over:
        raise _LateError
    return result


@contextmanager
def _own_randomness(replay: Replay, seen: Seen) -> Iterator[None]:
    """Notice draws from generators that could not be answered for, and restore the states of the global ones."""
    before, outside = _states(), [_state(generator) for generator in seen.generators or ()]
    try:
        yield
    finally:
        after = _states()
        moved = [source for source in before if before[source] != after[source]]
        reseeded = [source for source in moved if _is_fresh(source)]
        if moved:
            _restore(before)
        for source in reseeded:
            replay.note(
                f"it seeds {source}: in real use every call then draws the same numbers, whatever text it continues. "
                "The laws are those of the code without that"
            )
        if reseeded != moved or outside != [_state(generator) for generator in seen.generators or ()]:
            replay.questions.tape.refusal = replay.questions.tape.refusal or ReplayError(
                "it drew from a random generator that could not be answered for it (a numpy Generator made before the "
                "call, or a function of numpy.random or random kept from before?); draw from torch, or from "
                "numpy.random and random by their module names"
            )


def _states() -> dict[str, Any]:
    """States of the generators that nothing may draw from while their answers come from the tape."""
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - to notice its use
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy.random": (numpy["state"]["key"].tobytes(), numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]),
        "random": random.getstate(),
    }


def _restore(states: dict[str, Any]) -> None:
    key, *rest = states["numpy.random"]
    torch.set_rng_state(torch.tensor(list(states["torch"]), dtype=torch.uint8))
    np.random.set_state(("MT19937", np.frombuffer(key, dtype=np.uint32), *rest))  # noqa: NPY002
    random.setstate(states["random"])


def _is_fresh(source: str) -> bool:
    """Whether a generator was seeded and not drawn from since."""
    if source == "torch":
        seeded = torch.Generator().manual_seed(torch.initial_seed())
        return torch.equal(torch.get_rng_state(), seeded.get_state())
    place = random.getstate()[1][-1] if source == "random" else _states()["numpy.random"][1]
    return bool(place == 624)  # the Mersenne twister is at the end of its state


def _numpy_generators() -> list[Any]:
    """All that exist now. They cannot be answered for, as their class cannot be changed."""
    kinds = (np.random.Generator, np.random.RandomState)
    known = (np.random.mtrand._rand, *SCRATCH)
    return [thing for thing in gc.get_objects() if type(thing) in kinds and not any(thing is one for one in known)]


def _state(generator: Any) -> bytes:
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator._bit_generator
    return pickle.dumps(bits.state)


__all__ = ["Failure", "Outcome", "Seen", "outcomes"]
