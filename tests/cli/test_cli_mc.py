"""Monte Carlo runs and decoded texts as a user types them: what is told, written and refused."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import run
from rich.console import Console

from spectr_verify.cli.status import (
    STATUS_BIASED,
    STATUS_BROKEN,
    STATUS_INTERRUPTED,
    STATUS_REFUSED,
)
from spectr_verify.errors import InputError
from spectr_verify.montecarlo import FAULTS
from spectr_verify.report.montecarlo import decoded_text
from toy_models.prompts import prompts

COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
SHORT = ["--texts", "20", "--batch", "10", "--tokens", "6", "--length", "3"]
ENOUGH = ["--texts", "200", "--batch", "100", "--tokens", "12"]

LEVIATHAN = (Path(__file__).parents[1] / "leviathan.py").read_text()

MINE = """
from pathlib import Path

import torch

from spectr_verify.rules import RULES

rounds = 0


def begins(round, chance):
    global rounds
    rounds += 1
    if rounds == 20:
        Path("begun").touch()
    return RULES["token"].verify(round.first_drafts(1), chance)


def raises(draft_tokens, draft_probs, target_probs):
    return draft_tokens[99]
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(LEVIATHAN + MINE)
    monkeypatch.chdir(tmp_path)


def strict(text: str) -> dict:
    """JSON without NaN and infinity, which are not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_lossless_rule(tmp_path: Path) -> None:
    status, said = run("mc", "--rule", "token", *SHORT, "--json", "out.json")
    assert status == 0
    assert "token: no fault found, and hardly any could be, 120 tokens in 20 texts (K = 3, L = 3, temper" in said
    for part in ("e-value", "rejects from 3.00 on", "still possible", "end to end", "first token", "tokens a second"):
        assert part in said
    written = strict((tmp_path / "out.json").read_text())
    assert written["schema"] == "spectr-verify/mc/1"
    assert written["lossless_rejected"] is False
    assert (written["rule"], written["texts"], written["tokens"]) == ("token", 20, 120)
    assert written["models"] == {
        "target": "trained target",
        "draft": "trained draft",
        "dtype": "float32",
        "device": "cpu",
    }
    assert written["power"] == []
    again = run("mc", "--rule", "token", *SHORT, "--json", "-")[1]
    assert strict(again[again.index("{") :])["log10_e"] == written["log10_e"]


def test_a_biased_rule(tmp_path: Path) -> None:
    faulty = "spectr_verify.montecarlo.faults:residual_not_subtracted"
    status, said = run("mc", "--rule", faulty, "--drafts", "1", *ENOUGH, "--alpha", "0.01", "--json", "out.json")
    assert status == STATUS_BIASED
    assert f"{faulty}: NOT lossless" in said
    assert "- the text does not follow the target; the best alternative: " in said
    assert "the evidence was enough" in said
    written = strict((tmp_path / "out.json").read_text())
    assert written["lossless_rejected"] is True
    assert written["log10_e"] >= 2
    assert written["ended"] == "e-value"


@pytest.mark.parametrize("right", [True, False])
def test_a_function_of_one_s_own(right: bool) -> None:
    words = ["mc", "--rule", "mine.py:verify", "--calls", "probabilities", "--drafts", "1"]
    status, said = run(*words, *(SHORT if right else ENOUGH), "--arg", f"residual={right}")
    assert status == (0 if right else STATUS_BIASED)
    assert ("no fault found" if right else "NOT lossless") in said


def test_the_options_arrive(tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("one\n---\ntwo words\nand a line\n")
    own = ["--temperature", "0.7", "--top-k", "20", "--top-p", "0.9", "--min-p", "0.01", "--drafts", "2", "--seed", "7"]
    more = ["--alpha", "0.02", "--seconds", "500", "--reference-dtype", "float64", "--prompts", "asked.txt"]
    assert run("mc", *SHORT, *own, *more, "--json", "out.json")[0] == 0
    written = strict((tmp_path / "out.json").read_text())
    assert written["rule"] == "block-race"
    assert written["settings"] == {
        "drafts": 2,
        "length": 3,
        "tokens": 6,
        "texts": 20,
        "filters": {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.01},
        "alpha": 0.02,
        "seed": 7,
        "batch": 10,
        "seconds": 500.0,
        "enough": None,
    }
    assert written["end_to_end"]["dtype"] == "float64"
    assert written["first_token"]["prompts"] == 2
    assert run("mc", *SHORT, "--prompt", "a", "--prompt", "b", "--prompt", "c", "--json", "out.json")[0] == 0
    three = strict((tmp_path / "out.json").read_text())
    assert three["prompts"] == ["a", "b", "c"]
    assert three["first_token"] is None or three["first_token"]["prompts"] == 3


def test_the_time_is_up() -> None:
    """How many texts there are then is another number every time, and so is their evidence: alpha is out of reach."""
    words = ["mc", "--rule", "token", *SHORT, "--texts", "100000", "--alpha", "1e-9"]
    status, said = run(*words, "--seconds", "0.5")
    assert status == 0
    assert "time was up" in said


def test_planted_faults_that_are_missed_have_a_status(tmp_path: Path) -> None:
    """Twenty short texts are too few for most of them: the tool says so of itself."""
    status, said = run("mc", "--rule", "token", *SHORT, "--power", "--json", "out.json")
    assert status == STATUS_BROKEN
    written = strict((tmp_path / "out.json").read_text())["power"]
    assert [row["rule"] for row in written] == [fault.rule.name for fault in FAULTS]
    assert [row["says"] for row in written] == [fault.says for fault in FAULTS]
    missed = [row["rule"] for row in written if row["log10_e"] < 6]
    assert missed
    assert said.count("MISSED") == len(missed)
    for fault in FAULTS:
        assert fault.rule.name in said


@pytest.mark.slow
def test_planted_faults_that_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one that needs few texts; tests/montecarlo/test_real_pair.py has all of them, with the default budget."""
    strong = [fault for fault in FAULTS if fault.rule.name == "longest-of-the-blocks"]
    monkeypatch.setattr("spectr_verify.montecarlo.run.FAULTS", strong)
    status, said = run("mc", "--rule", "token", *ENOUGH, "--power")
    assert status == 0
    assert "planted faults" in said
    assert said.partition("what is wrong")[2].count("rejected") == 1
    assert "MISSED" not in said


