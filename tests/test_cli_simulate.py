"""Sweeps as a user asks for them: what is told, written, drawn and refused, and how one goes on after Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectr_verify.cli import PAPER, STATUS_INTERRUPTED, STATUS_REFUSED, app
from spectr_verify.errors import InputError
from spectr_verify.rules import RULES
from toy_models import TableError, recorded_pairs, write_pairs

COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]
SMALL = ["simulate", "--pairs", "pairs.json", "--texts", "4", "--tokens", "6", "--length", "2", "--drafts", "2"]
TWO = ["--rule", "token", "--rule", "block-race"]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.txt").write_text("def read(path):\n---\nimport os\n")
    (tmp_path / "empty.txt").write_text("a\n---\n\n---\nb")
    (tmp_path / "rules.py").write_text(
        "from spectr_verify.rules.token import token\n\n\ndef mine(round, chance):\n"
        "    return token(round.first_drafts(1), chance)\n"
    )
    write_pairs(tmp_path / "pairs.json", recorded_pairs()[:2])


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def strict(file: str) -> dict:
    """JSON without NaN and infinity, which are not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(Path(file).read_text(), parse_constant=refuse)


def test_the_table_has_the_rules_of_the_paper_and_says_which_are_lossless() -> None:
    said = run(*SMALL, "--json", "out.json")
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.split()[1:2] in (["yes"], ["NO"])}
    assert list(rows) == ["autoregressive", *PAPER]
    for name, cells in rows.items():
        assert cells[0] == ("yes" if RULES[name].lossless else "NO")
    assert rows["autoregressive"][1:] == ["-", "-", "1.00", "1.00"]
    for cell in strict("out.json")["cells"]:
        shown = rows[cell["rule"]]
        assert shown[1:3] == [str(cell["drafts"]), "2"]
        assert shown[3] == f"{cell['block_efficiency']['value']:.2f}"
        assert shown[5] == f"{cell['block_efficiency']['error']:.2f}"
        assert shown[6] == f"{cell['block_efficiency']['spread']:.2f}"
        share = cell["first_rounds"]["bound"]["share"]["value"]
        assert shown[9] == (f"{share:.0%}" if RULES[cell["rule"]].lossless else f"({share:.0%}")
    told = " ".join(said.split())
    assert "lossless NO: the text does not follow the target" in told
    assert "not comparable" in told
    assert "of 36 differences are within noise" in told
    assert "4 texts a prompt of 6 tokens, 4 at once; seed 0" in told
    assert "a draft step costs 0.05 where laws stand in for models" in told
    assert "…" not in said


def test_a_sweep_has_a_row_for_every_cell() -> None:
    said = run(*SMALL, *TWO, "--length", "1,2", "--drafts", "1,3", "--temperature", "0.4,1", "--json", "out.json")
    assert "pairs.json, temperature 0.4" in said
    assert "pairs.json, temperature 1" in said
    written = strict("out.json")
    assert written["schema"] == "spectr-verify/simulate/1"
    assert written["planned"] == len(written["cells"]) == 2 * (2 + 4)
    assert written["axes"] == {
        "corpora": ["pairs.json"],
        "rules": ["token", "block-race"],
        "drafts": [1, 3],
        "lengths": [1, 2],
        "temperatures": [0.4, 1.0],
    }
    assert len(written["differences"]) == 2 * 2 * 2
    assert "block efficiency: " in said
    assert "of 8 differences between two rules are within noise" in " ".join(said.split())


def test_few_rules_are_compared_in_full() -> None:
    said = " ".join(run(*SMALL, *TWO).split())
    assert "block efficiency, pairs.json, temperature 1, K = 2, L = 2: token - block-race = " in said


def test_costs_that_are_given_are_used() -> None:
    run(*SMALL, *TWO, "--draft-cost", "0.1", "--further-cost", "0.5", "--overhead", "0.3", "--json", "out.json")
    for cell in strict("out.json")["cells"]:
        assert cell["speed_up"]["costs"] == {"draft": 0.1, "further": 0.5, "verification": 0.3}
        time = 2 * 0.1 * (1 + 0.5 * (cell["drafts"] - 1)) + 1.3
        assert cell["speed_up"]["modelled"] == pytest.approx(cell["block_efficiency"]["value"] / time)
        assert cell["speed_up"]["measured"] is None


def test_real_models_are_measured() -> None:
    words = ["--prompts", "two.txt", "--texts", "2", "--tokens", "6", "--length", "2", "--samples", "4", *TWO]
    said = run("simulate", *words, "--json", "out.json")
    assert "two.txt, temperature 1: time" in said
    assert "tokens a second" in said
    assert "of level bound" in said
    for cell in strict("out.json")["cells"]:
        assert cell["speed_up"]["measured"]["value"] > 0
        assert cell["speed_up"]["costs"]["draft"] > 0
        assert cell["seconds"]["alone"] > 0
        assert [each["texts"] for each in cell["prompts"]] == [2, 2]


