"""Pairs survive being written and read; whatever else a file may hold is an error that names the place."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from toy_models.families import FAMILIES, family_pairs
from toy_models.files import pair_to_json, read_pairs, write_pairs
from toy_models.strategies import pairs
from toy_models.tables import TableError, TableModel, ToyPair

TABLE = [[["1/3", "2/3"]], [["1", "0"], ["1/4", "3/4"]]]
PAIR = {"draft": TABLE, "target": TABLE}


def same(first: ToyPair, second: ToyPair) -> bool:
    """Equal in every field, bit for bit."""
    models = ((first.draft, second.draft), (first.target, second.target))
    return (first.name, first.drafts, first.length) == (second.name, second.drafts, second.length) and all(
        a.fractions == b.fractions and [level.tolist() for level in a.levels] == [level.tolist() for level in b.levels]
        for a, b in models
    )


PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=5)


@given(pairs(), PRINTABLE, st.booleans())
def test_exact_pairs_survive_json(pair: ToyPair, name: str, stated: bool) -> None:
    pair = replace(pair, name=name) if stated else replace(pair, name=name, drafts=None, length=None)
    read = read_pairs(json.dumps(pair_to_json(pair)))
    assert len(read) == 1
    assert same(read[0], pair)
    assert read[0].draft.fractions is not None


@pytest.mark.parametrize("seed", range(5))
def test_float_pairs_survive_a_file_bit_for_bit(seed: int, tmp_path: Path) -> None:
    written = family_pairs(seed, 3, 2)
    write_pairs(tmp_path / "families.json", written)
    read = read_pairs(tmp_path / "families.json")
    assert len(read) == len(FAMILIES)
    assert all(same(a, b) for a, b in zip(written, read, strict=True))


def test_a_pair_may_be_exact_in_one_model_only() -> None:
    pair = read_pairs(json.dumps({"draft": TABLE, "target": [[[0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]]}))[0]
    assert pair.draft.fractions is not None
    assert pair.target.fractions is None
    assert pair_to_json(pair)["draft"] == TABLE
    assert pair_to_json(pair)["target"][1] == [[1.0, 0.0], [0.25, 0.75]]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (PAIR, ["toys"]),
        ([PAIR, {**PAIR, "name": "second"}, PAIR], ["toys[0]", "second", "toys[2]"]),
        ({"pairs": [PAIR], "about": "two coins"}, ["toys[0]"]),
        ({"instances": [{**PAIR, "name": None, "expected": {"token": 0.5}}]}, ["toys[0]"]),
    ],
)
def test_every_form_of_a_file_is_read_and_pairs_are_named(document: Any, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "toys.json"
    path.write_text(json.dumps(document), encoding="utf-8-sig")  # a byte order mark does no harm
    assert [pair.name for pair in read_pairs(str(path))] == names


def test_text_is_told_from_a_path() -> None:
    assert read_pairs("\n " + json.dumps(PAIR))[0].name == "pair"
    assert read_pairs(json.dumps([PAIR, PAIR]))[1].name == "pair[1]"


def test_settings_are_read() -> None:
    pair = read_pairs(json.dumps({**PAIR, "drafts": 3, "length": 1, "vocab": 2, "comment": [None]}))[0]
    assert (pair.drafts, pair.length) == (3, 1)
    unset = read_pairs(json.dumps({**PAIR, "drafts": None}))[0]
    assert (unset.drafts, unset.length) == (None, None)


def changed(key: str, value: Any) -> list[dict[str, Any]]:
    return [PAIR, {**PAIR, "name": "odd", key: value}]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed("draft", [[["1/2", "1/3"]]]), "pair 1 ('odd'): draft: level 0, row 0: the fractions sum to 5/6"),
        (changed("target", [TABLE[0], [[1.0, 0.0], [0.5, 0.6]]]), "pair 1 ('odd'): target: level 1, row 1: [0.5, 0.6]"),
        (changed("target", [[["1/2", None]]]), "pair 1 ('odd'): target: level 0, row 0, token 1: None is not a number"),
        (changed("draft", [[["1/2", [0.5]]]]), "pair 1 ('odd'): draft: level 0, row 0, token 1: [0.5] is not a number"),
        (changed("draft", [0.5, 0.5]), "pair 1 ('odd'): draft: level 0: expected a list of laws, found 0.5"),
        (changed("draft", None), "pair 1 ('odd'): draft: the table: expected a list of levels, found None"),
        (changed("draft", {"0": []}), "pair 1 ('odd'): draft: the table: expected a list of levels, found {'0': []}"),
        (changed("target", TABLE[:1]), "pair 1: pair 'odd': the draft has 2 levels and the target 1"),
        (changed("drafts", 0), "pair 1: pair 'odd': drafts (K) is 0; it must be at least 1"),
        (changed("length", 2), "pair 1: pair 'odd': length (L) is 2, but 2 levels reach blocks of at most 1"),
        (changed("length", "1"), 'pair 1 (\'odd\'): "length" must be a whole number, found "1"'),
        (changed("drafts", True), "pair 1 ('odd'): \"drafts\" must be a whole number, found true"),
        (changed("drafts", 1.5), "pair 1 ('odd'): \"drafts\" must be a whole number, found 1.5"),
        (changed("drafts", [1]), "pair 1 ('odd'): \"drafts\" must be a whole number, found a list of 1"),
        (changed("vocab", 3), "pair 1 ('odd'): \"vocab\" is 3, but the laws of the draft list 2 probabilities"),
        (changed("name", 7), 'pair 1: "name" must be a text, found 7'),
        ([PAIR, {"draft": TABLE}], 'pair 1 (\'toys[1]\'): has no "target"; its keys are "draft"'),
        ([PAIR, 3], 'pair 1: expected an object with "draft" and "target", found 3'),
        ([PAIR, None], 'pair 1: expected an object with "draft" and "target", found null'),
        ([[PAIR]], 'pair 0: expected an object with "draft" and "target", found a list of 1'),
        ([], "the list of pairs is empty"),
        ({"pairs": []}, '"pairs": the list of pairs is empty'),
        ({"pairs": PAIR}, '"pairs": expected a list of pairs, found an object with the keys "draft", "target"'),
        ({"pairs": [PAIR], "instances": [PAIR]}, 'under either "pairs" or "instances"; found an object with the keys'),
        ({}, "found an object with the keys (none)"),
        ("pairs", 'expected a list of pairs, found "pairs"'),
        (None, "expected a list of pairs, found null"),
    ],
)
def test_error_names_file_pair_model_level_and_row(document: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "toys.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(TableError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"draft": [[[NaN, 1]]], "target": [[[1, 0]]]}', "pair 0 ('pair'): draft: level 0, row 0: [nan, 1.0] has"),
        (
            '{"draft": [[[1, 0]]], "target": [[[-Infinity, 1]]]}',
            "target: level 0, row 0: [-inf, 1.0] has an entry that",
        ),
        ('{"draft": [[["NaN", 1]]], "target": [[[1, 0]]]}', "level 0, row 0, token 0: 'NaN' is not a number"),
        ('[{"draft": 1, "draft": 2}]', 'the key "draft" is written more than once'),
        ("[1, 2", "is not valid JSON (Expecting ',' delimiter"),
        ("[" * 100_000, "is not valid JSON (maximum recursion depth"),
        ("[" + "1" * 5000 + "]", "is not valid JSON (Exceeds the limit"),
    ],
)
def test_error_in_inline_text(text: str, message: str) -> None:
    with pytest.raises(TableError) as caught:
        read_pairs(text)
    assert str(caught.value).startswith("the JSON text: ")
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"missing\.json: cannot be read \(No such file or directory\); give the path"):
        read_pairs(tmp_path / "missing.json")
    with pytest.raises(TableError, match=r"cannot be read \(Is a directory\)"):
        read_pairs(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'["\xe4"]')
    with pytest.raises(TableError, match=r"latin\.json: is not a text file in UTF-8"):
        read_pairs(tmp_path / "latin.json")
    with pytest.raises(TableError, match="is not a text file"):
        read_pairs("null\0character")


def test_a_file_that_is_not_json(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("draft: coin")
    with pytest.raises(TableError, match=r"notes\.json: is not valid JSON \(Expecting value: line 1 column 1"):
        read_pairs(tmp_path / "notes.json")


def test_writing_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "toys.json"
    path.write_text("old")
    with path.open() as reader:
        write_pairs(path, read_pairs(json.dumps([PAIR, PAIR])))
        assert reader.read() == "old"  # a reader never sees half of the new file
    assert [pair.name for pair in read_pairs(path)] == ["pair[0]", "pair[1]"]
    assert os.listdir(tmp_path) == ["toys.json"]


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toys.json"
    path.write_text("old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(TableError, match=r"toys\.json: cannot be written \(No space left on device\)"):
        write_pairs(path, read_pairs(json.dumps(PAIR)))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["toys.json"]


def test_a_linked_file_is_replaced_behind_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "toys.json", tmp_path / "link.json"
    path.write_text("old")
    link.symlink_to(path)
    write_pairs(link, read_pairs(json.dumps(PAIR)))
    assert link.is_symlink()
    assert read_pairs(path)[0].name == "pair"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    pair = read_pairs(json.dumps(PAIR))
    with pytest.raises(TableError, match="there are no pairs to write"):
        write_pairs(tmp_path / "toys.json", [])
    with pytest.raises(TableError, match=r"cannot be written \(No such file or directory\)"):
        write_pairs(tmp_path / "missing" / "toys.json", pair)
    with pytest.raises(TableError, match="is not a file that could be replaced"):
        write_pairs(os.devnull, pair)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("wrong", "meant"), [("darfts", "drafts"), ("lenght", "length"), ("nmae", "name")])
def test_a_misspelt_key_is_not_ignored(wrong: str, meant: str) -> None:
    entry = {key: value for key, value in PAIR.items() if key != meant}
    with pytest.raises(TableError, match=f'"{wrong}"; write it as "{meant}"'):
        read_pairs(json.dumps(entry | {wrong: 1}))


def test_other_keys_are_ignored() -> None:
    extra = {"expected": 1, "prompt": "once", "temperature": 1.0, "about": ""}
    assert len(read_pairs(json.dumps(PAIR | extra))) == 1


def test_decimals_are_read_as_they_are_written_where_that_is_asked_for() -> None:
    def text(last: str) -> str:
        law = f"[0.1, 0.2, {last}]"
        return f'{{"draft": [[{law}], [{law}, {law}, {law}]], "target": [[[1, 0, 0]], [{law}, [0, 1, 0], {law}]]}}'

    (pair,) = read_pairs(text("0.7"), exact=True)
    assert pair.draft.fractions[0][0] == (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))
    assert read_pairs(text("0.7"))[0].draft.fractions is None
    read_pairs(text("0.70000001"))  # within the rounding that floats are allowed
    with pytest.raises(TableError, match=r"draft: level 0, row 0: the fractions sum to 100000001/100000000, not to 1"):
        read_pairs(text("0.70000001"), exact=True)


def test_a_model_of_floats_can_be_made_exact() -> None:
    (pair,) = read_pairs(
        '{"draft": [[[0.25, 0.75]], [[1, 0], [1, 0]]], "target": [[["1/3", "2/3"]], [[1, 0], [1, 0]]]}'
    )
    assert pair.exact().draft.fractions[0][0] == (Fraction(1, 4), Fraction(3, 4))
    assert pair.exact().target is pair.target
    thirds = TableModel((np.array([[1 / 3, 2 / 3]]), np.array([[0.5, 0.5]] * 2)))
    with pytest.raises(TableError, match=r"'thirds': target: level 0, row 0: .* decimals that sum to 1"):
        ToyPair("thirds", pair.draft, thirds).exact()
