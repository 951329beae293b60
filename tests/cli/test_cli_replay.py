"""Audits of code as it stands, as a user types them: verdicts, bounds, and every kind of code that cannot be judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import run

from spectr_verify.cli.status import STATUS_BIASED, STATUS_REFUSED, STATUS_UNDECIDED
from spectr_verify.errors import InputError

PAIR = (
    '{"name": "small", "drafts": 1, "length": 1, "draft": [[["1/2", "1/2"]], [["1/2", "1/2"], ["1/2", "1/2"]]],'
    ' "target": [[["1/3", "2/3"]], [["1/2", "1/2"], ["1/2", "1/2"]]]}'
)

MINE = """
import random, time

import numpy as np
import torch

own, calls, kept = random.Random(0), [], []


def right(x, p, q, lenience=1.0):
    i = torch.arange(len(x))
    accepted = int((torch.rand(len(x)) < lenience * q[i, x] / p[i, x]).long().cumprod(0).sum())
    law = q[-1] if accepted == len(x) else (q[accepted] - p[accepted]).clamp(min=0)
    return torch.cat([x[:accepted], torch.multinomial(law, 1)])


def prints(x, p, q):
    print("accepting", x)
    return right(x, p, q)


def mutates(x, p, q):
    emitted = right(x, p, q)
    q.mul_(0)
    return emitted


def raises(x, p, q):
    return right(x, p, q)[7]


def loops(x, p, q):
    while True:
        time.sleep(0.01)


def draws(x, p, q):
    while torch.multinomial(torch.tensor([0.95, 0.05]), 1) == 0:
        pass
    return right(x, p, q)


def counts(x, p, q):
    calls.append(1)
    return right(x, p, q) if len(calls) % 3 else x[:0].tolist() + [0]


def own_generator(x, p, q):
    return [int(own.random() < 0.5)]


def sums(x, p, q):
    return [int(torch.rand(2).sum() < 1)]


def normal(x, p, q):
    return [int(torch.randn(()) < 1)]


def floats(x, p, q):
    return q[0]


def nothing(x, p, q):
    return None


def too_few(x, p, q):
    return []


def step(draft, target, ids, gamma):
    return torch.cat([ids, torch.multinomial(target(ids).logits[0, -1:].softmax(-1), 1)], dim=1)


def short(draft, target, ids):
    return ids


not_a_function = 3
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)


def audit(function: str, *more: str, calls: str = "probabilities") -> tuple[int, str]:
    return run("audit", f"mine.py:{function}", "--calls", calls, "--pairs", PAIR, *more)


def test_verdicts_and_their_json(tmp_path: Path) -> None:
    assert audit("right")[0] == 0
    assert audit("step", "--arg", "gamma=L", calls="step")[0] == 0
    status, said = audit("right", "--arg", "lenience=2.0", "--json", "out.json")
    assert status == STATUS_BIASED
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["verdict"] == "biased"
    assert written["calls"] == "probabilities"
    assert written["arguments"] == ["lenience=2.0"]
    assert written["reproduce"] in said
    assert "--arg lenience=2.0" in written["reproduce"]
    assert written["python"].strip() in said
    assert "lenience=2.0" in written["python"]


def test_a_generator_of_its_own_is_answered_too() -> None:
    status, said = audit("own_generator")
    assert status == STATUS_BIASED
    assert "«0» has probability 1/2 = 0.5 and should have 1/3" in said


def test_a_bound_that_is_reached_is_no_verdict(tmp_path: Path) -> None:
    status, said = audit("right", "--max-paths", "3", "--json", "out.json")
    assert status == STATUS_UNDECIDED
    assert "undecided" in said
    assert "the limit of 3 paths is reached" in said
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["verdict"], written["lossless"]) == ("undecided", False)
    assert "3 paths" in written["stopped"]
    searching = run("audit", "mine.py:right", "--calls", "probabilities", "--max-paths", "50")
    assert searching[0] == STATUS_UNDECIDED
    assert run("audit", "mine.py:right", "--calls", "probabilities", "--max-seconds", "0.5")[0] == STATUS_UNDECIDED


def test_a_fault_that_was_found_before_the_bound_is_a_verdict() -> None:
    biased = ["audit", "mine.py:right", "--calls", "probabilities", "--arg", "lenience=2.0", "--max-paths", "60"]
    status, said = run(*biased, "--arg", "x=draft_tokens", "--arg", "p=draft_probs", "--arg", "q=target_probs")
    assert status == STATUS_BIASED
    assert "Counterexample" in said


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("prints", "it prints; what it printed first begins 'accepting tensor"),
        ("mutates", "it writes into the tensors that it is given"),
    ],
)
def test_manners_are_noted_and_the_law_is_judged(function: str, says: str) -> None:
    status, said = audit(function)
    assert status == 0
    assert f"Note: {says}" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", r"mine.py:raises raised IndexError.*draft_tokens \[1\], draft_probs \[1, 2\].*--arg"),
        ("draws", "still draws after"),
        ("counts", "keeps state|came to another result|other random choices"),
        ("sums", "sum.*mine.py:.*Draw by a comparison.*spectr-verify mc"),
        ("normal", "draws random numbers of a kind that is not followed|randn|normal"),
        ("floats", "must return tokens as whole numbers"),
        ("nothing", "returned None"),
        ("too_few", "returned no token"),
        ("not_a_function", "is of type int; it must be a function"),
        ("no_such_function", "has no 'no_such_function'; it has right"),
        ("step", r"cannot be called as \(draft_tokens, draft_probs, target_probs\)"),
    ],
)
def test_code_that_cannot_be_judged_gets_no_verdict(function: str, says: str) -> None:
    status, said = audit(function)
    assert status == STATUS_REFUSED
    with pytest.raises(InputError, match=f"(?s){says}"):
        raise InputError(said)


def test_code_that_loops_is_stopped() -> None:
    status, said = audit("loops", "--max-seconds", "1")
    assert status == STATUS_UNDECIDED
    assert "the limit of 1 seconds is reached" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mine.py:right"], "takes .x, p, q.*--calls probabilities or --calls step"),
        (["token", "--calls", "step"], "token is a registered rule"),
        (["mine.py:right", "--calls", "round", "--arg", "gamma=L"], "takes .x, p, q"),
        (["token", "--arg", "gamma=L"], "calls='round' takes no arguments"),
        (["mine.py:right", "--calls", "probabilities", "--arg", "gamma"], "'gamma' has no value"),
        (["mine.py:right", "--calls", "probabilities", "--arg", "lenience=M"], "lenience=M fails: NameError"),
        (["mine.py:right", "--calls", "probabilities", "--temperature", "0.5"], "temperature is for calls='step'"),
        (["mine.py:short", "--calls", "step"], "with no new token"),
    ],
)
def test_wrong_usage_gets_no_verdict(arguments: list[str], says: str) -> None:
    status, said = run("audit", *arguments, "--pairs", PAIR)
    assert status == STATUS_REFUSED
    with pytest.raises(InputError, match=f"(?s){says}"):
        raise InputError(said)
