"""Files of log-probabilities: every format comes back as it was written, every damaged file is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectr_verify.simulate import LogError, TokenLogs, read_logs, write_logs

LOGS = TokenLogs(np.array([-1.0, -np.inf, -0.5]), np.array([-2.0, -0.25, 0.0]), np.array([2, 1]))


def same(found: TokenLogs) -> bool:
    return all(np.array_equal(getattr(found, name), getattr(LOGS, name)) for name in vars(LOGS))


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    write_logs(LOGS, tmp_path / name)
    assert same(read_logs(tmp_path / name))


def test_safetensors_are_read(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({name: getattr(LOGS, name) for name in vars(LOGS)}, tmp_path / "a.safetensors")
    assert same(read_logs(tmp_path / "a.safetensors"))


def test_parquet_is_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"log_draft": [[-1.0, None], [-0.5]], "log_target": [[-2.0, -0.25], [0.0]]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "a.parquet")
    assert same(read_logs(tmp_path / "a.parquet"))


JSON_LINES = [
    ('{"log_draft": [-1], "log_target": [-1, -2]}', "line 1: log_draft has 1 tokens and log_target has 2"),
    ('{"log_draft": [-1]}', "line 1 must have log_draft and log_target"),
    ("[1]", "line 1 must have"),
    ("not JSON", "cannot be read"),
    ("", "there is no text"),
    ('{"log_draft": [-1, -1], "log_target": [-1, null]}', "log_target of text 0, token 1 is -inf.*the target wrote"),
    ('{"log_draft": [0.5], "log_target": [-1]}', "log_draft of text 0, token 0 is 0.5"),
    ('{"log_draft": [NaN], "log_target": [-1]}', "log_draft of text 0, token 0 is nan"),
    ('{"log_draft": ["a"], "log_target": [-1]}', "cannot be read"),
    (
        '{"log_draft": [-1, -1], "log_target": [-1, -1]}\n{"log_draft": [-1, 3], "log_target": [-1, -1]}',
        "log_draft of text 1, token 1 is 3",
    ),
]


@pytest.mark.parametrize(("lines", "message"), JSON_LINES, ids=[message[:30] for _, message in JSON_LINES])
def test_damaged_lines_are_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines)
    with pytest.raises(LogError, match=message) as caught:
        read_logs(tmp_path / "a.jsonl")
    assert "a.jsonl" in str(caught.value)


def test_damaged_arrays_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, log_draft=np.zeros(3), log_target=np.zeros(3))
    with pytest.raises(LogError, match=r"has no .*lengths"):
        read_logs(file)
    np.savez(file, log_draft=np.zeros(3), log_target=np.zeros(3), lengths=np.array([2]))
    with pytest.raises(LogError, match="3 in all; they sum to 2"):
        read_logs(file)
    np.savez(file, log_draft=np.zeros(3), log_target=np.zeros((3, 1)), lengths=np.array([3]))
    with pytest.raises(LogError, match="equally long"):
        read_logs(file)
    np.savez(file, log_draft=np.array([{}]), log_target=np.zeros(1), lengths=np.array([1]))
    with pytest.raises(LogError, match="cannot be read"):
        read_logs(file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(LogError, match="cannot be read"):
        read_logs(file)


def test_names_say_what_a_file_holds(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"must end in \.npz"):
        read_logs(tmp_path / "a.csv")
    with pytest.raises(LogError, match="cannot be read"):
        read_logs(tmp_path / "none.npz")
    with pytest.raises(LogError, match=r"\.npz or \.jsonl"):
        write_logs(LOGS, tmp_path / "a.parquet")


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