def test_synthetic_pairs_of_several_gaps() -> None:
    words = ["--overlap", "0.9,0.5", "--vocab", "40", "--texts", "20", "--tokens", "6", "--length", "2"]
    run("simulate", *words, "--rule", "token", "--samples", "8", "--json", "out.json")
    near, far = strict("out.json")["cells"]
    assert (near["corpus"], far["corpus"]) == ("overlap 0.9", "overlap 0.5")
    assert near["acceptance_rate"] > far["acceptance_rate"]
    assert near["first_rounds"]["bound"]["what"] == "level bound"


def test_pairs_of_a_file_and_rules_of_a_file() -> None:
    said = run(*SMALL, "--rule", "rules.py:mine", "--samples", "0")
    row = next(line.split() for line in said.splitlines() if line.split()[:1] == ["rules.py:mine"])
    assert row[1] == "?"
    assert "nobody has judged it; `spectr-verify audit` does" in " ".join(said.split())


def test_the_same_seed_gives_the_same_counts() -> None:
    for file, seed in (("a.json", "0"), ("b.json", "0"), ("c.json", "1")):
        run(*SMALL, *TWO, "--seed", seed, "--json", file)
    a, b, c = (
        [
            [each["accepted"] for each in cell["prompts"]] + [cell["first_rounds"]["bound"]]
            for cell in strict(file)["cells"]
        ]
        for file in ("a.json", "b.json", "c.json")
    )
    assert a == b != c


def test_filters_arrive() -> None:
    run(*SMALL, *TWO, "--top-k", "1", "--json", "out.json")
    written = strict("out.json")
    assert written["settings"]["top_k"] == 1
    for cell in written["cells"]:
        assert all(0 in each["first"] and max(each["first"]) == 4 for each in cell["prompts"]), "all texts are one"


