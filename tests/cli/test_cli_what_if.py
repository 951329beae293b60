"""Estimates of efficiency as a user asks for them: what is told, written, drawn and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from spectr_verify.bounds.along_laws import ALONG_LAWS
from spectr_verify.cli import app
from spectr_verify.errors import InputError
from spectr_verify.simulate import RULES

WRITE = ["what-if", "--texts", "4", "--tokens", "6", "--length", "3", "--drafts", "2"]
LINE = '{"log_draft": [-1, -0.5, null, -1], "log_target": [-1.5, -0.25, -3, -1]}\n'


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs.jsonl").write_text(LINE * 5)
    (tmp_path / "damaged.jsonl").write_text(LINE + LINE.replace("-3", "3"))
    (tmp_path / "one.jsonl").write_text(LINE)
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    (tmp_path / "tiny.jsonl").write_text(LINE.replace("-0.5", "-1e308") * 2)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def strict(file: str) -> dict:
    """JSON without NaN and infinity, which are not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(Path(file).read_text(), parse_constant=refuse)


def test_the_table_of_a_file() -> None:
    said = run("what-if", "logs.jsonl", "--drafts", "2", "--length", "3", "--draft-cost", "0.1", "--overhead", "0.2")
    rows = [line.split() for line in said.splitlines()]
    assert [row[:2] for row in rows if row[:1] in (["token"], ["block"], ["greedy-block"])] == [
        [name, "1"] for name in ("token", "block", "greedy-block")
    ]
    assert [row.count("±") for row in rows if row[:1] == ["2"]] == [3, 3], "two rules are of several drafts"
    shares = [row[-1].endswith("%") for row in rows if row[:1] in (["token"], ["block-race"], ["relaxed"])]
    assert shares == [True, True, False], "the bound has none of itself"
    assert "10 places in 5 texts" in said
    assert "a draft step of 0.1 target calls (each further draft adds 0 of it), overhead 0.2" in " ".join(said.split())
    fastest = [line.partition(":")[0] for line in said.splitlines() if "is fastest" in line]
    assert fastest == ["token", "block", "block-race"], (
        "the bound is no rule, and greedy-block's later rounds are others"
    )
    assert "greedy-block: rounds from the plain target; later ones of a text follow a modified one" in said


def test_a_wide_table_is_not_broken() -> None:
    line = json.dumps({"log_draft": [-0.01] * 99, "log_target": [-0.01] * 99}) + "\n"
    Path("long.jsonl").write_text(line * 2)
    said = run("what-if", "long.jsonl", "--drafts", "12", "--length", "99")
    shown = next(line for line in said.splitlines() if "best L" in line)
    assert "…" not in said
    assert [part.split()[0] for part in shown.split("L = ")[1:]] == ["8", "16", "32", "99"]
    assert max(map(len, said.splitlines())) <= 120
    assert "relaxed bound" in said


def test_json() -> None:
    run("what-if", "logs.jsonl", "--drafts", "2", "--length", "3", "--further-cost", "0.5", "--json", "out.json")
    written = strict("out.json")
    assert written["schema"] == "spectr-verify/what-if/1"
    assert written["source"] == {"kind": "file", "file": "logs.jsonl"}
    assert set(written["versions"]) >= {"python", "torch", "numpy"}
    assert (written["texts"], written["tokens"], written["places"]) == (5, 20, 10)
    assert written["time_model"] == {"draft": 0.05, "further": 0.5, "verification": 0.0}
    assert [row["rule"] for row in written["rules"]] == list(RULES)
    assert [row["rule"] for row in written["rules"] if row["first_rounds_only"]] == ["greedy-block"]
    for row in written["rules"]:
        for name in ("block_efficiency", "standard_error", "speed_up"):
            assert [len(lengths) for lengths in row[name]] == [3, 3]
        drafts, length = row["best"]["drafts"], row["best"]["length"]
        assert len(row["of_bound"]) == 2
        assert row["speed_up"][drafts - 1][length - 1] == max(map(max, row["speed_up"]))
        assert all(lengths == pytest.approx([0.0] * 3) for lengths in row["standard_error"]), "all texts are alike"


@pytest.mark.parametrize("name", ["saved.npz", "saved.jsonl"])
def test_what_the_target_wrote_can_be_saved_and_read_again(name: str) -> None:
    said = run(*WRITE, "--save", name, "--json", "out.json", "--seed", "3")
    assert "16 places in 4 texts" in said
    assert run("what-if", name, "--length", "3", "--drafts", "2", "--json", "again.json") == said
    written, again = strict("out.json"), strict("again.json")
    source = written.pop("source")
    assert again.pop("source") == {"kind": "file", "file": name}
    assert again == written
    assert source["target"] == "trained target"
    assert len(source["prompts"]) >= 20
    asked = {"texts": 4, "tokens": 6, "temperature": 1.0, "top_k": None, "top_p": 1.0, "min_p": 0.0, "seed": 3}
    assert source | asked == source


