"""The commands as a user types them."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spectr_verify import cli
from spectr_verify.cli.status import STATUS_BROKEN, STATUS_INTERRUPTED
from spectr_verify.rules import RULES

COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]
GOLDEN = str(Path(__file__).parents[1] / "data" / "golden.json")
PAIR = (
    '{"name": "small", "drafts": 2, "length": 1, "draft": [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]]],'
    ' "target": [[["1/3", "2/3"]], [["1/2", "1/2"], ["1/2", "1/2"]]]}'
)


def run(*arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a command: (status, standard output, standard error)."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_rules_lists_the_register_without_importing_torch_or_cvxpy(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom spectr_verify.cli import main\n"
        "sys.argv = ['spectr-verify', 'rules', '--json', 'rules.json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert not {'torch', 'cvxpy', 'hypothesis', 'scipy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in RULES)
    written = json.loads((tmp_path / "rules.json").read_text())
    assert written["schema"] == "spectr-verify/rules/1"
    assert [row["name"] for row in written["rows"]] == list(RULES)


def test_compare_writes_a_row_for_every_rule_and_pair(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    status, printed, _ = run("compare", "--pairs", PAIR, "--rounds", "2", "--json", str(out))
    assert status == 0
    written = json.loads(out.read_text())
    assert written["schema"] == "spectr-verify/compare/1"
    assert [row["rule"] for row in written["rows"]] == list(RULES)
    for row in written["rows"]:
        assert row["pair"] == "small"
        assert row["lossless"] is RULES[row["rule"]].lossless, row["rule"]
        assert row["tv_text"] is not None
        assert row["rule"] in printed


def test_compare_reproduces_the_golden_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    status, _, _ = run("compare", "--pairs", GOLDEN, "--rule", "block-race", "--rule", "block", "--json", str(out))
    assert status == 0
    instances = json.loads(Path(GOLDEN).read_text())["instances"]
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 2 * len(instances)
    for row, instance in zip(rows, [i for i in instances for _ in range(2)], strict=True):
        expected = instance["expected"]
        assert (row["vocab"], row["length"], row["drafts"]) == (
            instance["vocab"],
            instance["length"],
            instance["drafts"],
        )
        key = "block_race" if row["rule"] == "block-race" else "block_k1"
        assert row["expected_accepted"] == pytest.approx(expected[key], abs=1e-8)
        assert row["claimed_bound"] == pytest.approx(expected["claimed_bound"], abs=1e-8)
        assert row["level_bound"] == pytest.approx(expected["level_bound"], abs=1e-8)
        assert row["optimum_stateless"] == pytest.approx(expected["optimum_stateless"], abs=1e-6)
        assert row["optimum_stateful"] == pytest.approx(expected["optimum_stateful"], abs=1e-6)


@pytest.mark.slow
def test_audit_ends_with_its_verdict_as_status(tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    assert run("audit", "block-race", "--pairs", PAIR)[0] == 0
    status, printed, _ = run("audit", "spectr-gbv-released", "--pairs", PAIR, "--json", str(out))
    assert status == 1
    assert "49/162" in printed
    assert "1/3" in printed
    written = json.loads(out.read_text())
    assert written["schema"] == "spectr-verify/audit/1"
    assert written["lossless"] is False
    assert written["counterexample"]["models"]["target"][0] == [["1/3", "2/3"]]


STATEFUL = """
from spectr_verify.rules import Rule
from spectr_verify.rules.greedy_block import greedy_block
from spectr_verify.rules.spectr_gbv import modified_target