@pytest.mark.slow
def test_a_biased_rule_has_its_status_whatever_the_planted_faults_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.montecarlo.run.FAULTS", FAULTS[:1])
    status, said = run("mc", "--rule", "typical", *SHORT, "--texts", "100", "--power")
    assert status == STATUS_BIASED
    assert "MISSED" in said


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_tells_what_it_has(by: signal.Signals, tmp_path: Path) -> None:
    words = ["mc", "--rule", "mine.py:begins", *SHORT, "--texts", "1000000", "--power", "--json", "out.json"]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ONE_THREAD
    ) as process:
        until = time.monotonic() + 120
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(by)
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == STATUS_INTERRUPTED, complaint
    assert complaint == ""
    assert "; interrupted)" in said
    assert "still possible" in said
    written = strict((tmp_path / "out.json").read_text())
    assert written["ended"] == "interrupted"
    assert written["tokens"] == 6 * written["texts"] > 0
    assert written["power"] == []


def test_interrupted_in_the_search_for_power(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    from spectr_verify.montecarlo import PlantedFault
    from spectr_verify.rules import Rule

    fault = PlantedFault(Rule("interrupted", interrupted), "It is interrupted.")
    monkeypatch.setattr("spectr_verify.montecarlo.run.FAULTS", (fault, *FAULTS))
    status, said = run("mc", "--rule", "token", *SHORT, "--power", "--json", "out.json")
    assert status == STATUS_INTERRUPTED
    assert "token: no fault found" in said
    (row,) = strict((tmp_path / "out.json").read_text())["power"]
    assert (row["ended"], row["texts"]) == ("interrupted", 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mc", "--rule", "tokn"], "no rule is called 'tokn'; the registered ones are"),
        (["mc", "--rule", "mine.py:nothing"], "has no 'nothing'"),
        (["mc", "--rule", "mine.py:verify"], "--calls probabilities"),
        (["mc", "--rule", "token", "--calls", "step"], "token is a registered rule"),
        (["mc", "--rule", "mine.py:raises", "--calls", "probabilities", *SHORT], "mine.py:raises.* raised IndexError"),
        (["mc", "--arg", "gamma=L"], "takes no arguments"),
        (["mc", "--prompts", "codes"], "'codes' is no prompt set .code, .* and no file that can be read"),
        (["mc", "--prompts", "."], "is no prompt set"),
        (["mc", "--prompt", ""], "prompt 0 is empty"),
        (["mc", "--prompt", "x " * 2_000, *SHORT], "more than the .* that the models read"),
        (["mc", "--device", "abacus"], "there is no device 'abacus' here"),
        (["mc", "--dtype", "float13"], "the number format is 'float13'; it must be one of float32, float64"),
        (["mc", "--reference-dtype", "int8"], "the number format of the independent call is 'int8'"),
        (["mc", "--reference-dtype", "bfloat16"], "'bfloat16'; it must be one of float32, float64"),
        (["mc", "--alpha", "0"], "alpha is 0.0; it must lie between 0 and 1"),
        (["mc", "--alpha", "1.5"], "alpha is 1.5"),
        (["mc", "--tokens", "3", "--length", "4"], "a text of 3 tokens is shorter than a draft of 4"),
        (["mc", "--top-p", "0"], "top-p is 0.0; it must be above 0"),
        (["mc", "--top-k", "0"], "top-k is 0"),
        (["mc", "--min-p", "2"], "min-p is 2.0"),
        (["mc", "--temperature", "-1"], "the temperature is -1.0"),
        (["mc", "--temperature", "nan"], "the temperature is nan"),
        (["mc", "--seconds", "0"], "seconds is 0.0"),
        (["mc", "--seconds", "inf"], "seconds is inf"),
        (["mc", "--target", "somewhere"], "the draft model is not named; name both"),
        (["mc", "--draft", "somewhere"], "the target model is not named; name both"),
        (["mc", "--target", ".", "--draft", "."], "no tokenizer can be loaded from"),
        (["mc", "--texts", "0"], "(?i)texts"),
        (["mc", "--drafts", "0"], "(?i)drafts"),
        (["mc", "--batch", "0"], "(?i)batch"),
        (["mc", "--seed", "-1"], "(?i)seed"),
        (["mc", "--calls", "replay"], "(?i)calls"),
        (["mc", "--json", "missing/out.json"], "cannot be written"),
        (["generate", "--rule", "tokn"], "no rule is called 'tokn'"),
        (["generate", ""], "prompt 0 is empty"),
        (["generate", "--tokens", "3"], "a text of 3 tokens is shorter than a draft of 4"),
        (["generate", "--top-p", "1.5"], "top-p is 1.5"),
        (["generate", "--temperature", "inf"], "the temperature is inf"),
        (["generate", "--device", "abacus"], "there is no device 'abacus' here"),
        (["generate", "--dtype", "float13"], "the number format is 'float13'"),
        (["generate", "--target", "somewhere"], "the draft model is not named"),
        (["generate", "--seed", str(1 << 70)], "(?i)seed"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_wrong_usage_is_refused(arguments: list[str], says: str) -> None:
    status, said = run(*arguments)
    assert status == STATUS_REFUSED
    with pytest.raises(InputError, match=f"(?s){says}"):
        raise InputError(said)


def test_a_refusal_is_one_plain_message() -> None:
    """Of the whole program, as it is started: no traceback, and nothing on standard output."""
    words = [*COMMAND, "mc", "--alpha", "2"]
    done = subprocess.run(words, capture_output=True, text=True, env=ONE_THREAD, timeout=120)
    assert done.returncode == STATUS_REFUSED
    assert done.stderr == "error: alpha is 2.0; it must lie between 0 and 1\n"
    assert done.stdout == ""


def test_a_written_text_and_its_rounds(tmp_path: Path) -> None:
    words = ["generate", "def area(width, height):\n", "--tokens", "20", "--drafts", "2", "--seed", "3"]
    status, said = run(*words, "--rounds", "--json", "out.json")
    assert status == 0
    written = strict((tmp_path / "out.json").read_text())
    assert written["schema"] == "spectr-verify/generate/1"
    assert written["prompt"] + written["text"] in said
    tokens, rounds = written["tokens"], written["rounds"]
    assert (
        f"{len(tokens)} tokens in {len(rounds)} rounds, {len(tokens) / len(rounds):.2f} a round; block-race, seed 3"
        in said
    )
    assert "draft 0, draft 1" not in said, "where there are no colours there is nothing to explain"
    assert len(written["source"]) == len(tokens)
    lines = said[said.index("round ") :].splitlines()[2 : 2 + len(rounds)]
    for number, (line, each) in enumerate(zip(lines, rounds, strict=True)):
        assert line.split()[0] == str(number + 1)
        assert f"{each['accepted']} of {each['drafted']}" in line
        sources = written["source"][each["start"] :][: each["accepted"] + 1]
        assert all(0 <= source < 2 for source in sources[: each["accepted"]])
        if len(sources) > each["accepted"]:
            last = {-1: "correction", -2: "bonus"}[sources[-1]]
            assert last in line
            assert (last == "bonus") is (each["accepted"] == each["drafted"])
        if each["accepted"]:
            assert f"draft {sources[0]}" in line
    assert run(*words)[1] in said.replace(said[said.index("round ") - 1 : said.index(f"{len(tokens)} tokens in")], "")


def test_the_likeliest_text_is_the_target_s_whatever_the_rule() -> None:
    words = ["generate", prompts("code")[0], "--temperature", "0", "--tokens", "12"]
    texts = {run(*words, "--rule", rule)[1].rpartition("\n\n")[0] for rule in ("autoregressive", "token", "block-race")}
    assert len(texts) == 1


def coloured(pieces: list[tuple[str, int]], drafts: int) -> str:
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard", width=100, no_color=False).print(
        decoded_text("[prompt]", pieces, drafts)
    )
    return out.getvalue()


def test_tokens_have_the_colour_of_where_they_came_from() -> None:
    shown = coloured([("zero", 0), ("one", 1), ("[wrong]", -1), ("more", -2), ("ninth", 8)], 2)
    for code, text in {
        "2": "[prompt]",
        "32": "zero",
        "36": "one",
        "1;31": "[wrong]",
        "1;33": "more",
    }.items():
        assert f"\x1b[{code}m{text}\x1b[0m" in shown
    assert "\x1b[32mninth\x1b[0m" in shown, "after eight drafts the colours begin again"
    for code, name in {"32": "draft 0", "36": "draft 1", "1;31": "correction", "1;33": "bonus"}.items():
        assert f"\x1b[{code}m{name}\x1b[0m" in shown.splitlines()[-1]
