"""Efficiency from text of the target: closed forms on all texts of a small pair, and real decoding."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from spectr_verify.bounds import closed_form
from spectr_verify.cli import app
from spectr_verify.decoding import decode, load_pair
from spectr_verify.errors import InputError
from spectr_verify.rules import RULES
from spectr_verify.simulate import TimeModel, TokenLogs, target_logs, what_if
from toy_models import TableModel, ToyPair
from toy_models.prompts import prompts

FORMS = {
    "token": closed_form.token,
    "block": closed_form.block,
    "greedy-block": closed_form.greedy_block,
    "block-race": closed_form.block_race,
    "relaxed bound": closed_form.relaxed_bound,
}

PAIR = ToyPair(
    "quarters",
    TableModel.parse([[["1/8", "7/8"]], [["1/2", "1/2"], ["0", "1"]], [["1/2", "1/2"]] * 4]),
    TableModel.parse([[["3/4", "1/4"]], [["1/4", "3/4"], ["1/2", "1/2"]], [["1/2", "1/2"]] * 4]),
)
"""Joint probabilities of two target tokens are multiples of 1/16."""


def every_text(length: int, times: int) -> TokenLogs:
    """Every text as often among ``times`` texts as the target writes it."""
    rows = []
    for text in itertools.product(range(2), repeat=length):
        laws = [(PAIR.draft.law(text[:i])[token], PAIR.target.law(text[:i])[token]) for i, token in enumerate(text)]
        rows += [laws] * round(times * float(np.prod([q for _, q in laws])))
    assert len(rows) == times
    with np.errstate(divide="ignore"):
        draft, target = np.log(np.array(rows, dtype=np.float64).reshape(-1, 2)).T
    return TokenLogs(draft, target, np.full(times, length))


@pytest.mark.parametrize("length", [1, 2])
def test_it_is_the_closed_form_on_all_texts(length: int) -> None:
    found = what_if(every_text(length, 16), drafts=3, length=length)
    for r, name in enumerate(found.rules):
        for k, n in itertools.product(range(3), range(length)):
            several = name in ("block-race", "relaxed bound")
            arguments = (PAIR, n + 1, k + 1) if several else (PAIR, n + 1)
            assert found.efficiency[r, k, n] == pytest.approx(1 + FORMS[name](*arguments), abs=1e-12), (name, k, n)
    assert (found.places, found.texts, found.tokens) == (16, 16, 16 * length)


def test_the_standard_error_is_that_of_a_bootstrap_over_texts() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(3, 9, size=200)
    level = np.repeat(generator.normal(0, 0.5, size=200), lengths)  # texts differ: their places are not independent
    target = -generator.exponential(1.0, size=lengths.sum())
    draft = np.minimum(target - level - generator.exponential(0.3, size=lengths.sum()), 0)
    logs = TokenLogs(draft, target, lengths)
    cuts = lengths.cumsum()[:-1]
    parts = list(zip(np.split(draft, cuts), np.split(target, cuts), strict=True))
    means = []
    for _ in range(300):
        chosen = generator.integers(0, 200, size=200)
        again = TokenLogs(*(np.concatenate([parts[i][side] for i in chosen]) for side in (0, 1)), lengths[chosen])
        means.append(what_if(again, drafts=1, length=3).efficiency[1, 0, 2])
    assert what_if(logs, drafts=1, length=3).error[1, 0, 2] == pytest.approx(np.std(means), rel=0.2)


def test_places_with_too_few_tokens_behind_them_are_left_out() -> None:
    logs = TokenLogs(np.full(9, -1.0), np.full(9, -1.0), np.array([2, 3, 4]))
    found = what_if(logs, drafts=1, length=3)
    assert (found.places, found.texts) == (3, 2)
    with pytest.raises(InputError, match="no text has 5 tokens; the longest has 4"):
        what_if(logs, length=5)
    with pytest.raises(InputError, match="drafts is 0"):
        what_if(logs, drafts=0)


def test_the_time_model_by_hand_and_the_peak() -> None:
    assert TimeModel(0.1, 0.5, 0.2).seconds(3, 4) == pytest.approx(4 * 0.1 * 2 + 1 + 0.2)
    with pytest.raises(InputError, match="cost draft is -1"):
        TimeModel(-1)
    logs = TokenLogs(np.full(40, -1.0), np.full(40, -0.9), np.array([40]))  # every token is accepted with exp(-0.1)
    found, time = what_if(logs, drafts=1, length=30), TimeModel(0.1)
    token = found.efficiency[0, 0]
    assert token == pytest.approx((1 - np.exp(-0.1 * np.arange(2, 32))) / (1 - np.exp(-0.1)))
    speed = found.speed_up(time)[0, 0]
    peak = int(speed.argmax())
    assert 0 < peak < 29
    assert (np.diff(speed[: peak + 1]) > 0).all()
    assert (np.diff(speed[peak:]) < 0).all()
    assert found.best(time)[0] == ("token", 1, peak + 1)


@pytest.mark.parametrize(("name", "drafts"), [("token", 1), ("block", 1), ("block-race", 3)])
def test_it_foretells_real_decoding(name: str, drafts: int) -> None:
    """The first round after each prompt: later ones begin where others end, and not everywhere alike."""
    pair, length, texts = load_pair(), 4, 400
    encoded = pair.encode(prompts("code"))
    logs = target_logs(pair, encoded, texts=texts, tokens=length, seed=1)
    found = what_if(logs, drafts=drafts, length=length)
    asked = [encoded[number % len(encoded)] for number in range(texts)]
    decoded = decode(
        pair,
        RULES[name],
        asked,
        tokens=length,
        drafts=drafts,
        length=length,
        generator=torch.Generator().manual_seed(2),
    )
    measured = decoded.accepted[:, 0].double() + 1
    r = found.rules.index(name)
    error = np.hypot(found.error[r, drafts - 1, length - 1], float(measured.std()) / texts**0.5)
    assert abs(float(measured.mean()) - found.efficiency[r, drafts - 1, length - 1]) < 4 * error


# The command


def lines(tmp_path: Path) -> Path:
    file = tmp_path / "logs.jsonl"
    row = '{"log_draft": [-1, -0.5, null, -1], "log_target": [-1.5, -0.25, -3, -1]}\n'
    file.write_text(row * 5)
    return file


def test_the_command_reads_a_file_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for ending, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        plot = tmp_path / f"plot{ending}"
        done = CliRunner().invoke(
            app, ["what-if", str(lines(tmp_path)), "--drafts", "2", "--length", "3", "--plot", str(plot)]
        )
        assert done.exit_code == 0, done.output
        assert "10 places in 5 texts" in done.output
        assert plot.read_bytes().startswith(begins)


def test_the_command_writes_json_and_what_the_target_wrote(tmp_path: Path) -> None:
    saved, written = tmp_path / "saved.npz", tmp_path / "out.json"
    words = ["what-if", "--texts", "4", "--tokens", "6", "--length", "3", "--drafts", "2"]
    done = CliRunner().invoke(app, [*words, "--save", str(saved), "--json", str(written)])
    assert done.exit_code == 0, done.output
    content = json.loads(written.read_text())
    assert content["schema"] == "spectr-verify/what-if/1"
    assert (content["texts"], content["tokens"], content["places"]) == (4, 24, 16)
    assert [row["rule"] for row in content["rules"]] == list(FORMS)
    again = tmp_path / "again.json"
    CliRunner().invoke(app, ["what-if", str(saved), "--length", "3", "--drafts", "2", "--json", str(again)])
    assert json.loads(again.read_text()) == content


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.npz"], "cannot be read"),
        (["logs.csv"], "must end in"),
        (["logs.jsonl", "--length", "9"], "the longest has 4"),
        (["logs.jsonl", "--draft-cost", "-1"], "cost draft is -1"),
        (["logs.jsonl", "--length", "2", "--plot", "a.xyz"], "cannot be drawn"),
        (["--prompts", "nothing"], "no prompt set"),
    ],
)
def test_bad_input_is_refused(words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["what-if", *words])
    assert isinstance(done.exception, InputError), done.output
    assert message in str(done.exception)
