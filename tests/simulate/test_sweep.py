"""Sweeps against closed forms and exact laws, and sweeps that are interrupted and go on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from spectr_verify.bounds import block, block_race, greedy_block, token
from spectr_verify.decoding import Filters, load_pair
from spectr_verify.errors import InputError
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.load import load_rule
from spectr_verify.simulate import (
    Axes,
    Cell,
    Corpus,
    LedgerError,
    Outcome,
    Settings,
    Sweep,
    TimeModel,
    behind_best,
    costs,
    counting,
    differences,
    identity,
    model_corpus,
    modelled_speed_up,
    sweep,
    synthetic_corpus,
    table_corpus,
    to_json,
)
from spectr_verify.simulate import sweep as sweep_function
from spectr_verify.simulate.headroom import Headrooms
from spectr_verify.simulate.plan import cells
from toy_models import family_pairs, recorded_pairs
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
MANY = synthetic_corpus(SyntheticPair(40, 0.6))
MANY = replace(MANY, starts=MANY.starts[:12])
FEW = replace(MANY, name="few", starts=MANY.starts[:3])
TABLES = table_corpus("recorded", PAIRS[:3])


def unwritten(corpus: Corpus) -> Corpus:
    """The same laws, as if nobody could write them down."""
    return replace(corpus, starts=tuple(replace(start, tables=None) for start in corpus.starts))


@pytest.fixture(scope="module")
def decoded() -> Sweep:
    many = Settings(texts=1_000, batch=1_000, tokens=3, samples=0, seed=SEED)
    corpus = unwritten(table_corpus("recorded", PAIRS[:6]))
    return sweep([corpus], axes(*CLOSED, drafts=(1, 3), lengths=(1, 3)), many)


@pytest.mark.parametrize("name", CLOSED)
def test_first_rounds_are_those_of_the_closed_form(decoded: Sweep, name: str) -> None:
    compared = 0
    for cell, outcome in decoded.outcomes.items():
        if cell.rule != name:
            continue
        for pair, tally in zip(PAIRS, outcome.prompts, strict=False):
            accepted = np.repeat(np.arange(cell.length + 1), tally.first)
            expected = CLOSED[name](pair, cell.length, cell.drafts)
            # The least share of a text that 1,000 of them can be expected to show is left for an error of zero.
            error = max(float(accepted.std()), 1_000**-0.5) / 1_000**0.5
            assert abs(accepted.mean() - expected) < 4.5 * error, f"{cell}, {pair.name}, seed {SEED}"
            compared += 1
    assert compared == 6 * 2 * (2 if name == "block-race" else 1)


def test_tables_have_the_exact_law_of_their_first_round() -> None:
    pairs = family_pairs(0, 3, 2)[:3]
    found = sweep([table_corpus("it", pairs)], axes(*CLOSED, "k-seq", "spectr-gbv-released", drafts=(2,)), UNBOUNDED)
    for cell, outcome in found.outcomes.items():
        laws = [round_law(RULES[cell.rule], pair, cell.length, cell.drafts) for pair in pairs]
        assert outcome.exact
        assert outcome.first_accepted == pytest.approx([law.expected_accepted for law in laws], abs=1e-9)
        for tally, law in zip(outcome.prompts, laws, strict=True):
            assert tally.accepted == pytest.approx([level.sum() for level in law.emissions], abs=1e-9)
        assert outcome.block_efficiency.value == pytest.approx(1 + np.mean([law.expected_accepted for law in laws]))
        assert outcome.block_efficiency.error is None
    assert all(each.high - each.low <= 3e-9 for each in differences(found))


def test_exact_figures_of_one_law_are_within_noise() -> None:
    """One is enumerated and the other a closed form: they differ by rounding alone."""
    found = sweep([table_corpus("it", family_pairs(0, 3, 2)[:3])], axes("block", "block-race", drafts=(1,)), UNBOUNDED)
    assert all(each.within_noise for each in differences(found))


def test_tables_follow_the_filters() -> None:
    (pair,) = family_pairs(0, 3, 1)[:1]
    corpus, rule = table_corpus("it", [pair]), RULES["token"]
    greedy = counting.law_of_rounds(corpus, rule, 1, 1, Filters(0.0))
    same = pair.draft.levels[0][0].argmax() == pair.target.levels[0][0].argmax()
    assert greedy is not None
    assert greedy.first_accepted.tolist() == [float(same)]


def test_too_many_drafts_to_enumerate_are_sampled_with_the_error_of_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over these pairs, which are no sample of others: one of them has an error too, and its error is honest."""
    monkeypatch.setattr(counting, "MOST_TUPLES", 1)
    (pair,) = family_pairs(0, 3, 2)[:1]
    corpus, rule, off = table_corpus("one", [pair]), axes("k-seq", drafts=(2,), lengths=(2,)), []
    exact = round_law(RULES["k-seq"], pair, 2, 2).expected_accepted + 1
    for seed in range(30):
        found = sweep([corpus], rule, Settings(texts=40, batch=40, samples=0, seed=seed))
        (outcome,) = found.outcomes.values()
        assert not outcome.exact
        assert outcome.first_rounds
        assert [tally.rounds for tally in outcome.prompts] == [40]
        efficiency = outcome.block_efficiency
        off.append((efficiency.value - exact) / efficiency.error)
    assert abs(np.mean(off)) < 4 / 30**0.5
    assert np.mean(np.square(off)) == pytest.approx(1, abs=4 * (2 / 30) ** 0.5)