WRONG = Rule("any name", greedy_block, kind="stateful", modified_target=lambda t, p, q, K: modified_target(t, p, q, 2))
"""


@pytest.mark.parametrize("arguments", [["spectr-gbv-released"], ["mine.py:WRONG", "--dtype", "float32"]], ids=" ".join)
@pytest.mark.slow
def test_the_printed_line_reproduces_the_verdict(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STATEFUL)
    status, printed, _ = run("audit", *arguments, "--examples", "20", cwd=tmp_path)
    assert status == 1
    line = printed.split("To reproduce it:")[1].strip()
    again = subprocess.run(
        [*COMMAND, *shlex.split(line)[1:]], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert again.returncode == 1
    wrong = next(part for part in printed.splitlines() if part.startswith("- the text"))
    assert wrong in again.stdout


def test_audit_takes_a_function_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from spectr_verify.rules.token import token\n")
    assert run("audit", "mine.py:token", "--pairs", PAIR, cwd=tmp_path)[0] == 0
    assert run("audit", "mine:token", "--pairs", PAIR, cwd=tmp_path)[0] == 0


def test_json_goes_to_standard_output_alone_when_asked() -> None:
    status, printed, told = run("audit", "spectr-gbv-released", "--pairs", PAIR, "--json", "-")
    assert status == 1
    assert json.loads(printed)["lossless"] is False
    assert "49/162" in told


def test_sizes_and_seed_are_taken_from_the_options(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    arguments = ["compare", "--rule", "token", "--length", "1", "--drafts", "3", "--seed", "5", "--dtype", "float32"]
    assert run(*arguments, "--json", str(out))[0] == 0
    written = json.loads(out.read_text())
    assert (written["seed"], written["dtype"], written["tolerance"]) == (5, "float32", 1e-5)
    assert {(row["length"], row["drafts"]) for row in written["rows"]} == {(1, 3)}
    assert any("seed5" in row["pair"] for row in written["rows"])


def test_bound_leaves_out_what_is_too_large_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "bounds.json"
    status, printed, _ = run("bound", f"[{PAIR}, {PAIR}]", "--max-variables", "1", "--json", str(out))
    assert status == 0
    assert printed.count("too large") == 4
    assert [row["stateful"] for row in json.loads(out.read_text())["rows"]] == [None, None]


def test_bound_prints_and_writes_all_bounds(tmp_path: Path) -> None:
    out = tmp_path / "bounds.json"
    status, printed, _ = run("bound", PAIR, "--json", str(out))
    assert status == 0
    assert "optimum, stateful" in printed
    (row,) = json.loads(out.read_text())["rows"]
    assert row["stateful"]["status"] == "optimal"
    assert row["stateful"]["gap"] <= 1e-8
    assert row["closed"]["block"] <= row["closed"]["block_race"] <= row["stateless"]["upper"] + 1e-9


WRONG_PAIRS = {
    "negative": ('{"draft": [[[1.5, -0.5]]], "target": [[[0.5, 0.5]]]}', "negative"),
    "sum": ('{"draft": [[[0.5, 0.4]]], "target": [[[0.5, 0.5]]]}', "sum"),
    "nan": ('{"draft": [[[NaN, 0.4]]], "target": [[[0.5, 0.5]]]}', "finite"),
    "vocabulary": ('{"draft": [[[0.5, 0.5]]], "target": [[[0.5, 0.25, 0.25]]]}', "vocabulary"),
    "depth": ('{"draft": [[[0.5, 0.5]]], "target": [[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]}', "level"),
    "shape": ('{"draft": [[[0.5, 0.5]], [[0.5, 0.5]]], "target": [[[0.5, 0.5]], [[0.5, 0.5]]]}', "level 1"),
    "shallow": ('{"draft": [[[0.5, 0.5]]], "target": [[[0.5, 0.5]]]}', "level"),
    "missing": ("no-such-file.json", "no-such-file.json"),
    "json": ("{", "JSON"),
}


@pytest.mark.parametrize("command", ["compare", "audit", "bound"])
@pytest.mark.parametrize("fault", list(WRONG_PAIRS))
def test_wrong_pairs_are_refused_by_every_command(
    command: str, fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, says = WRONG_PAIRS[fault]
    arguments = {
        "compare": ["--pairs", source, "--rule", "token"],
        "audit": ["token", "--pairs", source],
        "bound": [source],
    }
    monkeypatch.setattr(sys, "argv", ["spectr-verify", command, *arguments[command]])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert "error:" in printed.err
    assert says in printed.err
    assert "lossless" not in printed.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "no-such-rule"],
        ["audit", "no.such.module:rule"],
        ["compare", "--drafts", "0"],
        ["compare", "--length", "0"],
        ["compare", "--pairs", PAIR.replace('"length": 1', '"length": 5')],
        ["compare", "--pairs", PAIR.replace('"drafts": 2', '"drafts": 0')],
        ["compare", "--json", "no/such/folder/file.json"],
        ["compare", "--pairs", PAIR, "--max-tuples", "1"],
        ["compare", "--pairs", PAIR, "--max-texts", "1"],
        ["compare", "--pairs", PAIR, "--tolerance", "nan"],
        ["compare", "--pairs", PAIR, "--max-worlds", "1"],
        ["compare", "--dtype", "float16"],
        ["bound", PAIR.replace('"length": 1', '"length": "one"')],
        ["no-such-command"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_status_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["spectr-verify", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err


def test_a_fault_of_the_program_does_not_end_like_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("inside")

    monkeypatch.setattr("spectr_verify.cli.optima.instances", broken)
    monkeypatch.setattr(sys, "argv", ["spectr-verify", "bound", PAIR])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == STATUS_BROKEN
    assert "KeyError" in capsys.readouterr().err


def test_no_color_is_respected() -> None:
    for setting, coloured in ({"NO_COLOR": "1"}, False), ({}, True):
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        done = subprocess.run(
            [*COMMAND, "rules"],
            capture_output=True,
            text=True,
            env=environment | {"FORCE_COLOR": "1", "TERM": "xterm-256color"} | setting,
            timeout=60,
        )
        assert ("\x1b[32m" in done.stdout) is coloured


@pytest.mark.parametrize("name", ["[/]", "[red]x[/red]", "\u2603", "x" * 150])
def test_any_printable_name_is_shown_and_hides_no_verdict(name: str) -> None:
    pair = PAIR.replace('"small"', json.dumps(name))
    status, printed, _ = run("compare", "--pairs", pair, "--rule", "block-race")
    assert status == 0
    assert "lossless" in printed
    assert name[:30] in printed


def test_a_closed_output_does_not_look_like_a_verdict() -> None:
    with subprocess.Popen(
        [*COMMAND, "audit", "block-race", "--pairs", PAIR], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) not in (0, 1, 2)


USER_FAULTS = {
    "base": "class B(BaseException): pass\ndef rule(r, c): raise B('x')\n",
    "exit": "def rule(r, c): raise SystemExit(1)\n",
    "import": "raise GeneratorExit\n",
    "unprintable": "class E(Exception):\n    def __str__(self): raise ValueError\ndef rule(r, c): raise E\n",
    "fork": "import torch\nfrom spectr_verify.chance import Fork\ndef rule(r, c): raise Fork(torch.ones(1))\n",
    "gradient": "def rule(r, c): return c.categorical(r.target_probs[:, 0, 0].requires_grad_())\n",
    "many": "import torch\ndef rule(r, c): return c.categorical(torch.ones(r.rows, 3_000_000))\n",
}


@pytest.mark.parametrize("fault", list(USER_FAULTS))
def test_whatever_a_users_rule_does_it_is_refused_and_not_judged(fault: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER_FAULTS[fault])
    status, printed, told = run("audit", "mine.py:rule", "--pairs", PAIR, "--max-worlds", "1000", cwd=tmp_path)
    assert status == 2
    assert "error: " in told
    assert "mine.py" in told
    assert not printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["bound", PAIR.replace('"1/3"', '"1e-300000000"')],
        ["bound", PAIR.replace('"drafts": 2', '"drafts": 1' + "0" * 400)],
        ["audit", "block-race", "--pairs", PAIR.replace('"drafts": 2', '"drafts": 1000000000')],
        ["compare", "--pairs", PAIR, "--rounds", "1000000000"],
        ["compare", "--length", "50"],
        ["audit", "block-race", "--drafts", "100"],
        ["compare", "--pairs", PAIR.replace('"small"', '"\\ud800"')],
        ["compare", "--pairs", PAIR, "--tolerance", "inf"],
        ["compare", "--pairs", PAIR, "--json", "/dev/null"],
        ["compare", "--pairs", PAIR, "--json", "x" * 300],
    ],
    ids=lambda arguments: " ".join(arguments)[-40:],
)
def test_sizes_beyond_reason_are_refused_at_once(arguments: list[str]) -> None:
    status, _, told = run(*arguments)
    assert status == 2
    assert len(told) < 2000


@pytest.mark.slow
def test_audit_looks_at_the_sizes_it_is_given(tmp_path: Path) -> None:
    """Wrong for three drafts and three tokens only: outside what is looked at without being asked."""
    (tmp_path / "mine.py").write_text(
        "from spectr_verify.rules import RULES\n"
        "def rule(r, c):\n"
        "    wrong = r.num_drafts >= 3 and r.vocab >= 3\n"
        "    return RULES['typical' if wrong else 'block-race'].verify(r, c)\n"
    )
    status, printed, _ = run("audit", "mine.py:rule", "--examples", "20", cwd=tmp_path)
    assert status == 0
    assert "(V 2 to 4, L 1 to " in printed
    assert ", K 1 to 3;" in printed
    assert run("audit", "mine.py:rule", "--drafts", "3", "--length", "1", "--examples", "20", cwd=tmp_path)[0] == 1
    assert not (tmp_path / ".hypothesis").exists()


def test_rules_of_one_name_keep_rows_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from spectr_verify.rules import RULES, Rule\n"
        "A = Rule('block', RULES['typical'].verify)\nB = Rule('block', RULES['token'].verify, max_drafts=1)\n"
    )
    rules = ["--rule", "block", "--rule", "mine.py:A", "--rule", "mine.py:B"]
    _, printed, _ = run("compare", "--pairs", PAIR, *rules, cwd=tmp_path)
    verdicts = {line.split()[0]: line.split()[2] for line in printed.splitlines() if "stateless" in line}
    assert verdicts == {"block": "lossless", "mine.py:A": "biased", "mine.py:B": "lossless"}


def test_a_narrow_terminal_loses_no_number() -> None:
    """As a terminal of 80 columns shows it: every verdict, error, accepted length and share."""
    from rich.console import Console

    from spectr_verify.audit import Instance, compare
    from spectr_verify.report.tables import compare_table
    from toy_models import read_pairs

    verdicts = compare(list(RULES.values()), [Instance.of(read_pairs(PAIR)[0])])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(compare_table(verdicts, narrow=True))
    printed = console.export_text()
    for verdict in verdicts:
        line = next(line for line in printed.splitlines() if line.split()[:1] == [verdict.rule.name])
        assert "…" not in line
        assert f"{verdict.round.expected_accepted:.4f}" in line


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_audit_says_so_and_has_a_status_of_its_own(by: signal.Signals) -> None:
    words = [*COMMAND, "audit", "tournament-greedy-block", "--drafts", "3", "--length", "2"]  # takes a minute
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(6)
        process.send_signal(by)
        _, told = process.communicate(timeout=60)
    assert process.returncode == STATUS_INTERRUPTED
    assert b"interrupted" in told


@pytest.mark.parametrize("command", [["compare", "--pairs"], ["audit", "token", "--pairs"], ["bound"]], ids=" ".join)
def test_the_result_is_not_written_over_the_pairs(command: list[str], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.json"
    pairs.write_text(PAIR)
    status, _, told = run(*command, str(pairs), "--json", f"{tmp_path}/./pairs.json")
    assert status == 2
    assert "another file" in told
    assert pairs.read_text() == PAIR