@pytest.mark.parametrize(("name", "begins"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
@pytest.mark.parametrize(
    "swept", [[], ["--length", "1,2"], ["--drafts", "1,2", "--temperature", "0.5,1", "--pairs", "recorded"]]
)
def test_plots(name: str, begins: bytes, swept: list[str]) -> None:
    pytest.importorskip("matplotlib")
    run(*SMALL, *TWO, *swept, "--samples", "0", "--plot", name)
    assert Path(name).read_bytes().startswith(begins)


def test_json_to_standard_output_is_alone_there() -> None:
    done = subprocess.run([*COMMAND, *SMALL, *TWO, "--json", "-"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "spectr-verify/simulate/1"
    assert "lossless" in done.stderr


def test_a_finished_sweep_is_read_from_its_lines() -> None:
    run(*SMALL, *TWO, "--resume", "cells.jsonl", "--json", "a.json")
    said = run(*SMALL, *TWO, "--log", "cells.jsonl", "--json", "b.json")
    assert "2 of 2 cells were finished by an earlier run" in said
    assert strict("b.json")["cells"] == strict("a.json")["cells"]
    with Path("cells.jsonl").open("a") as file:
        file.write('{"schema": "spectr-v')
    assert "the last line was not written to its end" in run(*SMALL, *TWO, "--resume", "cells.jsonl")


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on() -> None:
    words = [*COMMAND, *SMALL, *TWO, "--texts", "400", "--length", "1,2", "--tokens", "60", "--json", "out.json"]
    words += ["--samples", "0", "--resume", "cells.jsonl"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (Path("cells.jsonl").exists() and Path("cells.jsonl").read_text().count("\n")):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    said, errors = running.communicate(timeout=300)
    assert running.returncode == STATUS_INTERRUPTED, errors
    done = strict("out.json")
    count = len(done["cells"])
    assert done["interrupted"]
    assert 1 <= count < 4
    assert f"interrupted: {count} of 4 cells are finished" in said
    assert "to go on: the same command, with --resume cells.jsonl" in errors
    assert "Traceback" not in errors
    again = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    assert f"{count} of 4 cells were finished by an earlier run" in again.stdout
    whole = strict("out.json")
    assert not whole["interrupted"]
    assert [cell for cell in whole["cells"] if cell in done["cells"]] == done["cells"]
    assert len(whole["cells"]) == 4


REFUSED = [
    (["--drafts", "1,x"], "--drafts is '1,x', and 'x' is no whole number"),
    (["--drafts", ""], "--drafts is '', and '' is no whole number"),
    (["--drafts", "0"], "drafts is 0; it must be at least 1"),
    (["--length", "1.5"], "--length is '1.5'"),
    (["--length", "2,2"], "length: 2 is asked for more than once"),
    (["--temperature", "warm"], "--temperature is 'warm', and 'warm' is no number"),
    (["--temperature", "-1"], "the temperature is -1.0"),
    (["--temperature", "nan"], "the temperature is nan"),
    (["--top-p", "0"], "top-p is 0.0"),
    (["--length", "7"], "a text of 6 tokens is shorter than a draft of 7"),
    (["--samples", "1"], "samples is 1"),
    (["--rule", "none"], "no rule is called 'none'"),
    (["--rule", "autoregressive"], "autoregressive is what all rules are compared with"),
    (["--rule", "token", "--rule", "token"], "rule: token is asked for more than once"),
    (["--prompts", "news"], "--prompts does not go with --pairs"),
    (["--target", "x"], "--target does not go with --pairs"),
    (["--dtype", "float32"], "--dtype does not go with --pairs"),
    (["--overlap", "0.5"], "--overlap does not go with --pairs"),
    (["--vocab", "5"], "--vocab does not go with --pairs"),
    (["--pairs", "none.json"], "none.json: cannot be read"),
    (["--pairs", "pairs.json"], "'pairs.json' is asked for more than once"),
    (["--overhead", "0.1"], "--overhead goes with --draft-cost"),
    (["--further-cost", "0.1"], "--further-cost goes with --draft-cost"),
    (["--draft-cost", "-1"], "the cost draft is -1.0"),
    (["--json", "a.jsonl", "--resume", "a.jsonl"], "a.jsonl is to hold the finished cells"),
    (["--json", "pairs.json"], "pairs.json is what is judged"),
    (["--rule", "rules.py:mine", "--json", "rules.py"], "rules.py is what is judged"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_wrong_input_is_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, [*SMALL, *words])
    assert isinstance(done.exception, InputError | TableError), done.output
    assert message in str(done.exception)


OTHERS = [
    (["--prompts", "nothing"], "'nothing' is no prompt set"),
    (["--prompts", "two.txt,two.txt"], "'two.txt' is asked for more than once"),
    (["--prompts", "empty.txt"], "prompt 1 is empty"),
    (["--prompts", "two.txt", "--json", "two.txt"], "two.txt is what is judged"),
    (
        ["--prompts", "two.txt", "--tokens", "1020"],
        "two.txt: prompt 0 has 6 tokens, which with 1020 new ones and a draft",
    ),
    (["--target", "somewhere"], "the draft model is not named"),
    (["--vocab", "100"], "--vocab goes with --overlap"),
    (["--dtype", "int8"], "the number format is 'int8'"),
    (["--overlap", "2"], "the overlap is 2.0"),
    (["--overlap", "high"], "--overlap is 'high', and 'high' is no number"),
    (["--overlap", "0.5", "--vocab", "1"], "the vocabulary is 1"),
    (["--overlap", "0.5", "--prompts", "news"], "--prompts does not go with --overlap"),
]


@pytest.mark.parametrize(("words", "message"), OTHERS, ids=[" ".join(words) for words, _ in OTHERS])
def test_wrong_models_and_prompts_are_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["simulate", *words])
    assert isinstance(done.exception, InputError | TableError), done.output
    assert message in str(done.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "a.pdf"], "a.pdf: the name must end in .png or .svg"),
        (["--resume", "a.txt"], "a.txt: the name must end in .jsonl"),
        (["--resume", "none/a.jsonl"], "none/a.jsonl cannot be written"),
        (["--json", "none/a.json"], "none/a.json cannot be written"),
        (["--texts", "0"], "'--texts'"),
        (["--batch", "0"], "'--batch'"),
        (["--samples", "-1"], "'--samples'"),
        (["--seed", "-1"], "'--seed'"),
    ],
)
def test_wrong_usage_is_refused_before_the_work(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, [*SMALL, *words])
    assert done.exit_code == STATUS_REFUSED
    assert message in " ".join(done.output.replace("│", " ").split())


def test_a_log_of_another_sweep_is_refused_in_one_plain_message() -> None:
    run(*SMALL, *TWO, "--resume", "cells.jsonl")
    done = subprocess.run(
        [*COMMAND, *SMALL, *TWO, "--seed", "3", "--resume", "cells.jsonl"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == STATUS_REFUSED
    assert done.stdout == ""
    assert done.stderr == (
        "error: cells.jsonl, line 1 was written with seed = 0, and this sweep has seed = 3; give it another file, or "
        "the same settings\n"
    )