def test_drafts_beyond_the_tables_are_sampled() -> None:
    found = sweep([TABLES], axes("token", lengths=(4,)), replace(SMALL, texts=20))
    (outcome,) = found.outcomes.values()
    assert not outcome.exact
    assert list(found.unbounded.values()) == [f"the tables of {PAIRS[0].name} reach drafts of 3 tokens"]


def test_cells_come_once_and_single_draft_rules_have_one_for_all_drafts() -> None:
    found = cells([FEW], axes("token", "block-race", drafts=(3, 1), lengths=(2, 4), temperatures=(1.0, 0.5)))
    assert len(found) == len(set(found)) == 2 * 2 * 3
    assert Cell("few", 0.5, "token", 1, 4) in found
    assert all(cell.drafts == 1 for cell in found if cell.rule == "token")


def timeless(outcome: Outcome) -> list[tuple]:
    return [(t.texts, t.tokens, t.longest, t.calls, t.accepted, t.first) for t in outcome.prompts]


def counted(found: Sweep) -> dict[Cell, list[tuple]]:
    return {cell: timeless(outcome) for cell, outcome in found.outcomes.items()}


def bounds(found: Sweep) -> dict[Cell, list]:
    return {cell: [bound.what, *bound.values, *bound.errors] for cell, bound in found.headrooms.items()}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cells.jsonl"


@pytest.fixture(scope="module")
def whole_and_lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, str]:
    path = tmp_path_factory.mktemp("log") / "cells.jsonl"
    found = sweep([FEW], axes(), SMALL, log=path)
    return found, path.read_text()


@pytest.fixture
def whole(whole_and_lines: tuple[Sweep, str]) -> Sweep:
    return whole_and_lines[0]


@pytest.fixture
def full(log: Path, whole_and_lines: tuple[Sweep, str]) -> Path:
    """The log of a finished sweep."""
    log.write_text(whole_and_lines[1])
    return log


def test_what_a_cell_counts_does_not_depend_on_the_others(whole: Sweep) -> None:
    """Nor does its bound, which is estimated from the beginnings of texts as long as the longest draft."""
    one = axes("block-race", drafts=(2,), lengths=(1,))
    part = sweep([FEW], one, SMALL)
    (cell,) = part.outcomes
    assert counted(part)[cell] == counted(whole)[cell]
    assert bounds(part)[cell] == bounds(whole)[cell]
    assert counted(sweep([FEW], one, replace(UNBOUNDED, seed=SEED + 1))) != counted(part)


def sweep_module() -> ModuleType:
    return sys.modules[sweep_function.__module__]


def stop_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    module, left = sweep_module(), [count]
    counting = module.counted

    def counted(*arguments: object) -> Outcome:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return counting(*arguments)

    monkeypatch.setattr(module, "counted", counted)


