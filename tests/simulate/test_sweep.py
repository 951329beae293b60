"""Sweeps against closed forms, and sweeps that are interrupted and go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectr_verify.bounds import block, block_race, greedy_block, token
from spectr_verify.decoding import load_pair
from spectr_verify.errors import InputError
from spectr_verify.rules import RULES, Rule
from spectr_verify.simulate import (
    Axes,
    Cell,
    LedgerError,
    Outcome,
    Settings,
    Sweep,
    TimeModel,
    costs,
    differences,
    model_corpus,
    modelled_speed_up,
    sweep,
    synthetic_corpus,
    table_corpus,
    to_json,
)
from spectr_verify.simulate import sweep as sweep_function
from spectr_verify.simulate.sweep import cells
from toy_models import recorded_pairs
from toy_models.synthetic import SyntheticPair

SEED = 11
PAIRS = recorded_pairs()
CLOSED = {
    "token": lambda pair, length, drafts: token(pair, length),
    "block": lambda pair, length, drafts: block(pair, length),
    "greedy-block": lambda pair, length, drafts: greedy_block(pair, length),
    "block-race": block_race,
}


def axes(*rules: str, drafts: tuple = (1, 2), lengths: tuple = (1, 2), temperatures: tuple = (1.0,)) -> Axes:
    return Axes([RULES[name] for name in rules or ("token", "block-race")], drafts, lengths, temperatures)


SMALL = Settings(texts=5, batch=3, tokens=6, samples=4, seed=SEED)
UNBOUNDED = replace(SMALL, samples=0)
TABLES = table_corpus("recorded", PAIRS[:3])


@pytest.fixture(scope="module")
def exact() -> Sweep:
    many = Settings(texts=2_000, batch=2_000, tokens=3, samples=0, seed=SEED)
    return sweep([table_corpus("recorded", PAIRS)], axes(*CLOSED, drafts=(1, 3), lengths=(1, 3)), many)


@pytest.mark.parametrize("name", CLOSED)
def test_first_rounds_are_those_of_the_closed_form(exact: Sweep, name: str) -> None:
    compared = 0
    for cell, outcome in exact.outcomes.items():
        if cell.rule != name:
            continue
        for pair, tally in zip(PAIRS, outcome.prompts, strict=True):
            accepted = np.repeat(np.arange(cell.length + 1), tally.first)
            expected = CLOSED[name](pair, cell.length, cell.drafts)
            # The least share of a text that 2,000 of them can be expected to show is left for an error of zero.
            error = max(float(accepted.std()), 2_000**-0.5) / 2_000**0.5
            assert abs(accepted.mean() - expected) < 4.5 * error, f"{cell}, {pair.name}, seed {SEED}"
            compared += 1
    assert compared == len(PAIRS) * 2 * (2 if name == "block-race" else 1)


def test_cells_come_once_and_single_draft_rules_have_one_for_all_drafts() -> None:
    found = cells([TABLES], axes("token", "block-race", drafts=(3, 1), lengths=(2, 4), temperatures=(1.0, 0.5)))
    assert len(found) == len(set(found)) == 2 * 2 * 3
    assert Cell("recorded", 0.5, "token", 1, 4) in found
    assert all(cell.drafts == 1 for cell in found if cell.rule == "token")


def test_what_a_cell_counts_does_not_depend_on_the_others(whole: Sweep) -> None:
    part = sweep([TABLES], axes("block-race", drafts=(2,), lengths=(2,)), SMALL)
    for cell, outcome in part.outcomes.items():
        assert timeless(outcome) == timeless(whole.outcomes[cell])
    other = sweep([TABLES], axes("block-race", drafts=(2,), lengths=(2,)), replace(SMALL, seed=SEED + 1))
    assert [timeless(outcome) for outcome in other.outcomes.values()] != [
        timeless(outcome) for outcome in part.outcomes.values()
    ]


def timeless(outcome: Outcome) -> list[tuple]:
    return [(t.texts, t.tokens, t.longest, t.calls, t.accepted, t.first) for t in outcome.prompts]


def counted(found: Sweep) -> dict[Cell, list[tuple]]:
    return {cell: timeless(outcome) for cell, outcome in found.outcomes.items()}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cells.jsonl"


@pytest.fixture(scope="module")
def whole() -> Sweep:
    return sweep([TABLES], axes(), SMALL)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "cells.jsonl"
    sweep([TABLES], axes(), UNBOUNDED, log=path)
    return path.read_text()


@pytest.fixture
def full(log: Path, lines: str) -> Path:
    """The log of a finished sweep."""
    log.write_text(lines)
    return log


def stop_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    module, left = sweep_module(), [count]
    counting = module._counted

    def counted(*arguments: object) -> Outcome:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return counting(*arguments)

    monkeypatch.setattr(module, "_counted", counted)


def sweep_module() -> object:
    import sys

    return sys.modules[sweep_function.__module__]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_an_interrupted_sweep_goes_on_where_it_was(log: Path, whole: Sweep, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, count)
        broken = sweep([TABLES], axes(), SMALL, log=log)
    assert broken.interrupted
    assert (len(broken.outcomes), broken.planned) == (count, 6)
    assert len(log.read_text().splitlines() if log.exists() else []) == count
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 6 - count)
        rest = sweep([TABLES], axes(), SMALL, log=log)
    assert not rest.interrupted
    assert rest.restored == count
    assert counted(rest) == counted(whole)
    assert list(rest.headrooms)
    assert {c: h.values.tolist() for c, h in rest.headrooms.items()} == {
        c: h.values.tolist() for c, h in whole.headrooms.items()
    }
    again = sweep([TABLES], axes(), UNBOUNDED, log=log)
    assert again.restored == 6
    assert again.outcomes == rest.outcomes


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_half_written_line_is_dropped_and_its_cell_run_again(full: Path, whole: Sweep, cut: int) -> None:
    full.write_bytes(full.read_bytes()[:-cut])
    found = sweep([TABLES], axes(), UNBOUNDED, log=full)
    assert found.restored == 5
    assert found.notes == [f"{full}: the last line was not written to its end; its cell is run again"]
    assert counted(found) == counted(whole)
    assert sweep([TABLES], axes(), UNBOUNDED, log=full).notes == []


def test_a_log_may_have_more_cells_than_are_asked_for(full: Path) -> None:
    before = full.read_text()
    found = sweep([TABLES], axes("block-race", drafts=(2,), lengths=(2,)), SMALL, log=full)
    assert (found.restored, found.planned) == (1, 1)
    assert full.read_text() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": 4}, "was written with texts = 5, and this sweep has texts = 4"),
        ({"batch": 1}, "was written with batch = 3, and this sweep has batch = 1"),
        ({"tokens": 7}, "was written with tokens = 6"),
        ({"seed": 0}, "was written with seed = 11"),
        ({"top_k": 2}, "was written with top_k = None, and this sweep has top_k = 2"),
        ({"top_p": 0.5}, "was written with top_p = 1.0"),
        ({"min_p": 0.5}, "was written with min_p = 0.0"),
    ],
)
def test_lines_of_other_settings_are_refused_with_their_place(full: Path, change: dict, message: str) -> None:
    with pytest.raises(LedgerError, match=f"cells.jsonl, line 1 {message}.*give it another file"):
        sweep([TABLES], axes(), replace(SMALL, **change), log=full)


def test_bounds_may_be_of_other_samples(full: Path) -> None:
    assert sweep([TABLES], axes("token"), SMALL, log=full).restored == 2


def test_lines_of_other_laws_or_rules_of_the_same_name_are_refused(full: Path) -> None:
    mine = Rule("token", RULES["token"].verify, max_drafts=1)
    with pytest.raises(LedgerError, match=r"line 1 was written with another recorded \(prompts, models or code\)"):
        sweep([table_corpus("recorded", PAIRS[:2])], axes("token"), SMALL, log=full)
    full.unlink()
    own = Axes([mine], [1], [2], [1.0])
    sweep([TABLES], own, SMALL, log=full)
    line = json.loads(full.read_text())
    full.write_text(json.dumps(line | {"identities": line["identities"] | {"token": "0"}}) + "\n")
    with pytest.raises(LedgerError, match=r"line 1 was written with another token"):
        sweep([TABLES], own, SMALL, log=full)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: "{", "line 2 is not JSON"),
        (lambda line: "", "line 2 is not JSON"),
        (lambda line: "[]", "line 2 is no cell of a sweep"),
        (lambda line: json.dumps({**line, "schema": "spectr-verify/mc/1"}), "line 2 is no cell of a sweep"),
        (lambda line: json.dumps({**line, "run": None}), "line 2 is damaged"),
        (lambda line: json.dumps({**line, "run": {}}), "line 2 does not say version"),
        (lambda line: json.dumps({**line, "identities": 3}), "line 2 is damaged"),
        (lambda line: json.dumps({**line, "length": "x"}), "line 2 is damaged"),
        (lambda line: json.dumps({**line, "length": 7}), "line 2 is damaged .*not those of drafts of 7"),
        (lambda line: json.dumps({**line, "prompts": []}), "line 2 is damaged"),
        (lambda line: json.dumps({**line, "prompts": [{}]}), "line 2 is damaged"),
        (lambda line: json.dumps({**line, "prompts": line["prompts"][:1]}), "line 2 is damaged .*prompts"),
        (lambda line: json.dumps({k: v for k, v in line.items() if k != "rule"}), "line 2 is damaged"),
    ],
)
def test_damaged_lines_are_refused_with_their_place(full: Path, damage: object, message: str) -> None:
    lines = full.read_text().splitlines()
    lines[1] = damage(json.loads(lines[1]))
    full.write_text("\n".join(lines) + "\n")
    with pytest.raises(LedgerError, match=f"cells.jsonl, {message}"):
        sweep([TABLES], axes(), UNBOUNDED, log=full)


def test_a_log_that_is_no_text_is_refused(full: Path) -> None:
    full.write_bytes(b"\xff\xfe\n")
    with pytest.raises(LedgerError, match=r"cells.jsonl cannot be read: UnicodeDecodeError"):
        sweep([TABLES], axes(), UNBOUNDED, log=full)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drafts": (0,)}, "drafts is 0"),
        ({"lengths": (1, 0)}, "length is 0"),
        ({"drafts": ()}, "there is no drafts to sweep over"),
        ({"lengths": (2, 2)}, "length: 2 is asked for more than once"),
        ({"temperatures": (1.0, 1)}, "temperature: 1.0 is asked for more than once"),
        ({"temperatures": (-1.0,)}, "the temperature is -1.0"),
        ({"lengths": (7,)}, "a text of 6 tokens is shorter than a draft of 7"),
    ],
)
def test_wrong_sweeps_are_refused(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep([TABLES], axes(**change), SMALL)


def test_wrong_rules_and_settings_are_refused() -> None:
    with pytest.raises(InputError, match="autoregressive is what all rules are compared with"):
        axes("autoregressive")
    with pytest.raises(InputError, match="rule: token is asked for more than once"):
        axes("token", "token")
    for name, value in (("texts", 0), ("batch", 0), ("tokens", 0), ("samples", 1), ("samples", -1), ("seed", -1)):
        with pytest.raises(InputError, match=f"{name} is {value}"):
            replace(SMALL, **{name: value})


@pytest.fixture(scope="module")
def real() -> Sweep:
    corpus = model_corpus(load_pair(), "two", ["def read(path):\n", "import os\n"])
    return sweep([corpus], axes("token", "block-race", drafts=(2,), lengths=(2,)), replace(SMALL, tokens=8))


def test_real_models_are_timed(real: Sweep) -> None:
    for cell, outcome in real.outcomes.items():
        for tally in outcome.prompts:
            assert tally.draft > 0 < tally.target
            assert tally.draft + tally.target + tally.verify < tally.wall
            assert 0 < tally.alone < 60
        measured = costs(real, cell, None)
        assert measured.further == 0
        assert measured.draft > 0 < measured.verification
        time = 2 * measured.draft + 1 + measured.verification
        assert modelled_speed_up(real, cell, None) == pytest.approx(outcome.block_efficiency.value / time)
        given = TimeModel(0.1, 0.5, 0.2)
        time = 2 * 0.1 * (1.5 if cell.drafts == 2 else 1) + 1.2
        assert modelled_speed_up(real, cell, given) == pytest.approx(outcome.block_efficiency.value / time)
    assert {each.measure for each in differences(real)} == {"block efficiency", "speed-up"}
    assert {bound.what for bound in real.headrooms.values()} == {"level bound"}


def test_json_has_everything(real: Sweep) -> None:
    written = json.loads(json.dumps(to_json(real, differences(real), None), allow_nan=False))
    assert len(written["cells"]) == 2
    for cell in written["cells"]:
        assert cell["lossless"]
        assert len(cell["accepted_by_position"]) == 2
        assert cell["speed_up"]["measured"]["value"] > 0
        assert cell["first_rounds"]["bound"]["accepted"] > 0


def test_prompts_and_weights_tell_models_apart() -> None:
    pair = load_pair()
    one = model_corpus(pair, "it", ["a"]).identity
    assert one == model_corpus(load_pair(), "it", ["a"]).identity
    assert one != model_corpus(pair, "it", ["b"]).identity
    other = load_pair()
    next(other.draft.parameters()).data += 1
    assert one != model_corpus(other, "it", ["a"]).identity


def test_differences_are_paired_over_prompts() -> None:
    """What the race gains on token verification is far beyond noise; a rule differs from itself by nothing."""
    twin = Rule("twin", RULES["block"].verify, max_drafts=1)
    both = Axes([RULES["block"], RULES["block-race"], twin], [1, 3], [3], [1.0])
    found = sweep(
        [synthetic_corpus(SyntheticPair(50, 0.6))], both, Settings(texts=40, batch=40, tokens=8, samples=0, seed=SEED)
    )
    by_rules = {(each.rules, each.drafts): each for each in differences(found)}
    assert len(by_rules) == 5, "block and its twin have a single draft at every K"
    race = by_rules[("block", "block-race"), 3]
    assert race.low <= race.value <= race.high < 0
    assert not race.within_noise
    assert by_rules[("block", "twin"), 1].within_noise
    alone = Cell("overlap 0.6", 1.0, "block", 1, 3)
    same = replace_outcomes(found, dict.fromkeys(found.outcomes, found.outcomes[alone]))
    assert {(each.value, each.low, each.high, each.within_noise) for each in differences(same)} == {(0, 0, 0, True)}


def replace_outcomes(found: Sweep, outcomes: dict[Cell, Outcome]) -> Sweep:
    return Sweep(**{**vars(found), "outcomes": {cell: replace(outcome) for cell, outcome in outcomes.items()}})


def test_one_prompt_gives_no_intervals() -> None:
    found = sweep([table_corpus("one", PAIRS[:1])], axes(), SMALL)
    assert differences(found) == []
    assert all(outcome.block_efficiency.error is None for outcome in found.outcomes.values())


@pytest.mark.parametrize(
    "content", ['{"question": "mine"}', '{"question": "mine"}\n{"question": "too"}', "notes\nmore notes"]
)
def test_a_file_that_is_no_log_is_left_as_it_is(content: str, tmp_path: Path) -> None:
    """Without a newline at its end too: nothing that a user made is cut off."""
    mine = tmp_path / "mine.jsonl"
    mine.write_text(content)
    with pytest.raises(LedgerError):
        sweep([TABLES], axes(), UNBOUNDED, log=mine)
    assert mine.read_text() == content
