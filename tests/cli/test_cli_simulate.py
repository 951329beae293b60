"""Sweeps as a user asks for them: what is told, written, drawn and refused, and how one goes on after Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spectr_verify import cli
from spectr_verify.cli import app
from spectr_verify.cli.status import STATUS_INTERRUPTED, STATUS_REFUSED
from spectr_verify.cli.sweeps import PAPER
from spectr_verify.errors import InputError
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from spectr_verify.simulate import corpus, sweep
from spectr_verify.simulate.headroom import Headrooms
from toy_models import TableError, family_pairs, write_pairs

PAIRS = family_pairs(0, 2, 2)[:2]
EXACT = ["simulate", "--pairs", "pairs.json"]
DECODED = ["simulate", "--overlap", "0.6", "--vocab", "200", "--texts", "2", "--tokens", "6", "--drafts", "2"]
DECODED += ["--length", "2", "--samples", "0"]
TWO = ["--rule", "token", "--rule", "block-race"]
SWEEP = sys.modules[sweep.__module__]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpus, "SYNTHETIC_PROMPTS", 4)
    (tmp_path / "two.txt").write_text("def read(path):\n---\nimport os\n")
    (tmp_path / "one.txt").write_text("def read(path):\n")
    (tmp_path / "empty.txt").write_text("a\n---\n\n---\nb")
    (tmp_path / "rules.py").write_text(
        "from spectr_verify.rules.token import token\n\n\ndef mine(round, chance):\n"
        "    return token(round.first_drafts(1), chance)\n\n\ndef verify(draft_tokens, draft_probs, target_probs):\n"
        "    return draft_tokens\n"
    )
    line = '{"log_draft": [-1, -0.5, null, -1], "log_target": [-1.5, -0.25, -3, -1]}\n'
    (tmp_path / "logs.jsonl").write_text(line * 5)
    write_pairs(tmp_path / "pairs.json", PAIRS)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def words(said: str) -> str:
    return " ".join(said.split())


def strict(file: str) -> dict:
    """JSON without NaN and infinity, which are not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(Path(file).read_text(), parse_constant=refuse)


def test_the_table_has_the_rules_of_the_paper_and_says_which_are_lossless() -> None:
    """Of pairs of tables the laws of first rounds, exactly: one pair is enough, and there is no error to show."""
    said = run(*EXACT, "--json", "out.json", "--drafts", "2")
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.split()[1:2] in (["yes"], ["NO"])}
    assert list(rows) == ["autoregressive", *PAPER]
    for name, cells in rows.items():
        assert cells[0] == ("yes" if RULES[name].lossless else "NO")
    assert rows["autoregressive"][1:] == ["-", "-", "1.00", "1.00"]
    for cell in strict("out.json")["cells"]:
        shown, rule = rows[cell["rule"]], RULES[cell["rule"]]
        exact = [round_law(rule, pair, 2, 2).expected_accepted for pair in PAIRS]
        assert cell["block_efficiency"]["value"] == pytest.approx(1 + sum(exact) / 2)
        assert shown[1:3] == [str(cell["drafts"]), "2"]
        assert shown[3] == f"{cell['block_efficiency']['value']:.4f}"
        assert shown[4] == f"{cell['block_efficiency']['spread']:.2f}"
        share = cell["first_rounds"]["bound"]["share"]["value"]
        assert cell["first_rounds"]["bound"]["what"] == "optimum"
        assert shown[7] == (f"{share:.1%}" if rule.lossless else f"({share:.1%})")
    told = words(said)
    assert "pairs.json, temperature 1: first rounds" in told
    assert "exact, without any error" in told
    assert "Rules that hand on a modified target accept less in later rounds" in told
    assert "lossless NO: the text does not follow the target" in told
    assert "of 66 differences are within noise" in told
    assert "measured: there is none, and no table of times, where laws stand in for models" in told
    assert "a draft step costs 0.05 where laws stand in for models" in told
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 120


def test_pairs_may_state_what_they_are_swept_over() -> None:
    even = [[0.5, 0.5]]
    one = {"name": "a", "drafts": 1, "length": 1, "draft": [even, even * 2], "target": [[[0.9, 0.1]], even * 2]}
    text = json.dumps(one)
    axes = []
    for more in ([], ["--drafts", "3"], ["--length", "1"]):
        said = words(run("simulate", "--pairs", text, *TWO, "--json", "out.json", *more))
        axes.append((strict("out.json")["axes"]["drafts"], strict("out.json")["axes"]["lengths"]))
        assert ("--drafts is taken as it is given; the pairs state K = 1." in said) == (more == ["--drafts", "3"])
        assert "the pairs state L" not in said
    assert axes == [([1], [1]), ([3], [1]), ([1], [1])]
    said = words(run("simulate", "--pairs", json.dumps([one, one | {"drafts": 2, "name": "b"}]), *TWO))
    assert "The pairs state K = 1, 2, and each is taken at all of these; --drafts chooses." in said


