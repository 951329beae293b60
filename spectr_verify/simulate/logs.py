"""Log-probabilities that both models give to text that the target wrote: made here, or exported by a serving engine."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectr_verify.decoding import Filters, Source
from spectr_verify.errors import InputError, said
from spectr_verify.simulate.pieces import Keeper, Pieces, chosen_pieces
from spectr_verify.simulate.plain import continuations
from toy_models import TableError
from toy_models.files import replacing, unique_keys

Floats = NDArray[np.float64]

DRAFT, TARGET, LENGTHS, STARTS = "log_draft", "log_target", "lengths", "starts"
"""Names in files: natural logarithms of all texts one behind the other, how many tokens each text has, and, if that is
said, at how many of them a round may start."""

LEAST = -1e6
"""The least logarithm of a probability that a model can mean; sums of smaller ones need not be numbers."""

AND_ZERO = {
    DRAFT: ", or minus infinity (null in JSON) where the draft gives probability zero",
    TARGET: ", for the target wrote the text",
}
"""What else a logarithm may be."""


class LogError(InputError):
    """A file of log-probabilities that cannot be used: the message names the text, the token and what is wrong."""


@dataclass(frozen=True, eq=False)
class TokenLogs:
    """Natural log-probabilities of the tokens of M texts, which are samples of the target.

    Attributes:
        log_draft, log_target: float64 [n], all texts one behind the other; the draft's may be minus infinity.
        lengths: int64 [M], tokens of each text.
        starts: int64 [M], at how many of them, from the first on, a round may start: not behind the one that ends the
            text. ``None``: at all.
        pieces: some pieces of the texts with whole laws; files have none.

    Raises:
        LogError: sizes that do not fit, a text without tokens, NaN, a probability above 1 or too small to be meant, or
            a token that the target never writes.
    """

    log_draft: Floats
    log_target: Floats
    lengths: NDArray[np.int64]
    starts: NDArray[np.int64] | None = None
    pieces: Pieces | None = None

    def __post_init__(self) -> None:
        self._check_sizes()
        for name, values in ((DRAFT, self.log_draft), (TARGET, self.log_target)):
            zero = (values == -np.inf) & (name == DRAFT)
            bad = ~((values >= LEAST) & (values <= 1e-6) | zero)
            if bad.any():
                token = int(bad.argmax())
                text = int(np.searchsorted(self.lengths.cumsum(), token, side="right"))
                place = token - int(self.lengths[:text].sum())
                found = "minus infinity (null in JSON)" if values[token] == -np.inf else values[token]
                raise LogError(
                    f"{name} of text {text}, token {place} is {found}; it must be a natural logarithm of a "
                    f"probability, {LEAST:.0e} to 0" + AND_ZERO[name]
                )

    def _check_sizes(self) -> None:
        sizes = {name: np.shape(getattr(self, name)) for name in (DRAFT, TARGET, LENGTHS)}
        if any(len(size) != 1 for size in sizes.values()) or sizes[DRAFT] != sizes[TARGET]:
            raise LogError(
                f"log_draft, log_target and lengths must be lists, the first two equally long; they are {sizes}"
            )
        if not len(self.lengths):
            raise LogError("there is no text")
        if self.lengths.dtype != np.int64:
            raise LogError(f"lengths must be integers (int64); they are {self.lengths.dtype}")
        if (self.lengths < 1).any():
            text = int((self.lengths < 1).argmax())
            raise LogError(f"text {text} has {self.lengths[text]} tokens; leave out what has none")
        if (self.lengths > len(self.log_target)).any() or self.lengths.sum() != len(self.log_target):
            raise LogError(
                f"lengths must be the tokens of each text, {len(self.log_target):,} in all; they sum to "
                f"{self.lengths.sum():,}"
            )
        if self.starts is not None and not (
            np.shape(self.starts) == np.shape(self.lengths)
            and self.starts.dtype == np.int64
            and ((self.starts >= 1) & (self.starts <= self.lengths)).all()
        ):
            raise LogError("starts must be integers, for each text one from 1 to its tokens; leave them out for all")


def target_logs(
    source: Source,
    prompts: Sequence[Sequence[int]],
    *,
    texts: int,
    tokens: int,
    behind: int = 0,
    piece: int | None = None,
    most: int = 0,
    filters: Filters | None = None,
    seed: int = 0,
    batch: int = 200,
    progress: Callable[[str], None] = lambda _: None,
) -> TokenLogs:
    """Let the target write texts, and score them with the laws that it drew from and with the draft's.

    Args:
        source: the models.
        prompts: token ids of prompts, taken in turn.
        texts: M.
        tokens: of each text, fewer where it ends.
        behind: how many tokens behind the one that ends a text are kept: a round that starts before the end reaches
            L - 1 beyond it.
        piece: of how many tokens pieces are, of which whole laws are kept; ``None``: no laws are.
        most: how many pieces at most, of all texts; drawn, one as likely as another.
        filters: of both models' laws.
        seed: draws the texts.
        batch: texts that are written together.
        progress: called with a line after every batch.

    Raises:
        InputError: what cannot be decoded, see ``decode``, or a piece that is longer than the texts.
    """
    if piece is not None and not 1 <= piece <= tokens:
        raise InputError(f"a piece of {piece} tokens is none of a text of {tokens}; ask for another size")
    generator = torch.Generator(device=source.device).manual_seed(seed)
    found: list[tuple[Tensor, Tensor]] = []
    lengths: list[Tensor] = []
    starts: list[Tensor] = []
    length = piece or tokens
    chosen = chosen_pieces(texts, tokens // length, most=most, seed=seed)
    pieces: list[Pieces] = []
    for begin in range(0, texts, batch):
        numbers = range(begin, min(begin + batch, texts))
        asked = [prompts[number % len(prompts)] for number in numbers]
        keeper = Keeper(chosen[begin : numbers.stop], length)
        written = continuations(
            source, asked, tokens=tokens, filters=filters or Filters(), generator=generator, watch=keeper.see
        )
        starts.append(_until_the_end(written.tokens, source.ends))
        lengths.append((starts[-1] + behind).clamp(max=tokens))
        pieces.append(keeper.pieces(written.tokens, lengths[-1], begin))
        kept = torch.arange(tokens) < lengths[-1][:, None]
        found.append((written.log_draft[kept], written.log_target[kept]))
        progress(f"{numbers.stop:,} of {texts:,} texts")
    draft, target = (torch.cat(column).numpy() for column in zip(*found, strict=True))
    every, begun = (torch.cat(each).numpy() for each in (lengths, starts))
    some = begun if (begun < every).any() else None
    return TokenLogs(draft, target, every, some, Pieces.joined(pieces) if piece else None)


def _until_the_end(tokens: Tensor, ends: Sequence[int]) -> Tensor:
    """How many of the tokens [B, N] of each text there are up to its end: int64 [B]."""
    is_end = torch.isin(tokens, torch.tensor(ends, dtype=torch.int64))
    before = (is_end.cumsum(dim=1) == 0).sum(dim=1)
    return (before + 1).clamp(max=tokens.shape[1])


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
        absent = [name for name in (DRAFT, TARGET, LENGTHS) if name not in arrays]
        if absent:
            raise LogError(f"there is no {' and no '.join(absent)}; it must have {DRAFT}, {TARGET} and {LENGTHS}")
        draft, target = (_real(arrays[name], name) for name in (DRAFT, TARGET))
        starts = None if arrays.get(STARTS) is None else _whole(arrays[STARTS])
        return TokenLogs(draft, target, _whole(arrays[LENGTHS]), starts)
    except LogError as error:
        raise LogError(f"{path}: {error}") from error
    except UNREADABLE as error:
        raise LogError(f"{path} cannot be read: {said(error)}") from error


UNREADABLE = (OSError, ValueError, TypeError, EOFError, RuntimeError, OverflowError, zipfile.BadZipFile, zlib.error)
"""What damaged files make their readers raise."""


def _real(values: Any, name: str) -> Floats:
    """Numbers as float64; what numpy would make numbers of is none."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise LogError(f"{name} must be real numbers; they are {array.dtype}")
    return array.astype(np.float64)


