"""The rules stated in fractions: exactly lossless or exactly not, and the rules that decode have the same laws."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectr_verify.chance import smallest_uniform_law
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from toy_models import ToyPair, pair_to_json, read_pairs, recorded_pairs
from toy_models.strategies import pairs

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "proofs" / "exact_laws.py"
GOLDEN = ROOT / "tests" / "data" / "golden.json"
MODULE = runpy.run_path(str(SCRIPT))
law = MODULE["law"]

STATED = list(MODULE["RULES"])
LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]
SMALL = pairs(max_vocab=3, max_length=2, max_drafts=2, max_weight=5) | pairs(max_vocab=2, max_length=2, max_drafts=3)
SLOW = [HealthCheck.too_slow]
HALF = ["1/2", "1/2"]


def golden() -> list[dict[str, Any]]:
    return json.loads(GOLDEN.read_text())["instances"]


def two_tokens(draft: list[list[str]], target: list[list[str]], length: int, drafts: int) -> dict[str, Any]:
    """A pair from the laws after the empty text and, for L = 2, after 0 and 1; even ones wherever nothing is said."""
    tables = ([laws[:1], laws[1:] or [HALF] * 2, [HALF] * 4] for laws in (draft, target))
    return {"length": length, "drafts": drafts} | dict(zip(("draft", "target"), tables, strict=True))


def test_it_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(SCRIPT.read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= sys.stdlib_module_names


def test_every_rule_of_the_register_is_stated_but_the_one_with_an_exponential() -> None:
    assert set(STATED) == set(RULES) - {"typical"}


@pytest.mark.parametrize("name", STATED)
@given(pair=SMALL)
@settings(max_examples=20, suppress_health_check=SLOW)
def test_the_rules_that_decode_have_the_laws_that_are_stated(name: str, pair: ToyPair) -> None:
    compare(name, pair, pair.length, pair.drafts)


@pytest.mark.parametrize("name", STATED)
def test_they_have_the_same_laws_on_recorded_pairs(name: str) -> None:
    for pair in recorded_pairs()[:3]:
        compare(name, pair.exact(), 1, 2)


@pytest.mark.parametrize("name", STATED)
def test_they_have_the_same_laws_in_a_block_of_three(name: str) -> None:
    pair = next(pair for pair in read_pairs(str(GOLDEN), exact=True) if pair.vocab == 2 and pair.length == 3)
    compare(name, pair, 3, 1)


def compare(name: str, pair: ToyPair, length: int, drafts: int) -> None:
    rule, V = RULES[name], pair.vocab
    exact, floats = law(name, pair_to_json(pair), length, drafts), round_law(rule, pair, length, drafts)
    assert sum(exact.emissions.values()) == sum(exact.completed.values()) == sum(exact.target.values()) == 1
    emissions = [np.zeros(V ** (size + 1)) for size in range(length + 1)]
    for text, mass in exact.emissions.items():
        emissions[len(text) - 1][sum(token * V**place for place, token in enumerate(reversed(text)))] = mass
    for stated, found in zip(emissions, floats.emissions, strict=True):
        np.testing.assert_allclose(found, stated, rtol=0, atol=1e-12)
    for stated, found in ((exact.completed, floats.completed), (exact.target, floats.target)):
        np.testing.assert_allclose(found, [float(mass) for mass in stated.values()], rtol=0, atol=1e-12)
    assert floats.expected_accepted == pytest.approx(float(exact.accepted), abs=1e-12)
    if rule.lossless:
        assert exact.lossless


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("number", range(14))
def test_lossless_rules_follow_the_target_exactly_on_every_golden_pair(name: str, number: int) -> None:
    assert law(name, golden()[number]).lossless


def test_spectr_gbv_gives_the_first_token_the_wrong_fraction() -> None:
    pair = two_tokens([HALF], [["1/3", "2/3"]], 1, 2)
    published, released = (law(f"spectr-gbv-{variant}", pair) for variant in ("published", "released"))
    assert published.begins((0,)) == Fraction(13, 54) < Fraction(1, 3)
    assert released.begins((0,)) == Fraction(49, 162) < Fraction(1, 3)
    assert not published.lossless
    assert not released.lossless


def test_released_spectr_gbv_with_one_draft_gives_the_second_token_the_wrong_fraction() -> None:
    pair = two_tokens([HALF, ["1", "0"], HALF], [["1", "0"], HALF, HALF], 2, 1)
    released = law("spectr-gbv-released", pair)
    assert released.begins((0,)) == 1
    assert released.begins((0, 0)) == Fraction(3, 4) > Fraction(1, 2)
    assert law("spectr-gbv-published", pair).lossless


@pytest.mark.parametrize("number", range(11))
def test_spectr_gbv_is_exactly_as_far_off_as_the_golden_values_say(number: int) -> None:
    pair = golden()[number]
    for variant in ("published", "released"):
        found = law(f"spectr-gbv-{variant}", pair)
        expected = pair[f"{variant}_spectr_gbv"]
        distance = sum(abs(found.begins((c,)) - Fraction(due)) for c, due in enumerate(pair["target"][0][0])) / 2
        assert float(distance) == pytest.approx(expected["tv_first_token"], abs=1e-9)
        assert float(found.accepted) == pytest.approx(expected["expected_accepted"], abs=1e-9)


ENDS = st.lists(st.fractions(0, 1, max_denominator=12), min_size=2, max_size=2, unique=True).map(sorted)


@given(intervals=st.lists(ENDS, min_size=1, max_size=4))
def test_the_smallest_of_some_uniforms_has_the_law_that_quadrature_finds(intervals: list[list[Fraction]]) -> None:
    low, high = ([ends[i] for ends in intervals] for i in (0, 1))
    stated = MODULE["smallest_of"](low, high)
    assert sum(stated) == 1
    floats = (torch.tensor([[float(x) for x in ends]], dtype=torch.float64) for ends in (low, high))
    np.testing.assert_allclose(smallest_uniform_law(*floats)[0].numpy(), [float(x) for x in stated], rtol=0, atol=1e-12)


def test_the_script_prints_a_verdict_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pair.json"
    path.write_text(json.dumps(two_tokens([HALF], [["1/3", "2/3"]], 1, 2)))

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-I", SCRIPT, *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    status, printed = run("spectr-gbv-released", str(path))
    assert status == 1
    assert "a text begins with (0,) with probability 49/162, and should with 1/3" in printed
    assert "E[tau] = 1127/1296 = 0.869598765" in printed
    status, printed = run("spectr-gbv-published", str(path), "--drafts", "1")
    assert status == 0
    assert "E[tau] = 5/6 = 0.833333333" in printed
    status, printed = run("block-race", str(path))
    assert status == 0
    assert "exactly the target's law" in printed
    status, printed = run("typical", str(path))
    assert status == 2
    assert "usage" in printed


FAIR = two_tokens([HALF], [HALF], 1, 1)
WRONG = {
    "draft and target of different vocabularies": (
        FAIR | {"draft": [[["1/3", "1/3", "1/3"]], [["1/3", "1/3", "1/3"]] * 3]},
        "the draft has 3 tokens and the target 2",
    ),
    "a law of another length": (FAIR | {"target": [[HALF], [HALF, ["1/4", "1/4", "1/2"]]]}, "must have 2 entries"),
    "no draft": (FAIR | {"drafts": 0}, "both must be whole numbers from 1 on"),
    "too few levels": (FAIR | {"length": 3}, "there are 3 levels"),
    "no pair": ([], "there is no pair in it"),
    "an exponent that would take all memory": (FAIR | {"draft": [[["1e999999999", "0"]]] * 2}, "is not a probability"),
    "too many tuples": (FAIR | {"drafts": 40}, "make more than 1,000,000 tuples"),
    "no laws": ({"drafts": 1, "length": 1}, "no verdict: KeyError"),
}


@pytest.mark.parametrize(("content", "told"), WRONG.values(), ids=WRONG)
def test_wrong_input_gets_no_verdict(
    content: object, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and not the 1 of a biased rule or the 0 of a lossless one."""
    file = tmp_path / "pairs.json"
    file.write_text(json.dumps(content))
    assert MODULE["main"](["block-race", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err


def test_a_pair_without_a_verdict_does_not_take_those_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.json"
    bare = {role: FAIR[role][:2] for role in ("draft", "target")}  # K and L are 2 where nobody says otherwise
    file.write_text(json.dumps([bare, FAIR]))
    assert MODULE["main"](["block-race", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("pair 1: block-race is lossless")
    assert "pair 0: no verdict: ValueError: blocks of 2 tokens need laws" in printed.err
    assert MODULE["main"](["spectr-gbv-released", str(file), "--length", "1"]) == 0


TINY = Fraction(1, 2**60)


@pytest.mark.parametrize(
    "name",
    ["ironed-tournament-block", "ironed-tournament-greedy-block", "blended-tournament-block", "optimal-token"],
)
@pytest.mark.parametrize(
    ("draft", "target"),
    [
        ([Fraction(1, 2) + Fraction(1, 2**47), TINY], [Fraction(1, 10), TINY * 3 / 4]),
        ([1 - Fraction(1, 2**45)], [1 - Fraction(3, 2**46)]),
        ([Fraction(1, 10**13 + 1)], [Fraction(13, 12 * 10**13 + 13)]),
    ],
)
def test_what_is_done_with_any_drafts_is_a_law_however_skewed_the_laws_are(
    name: str, draft: list[Fraction], target: list[Fraction]
) -> None:
    """Cuts of scores are rounded: to a share of where they lie, or there is no verdict."""
    pair = {}
    for role, entries in (("draft", draft), ("target", target)):
        first = [str(entry) for entry in (*entries, 1 - sum(entries))]
        pair[role] = [[first], [first] * len(first)]
    assert law(name, pair, 1, 2).lossless


def test_a_rule_that_does_no_law_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Fraction(1)
    for wrong in ({(0,): one, (1,): one}, {(0,): 2 * one, (1,): -one}):
        monkeypatch.setitem(MODULE["RULES"], "token", lambda m, drafts, wrong=wrong: wrong)
        with pytest.raises(ValueError, match="is no law"):
            law("token", FAIR)


def test_fractions_of_any_length_are_judged(tmp_path: Path) -> None:
    large = 10**1200
    draft, target = [[f"1/{large + 7}", f"{large + 6}/{large + 7}"]], [[f"1/{large + 9}", f"{large + 8}/{large + 9}"]]
    file = tmp_path / "long.json"
    file.write_text(json.dumps(two_tokens(draft, target, 1, 4)))
    done = subprocess.run(
        [sys.executable, "-I", SCRIPT, "block-race", file], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_breakdown_is_no_verdict(tmp_path: Path) -> None:
    file = tmp_path / "pair.json"
    file.write_text(json.dumps(FAIR))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-I", SCRIPT, "token", file], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode not in (0, 1)


def test_decimals_are_what_they_are_written_as(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pair.json"
    file.write_text(json.dumps(two_tokens([[0.1, 0.9]], [[0.3, 0.7]], 1, 1)))
    assert MODULE["main"](["token", str(file)]) == 0
    assert "E[tau] = 4/5" in capsys.readouterr().out
