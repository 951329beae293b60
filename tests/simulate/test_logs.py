"""Files of log-probabilities: every format comes back as it was written, every damaged file is named."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectr_verify.simulate import LogError, TokenLogs, read_logs, write_logs

LOGS = TokenLogs(np.array([-1.0, -np.inf, -0.5]), np.array([-2.0, -0.25, 0.0]), np.array([2, 1]))
HELD = {name: getattr(LOGS, name) for name in ("log_draft", "log_target", "lengths")}
"""What files hold of it."""


def same(found: TokenLogs) -> bool:
    return all(np.array_equal(getattr(found, name), values) for name, values in HELD.items())


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    write_logs(LOGS, tmp_path / name)
    assert same(read_logs(tmp_path / name))


def test_safetensors_are_read(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file(HELD, tmp_path / "a.safetensors")
    assert same(read_logs(tmp_path / "a.safetensors"))


def test_safetensors_may_have_a_number_format_that_numpy_lacks(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    arrays = {name: torch.tensor(values) for name, values in HELD.items()}  # all of them are exact in few bits
    short = {name: values.bfloat16() if name != "lengths" else values.int() for name, values in arrays.items()}
    safetensors.save_file(short, tmp_path / "a.safetensors")
    assert same(read_logs(tmp_path / "a.safetensors"))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_lengths_may_be_any_integers(dtype: type, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{**HELD, "lengths": LOGS.lengths.astype(dtype)})
    found = read_logs(tmp_path / "a.npz")
    assert same(found)
    assert found.lengths.dtype == np.int64


def test_a_mark_of_byte_order_is_no_part_of_the_text(tmp_path: Path) -> None:
    write_logs(LOGS, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8-sig")
    assert same(read_logs(tmp_path / "a.jsonl"))


def test_a_key_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"log_draft": [-1], "log_target": [-1], "log_draft": [-2]}\n')
    with pytest.raises(LogError, match=r'a\.jsonl: line 1: the key "log_draft" is written more than once'):
        read_logs(tmp_path / "a.jsonl")


def test_a_line_may_hold_more_and_lines_may_be_empty(tmp_path: Path) -> None:
    """Also what Unicode calls the end of a line, which in a string of JSON is a character like any other."""
    first = '{"log_draft": [-1, null], "log_target": [-2, -0.25], "text": "one\u2028two\x85three"}'
    (tmp_path / "a.jsonl").write_text(f'{first}\r\n\n{{"log_draft": [-0.5], "log_target": [0]}}\n', encoding="utf-8")
    assert same(read_logs(tmp_path / "a.jsonl"))


def test_parquet_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"log_draft": [[-1.0, None], [-0.5]], "log_target": [[-2.0, -0.25], [0.0]]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "a.parquet")
    assert same(read_logs(tmp_path / "a.parquet"))


GOOD = '{"log_draft": [-1, -1], "log_target": [-1, -1]}\n'
JSON_LINES = [
    ('{"log_draft": [-1], "log_target": [-1, -2]}', "line 1: log_draft has 1 tokens and log_target has 2"),
    (GOOD + '{"log_draft": [-1]}', "line 2 must have log_draft and log_target"),
    ("[1]", "line 1 must have"),
    (GOOD + "\nnot JSON", "line 3 is not JSON: Expecting value, column 1$"),
    (GOOD[:-3], "line 1 is not JSON: .*, column 46$"),
    ("", "there is no text"),
    ("\n \n", "there is no text"),
    (GOOD + '{"log_draft": [], "log_target": []}', "text 1 has 0 tokens"),
    (
        '{"log_draft": [-1, -1], "log_target": [-1, null]}',
        "log_target of text 0, token 1 is minus infinity.*the target wrote",
    ),
    ('{"log_draft": [0.5], "log_target": [-1]}', "log_draft of text 0, token 0 is 0.5"),
    ('{"log_draft": [NaN], "log_target": [-1]}', "log_draft of text 0, token 0 is nan"),
    (GOOD + '{"log_draft": [-1, 3], "log_target": [-1, -1]}', "log_draft of text 1, token 1 is 3"),
    (
        GOOD + '{"log_draft": ["-1"], "log_target": [-1]}',
        "line 2: log_draft must be a list of numbers; '-1' is of type",
    ),
    (GOOD + '{"log_draft": [false], "log_target": [-1]}', "line 2: log_draft must be a list of numbers; 'False' is of"),
    (
        GOOD + '{"log_draft": [-1e308], "log_target": [-1]}',
        "log_draft of text 1, token 0 is -1e.308.*or minus infinity",
    ),
    (GOOD + '{"log_draft": [-1], "log_target": [-1e308]}', "log_target of text 1, token 0 is -1e.308"),
    ("[" * 100_000, "line 1 is not JSON that can be read: RecursionError"),
    ("9" * 5_000, "line 1 is not JSON that can be read: ValueError"),
    ('{"log_draft": [-1], "log_target": -1}', "line 1: log_target must be a list of numbers"),
    ('{"log_draft": null, "log_target": [-1]}', "line 1: log_draft must be a list of numbers"),
    ('{"log_draft": [[-1]], "log_target": [[-1]]}', "line 1: log_draft must be a list of numbers"),
    (f'{{"log_draft": [-1], "log_target": [-1{"0" * 400}]}}', "line 1: log_target must be a list of numbers"),
]


@pytest.mark.parametrize(("lines", "message"), JSON_LINES, ids=[message[:30] for _, message in JSON_LINES])
def test_damaged_lines_are_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines)
    with pytest.raises(LogError, match=message) as caught:
        read_logs(tmp_path / "a.jsonl")
    assert "a.jsonl" in str(caught.value)


ZERO = np.zeros(3)
ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"log_draft": ZERO, "log_target": ZERO}, "there is no lengths; it must have"),
    ({"lengths": np.array([3])}, "there is no log_draft and no log_target; it must have"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array([2])}, "3 in all; they sum to 2"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array([3, 0])}, "text 1 has 0 tokens"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array([4, -1])}, "text 1 has -1 tokens"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array([1.5, 1.5])}, "must be integers .* are float64"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array(3)}, "must be lists"),
    ({"log_draft": ZERO, "log_target": np.zeros((3, 1)), "lengths": np.array([3])}, "equally long"),
    ({"log_draft": ZERO, "log_target": np.zeros(4), "lengths": np.array([3])}, "equally long"),
    ({"log_draft": ZERO[:0], "log_target": ZERO[:0], "lengths": np.zeros(0, dtype=np.int64)}, "there is no text"),
    ({"log_draft": np.array(["-1"] * 3), "log_target": ZERO, "lengths": np.array([3])}, "log_draft must be real .*<U2"),
    ({"log_draft": ZERO, "log_target": ZERO * 1j, "lengths": np.array([3])}, "log_target must be real .*complex128"),
    ({"log_draft": ZERO > 1, "log_target": ZERO, "lengths": np.array([3])}, "log_draft must be real .*bool"),
    ({"log_draft": ZERO, "log_target": ZERO, "lengths": np.array([True, True, True])}, "must be integers .* are bool"),
    ({"log_draft": np.array([{}] * 3), "log_target": ZERO, "lengths": np.array([3])}, "cannot be read.*Object"),
    (
        {"log_draft": ZERO, "log_target": np.array([-1, -1, -np.inf]), "lengths": np.array([1, 2])},
        "log_target of text 1, token 1 is minus infinity",
    ),
]


@pytest.mark.parametrize(("arrays", "message"), ARRAYS, ids=[message[:30] for _, message in ARRAYS])
def test_damaged_arrays_are_named(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(LogError, match=message) as caught:
        read_logs(tmp_path / "a.npz")
    assert "a.npz" in str(caught.value)


def an_archive(file: Path) -> bytes:
    np.savez_compressed(file, log_draft=np.arange(-99.0, 0.0), log_target=np.zeros(99), lengths=np.array([99]))
    return file.read_bytes()


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    whole = an_archive(file)
    single = io.BytesIO()
    np.save(single, ZERO)
    for damaged in (b"", b"nothing of the kind", pickle.dumps({}), single.getvalue(), whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(LogError, match=r"a\.npz: it is no archive of arrays, or not a whole one"):
            read_logs(file)


@pytest.mark.parametrize("place", range(60, 140, 8))
def test_an_archive_with_other_bytes_in_it_is_refused(place: int, tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    whole = an_archive(file)
    file.write_bytes(whole[:place] + bytes(255 - byte for byte in whole[place : place + 4]) + whole[place + 4 :])
    with pytest.raises(LogError, match=r"a\.npz cannot be read"):
        read_logs(file)


@pytest.mark.parametrize("ending", [".safetensors", ".parquet", ".jsonl"])
def test_other_files_of_other_bytes_are_refused(ending: str, tmp_path: Path) -> None:
    pytest.importorskip({".safetensors": "safetensors", ".parquet": "pyarrow", ".jsonl": "json"}[ending])
    for content in (b"\xff\xfe\x00", b"PAR1aaaaPAR1"):
        (tmp_path / f"a{ending}").write_bytes(content)
        with pytest.raises(LogError, match=rf"a\{ending}"):
            read_logs(tmp_path / f"a{ending}")


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for columns, message in (
        ({"log_draft": [[-1.0]]}, "cannot be read.*log_target"),
        ({"log_draft": [-1.0], "log_target": [-1.0]}, "row 0: log_draft must be a list of numbers"),
        ({"log_draft": [[-1.0], None], "log_target": [[-1.0], [-1.0]]}, "row 1: log_draft must be a list of numbers"),
        (
            {"log_draft": [[-1.0], [-1.0]], "log_target": [[-1.0], [None]]},
            "log_target of text 1, token 0 is minus infinity",
        ),
    ):
        parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
        with pytest.raises(LogError, match=message) as caught:
            read_logs(tmp_path / "a.parquet")
        assert "a.parquet" in str(caught.value)


def test_names_say_what_a_file_holds(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"must end in \.npz"):
        read_logs(tmp_path / "a.csv")
    for name in ("none.npz", "none.jsonl"):
        with pytest.raises(LogError, match="cannot be read: FileNotFoundError"):
            read_logs(tmp_path / name)
    with pytest.raises(LogError, match=r"\.npz or \.jsonl"):
        write_logs(LOGS, tmp_path / "a.parquet")
    with pytest.raises(LogError, match="cannot be written"):
        write_logs(LOGS, tmp_path / "no folder" / "a.npz")


def test_json_lines_are_json(tmp_path: Path) -> None:
    write_logs(LOGS, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"log_draft": [-1.0, None], "log_target": [-2.0, -0.25]}, {"log_draft": [-0.5], "log_target": [0]}]


def test_the_recipe_of_the_docs_exports_what_is_read(tmp_path: Path) -> None:
    source = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    names: dict[str, Any] = {}
    exec(source.partition("```python\n")[2].partition("```")[0], names)
    texts = [torch.tensor([0, 2]), torch.tensor([1])]
    target = [torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]), torch.tensor([[0.0, 1.0, 2.0]])]
    draft = [torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, -torch.inf]]), torch.tensor([[0.0, 0.0, 0.0]])]
    with (tmp_path / "a.jsonl").open("w") as file:
        names["export"](texts, draft, target, file)
    found = read_logs(tmp_path / "a.jsonl")
    np.testing.assert_allclose(found.log_draft, [-np.log(3), -np.inf, -np.log(3)])
    total = np.log(1 + np.e + np.e**2)
    np.testing.assert_allclose(found.log_target, [-total, -np.log(3), 1 - total], rtol=1e-6)
    assert found.lengths.tolist() == [2, 1]


def test_lengths_whose_sum_overflows_are_refused(tmp_path: Path) -> None:
    numbers = np.full(4, -1.0)
    np.savez(tmp_path / "a.npz", log_draft=numbers, log_target=numbers, lengths=np.array([2**62] * 3 + [2**62 + 4]))
    with pytest.raises(LogError, match="lengths"):
        read_logs(tmp_path / "a.npz")


@pytest.mark.parametrize("error", [EOFError("short"), NotImplementedError("zip version 9"), OverflowError("too large")])
def test_whatever_a_reader_raises_is_a_refusal(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise error

    write_logs(TokenLogs(np.full(2, -1.0), np.full(2, -1.0), np.array([2])), tmp_path / "a.npz")
    monkeypatch.setattr(np, "load", load)
    with pytest.raises(LogError, match="cannot be read"):
        read_logs(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl"])
def test_what_was_there_stays_until_all_is_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        path.open("w").close()
        raise OSError("File too large")

    (tmp_path / name).write_text("mine")
    monkeypatch.setattr(np, "savez_compressed", full)
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(LogError, match="cannot be written"):
        write_logs(TokenLogs(np.full(2, -1.0), np.full(2, -1.0), np.array([2])), tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]
