"""Every command that an example's docstring shows ends as it says beside it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-c", "from spectr_verify.cli import main; main()"]


def shown() -> list[tuple[list[str], str]]:
    """Commands of the examples, and "lossless" or "biased" where the docstring says so."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text().split('"""')[1].replace("\\\\\n", " ").replace("\\\n", " ")
        for line in re.findall(r"^    spectr-verify (.*)$", text, flags=re.MULTILINE):
            command, _, verdict = line.partition("#")
            found.append((shlex.split(command), verdict.split(",")[0].strip()))
    return found


def test_every_way_of_calling_is_shown() -> None:
    commands = [" ".join(command) for command, _ in shown()]
    for what in ("--calls probabilities", "--calls step", "best_of_k", "--arg"):
        assert any(what in command for command in commands), what
    files = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert all(any(file in command for command in commands) for file in files)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "verdict"), shown(), ids=lambda part: part[1] if isinstance(part, list) else part)
def test_the_examples_end_as_they_say(command: list[str], verdict: str) -> None:
    fewer = ["--examples", "20" if verdict != "biased" else "60"]
    done = subprocess.run([*COMMAND, *command, *fewer], capture_output=True, text=True, cwd=ROOT, timeout=600)
    expected = {"lossless": 0, "biased": 1}[verdict] if verdict else None
    assert done.returncode == expected or (expected is None and done.returncode in (0, 1)), done.stderr
    assert ("lossless" if done.returncode == 0 else "biased") in done.stdout
