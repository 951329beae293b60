"""The benchmarks that other scripts and the documentation lean on run, in small, and measure what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from spectr_verify.montecarlo import FAULTS
from spectr_verify.rounds import check_round
from spectr_verify.rules import RULES

FOLDER = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verify_cost() -> ModuleType:
    return script("verify_cost")


def test_every_rule_is_timed_against_one_pass_over_the_laws_that_it_is_given(
    verify_cost: ModuleType,
) -> None:
    found = {cost["name"]: cost for cost in verify_cost.costs("cpu", 200, 2, drafts=2, length=3, repeats=1)}
    assert set(found) == {"one pass", "one pass, one draft", "check", *RULES}
    for name, cost in found.items():
        alone = name == "one pass, one draft" or (name in RULES and RULES[name].max_drafts == 1)
        assert cost["K"] == (1 if alone else 2)
        assert cost["ms"] > 0
        floor = found["one pass, one draft" if alone else "one pass"]
        assert cost["of_one_pass"] == cost["ms"] / floor["ms"]
        assert cost["of_k_seq"] == cost["ms"] / found["k-seq"]["ms"]


@pytest.mark.parametrize("vocab", [49_152, 151_936])
def test_the_laws_are_as_peaked_and_as_close_as_it_says(verify_cost: ModuleType, vocab: int) -> None:
    assert vocab in verify_cost.VOCABULARIES
    generator = torch.Generator().manual_seed(0)
    draft, target = verify_cost.language_like_laws(generator, 2, 12, vocab)
    assert verify_cost.overlap(draft, target) == pytest.approx(0.7, abs=0.05)
    assert 0.1 < float(target.amax(dim=-1).mean()) < 0.5
    check_round(verify_cost.drawn_round(generator, draft, target, 2))


def test_the_command_writes_what_it_prints(
    verify_cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "costs.json"
    options = ["--vocab", "100", "--batch", "1", "2", "--rules", "block-race,k-seq", "--repeats", "1", "--clock", "cpu"]
    monkeypatch.setattr(sys, "argv", ["verify_cost.py", *options, "--json", str(out)])
    threads = torch.get_num_threads()
    try:
        verify_cost.main()
    finally:
        torch.set_num_threads(threads)
    found = json.loads(out.read_text())
    assert (found["clock"], found["threads"], found["repeats"]) == ("cpu", 1, 1)
    assert [cost["rows"] for cost in found["costs"] if cost["name"] == "block-race"] == [1, 2]
    assert capsys.readouterr().out.count("block-race") == 2


def test_level_bounds_are_estimated_in_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["level_bound.py", "--vocab", "20", "--samples", "16"])
    script("level_bound").main()
    heading, *rows = capsys.readouterr().out.splitlines()
    assert "level, 16" in heading
    assert [float(row.split()[0]) for row in rows] == [0.9, 0.6]


def test_false_alarms_are_counted_and_go_on_from_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    words = ["--texts", "6", "--prompt-tokens", "4", "--rule", "token", "--rule", "block", "--log", str(log)]
    false_alarms = script("false_alarms")
    for seeds, runs in (("0-1", 4), ("0-2", 6)):
        before = log.read_text() if log.exists() else ""
        monkeypatch.setattr(sys, "argv", ["false_alarms", *words, "--seeds", seeds])
        false_alarms.main()
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        assert log.read_text().startswith(before)
        assert sorted((row["rule"], row["seed"]) for row in rows) == sorted(
            (rule, seed) for rule in ("token", "block") for seed in range(runs // 2)
        )
        for line in capsys.readouterr().out.splitlines()[2:]:
            assert f" of {runs // 2} " in line
    assert not any(row["rejected"] for row in rows)
    assert {row["tokens"] for row in rows} == {6 * 24}


@pytest.mark.slow
def test_what_a_gpu_is_asked_runs_in_small_on_the_cpu(
    verify_cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "verify_cost", verify_cost)
    out = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--small", "--json", str(out)])
    script("gpu").main()
    found = json.loads(out.read_text())
    assert {"machine", "verification", "float32", "bfloat16", "power"} <= found.keys()
    for dtype in ("float32", "bfloat16"):
        assert [row["rule"] for row in found[dtype]] == list(RULES)
        for row in found[dtype]:
            assert not (row["lossless"] and row["lossless_rejected"]), row["rule"]
            assert row["block_efficiency"] >= 1
    assert [row["rule"] for row in found["power"]] == [fault.rule.name for fault in FAULTS]


@pytest.mark.parametrize("asked", [["--rules", "nonsense"], ["--drafts", "0"], ["--length", "x"]])
def test_what_cannot_be_timed_is_refused(
    verify_cost: ModuleType, asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["verify_cost.py", *asked])
    with pytest.raises(SystemExit) as end:
        verify_cost.main()
    assert end.value.code == 2
    assert asked[1] in capsys.readouterr().err