def test_a_sweep_has_a_row_for_every_cell_and_its_distance_from_the_fastest() -> None:
    words_of = [*DECODED, *TWO, "--length", "1,2", "--drafts", "1,3", "--temperature", "0.4,1"]
    said = run(*words_of, "--json", "out.json")
    assert "overlap 0.6, temperature 0.4" in said
    assert "overlap 0.6, temperature 1: behind each rule's fastest" in said
    written = strict("out.json")
    assert written["schema"] == "spectr-verify/simulate/1"
    assert written["planned"] == len(written["cells"]) == 2 * (2 + 4)
    assert written["axes"] == {
        "corpora": ["overlap 0.6"],
        "rules": ["token", "block-race"],
        "drafts": [1, 3],
        "lengths": [1, 2],
        "temperatures": [0.4, 1.0],
    }
    assert len(written["differences"]) == 2 * 2 * 2
    assert len(written["behind_best"]) == 2 * (2 + 4)
    assert sum(line.rstrip().endswith("  fastest") for line in said.splitlines()) == 4
    for temperature in (0.4, 1.0):
        here = [each for each in written["behind_best"] if each["temperature"] == temperature and each["within_noise"]]
        race = [each for each in here if each["rule"] == "block-race"]
        least = min(race, key=lambda each: (each["drafts"] * each["length"], each["drafts"]))
        assert f"block-race K = {least['drafts']}, L = {least['length']} (modelled speed-up)" in words(said)
    assert written["sources"] == {
        "overlap 0.6": {"kind": "synthetic", "vocab": 200, "overlap": 0.6, "seed": 0, "order": 4}
    }
    told = words(said)
    assert "of 8 differences between two rules are within noise" in told
    assert "each by itself and not all together" in told
    assert "The fastest cell is picked from the same numbers" in told
    assert "no shares of what is possible: --samples is 0." in told
    assert "2 texts a prompt of 6 tokens, 2 at once; seed 0" in told


def test_few_rules_are_compared_in_full() -> None:
    said = words(run(*EXACT, *TWO))
    assert "block efficiency, pairs.json, temperature 1, K = 3, L = 2: token - block-race = " in said


def test_costs_that_are_given_are_used() -> None:
    run(*EXACT, *TWO, "--draft-cost", "0.1", "--further-cost", "0.5", "--overhead", "0.3", "--json", "out.json")
    for cell in strict("out.json")["cells"]:
        assert cell["speed_up"]["costs"] == {"draft": 0.1, "further": 0.5, "verification": 0.3}
        time = 2 * 0.1 * (1 + 0.5 * (cell["drafts"] - 1)) + 1.3
        assert cell["speed_up"]["modelled"] == pytest.approx(cell["block_efficiency"]["value"] / time)
        assert cell["speed_up"]["measured"] is None


def test_real_models_are_measured() -> None:
    asked = ["--prompts", "two.txt,one.txt", "--tokens", "6", "--length", "2", "--samples", "4", *TWO]
    said = run("simulate", *asked, "--json", "out.json")
    assert "two.txt, temperature 1: time" in said
    assert "tokens a second" in said
    told = words(said)
    assert "(est.)" in told
    assert "level bound, two.txt, temperature 1: estimated from 4 texts a prompt" in told
    assert (
        "no share of what is possible for two.txt at K = 3, L = 2; one.txt at K = 3, L = 2: the level bound of" in told
    )
    assert "3 drafts needs 6 texts a prompt (--samples)" in told
    assert "no ± and no intervals of one.txt: they are over prompts, and there is one." in told
    assert "1 text a prompt of 6 tokens" in told
    written = strict("out.json")
    assert written["sources"]["two.txt"]["prompts"] == ["def read(path):", "import os"]
    for cell in written["cells"]:
        assert cell["speed_up"]["measured"]["value"] > 0
        assert cell["speed_up"]["costs"]["draft"] > 0
        assert cell["seconds"]["alone"] > 0
        assert {each["texts"] for each in cell["prompts"]} == {1}


