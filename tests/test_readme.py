"""What the README shows is what the commands print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spectr_verify.audit import audit
from spectr_verify.rules import RULES
from spectr_verify.rules.load import load_rule

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def printed(*arguments: str) -> str:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300).stdout


def rows(table: str) -> dict[str, tuple[str, ...]]:
    """Rule to what does not depend on rounding: class, verdict, mean E[tau], share of the optimum."""
    found = {}
    for line in table.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) == 7 and cells[1] in ("stateless", "stateful"):
            found[cells[0]] = (*cells[1:3], *cells[5:])
    return found


def test_the_table_is_what_the_main_job_prints_and_it_is_right(tmp_path: Path) -> None:
    shown = rows(next(block for block in blocks("text") if "of optimum" in block))
    assert list(shown) == list(RULES)
    out = tmp_path / "rows.json"
    assert rows(printed("compare", "--json", str(out))) == shown
    verdicts = json.loads(out.read_text())["rows"]
    assert len(verdicts) == 26 * len(RULES)
    for row in verdicts:
        if RULES[row["rule"]].lossless:
            assert row["lossless"], row
            assert row["tv_round"] <= 1e-12, row


def test_the_audit_is_what_audit_prints() -> None:
    shown = next(block for block in blocks("text") if block.startswith("$ spectr-verify audit"))
    command, expected = shown.split("\n", 1)
    found = printed(*command.split()[2:])
    # How many pairs were drawn depends on the version of Hypothesis; what they shrink to does not.
    assert found.strip().split("\n")[1:] == expected.strip().split("\n")[1:]


def test_the_rule_of_the_readme_is_lossless(tmp_path: Path) -> None:
    source = next(block for block in blocks("python") if "my_rule" in block)
    (tmp_path / "my_rule.py").write_text(source)
    assert audit(load_rule(f"{tmp_path}/my_rule.py:my_rule"), max_examples=20).lossless


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    source = next(block for block in blocks("python") if "text_law" in block)
    scope: dict = {}
    exec(source, scope)
    assert scope["law"].tv_round <= 1e-12


def test_the_pair_of_the_readme_is_a_pair() -> None:
    (source,) = blocks("json")
    assert "49/162" in printed("audit", "spectr-gbv-released", "--pairs", source)
