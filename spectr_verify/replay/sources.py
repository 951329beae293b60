"""numpy.random and Python's random under replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spectr_verify.replay.intercept import Replay


@contextmanager
def answered_sources(replay: Replay) -> Iterator[None]:
    """Answer numpy.random and random from the tape too."""
    yield
