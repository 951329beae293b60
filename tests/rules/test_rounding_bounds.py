"""What rounding alone does to a rule's law stays below a bound that follows from the rule, not from measurement."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from costly import costly
from hypothesis import given, settings

from spectr_verify.chance import Chance
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES
from toy_models import ToyPair, family_pairs, recorded_pairs
from toy_models.strategies import pairs


def benchmark(name: str) -> ModuleType:
    """A script of benchmarks/, which is no package."""
    path = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rounding = benchmark("rounding")
FORMATS = pytest.mark.parametrize("form", rounding.FORMATS, ids=str)


@FORMATS
@pytest.mark.parametrize("name", costly(RULES))
@pytest.mark.parametrize("pair", [*family_pairs(0, 3, 2), *recorded_pairs()], ids=lambda pair: pair.name)
def test_rounding_stays_below_its_bound(name: str, pair: ToyPair, form: torch.dtype) -> None:
    error = rounding.rounding_error(RULES[name], pair, 2, 2, form)
    assert error <= rounding.bound(name, pair, 2, 2, form)


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("name", list(rounding.BOUNDS))
@given(pair=pairs(max_vocab=3, max_length=2, max_drafts=3))
@settings(max_examples=25)
def test_rounding_stays_below_its_bound_on_drawn_pairs(name: str, form: torch.dtype, pair: ToyPair) -> None:
    error = rounding.rounding_error(RULES[name], pair, pair.length, pair.drafts, form)
    assert error <= rounding.bound(name, pair, pair.length, pair.drafts, form)


@pytest.mark.parametrize("name", list(rounding.BOUNDS))
def test_bounds_are_not_so_wide_that_anything_passes(name: str) -> None:
    """A rule that rounds what it is given in float32 to bfloat16 breaks them."""
    pair = recorded_pairs()[0]

    def coarse(round: Round, chance: Chance) -> Emission:
        if round.draft_probs.dtype == torch.float32:
            p, q = (laws.bfloat16().float() for laws in (round.draft_probs, round.target_probs))
            round = Round(round.drafts, p, q)
        return RULES[name].verify(round, chance)

    error = rounding.rounding_error(replace(RULES[name], verify=coarse), pair, 2, 2, torch.float32)
    assert error > 10 * rounding.bound(name, pair, 2, 2, torch.float32)