@pytest.mark.parametrize("count", [0, 4])
def test_an_interrupted_sweep_goes_on_where_it_was(log: Path, whole: Sweep, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, count)
        broken = sweep([FEW], axes(), SMALL, log=log)
    assert broken.interrupted
    assert (len(broken.outcomes), broken.planned) == (count, 6)
    assert len(broken.headrooms) == count
    assert len(log.read_text().splitlines() if log.exists() else []) == count
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 6 - count)
        rest = sweep([FEW], axes(), SMALL, log=log)
    assert not rest.interrupted
    assert rest.restored == count
    assert counted(rest) == counted(whole)
    assert bounds(rest) == bounds(whole)


def test_a_finished_sweep_is_read_and_nothing_is_done_again(
    full: Path, whole: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 0)
    monkeypatch.setattr(Headrooms, "bound", lambda *_: pytest.fail("the log has this bound"))
    before = full.read_text()
    again = sweep([FEW], axes(), SMALL, log=full)
    assert again.outcomes == whole.outcomes
    assert bounds(again) == bounds(whole)
    assert not again.interrupted
    assert full.read_text() == before


def test_bounds_of_other_samples_are_estimated_and_written_down(full: Path, whole: Sweep) -> None:
    more = replace(SMALL, samples=8)
    found = sweep([FEW], axes(), more, log=full)
    assert found.restored == 6
    assert bounds(found) == bounds(sweep([FEW], axes(), more, log=full)) != bounds(whole)
    estimated = [bound for bound in found.headrooms.values() if bound.estimated]
    assert len(full.read_text().splitlines()) == 6 + len(estimated) > 6
    assert sweep([FEW], axes(), UNBOUNDED, log=full).headrooms == {}


def test_tables_are_restored_with_their_laws_and_optima(log: Path) -> None:
    found = sweep([TABLES], axes(), SMALL, log=log)
    again = sweep([TABLES], axes(), replace(SMALL, samples=64), log=log)
    assert again.restored == 6
    assert again.outcomes == found.outcomes
    assert bounds(again) == bounds(found)
    assert {bound.what for bound in again.headrooms.values()} == {"optimum"}
    assert len(log.read_text().splitlines()) == 6, "optima are of no samples"


@pytest.mark.parametrize("cut", [2, 40, 200])
def test_a_half_written_line_is_dropped_and_its_cell_run_again(full: Path, whole: Sweep, cut: int) -> None:
    full.write_bytes(full.read_bytes()[:-cut])
    found = sweep([FEW], axes(), SMALL, log=full)
    assert found.restored == 5
    assert found.notes == [f"{full}: the last line was not written to its end; its cell is run again"]
    assert counted(found) == counted(whole)
    assert sweep([FEW], axes(), SMALL, log=full).notes == []


def test_a_whole_last_line_without_its_end_counts(full: Path) -> None:
    before = full.read_bytes()
    full.write_bytes(before[:-1])
    found = sweep([FEW], axes(), SMALL, log=full)
    assert (found.restored, found.notes) == (6, [])
    assert full.read_bytes() == before


@pytest.mark.parametrize(
    "last", ["# my notes", '{"mine": 1}', '{"schema": "spectr-verify/simulate-cell/3", "mine": 1}']
)
def test_what_somebody_wrote_at_the_end_is_not_cut_off(last: str, full: Path) -> None:
    before = full.read_text()
    full.write_text(before + last)
    with pytest.raises(LedgerError, match=r"cells.jsonl"):
        sweep([FEW], axes(), SMALL, log=full)
    assert full.read_text().rstrip() == before + last


def test_a_log_may_have_more_cells_than_are_asked_for(full: Path) -> None:
    before = full.read_text()
    found = sweep([FEW], axes("block-race", drafts=(2,), lengths=(2,)), SMALL, log=full)
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
        sweep([FEW], axes(), replace(SMALL, **change), log=full)


def test_cells_of_other_code_are_left_aside_and_run_again(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sweep_module(), "code_digest", lambda: "another")
        found = sweep([FEW], axes("block-race"), UNBOUNDED, log=full)
        assert found.restored == 0
        why = "4 of another state of this package's code"
        assert found.notes == [f"{full}: 4 cells are left aside and run again: {why}"]
        assert len(full.read_text().splitlines()) == 6 + 4
        again = sweep([FEW], axes("block-race"), UNBOUNDED, log=full)
        assert (again.restored, again.notes) == (4, [])
    assert sweep([FEW], axes(), UNBOUNDED, log=full).restored == 6, "the cells of this code are there still"