def test_synthetic_pairs_of_few_tokens_have_their_optimum_and_others_a_bound() -> None:
    asked = ["--overlap", "0.9,0.5", "--length", "1", "--rule", "token", "--samples", "8"]
    said = run(*DECODED, *asked, "--vocab", "20", "--json", "out.json")
    near, far = strict("out.json")["cells"]
    assert (near["corpus"], far["corpus"]) == ("overlap 0.9", "overlap 0.5")
    assert near["acceptance_rate"] > far["acceptance_rate"]
    assert near["first_rounds"]["bound"]["what"] == "optimum"
    assert near["first_rounds"]["bound"]["error"] is None
    assert said.splitlines()[2].rstrip().endswith("of optimum")
    said = run(*DECODED, *asked, "--vocab", "200")
    assert [line.split()[-1] for line in said.splitlines()[1:4]] == ["level", "bound", "(est.)"]


def test_rules_of_a_file() -> None:
    said = run(*EXACT, "--rule", "rules.py:mine")
    row = next(line.split() for line in said.splitlines() if line.split()[:1] == ["rules.py:mine"])
    assert row[1] == "?"
    assert "nobody has judged it; `spectr-verify audit` does" in words(said)


def test_the_seed_and_the_filters_arrive() -> None:
    more = {"a": [], "b": [], "c": ["--seed", "1"], "d": ["--top-k", "1"]}
    said = [run(*DECODED, *TWO, *asked, "--json", f"{name}.json") for name, asked in more.items()]
    counts = [
        [each["accepted"] for cell in strict(f"{name}.json")["cells"] for each in cell["prompts"]] for name in more
    ]
    assert said[0] == said[1]
    assert counts[0] == counts[1] != counts[2]
    assert strict("d.json")["settings"]["top_k"] == 1
    firsts = [each["first"] for cell in strict("d.json")["cells"] for each in cell["prompts"]]
    assert all(sorted(first) == [0, 0, 2] for first in firsts), "both texts of a prompt are one"