def _whole(values: Any) -> NDArray[Any]:
    """Integers of any size as int64; what is none is left for the checks."""
    array = np.asarray(values)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def write_logs(logs: TokenLogs, path: Path) -> None:
    """Write a file that ``read_logs`` reads: .npz or .jsonl.

    Raises:
        LogError: the name ends otherwise, or the file cannot be written.
    """
    if path.suffix not in (".npz", ".jsonl"):
        raise LogError(f"{path}: log-probabilities are written to a name that ends in .npz or .jsonl")
    try:
        with replacing(path) as beside:
            if path.suffix == ".npz":
                arrays: dict[str, Any] = {DRAFT: logs.log_draft, TARGET: logs.log_target, LENGTHS: logs.lengths}
                np.savez_compressed(beside, **arrays | ({} if logs.starts is None else {STARTS: logs.starts}))
            else:
                beside.write_text("".join(json.dumps(row) + "\n" for row in _rows(logs)), encoding="utf-8")
    except OSError as error:
        raise LogError(f"{path} cannot be written: {said(error)}") from error


def _rows(logs: TokenLogs) -> list[dict[str, Any]]:
    """One record a text; JSON has no infinity, so an impossible token of the draft is null."""
    cuts = logs.lengths.cumsum()[:-1]
    columns = (np.split(values, cuts) for values in (logs.log_draft, logs.log_target))
    starts = [{}] * len(logs.lengths) if logs.starts is None else [{STARTS: start} for start in logs.starts.tolist()]
    return [
        {DRAFT: [value if np.isfinite(value) else None for value in draft.tolist()], TARGET: target.tolist(), **start}
        for draft, target, start in zip(*columns, starts, strict=True)
    ]