def test_cells_of_other_laws_are_left_aside_whatever_they_are_called(full: Path) -> None:
    """A set of prompts may have the name of a rule, and a table that of a synthetic pair."""
    other = replace(table_corpus("few", PAIRS[:3]), starts=FEW.starts)
    found = sweep([other], axes("token"), UNBOUNDED, log=full)
    assert found.notes == [f"{full}: 2 cells are left aside and run again: 2 of other prompts or models"]
    found = sweep([replace(FEW, name="token")], axes("token"), UNBOUNDED, log=full)
    assert (found.restored, found.notes) == (0, [])


def test_cells_of_another_state_of_the_rules_file_are_left_aside(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    source = (
        "from spectr_verify.rules.token import token\n\n\ndef mine(round, chance):\n    return token(round, chance)\n"
    )
    restored = []
    for text in (source, source, source + "# another state\n"):
        file.write_text(text)
        names: dict = {}
        exec(compile(text, str(file), "exec"), names)
        own = Axes([Rule("mine", names["mine"], max_drafts=1)], [1], [2], [1.0])
        found = sweep([FEW], own, UNBOUNDED, log=log)
        restored.append((found.restored, found.notes))
    assert restored == [
        (0, []),
        (1, []),
        (0, [f"{log}: 1 cell is left aside and run again: 1 of another state of the rule's files"]),
    ]


def test_cells_of_another_state_of_what_a_rule_imports_are_left_aside(log: Path, tmp_path: Path) -> None:
    (tmp_path / "rule_of_mine.py").write_text("from beside_it import token as mine\n")
    beside = "from spectr_verify.rules.token import token as rule\n\n\n"
    beside += "def token(round, chance):\n    return rule(round, chance)\n"
    restored = []
    for text in (beside, beside, beside + "# another state\n"):
        (tmp_path / "beside_it.py").write_text(text)
        own = Axes([load_rule(f"{tmp_path / 'rule_of_mine.py'}:mine")], [1], [2], [1.0])
        restored.append(sweep([FEW], own, UNBOUNDED, log=log).restored)
    assert restored == [0, 1, 0]


@pytest.mark.parametrize("place", ["", "below/"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_rule_of_one_s_own_is_known_wherever_it_lies(
    place: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the working folder or below it, with an import at the top or inside: the same again, another if that is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    importing = "from of_mine import token"
    top, within = ("", f"    {importing}\n") if inside else (f"{importing}\n\n\n", "")
    for name in ("one", "two"):
        (tmp_path / f"{place}{name}.py").write_text(
            f"{top}def {name}(round, chance):\n{within}    return token(round, chance)\n"
        )
    found = []
    for text in (
        "from spectr_verify.rules.token import token\n",
        "from spectr_verify.rules.block import block as token\n",
    ):
        (tmp_path / "of_mine.py").write_text(text)
        for names in (["one"], ["one", "two"]):  # what else is loaded does not matter
            rules = [load_rule(f"{place}{name}.py:{name}") for name in names]
            found.append(identity.rule_digest(rules[0]))
    assert found[0] == found[1] != found[2] == found[3]
    assert not any("no file" in digest for digest in found)


def test_cells_of_other_versions_or_machines_are_left_aside(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored = [sweep([FEW], axes("token"), UNBOUNDED, log=log).restored for _ in range(2)]
    monkeypatch.setattr(identity, "versions", lambda: {"torch": "another"})
    found = sweep([FEW], axes("token"), UNBOUNDED, log=log)
    assert [*restored, found.restored] == [0, len(found.outcomes), 0]
    assert "of other versions, another machine or number of threads" in found.notes[0]


def test_machines_are_told_apart_where_time_means_something(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    timed, counted = identity.machine_digest(cpu), identity.machine_digest(None)
    monkeypatch.setattr(identity.platform, "node", lambda: "another")
    assert identity.machine_digest(cpu) != timed
    assert identity.machine_digest(None) == counted


def test_a_rule_that_is_written_in_no_file_is_never_the_same() -> None:
    names: dict = {}
    exec("def nowhere(round, chance):\n    pass", names)
    one = Rule("it", names["nowhere"])
    assert identity.rule_digest(one) != identity.rule_digest(one)
    assert identity.rule_digest(Rule("it", RULES["token"].verify)) == identity.rule_digest(
        Rule("it", RULES["block"].verify)
    ), "both are written in the register"
    wrapped = Rule("it", partial(lambda extra, round, chance: None, 1))
    assert identity.rule_digest(wrapped) == identity.rule_digest(wrapped)


def test_the_code_that_counts_is_known_by_what_it_holds(tmp_path: Path) -> None:
    assert {place.name for place in identity.COUNTING if place.is_file()} >= {"chance.py", "rounds.py", "counting.py"}
    assert {place.name for place in identity.COUNTING if place.is_dir()} >= {"rules", "decoding"}
    assert all(place.exists() for place in identity.COUNTING)
    (tmp_path / "a.py").write_text("a = 1\n")
    one = identity.digest_of([tmp_path / "a.py"])
    assert one == identity.digest_of([tmp_path / "a.py"])
    (tmp_path / "a.py").write_text("a = 2\n")
    assert one != identity.digest_of([tmp_path / "a.py"])


DAMAGED = [
    (lambda line: "{", "line 2 is not JSON"),
    (lambda line: "", "line 2 is not JSON"),
    (lambda line: "[" * 100_000, "line 2 is not JSON that can be read"),
    (lambda line: "9" * 5_000, "line 2 is not JSON that can be read"),
    (lambda line: "[]", "line 2 is no cell of a sweep"),
    (lambda line: json.dumps({**line, "schema": "spectr-verify/mc/1"}), "line 2 is no cell of a sweep"),
    (lambda line: json.dumps({**line, "run": None}), "line 2 is damaged"),
    (lambda line: json.dumps({**line, "run": {}}), "line 2 does not say texts"),
    (lambda line: json.dumps({**line, "of": 3}), "line 2 is damaged"),
    (lambda line: json.dumps({**line, "length": "x"}), "line 2 is damaged"),
    (lambda line: json.dumps({**line, "length": 7}), "line 2 is damaged .*not those of drafts of 7"),
    (lambda line: json.dumps({**line, "prompts": []}), "line 2 is damaged"),
    (lambda line: json.dumps({**line, "prompts": [{}]}), "line 2 is damaged"),
    (lambda line: json.dumps({**line, "prompts": line["prompts"][:1]}), "line 2 is damaged .*prompts"),
    (lambda line: json.dumps({**line, "bound": {**line["bound"], "values": [1]}}), "line 2 is damaged .*bound"),
    (lambda line: json.dumps({**line, "bound": {**line["bound"], "what": "?"}}), "line 2 is damaged .*no bound"),
    (lambda line: json.dumps({**line, "bound": {**line["bound"], "errors": [float("nan")] * 3}}), "no number"),
    (lambda line: json.dumps({k: v for k, v in line.items() if k != "rule"}), "line 2 is damaged"),
    (lambda line: changed(line, calls=0), "line 2 is damaged .*(exact|no probability)"),
    (lambda line: changed(line, longest=0), "line 2 is damaged .*contradict each other"),
]


def changed(line: dict, **counts: object) -> str:
    """With other numbers for every prompt."""
    return json.dumps(line | {"prompts": [prompt | counts for prompt in line["prompts"]]})


def test_a_timed_cell_took_time(log: Path) -> None:
    timed = replace(FEW, timed=True)
    sweep([timed], axes("token"), UNBOUNDED, log=log)
    first, *rest = log.read_text().splitlines()
    for column in ("wall", "alone"):
        log.write_text("\n".join([changed(json.loads(first), **{column: 0.0}), *rest]) + "\n")
        with pytest.raises(LedgerError, match=r"line 1 is damaged .*took no time"):
            sweep([timed], axes("token"), UNBOUNDED, log=log)


@pytest.mark.parametrize(("damage", "message"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_lines_are_refused_with_their_place(full: Path, damage: object, message: str) -> None:
    lines = full.read_text().splitlines()
    lines[1] = damage(json.loads(lines[1]))
    full.write_text("\n".join(lines) + "\n")
    with pytest.raises(LedgerError, match=f"cells.jsonl, .*{message}"):
        sweep([FEW], axes(), UNBOUNDED, log=full)


def test_a_log_that_is_no_text_is_refused(full: Path) -> None:
    full.write_bytes(b"\xff\xfe\n")
    with pytest.raises(LedgerError, match=r"cells.jsonl cannot be read: UnicodeDecodeError"):
        sweep([FEW], axes(), UNBOUNDED, log=full)


@pytest.mark.parametrize(
    "content", ['{"question": "mine"}', '{"question": "mine"}\n{"question": "too"}', "notes\nmore notes"]
)
def test_a_file_that_is_no_log_is_left_as_it_is(content: str, tmp_path: Path) -> None:
    """Without a newline at its end too: nothing that a user made is cut off."""
    mine = tmp_path / "mine.jsonl"
    mine.write_text(content)
    with pytest.raises(LedgerError):
        sweep([FEW], axes(), UNBOUNDED, log=mine)
    assert mine.read_text() == content


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
        sweep([FEW], axes(**change), SMALL)


def test_wrong_rules_and_settings_are_refused() -> None:
    with pytest.raises(InputError, match="autoregressive is what all rules are compared with"):
        axes("autoregressive")
    with pytest.raises(InputError, match="rule: token is asked for more than once"):
        axes("token", "token")
    for name, value in (("texts", 0), ("batch", 0), ("tokens", 0), ("samples", 3), ("samples", -1), ("seed", -1)):
        with pytest.raises(InputError, match=f"{name} is {value}"):
            replace(SMALL, **{name: value})


@pytest.fixture(scope="module")
def real() -> Sweep:
    corpus = model_corpus(load_pair(), "two", ["def read(path):\n", "import os\n"])
    return sweep([corpus], axes("token", "block-race", drafts=(2,), lengths=(1, 2)), replace(SMALL, tokens=8))


def test_real_models_are_timed(real: Sweep) -> None:
    for cell, outcome in real.outcomes.items():
        for tally in outcome.prompts:
            assert tally.draft > 0 < tally.target
            assert tally.draft + tally.target + tally.verify < tally.wall
            assert 0 < tally.alone < 60
        measured = costs(real, cell, None)
        assert measured.further == 0
        assert measured.draft > 0 < measured.verification
        time = cell.length * measured.draft + 1 + measured.verification
        assert modelled_speed_up(real, cell, None) == pytest.approx(outcome.block_efficiency.value / time)
        given = TimeModel(0.1, 0.5, 0.2)
        time = cell.length * 0.1 * (1.5 if cell.drafts == 2 else 1) + 1.2
        assert modelled_speed_up(real, cell, given) == pytest.approx(outcome.block_efficiency.value / time)
    assert {each.measure for each in differences(real)} == {"block efficiency", "measured speed-up"}
    assert {each.measure for each in behind_best(real, None)} == {"measured speed-up", "modelled speed-up"}
    assert {bound.what for bound in real.headrooms.values()} == {"level bound"}


def test_json_has_everything(real: Sweep) -> None:
    given = TimeModel(0.1)
    written = json.loads(json.dumps(to_json(real, differences(real), behind_best(real, given), given), allow_nan=False))
    assert written["sources"]["two"] == {
        "kind": "models",
        "target": "trained target",
        "draft": "trained draft",
        "dtype": "float32",
        "device": "cpu",
        "prompts": ["def read(path):\n", "import os\n"],
    }
    assert written["settings"] == vars(replace(SMALL, tokens=8))
    assert set(written["versions"]) == {"python", "torch", "numpy", "transformers"}
    assert len(written["cells"]) == 4
    for cell in written["cells"]:
        assert cell["lossless"]
        assert not cell["exact"]
        assert len(cell["accepted_by_position"]) == cell["length"]
        assert cell["speed_up"]["measured"]["value"] > 0
        bound = cell["first_rounds"]["bound"]
        assert bound["what"] == "level bound (estimated)"
        assert bound["accepted"] > 0
        assert bound["error"] >= 0
    assert len(written["behind_best"]) == 2 * 4
    for each in written["behind_best"]:
        assert each["low"] <= each["value"] <= each["high"]
        assert (each["value"] == 0) == (each["best"] == {"drafts": each["drafts"], "length": each["length"]})


def test_prompts_and_weights_tell_models_apart() -> None:
    pair = load_pair()
    one = model_corpus(pair, "it", ["a"]).identity
    assert one == model_corpus(load_pair(), "it", ["a"]).identity
    assert one != model_corpus(pair, "it", ["b"]).identity
    other = load_pair()
    next(other.draft.parameters()).data[-1, -1] += 1
    assert one != model_corpus(other, "it", ["a"]).identity
    rebuilt = load_pair()
    rebuilt.target.config.rms_norm_eps *= 2
    assert one != model_corpus(rebuilt, "it", ["a"]).identity


@pytest.fixture(scope="module")
def compared() -> Sweep:
    twin = Rule("twin", RULES["block"].verify, max_drafts=1)
    both = Axes([RULES["block"], RULES["block-race"], twin], [1, 3], [2, 3], [1.0])
    return sweep([MANY], both, Settings(texts=20, batch=20, tokens=6, samples=0, seed=SEED))


def test_differences_are_paired_over_prompts(compared: Sweep) -> None:
    """What the race gains on block verification is far beyond noise; a rule differs from itself by nothing."""
    by_rules = {(each.rules, each.drafts): each for each in differences(compared) if each.length == 3}
    assert len(by_rules) == 5, "block and its twin have a single draft at every K"
    race = by_rules[("block", "block-race"), 3]
    assert race.low <= race.value <= race.high < 0
    assert not race.within_noise
    twin_apart = by_rules[("block", "twin"), 1]
    assert abs(twin_apart.value) < twin_apart.high - twin_apart.low, "four standard errors"
    alone = Cell("overlap 0.6", 1.0, "block", 1, 3)
    same = replace(compared, outcomes=dict.fromkeys(compared.outcomes, compared.outcomes[alone]))
    assert {(each.value, each.low, each.high, each.within_noise) for each in differences(same)} == {(0, 0, 0, True)}


def test_intervals_are_those_of_an_ordinary_bootstrap(compared: Sweep) -> None:
    """By drawing prompts one after the other."""
    one, other = (compared.outcomes[Cell("overlap 0.6", 1.0, "block-race", k, 3)] for k in (3, 1))
    generator, values = np.random.default_rng(3), []
    for _ in range(3_000):
        chosen = generator.integers(0, len(MANY.starts), size=len(MANY.starts))
        ratios = [each.column("emitted")[chosen].sum() / each.column("rounds")[chosen].sum() for each in (one, other)]
        values.append(ratios[0] / 1.15 - ratios[1] / 1.15)
    (found,) = (
        each for each in behind_best(compared, None) if each.cell == Cell("overlap 0.6", 1.0, "block-race", 1, 3)
    )
    assert found.best.drafts == 3
    assert found.value == pytest.approx(np.mean(values), abs=0.01)
    assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.02)


def test_every_cell_of_a_rule_is_compared_with_the_fastest(compared: Sweep) -> None:
    given = TimeModel(0.5, 1.0)
    found = behind_best(compared, given)
    assert [each.cell.rule for each in found] == ["block"] * 2 + ["block-race"] * 4 + ["twin"] * 2
    for rule in compared.rules:
        own = [each for each in found if each.cell.rule == rule]
        assert len({each.best for each in own}) == 1
        assert own[0].best == max(own, key=lambda each: each.speed_up).cell
        for each in own:
            assert each.speed_up == modelled_speed_up(compared, each.cell, given)
            assert each.value == pytest.approx(modelled_speed_up(compared, each.best, given) - each.speed_up, abs=1e-12)
            assert each.low <= each.value <= each.high
            assert each.within_noise or each.low > 0
    assert behind_best(replace(compared, outcomes=dict(list(compared.outcomes.items())[:1])), given) == []


def test_one_prompt_gives_no_intervals() -> None:
    found = sweep([replace(FEW, starts=FEW.starts[:1])], axes(), UNBOUNDED)
    assert differences(found) == []
    assert {each.cell == each.best for each in behind_best(found, None)} == {True}
    assert all(outcome.block_efficiency.error is None for outcome in found.outcomes.values())
