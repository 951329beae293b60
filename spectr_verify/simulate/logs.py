"""Log-probabilities that both models give to text that the target wrote: made here, or exported by a serving engine."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectr_verify.decoding import Filters, ModelPair, decode
from spectr_verify.errors import InputError, said
from spectr_verify.montecarlo import Reference
from spectr_verify.rules import RULES

Floats = NDArray[np.float64]

DRAFT, TARGET, LENGTHS = "log_draft", "log_target", "lengths"
"""Names in every file: natural logarithms of all texts one behind the other, and how many tokens each text has."""


class LogError(InputError):
    """A file of log-probabilities that cannot be used: the message names the text, the token and what is wrong."""


@dataclass(frozen=True, eq=False)
class TokenLogs:
    """Natural log-probabilities of the tokens of M texts, which are samples of the target.

    Attributes:
        log_draft, log_target: float64 [n], all texts one behind the other; the draft's may be minus infinity.
        lengths: int64 [M], tokens of each text.

    Raises:
        LogError: sizes that do not fit, NaN, a probability above 1, or a token that the target never writes.
    """

    log_draft: Floats
    log_target: Floats
    lengths: NDArray[np.int64]

    def __post_init__(self) -> None:
        sizes = {name: np.shape(getattr(self, name)) for name in (DRAFT, TARGET, LENGTHS)}
        if any(len(size) != 1 for size in sizes.values()) or sizes[DRAFT] != sizes[TARGET]:
            raise LogError(
                f"log_draft, log_target and lengths must be lists, the first two equally long; they are {sizes}"
            )
        if not len(self.lengths) or (self.lengths < 1).any() or self.lengths.sum() != len(self.log_target):
            raise LogError(
                f"lengths must be the tokens of each text, at least 1, and {len(self.log_target):,} in all; they "
                f"sum to {self.lengths.sum():,}"
            )
        for name, values in ((DRAFT, self.log_draft), (TARGET, self.log_target)):
            bad = np.isnan(values) | (values > 1e-6) | ((values == -np.inf) & (name == TARGET))
            if bad.any():
                token = int(bad.argmax())
                text = int(np.searchsorted(self.lengths.cumsum(), token, side="right"))
                place = token - int(self.lengths[:text].sum())
                raise LogError(
                    f"{name} of text {text}, token {place} is {values[token]}; it must be a natural logarithm of a "
                    "probability" + (" above 0, for the target wrote the text" if name == TARGET else "")
                )


def target_logs(
    pair: ModelPair,
    prompts: Sequence[Sequence[int]],
    *,
    texts: int,
    tokens: int,
    filters: Filters | None = None,
    seed: int = 0,
    batch: int = 200,
    reference: Reference | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> TokenLogs:
    """Let the target write texts, and score them with both models.

    Args:
        pair: the models.
        prompts: token ids of prompts, taken in turn.
        texts: M.
        tokens: of each text.
        filters: of both models' laws.
        seed: draws the texts.
        batch: texts that are written together.
        reference: the models that score; by default the pair's in float32.
        progress: called with a line after every batch.

    Raises:
        InputError: what cannot be decoded, see ``decode``.
    """
    filters = filters or Filters()
    reference = reference or Reference(pair, filters)
    generator = torch.Generator(device=pair.device).manual_seed(seed)
    found: list[tuple[Floats, Floats]] = []
    for begin in range(0, texts, batch):
        numbers = range(begin, min(begin + batch, texts))
        written = decode(
            pair,
            RULES["autoregressive"],
            [prompts[number % len(prompts)] for number in numbers],
            tokens=tokens,
            length=1,
            filters=filters,
            generator=generator,
            stops=False,
        )
        scored = reference.score(written)
        found.append((scored.log_draft.flatten().cpu().numpy(), scored.log_target.flatten().cpu().numpy()))
        progress(f"{numbers.stop:,} of {texts:,} texts")
    draft, target = (np.concatenate(column) for column in zip(*found, strict=True))
    return TokenLogs(draft, target, np.full(texts, tokens, dtype=np.int64))


def read_logs(path: Path) -> TokenLogs:
    """Read a file by its ending: .npz, .safetensors, .parquet or .jsonl (docs/simulation.md has the formats).

    Raises:
        LogError: the file cannot be read, or is not such a file.
    """
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors, ".parquet": _read_parquet, ".jsonl": _read_jsonl}
    if path.suffix not in readers:
        raise LogError(f"{path}: the name must end in {', '.join(readers)}, which says what the file holds")
    try:
        arrays = readers[path.suffix](path)
        draft, target = (np.asarray(arrays[name], dtype=np.float64) for name in (DRAFT, TARGET))
        return TokenLogs(draft, target, np.asarray(arrays[LENGTHS], dtype=np.int64))
    except LogError as error:
        raise LogError(f"{path}: {error}") from error
    except KeyError as error:
        raise LogError(f"{path} has no {said(error)}; it must have {DRAFT}, {TARGET} and {LENGTHS}") from error
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise LogError(f"{path} cannot be read: {said(error)}") from error


def write_logs(logs: TokenLogs, path: Path) -> None:
    """Write a file that ``read_logs`` reads: .npz or .jsonl.

    Raises:
        LogError: the name ends otherwise, or the file cannot be written.
    """
    try:
        if path.suffix == ".npz":
            np.savez_compressed(path, log_draft=logs.log_draft, log_target=logs.log_target, lengths=logs.lengths)
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in _rows(logs)), encoding="utf-8")
        else:
            raise LogError(f"{path}: log-probabilities are written to a name that ends in .npz or .jsonl")
    except OSError as error:
        raise LogError(f"{path} cannot be written: {said(error)}") from error


def _rows(logs: TokenLogs) -> list[dict[str, list[float | None]]]:
    """One record a text; JSON has no infinity, so an impossible token of the draft is null."""
    cuts = logs.lengths.cumsum()[:-1]
    columns = (np.split(values, cuts) for values in (logs.log_draft, logs.log_target))
    return [
        {DRAFT: [value if np.isfinite(value) else None for value in draft.tolist()], TARGET: target.tolist()}
        for draft, target in zip(*columns, strict=True)
    ]


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise LogError(
            '.safetensors needs the package safetensors: pip install "spectr-verify[transformers]"'
        ) from error
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(said(error)) from error


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise LogError(".parquet needs the package pyarrow: pip install pyarrow") from error
    try:
        rows = read_table(path, columns=[DRAFT, TARGET]).to_pylist()
    except ArrowException as error:
        raise ValueError(said(error)) from error
    return _joined([_row(row, f"row {number}") for number, row in enumerate(rows)])


def _read_jsonl(path: Path) -> dict[str, Any]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if line.strip():
            rows.append(_row(json.loads(line), f"line {number + 1}"))
    return _joined(rows)


def _row(row: Any, where: str) -> tuple[Floats, Floats]:
    """One text: null stands for minus infinity."""
    if not isinstance(row, dict) or not {DRAFT, TARGET} <= row.keys():
        raise LogError(f"{where} must have {DRAFT} and {TARGET}")
    columns = [np.array([-np.inf if value is None else value for value in row[name]]) for name in (DRAFT, TARGET)]
    if len(columns[0]) != len(columns[1]):
        raise LogError(f"{where}: {DRAFT} has {len(columns[0])} tokens and {TARGET} has {len(columns[1])}")
    return columns[0].astype(np.float64), columns[1].astype(np.float64)


def _joined(rows: list[tuple[Floats, Floats]]) -> dict[str, Any]:
    if not rows:
        raise LogError("there is no text")
    draft, target = (np.concatenate(column) for column in zip(*rows, strict=True))
    return {DRAFT: draft, TARGET: target, LENGTHS: np.array([len(text) for _, text in rows])}
