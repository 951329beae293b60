"""The benchmark that compares rules: what it computes along texts is what the rules accept."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from toy_models import FAMILIES


@pytest.fixture(scope="module")
def best_rule() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "best_rule", Path(__file__).parents[2] / "benchmarks" / "best_rule.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["best_rule"] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


PAIR = FAMILIES["random"](np.random.default_rng(3), 3, 2)


@pytest.mark.parametrize("name", ["block-race", "tournament-block", "blended-tournament-block"])
def test_means_along_texts_are_what_the_rules_accept(best_rule: ModuleType, name: str) -> None:
    texts, weight = best_rule.every_text(PAIR, 2)
    found = float((weight * texts.accepted(name, 2, 2)).sum())
    assert found == pytest.approx(round_law(RULES[name], PAIR, 2, 2).expected_accepted, abs=1e-12)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--only", "nowhere"], "'nowhere' is part of no name; the names are: shipped pair, V = 1024, temperature 1; "),
        (["--toys", "--only", "shipped"], "--only chooses among texts, and --toys has none"),
        (["--texts", "1"], "--texts is 1; a standard error needs two"),
        (["--plot", "a.svg", "--tried"], "--plot draws the rules, and --tried lists other ways"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_is_refused(
    best_rule: ModuleType,
    asked: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["best_rule.py", *asked])
    with pytest.raises(SystemExit) as end:
        best_rule.main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_verifying_the_winner_of_the_race_accepts_no_more_than_the_race(best_rule: ModuleType) -> None:
    texts, _ = best_rule.every_text(PAIR, 2)
    again = texts.along(best_rule.verified(best_rule.law_after_the_race), 3, 2)
    np.testing.assert_allclose(again.numpy(), texts.accepted("block-race", 3, 2).numpy(), atol=1e-12)


def test_the_part_that_is_ironed_can_be_another(best_rule: ModuleType) -> None:
    texts, _ = best_rule.every_text(PAIR, 2)
    share = best_rule.other_part(lambda fidelity, left: fidelity**left)
    law = partial(best_rule.winner_law, share=share, capped=True)
    expected = texts.accepted("blended-tournament-block", 3, 2)
    np.testing.assert_allclose(texts.along(best_rule.verified(law), 3, 2).numpy(), expected.numpy(), atol=1e-12)
