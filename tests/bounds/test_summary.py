"""The record of all bounds, and what importing the room costs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import spectr_verify.bounds as room
from spectr_verify.bounds import BoundError, bounds, closed_forms, stateful_optimum, stateless_optimum
from toy_models import read_pairs

PAIR = read_pairs(Path(__file__).parent.parent / "data" / "golden.json")[8]


def test_the_record_holds_what_the_functions_return() -> None:
    found = bounds(PAIR, 2, 2)
    assert (found.pair, found.length, found.drafts) == (PAIR.name, 2, 2)
    assert found.closed == closed_forms(PAIR, 2, 2)
    assert found.stateless.value == stateless_optimum(PAIR, 2, 2).value
    assert found.stateful.value == stateful_optimum(PAIR, 2, 2).value
    with pytest.raises(FrozenInstanceError):
        found.length = 3


def test_the_record_goes_through_json() -> None:
    found = bounds(PAIR, 1, 3)
    read = json.loads(json.dumps(found.as_dict()))
    assert read["closed"] == found.closed
    for name, optimum in (("stateless", found.stateless), ("stateful", found.stateful)):
        assert read[name]["value"] == optimum.value
        assert read[name]["gap"] == optimum.upper - optimum.value
        assert read[name]["status"] == "optimal"
        assert 0 <= optimum.solver_seconds <= optimum.seconds


def test_limits_reach_both_programs() -> None:
    found = bounds(PAIR, 2, 2, max_variables=5)
    assert (found.stateless, found.stateful) == (None, None)
    assert found.as_dict()["stateful"] is None
    assert found.closed == closed_forms(PAIR, 2, 2)
    with pytest.raises(BoundError, match="user_limit"):
        bounds(PAIR, 2, 2, time_limit=0.0)


def test_the_room_shows_its_names() -> None:
    assert sorted(room.__all__) == sorted(name for name in room.__all__ if hasattr(room, name))
    assert {"bounds", "closed_forms", "stateful_optimum", "stateless_optimum", "BoundError"} <= set(room.__all__)


def test_importing_the_room_does_not_import_the_solver() -> None:
    code = "import sys, spectr_verify.bounds; print(sorted({'cvxpy', 'scipy', 'highspy', 'torch'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
