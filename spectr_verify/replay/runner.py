"""Runs code under test along every path, and watches what it does besides returning a result."""

from __future__ import annotations

import io
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

from spectr_verify.errors import InputError, said
from spectr_verify.exact.engine import one_thread
from spectr_verify.replay.intercept import Replay
from spectr_verify.replay.questions import Questions
from spectr_verify.replay.sources import answered_sources
from spectr_verify.replay.tape import STATE, Budget, BudgetError, ReplayError, Tape, paths


@dataclass
class Seen:
    """What was noticed about code under test, over all its runs.

    Attributes:
        single: a number less precise than float64 took part in a random decision.
        notes: other things that its author may want to know, one sentence each.
    """

    single: bool = False
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, sentence: str) -> None:
        """Remember a sentence, once."""
        self.notes.setdefault(sentence)


@dataclass(frozen=True)
class Failure:
    """What an edge coin made the code raise, in place of a result."""

    says: str


@dataclass(frozen=True)
class Outcome:
    """What one path came to.

    Attributes:
        weight: its probability; without meaning on an edge path.
        result: what the code returned; a ``Failure`` where an edge coin made it raise.
        edge: the extreme value that a uniform took, ``None`` on an ordinary path.
    """

    weight: float
    result: Any
    edge: float | None


class _Late(BaseException):
    """A run takes too long. Not an ``Exception``, so that the code under test does not catch it."""


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
        replay = Replay(questions)
        try:
            result = _one_run(call, name, replay, budget, seen)
        except _Raised as raised:
            if questions.edge is None:
                raise ReplayError(raised.says) from raised.__cause__
            result = Failure(raised.says)
        if tape.refusal is not None:
            raise ReplayError(f"{name}: {tape.refusal}")
        seen.single |= replay.single
        return Outcome(tape.weight, result, questions.edge)

    with one_thread():
        try:
            for _, outcome in paths(run, budget):
                yield outcome
        except ReplayError as error:
            raise error if str(error).startswith(name) else ReplayError(f"{name}: {error}") from error


class _Raised(Exception):
    """The code under test raised; the message says what and where."""

    def __init__(self, says: str) -> None:
        super().__init__(says)
        self.says = says


def _one_run(call: Callable[[], Any], name: str, replay: Replay, budget: Budget, seen: Seen) -> Any:
    before = _own_randomness()
    printed = io.StringIO()
    limit = min(budget.run_seconds, max(budget.left, 0.01))
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            torch.no_grad(),
            redirect_stdout(printed),
            redirect_stderr(printed),
            _alarm(limit),
            answered_sources(replay),
            replay,
            replay.functions,
        ):
            return call()
    except _Late:
        if limit < budget.run_seconds:
            raise BudgetError(f"the limit of {budget.seconds:g} seconds is reached; raise it (--max-seconds)") from None
        raise ReplayError(
            f"{name} did not return within {limit:g} seconds on a model of a few tokens; does it loop? "
            "Give it a bound on its tokens and rounds as an argument (--arg)"
        ) from None
    except (KeyboardInterrupt, BudgetError):
        raise
    except BaseException as error:  # the code under test is anybody's
        if replay.questions.tape.refusal is None:
            raise _Raised(f"{name} raised {said(error)}{_at(error)}") from error
        return None
    finally:
        if printed.getvalue():
            seen.note(f"it prints; what it printed first begins {printed.getvalue().strip()[:60]!r}")
        if not _same(before, _own_randomness()):
            replay.questions.tape.refusal = replay.questions.tape.refusal or ReplayError(
                "it drew from a random generator that could not be answered for it (was a function of numpy.random or "
                "random kept from before, or reseeded?); draw from torch, numpy.random or random by their module names"
            )


def _at(error: BaseException) -> str:
    """Where the code under test raised: the last line of its own."""
    inside = ("/spectr_verify/replay/", "/torch/")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(part in frame.filename for part in inside)
    ]
    return f", at {frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise ``_Late`` in the body after that long. Only a main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _own_randomness() -> tuple[Any, ...]:
    """States of the generators that nothing may draw from while their answers come from the tape."""
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - to notice its use


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if not torch.equal(one[0], other[0]) or one[2] != other[2]:
        return False
    return all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))


__all__ = ["STATE", "Failure", "InputError", "Outcome", "Seen", "outcomes"]