def _read_npz(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise LogError("it is no archive of arrays, or not a whole one")
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise LogError(
            '.safetensors needs the package safetensors: pip install -c constraints.txt ".[transformers]"'
        ) from error
    try:
        arrays = load_file(path)
    except SafetensorError as error:
        raise ValueError(said(error)) from error
    # Torch has number formats that numpy lacks, bfloat16 for one.
    return {name: values.double() if values.is_floating_point() else values for name, values in arrays.items()}


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_schema, read_table
    except ImportError as error:
        raise LogError(".parquet needs the package pyarrow: pip install pyarrow") from error
    try:
        some = [STARTS] if STARTS in read_schema(path).names else []
        rows = read_table(path, columns=[DRAFT, TARGET, *some]).to_pylist()
    except ArrowException as error:
        raise ValueError(said(error)) from error
    return _joined([_row(row, f"row {number}") for number, row in enumerate(rows)])


def _read_jsonl(path: Path) -> dict[str, Any]:
    rows = []
    # Not splitlines: strings in JSON may hold the other ends of lines that Unicode knows.
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            rows.append(_row(_parsed(line, number), f"line {number}"))
    return _joined(rows)


def _parsed(line: str, number: int) -> Any:
    try:
        return json.loads(line, object_pairs_hook=unique_keys)
    except TableError as error:
        raise LogError(f"line {number}: {error}") from error
    except json.JSONDecodeError as error:
        raise LogError(f"line {number} is not JSON: {error.msg}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, endless nesting
        raise LogError(f"line {number} is not JSON that can be read: {said(error)}") from error


def _row(row: Any, where: str) -> tuple[Floats, Floats, Any]:
    if not isinstance(row, dict) or not {DRAFT, TARGET} <= row.keys():
        raise LogError(f"{where} must have {DRAFT} and {TARGET}")
    draft, target = (_numbers(row[name], f"{where}: {name}") for name in (DRAFT, TARGET))
    if len(draft) != len(target):
        raise LogError(f"{where}: {DRAFT} has {len(draft)} tokens and {TARGET} has {len(target)}")
    return draft, target, row.get(STARTS)


def _numbers(values: Any, where: str) -> Floats:
    """Numbers of one text; null stands for minus infinity."""
    if not isinstance(values, list):
        raise LogError(f"{where} must be a list of numbers; it is of type {type(values).__name__}")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise LogError(f"{where} must be a list of numbers; {str(value)[:60]!r} is of type {type(value).__name__}")
    try:
        return np.array([-np.inf if value is None else value for value in values], dtype=np.float64)
    except OverflowError as error:
        raise LogError(f"{where} must be a list of numbers: {said(error)}") from error


def _joined(rows: list[tuple[Floats, Floats, Any]]) -> dict[str, Any]:
    if not rows:
        raise LogError("there is no text")
    drafts, targets, starts = zip(*rows, strict=True)
    lengths = [len(text) for text in targets]
    found = {DRAFT: np.concatenate(drafts), TARGET: np.concatenate(targets), LENGTHS: np.array(lengths)}
    if any(start is not None for start in starts):  # a text that says nothing may start anywhere
        given = [length if start is None else start for start, length in zip(starts, lengths, strict=True)]
        found[STARTS] = np.array(given, dtype=None if all(isinstance(each, int) for each in given) else object)
    return found