def test_the_seed_and_the_temperature_arrive() -> None:
    asked = ((), (), ("--seed", "1"), ("--temperature", "0"))
    one, same, seed, cold = (run(*WRITE, *more) for more in asked)
    assert one == same
    assert len({same, seed, cold}) == 3


def test_whole_laws_add_rules_and_change_no_other() -> None:
    plain = run(*WRITE, "--json", "plain.json")
    said = run(*WRITE, "--whole-laws", "--json", "whole.json")
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 120
    lines = [[line.split() for line in text.splitlines()] for text in (plain, said)]
    assert all(line in lines[1] for line in lines[0] if line[:1] in (["token"], ["block-race"], ["relaxed"], ["16"]))
    assert f"{', '.join(ALONG_LAWS)}: 8 places in 4 texts, where whole laws were kept" in " ".join(said.split())
    rows = {
        line.split()[0]: line.split() for line in said.splitlines() if line.split() and line.split()[0] in ALONG_LAWS
    }
    assert list(rows) == list(ALONG_LAWS)
    assert all(row[1] == "1" and row[-1].endswith("%") for row in rows.values())
    fewer, more = strict("plain.json"), strict("whole.json")
    assert more["rules"][: len(RULES)] == fewer["rules"]
    assert {name: more[name] for name in ("places", "texts", "tokens")} == {"places": 16, "texts": 4, "tokens": 24}
    for row, name in zip(more["rules"][len(RULES) :], ALONG_LAWS, strict=True):
        assert (row["rule"], row["places"], row["texts"]) == (name, 8, 4)
        assert [len(lengths) for each in ("block_efficiency", "speed_up", "of_bound") for lengths in row[each]] == [
            3
        ] * 6
    assert all(row["places"] == fewer["places"] for row in fewer["rules"])


def test_whole_laws_without_a_choice_for_chance() -> None:
    """At temperature 0 each law is of one token: what all drafts have is accepted, or nothing is."""
    run(*WRITE, "--whole-laws", "--temperature", "0", "--json", "cold.json")
    first, *others = strict("cold.json")["rules"][len(RULES) :]
    for row in others:
        assert np.array(row["block_efficiency"]) == pytest.approx(np.array(first["block_efficiency"]))


def test_a_share_of_nothing_is_none() -> None:
    Path("apart.jsonl").write_text('{"log_draft": [null, null], "log_target": [-1, -1]}\n' * 2)
    said = run("what-if", "apart.jsonl", "--drafts", "1", "--length", "2", "--json", "out.json")
    assert "%" not in said
    assert all(row["of_bound"] == [[None, None]] for row in strict("out.json")["rules"])


@pytest.mark.parametrize(("name", "begins"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_plots(name: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    run("what-if", "logs.jsonl", "--drafts", "2", "--length", "3", "--plot", name)
    assert Path(name).read_bytes().startswith(begins)


def test_plots_have_rules_of_whole_laws_too() -> None:
    pytest.importorskip("matplotlib")
    run(*WRITE, "--whole-laws", "--plot", "plot.svg")
    assert all(f"<!-- {name} -->" in Path("plot.svg").read_text() for name in (*RULES, *ALONG_LAWS))


REFUSED = [
    (["none.npz"], "none.npz cannot be read: FileNotFoundError"),
    (["logs.csv"], "logs.csv: the name must end in .npz"),
    (["damaged.jsonl", "--length", "2"], "damaged.jsonl: log_target of text 1, token 2 is 3"),
    (["one.jsonl", "--length", "2"], "only one text has 2 tokens"),
    (["logs.jsonl", "--length", "9"], "no text has 9 tokens; the longest has 4: ask for shorter drafts"),
    (["deep.jsonl", "--length", "2"], "deep.jsonl: line 1 is not JSON that can be read: RecursionError"),
    (["tiny.jsonl", "--length", "2"], "tiny.jsonl: log_draft of text 0, token 1 is -1e+308; it must be a natural"),
    (["logs.jsonl", "--temperature", "0.5"], "--temperature says how texts are written, and those of logs.jsonl are"),
    (["logs.jsonl", "--top-k", "5"], "--top-k says how texts are written"),
    (["logs.jsonl", "--whole-laws"], "logs.jsonl has those of its texts' tokens alone: leave it out"),
    (["logs.jsonl", "--texts", "400"], "--texts says how texts are written"),
    (["logs.jsonl", "--length", "2", "--json", "logs.jsonl"], "logs.jsonl is what the result is about"),
    (["logs.jsonl", "--length", "2", "--save", "logs.jsonl"], "logs.jsonl is what the result is about"),
    (["--tokens", "3"], "a text of 3 tokens is shorter than a draft of 12"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_wrong_input_is_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["what-if", *words])
    assert isinstance(done.exception, InputError), done.output
    assert message in str(done.exception)
