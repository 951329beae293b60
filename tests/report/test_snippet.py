"""The Python file of a counterexample: it runs by itself, and what it draws agrees with the exact law."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spectr_verify.audit import Instance, audit
from spectr_verify.replay import Calls, load_verifier
from spectr_verify.report.tables import plain_file
from toy_models import TableModel, ToyPair

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
MINE = """
from random import random

import numpy as np
import torch


def at_zero(tokens, p, q):
    return emitted(tokens, p, q, torch.rand(1) <= q[0, tokens] / p[0, tokens])


def python_at_zero(tokens, p, q):
    return emitted(tokens, p, q, random() <= float(q[0, tokens] / p[0, tokens]))


def numpy_at_zero(tokens, p, q):
    return emitted(tokens, p, q, np.random.rand() <= float(q[0, tokens] / p[0, tokens]))


def emitted(tokens, p, q, accepted):
    if accepted:
        return torch.cat([tokens, torch.multinomial(q[1], 1)])
    return torch.multinomial((q[0] - p[0]).clamp(min=0), 1)


def logits_as_logprobs(x, p, q):
    return emitted(x, p.exp(), q.exp(), torch.rand(1) * p[0, x].exp() < q[0, x].exp())


class Engine:
    def accept_all(self, x, logits, gamma):
        return (x, gamma)


engine = Engine()


def two(x, p, q):
    return torch.cat([x[1, :1], torch.multinomial(q[1, 1], 1)])


def forgetful(draft, target, ids):
    return torch.cat([ids, torch.multinomial(target(ids[:, :1]).logits[0, -1].softmax(-1), 1)[None]], dim=1)
"""


def run(source: str, folder: Path) -> tuple[float, str]:
    """The share that the file prints, and the line that it prints it in."""
    (folder / "counterexample.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "counterexample.py"], capture_output=True, text=True, cwd=folder, timeout=300, check=True
    )
    found = re.match(r"(\d\.\d+) of the texts", done.stdout)
    assert found is not None, done.stdout
    return float(found[1]), done.stdout


@pytest.mark.parametrize(
    "function",
    ["at_zero", *(pytest.param(name, marks=pytest.mark.slow) for name in ("python_at_zero", "numpy_at_zero"))],
)
def test_an_extreme_uniform_is_put_in_the_generators_place(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "snippet_engine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    zero = ToyPair(
        "zero",
        TableModel.parse([[["1/2", "1/2"]], [["1/2", "1/2"]] * 2]),
        TableModel.parse([[["1", "0"]], [["1/2", "1/2"]] * 2]),
    )
    report = audit(load_verifier(f"snippet_engine:{function}", "probabilities"), instances=[Instance(zero, 1, 1)])
    assert report.counterexample is not None
    assert report.counterexample.edge is not None
    source = plain_file(report)
    assert source is not None
    share, line = run(source, tmp_path)
    assert share > 0.05
    assert line.strip().endswith("of the texts begin with [1]; by the target 0")


@pytest.mark.parametrize(
    ("spec", "calls", "arguments", "drafts"),
    [
        (f"{EXAMPLES}/called_with_laws.py:forgetful", "probabilities", {}, 1),
        pytest.param(f"{EXAMPLES}/called_with_models.py:colder", "step", {"gamma": "L"}, 1, marks=pytest.mark.slow),
        (
            "snippet_engine.py:engine.accept_all",
            "probabilities",
            {"x": "draft_tokens", "logits": "draft_logits", "gamma": "L"},
            1,
        ),
        pytest.param("snippet_engine:two", "probabilities", {}, 2, marks=pytest.mark.slow),
        pytest.param(
            "snippet_engine:logits_as_logprobs",
            "probabilities",
            {"x": "draft_tokens", "p": "draft_logits", "q": "target_logits"},
            1,
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.slow
def test_what_it_draws_agrees_with_the_exact_law(
    spec: str, calls: Calls, arguments: dict[str, str], drafts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "snippet_engine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    found = load_verifier(spec, calls, arguments=arguments)
    report = audit(found, max_examples=10, length=1, drafts=drafts)
    assert report.verdict == "biased"
    assert report.wrong is not None
    source = plain_file(report)
    assert source is not None
    share, line = run(source, tmp_path)
    # 5,000 texts: five standard deviations.
    assert share == pytest.approx(report.wrong.produced, abs=0.035)
    assert f"exactly {report.wrong.produced:.6g}, by the target {report.wrong.target:.6g}" in line


@pytest.mark.slow
def test_a_later_round_is_reproduced_by_calling_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "snippet_engine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    report = audit(load_verifier("snippet_engine:forgetful", "step"), max_examples=40, length=1)
    assert report.wrong is not None
    assert len(report.wrong.tokens) == 2
    source = plain_file(report)
    assert source is not None
    share, _ = run(source, tmp_path)
    assert share == pytest.approx(report.wrong.produced, abs=0.035)