@pytest.mark.parametrize(("name", "begins"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_plots(name: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    swept = ["--drafts", "1,2", "--temperature", "0.5,1", "--pairs", "recorded", "--length", "1"]
    run(*EXACT, *TWO, *(swept if name == "plot.png" else []), "--samples", "0", "--plot", name)
    assert Path(name).read_bytes().startswith(begins)


def test_plots_of_counts_have_bars_of_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    from matplotlib.axes import Axes

    drawn, errorbar = [], Axes.errorbar

    def noted(self: Axes, x: list, y: list, yerr: object = None, **rest: object) -> object:
        drawn.append((list(x), None if yerr is None else list(yerr)))
        return errorbar(self, x, y, yerr, **rest)

    assert figure
    monkeypatch.setattr(Axes, "errorbar", noted)
    run(*DECODED, "--rule", "token", "--length", "1,2", "--plot", "plot.svg", "--json", "out.json")
    cells = strict("out.json")["cells"]
    errors = [cell["block_efficiency"]["error"] for cell in cells]
    times = [cell["block_efficiency"]["value"] / cell["speed_up"]["modelled"] for cell in cells]
    assert drawn[0] == ([1, 2], errors)
    assert drawn[1] == ([1, 2], pytest.approx([error / time for error, time in zip(errors, times, strict=True)]))
    assert all(error > 0 for error in drawn[3][1]), "of acceptance by position too"
    drawn.clear()
    run("what-if", "logs.jsonl", "--drafts", "2", "--length", "2", "--plot", "plot.svg", "--json", "out.json")
    token = strict("out.json")["rules"][0]
    assert drawn[0] == ([1, 2], token["standard_error"][1])


def test_a_finished_sweep_is_read_from_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [*DECODED, *TWO, "--samples", "4"]
    run(*asked, "--resume", "cells.jsonl", "--json", "a.json")
    with monkeypatch.context() as patch:
        patch.setattr(Headrooms, "bound", lambda *_: pytest.fail("the log has this bound"))
        said = run(*asked, "--log", "cells.jsonl", "--json", "b.json")
    assert "2 of 2 cells were finished by an earlier run" in said
    assert strict("b.json")["cells"] == strict("a.json")["cells"]
    with Path("cells.jsonl").open("a") as file:
        file.write('{"schema": "spectr-v')
    assert "the last line was not written to its end" in run(*asked, "--resume", "cells.jsonl")
    monkeypatch.setattr(SWEEP, "code_digest", lambda: "another")
    said = words(run(*asked, "--resume", "cells.jsonl"))
    assert "cells.jsonl: 2 cells are left aside and run again: 2 of another state of this package's code" in said


def as_started(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Status, standard output and standard error of the whole program."""
    monkeypatch.setattr(sys, "argv", ["spectr-verify", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize("finished", [0, 1])
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(
    finished: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, counting, left = [*DECODED, *TWO, "--json", "out.json", "--resume", "cells.jsonl"], SWEEP.counted, [finished]

    def counted(*arguments: object) -> object:
        if not left[0]:
            signal.raise_signal(signal.SIGINT)
        left[0] -= 1
        return counting(*arguments)

    monkeypatch.setattr(SWEEP, "counted", counted)
    status, said, errors = as_started(asked, monkeypatch, capsys)
    assert status == STATUS_INTERRUPTED
    assert "Traceback" not in errors
    if not finished:
        assert (said, errors) == ("", "interrupted before the first cell was finished: nothing is counted or written\n")
        assert not Path("out.json").exists()
        return
    assert "interrupted: 1 of 2 cells are finished" in said
    assert "to go on: the same command, with --resume cells.jsonl" in errors
    done = strict("out.json")
    assert done["interrupted"]
    left[0] = 1
    assert "1 of 2 cells were finished by an earlier run" in run(*asked)
    assert not strict("out.json")["interrupted"]
    assert strict("out.json")["cells"][:1] == done["cells"]


BOTH = [("simulate", [*EXACT, *TWO]), ("what-if", ["what-if", "logs.jsonl", "--length", "3"])]


@pytest.mark.parametrize(("command", "asked"), BOTH, ids=["simulate", "what-if"])
def test_json_to_standard_output_is_alone_there(
    command: str, asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said, errors = as_started([*asked, "--json", "-"], monkeypatch, capsys)
    assert status == 0
    assert json.loads(said)["schema"] == f"spectr-verify/{command}/1"
    assert "tokens a round" in errors


def test_a_refusal_is_one_plain_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(*EXACT, *TWO, "--resume", "cells.jsonl")
    other = [*EXACT, *TWO, "--seed", "3", "--resume", "cells.jsonl"]
    for asked, message in (
        (["what-if", "logs.jsonl", "--length", "9"], "no text has 9 tokens; the longest has 4: ask for shorter drafts"),
        (
            other,
            "cells.jsonl, line 1 was written with seed = 0, and this sweep has seed = 3; give it another file, or the "
            "same settings",
        ),
    ):
        assert as_started(asked, monkeypatch, capsys) == (STATUS_REFUSED, "", f"error: {message}\n")


def refused(asked: list[str], message: str) -> Result:
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, InputError | TableError), done.output
    assert message in str(done.exception)
    return done


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
    (["--samples", "1"], "samples is 1"),
    (["--rule", "none"], "no rule is called 'none'"),
    (["--rule", "autoregressive"], "autoregressive is what all rules are compared with"),
    (["--rule", "token", "--rule", "token"], "rule: token is asked for more than once"),
    (["--rule", "rules.py:verify"], "`simulate` takes rules alone and has no --calls; `mc --calls` decodes"),
    (["--prompts", "news"], "--prompts does not go with --pairs"),
    (["--target", "x"], "--target does not go with --pairs"),
    (["--dtype", "float32"], "--dtype does not go with --pairs"),
    (["--overlap", "0.5"], "--overlap does not go with --pairs"),
    (["--vocab", "5"], "--vocab does not go with --pairs"),
    (["--tokens", "5"], "--tokens does not go with --pairs"),
    (["--pairs", "none.json"], "none.json: cannot be read"),
    (["--overhead", "0.1"], "--overhead goes with --draft-cost"),
    (["--further-cost", "0.1"], "--further-cost goes with --draft-cost"),
    (["--json", "a.jsonl", "--resume", "a.jsonl"], "two results would be written to a.jsonl"),
    (["--json", "pairs.json"], "pairs.json is what the result is about"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[" ".join(asked) for asked, _ in REFUSED])
def test_wrong_input_is_refused(asked: list[str], message: str) -> None:
    refused([*EXACT, *asked], message)


OTHERS = [
    (["--prompts", "two.txt,two.txt"], "'two.txt' is asked for more than once"),
    (["--prompts", "empty.txt"], "prompt 1 is empty"),
    (["--prompts", "two.txt", "--json", "two.txt"], "two.txt is what the result is about"),
    (["--prompts", "two.txt", "--tokens", "1020"], "prompt 0 has 6 tokens, which with 1020 new ones and a draft"),
    (["--vocab", "100"], "--vocab goes with --overlap"),
    (["--overlap", "2"], "the overlap is 2.0"),
    (["--overlap", "high"], "--overlap is 'high', and 'high' is no number"),
    (["--overlap", "0.5", "--vocab", "1"], "the vocabulary is 1"),
    (["--overlap", "0.5", "--vocab", "9", "--length", "7", "--tokens", "6"], "a text of 6 tokens is shorter than a"),
    (["--overlap", "0.5", "--prompts", "news"], "--prompts does not go with --overlap"),
]


@pytest.mark.parametrize(("asked", "message"), OTHERS, ids=[" ".join(asked) for asked, _ in OTHERS])
def test_wrong_models_and_prompts_are_refused(asked: list[str], message: str) -> None:
    refused(["simulate", *asked], message)


@pytest.mark.parametrize("command", ["simulate", "what-if"])
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            ["--draft-cost", "-1"],
            "the cost of a draft step (--draft-cost) is -1.0; it must be a number from 0 to 1e+12",
        ),
        (["--draft-cost", "0", "--further-cost", "1e308"], "what a further draft costs (--further-cost) is 1e+308"),
        (["--draft-cost", "0.1", "--overhead", "nan"], "the overhead of a round (--overhead) is nan"),
        (["--draft-cost", "0.1", "--further-cost", "inf"], "what a further draft costs (--further-cost) is inf"),
        (["--prompts", "nothing"], "'nothing' is no prompt set"),
        (["--target", "somewhere"], "the draft model is not named"),
        (["--dtype", "int8"], "the number format is 'int8'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_both_commands_refuse_wrong_models_and_costs(command: str, asked: list[str], message: str) -> None:
    refused([command, *asked], message)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["simulate", "--plot", "a.pdf"], "a.pdf: the name must end in .png or .svg"),
        (["simulate", "--resume", "a.txt"], "a.txt: the name must end in .jsonl"),
        (["simulate", "--resume", "none/a.jsonl"], "none/a.jsonl cannot be written"),
        (["simulate", "--json", "none/a.json"], "none/a.json cannot be written"),
        (["simulate", "--texts", "0"], "'--texts'"),
        (["simulate", "--batch", "0"], "'--batch'"),
        (["simulate", "--samples", "-1"], "'--samples'"),
        (["simulate", "--seed", "-1"], "'--seed'"),
        (["what-if", "--plot", "plot"], "plot: the name must end in .png or .svg"),
        (["what-if", "--save", "a.parquet"], "a.parquet: the name must end in .npz or .jsonl"),
        (["what-if", "--save", "none/a.npz"], "none/a.npz cannot be written"),
        (["what-if", "--texts", "1"], "'--texts'"),
        (["what-if", "--seed", "-1"], "'--seed'"),
        (["what-if", "--drafts", "0"], "'--drafts'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_refused_before_the_work(asked: list[str], message: str) -> None:
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == STATUS_REFUSED
    assert message in words(done.output.replace("│", " "))


def test_names_are_drawn_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Dollar signs are no mathematics, and bytes that are no UTF-8 are no reason to lose a plot."""
    axes = pytest.importorskip("matplotlib.axes").Axes
    asked = ["simulate", "--rule", "token", "--length", "1,2", "--plot", "z.png", "--pairs", "pairs.json", "--pairs"]
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    drawn: list[str] = []
    draw = axes.set_title

    def noted(self: object, title: str, **rest: object) -> object:
        drawn.append(title)
        return draw(self, title, **rest)

    monkeypatch.setattr(axes, "set_title", noted)
    for name, shown in (("$x_$.json", r"\$x_\$.json"), (os.fsdecode(b"\xff.json"), r"\udcff.json")):
        Path(name).write_text(Path("pairs.json").read_text())
        status, _, errors = as_started([*asked[:-3], "--pairs", name], monkeypatch, capsys)
        assert (status, errors) == (0, "")
        assert any(shown in title for title in drawn)
        Path("z.png").unlink()


def test_intervals_are_explained_where_there_are_any() -> None:
    assert "Intervals are 95%" not in run(*EXACT, *TWO)
    told = " ".join(run(*DECODED, *TWO).split())
    assert "Intervals are 95% paired bootstraps over prompts, each by itself" in told
