"""What the README shows is what the commands print."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spectr_verify.audit import audit
from spectr_verify.audit.gallery import CONTROLS, FAULTS
from spectr_verify.rules import RULES
from spectr_verify.rules.load import load_rule

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def printed(*arguments: str, cwd: Path | None = None) -> str:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=600, cwd=cwd).stdout


def commands(start: str) -> list[tuple[list[str], str]]:
    """The commands that are shown with their output, or the first or last lines of it: arguments and output."""
    shown = [block.split("\n", 1) for block in blocks("text") if block.startswith(f"$ spectr-verify {start}")]
    return [(shlex.split(command.partition(" | ")[0])[2:], output) for command, output in shown]


def write_files(folder: Path) -> None:
    """The Python files that the README shows, under the names in their first lines."""
    for source in blocks("python"):
        if named := re.match(r"# (\w+\.py)\n", source):
            (folder / named[1]).write_text(source)


def rows(table: str) -> dict[str, tuple[str, ...]]:
    """Rule to what does not depend on rounding: class, verdict, mean E[tau], share of the optimum."""
    found = {}
    for line in table.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) == 7 and cells[1] in ("stateless", "stateful"):
            found[cells[0]] = (*cells[1:3], *cells[5:])
    return found


@pytest.mark.slow
def test_the_table_is_what_the_main_job_prints_and_it_is_right(tmp_path: Path) -> None:
    shown = rows(next(block for block in blocks("text") if "on pair" in block))
    assert list(shown) == list(RULES)
    out = tmp_path / "rows.json"
    assert rows(printed("compare", "--json", str(out))) == shown
    verdicts = json.loads(out.read_text())["rows"]
    assert len(verdicts) == 26 * len(RULES)
    for row in verdicts:
        if RULES[row["rule"]].lossless:
            assert row["lossless"], row
            assert row["tv_round"] <= 1e-12, row


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "expected"), commands("audit"), ids=lambda part: part[1][:20])
def test_the_audits_are_what_audit_prints(arguments: list[str], expected: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    found = printed(*arguments, cwd=tmp_path)
    # How many pairs were drawn depends on the version of Hypothesis; what they shrink to does not.
    lines = [line.rstrip() for line in expected.strip().split("\n")]
    assert [line.rstrip() for line in found.strip().split("\n")][1 : len(lines)] == lines[1:]


def test_the_score_of_the_gallery_is_its_own() -> None:
    ((_, expected),) = commands("gallery")
    faults, controls = len(FAULTS), len(CONTROLS)
    said = f"{faults} of {faults} planted faults caught, 0 of {controls} correct rules flagged"
    assert expected.strip() == said  # which tests/audit/test_gallery.py holds fault by fault


@pytest.mark.slow
def test_the_suite_of_three_lines_finds_the_fault(tmp_path: Path) -> None:
    write_files(tmp_path)
    source = next(block for block in blocks("python") if "property_suite" in block)
    (tmp_path / "test_engine.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_engine.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    assert re.search(r"1 failed, [1-9]\d* passed", done.stdout), done.stdout
    assert "edge_coins" in done.stdout


def test_the_rule_of_the_readme_is_lossless(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert audit(load_rule(f"{tmp_path}/my_rule.py:my_rule"), max_examples=20).lossless


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    source = next(block for block in blocks("python") if "text_law" in block)
    scope: dict = {}
    exec(source, scope)
    assert scope["law"].tv_round <= 1e-12


def test_the_pair_of_the_readme_is_a_pair() -> None:
    (source,) = blocks("json")
    assert "49/162" in printed("audit", "spectr-gbv-released", "--pairs", source)
