"""Toy pairs as JSON: read with errors that name the place, written exactly and never by halves.

A pair is an object with the keys ``draft`` and ``target`` and, if wanted, ``name``, ``drafts`` (K), ``length`` (L) and
``vocab`` (V); other keys are ignored, unless they look like one of these misspelt. ``draft[i][r]`` and ``target[i][r]``
are the next-token laws after the r-th prefix of length i in lexicographic order. A probability is a number or a
fraction in a string, such as ``"3/7"``; a model without floating point numbers is kept exact. A file holds one pair, a
list of pairs, or an object with such a list under ``pairs`` or ``instances``.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from toy_models.tables import TableError, TableModel, ToyPair

LIST_KEYS = ("pairs", "instances")
KEYS = ("name", "vocab", "length", "drafts", "draft", "target")


def read_pairs(source: str | os.PathLike[str], *, exact: bool = False) -> list[ToyPair]:
    """Read the pairs of a file, or of a JSON text that starts with ``{`` or ``[``.

    A pair without a name is called after the file: ``stem[i]``, or ``stem`` where the file is that one pair. With
    ``exact`` a number with a decimal point is the decimal that it is written as, not the float nearest to it, and
    every law must sum to exactly 1.

    Raises:
        TableError: the file cannot be read, is not JSON, or holds something that is not a pair. The message names
            the file, the pair, the model, the level and the row.
    """
    if isinstance(source, str) and source.lstrip().startswith(("{", "[")):
        return parse_pairs(source, where="the JSON text", stem="pair", exact=exact)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(
            f"{path}: cannot be read ({error.strerror}); give the path of a JSON file, or JSON text itself"
        ) from error
    except ValueError as error:  # bytes that are not UTF-8, or a path with a null character
        raise TableError(f"{path}: is not a text file in UTF-8 ({error}); write the pairs as JSON") from error
    return parse_pairs(text, where=str(path), stem=path.stem, exact=exact)


def parse_pairs(text: str, *, where: str, stem: str, exact: bool = False) -> list[ToyPair]:
    """Read the pairs of a JSON text; ``where`` stands in front of every error, ``stem`` names pairs without a name.

    ``exact`` is that of ``read_pairs``.

    Raises:
        TableError: as ``read_pairs``.
    """
    try:
        document = json.loads(text, object_pairs_hook=unique_keys, parse_float=str if exact else float)
    except TableError as error:
        raise TableError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:  # a syntax error, a number of thousands of digits, endless nesting
        raise TableError(f"{where}: is not valid JSON ({error}); correct it there") from error
    entries, is_list = _entries(document, where)
    names = [f"{stem}[{index}]" if is_list else stem for index in range(len(entries))]
    return [
        _pair(entry, f"{where}: pair {i}", name) for i, (entry, name) in enumerate(zip(entries, names, strict=True))
    ]


def pair_to_json(pair: ToyPair) -> dict[str, Any]:
    """The JSON object of a pair: fraction strings where a model is exact, floats elsewhere.

    ``read_pairs`` gives back the same pair, each fraction and each float unchanged.
    """
    settings = {"vocab": pair.vocab, "length": pair.length, "drafts": pair.drafts}
    return {
        "name": pair.name,
        **{key: value for key, value in settings.items() if value is not None},
        "draft": pair.draft.to_json(),
        "target": pair.target.to_json(),
    }


def write_pairs(path: str | os.PathLike[str], pairs: Iterable[ToyPair]) -> None:
    """Write pairs as ``{"pairs": [..]}``, one pair a line, replacing the file in one step.

    The file is either the old one or the new one at every moment, also when the program is killed midway.

    Raises:
        TableError: there are no pairs, or the file cannot be written.
    """
    lines = [json.dumps(pair_to_json(pair), allow_nan=False) for pair in pairs]
    if not lines:
        raise TableError(f"{path}: there are no pairs to write, and an empty file could not be read again")
    try:
        replace_file(Path(path), '{"pairs": [\n' + ",\n".join(lines) + "\n]}\n")
    except OSError as error:
        raise TableError(f"{path}: cannot be written ({error.strerror}); give the path of a writeable file") from error


def replace_file(path: Path, text: str) -> None:
    """Put ``text`` in the place of a file, by way of a new file beside it."""
    if path.exists() and not path.is_file():
        raise TableError(f"{path}: is not a file that could be replaced; give the path of a JSON file")
    with replacing(path) as beside, beside.open("x", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path``, of the same ending; the file that is written there takes its place once it is whole."""
    path = path.resolve()  # a link stays one
    # Beside it, since only a move within one file system is a single step.
    beside = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    try:
        yield beside
        if path.exists():  # what others could not read they still cannot
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key written twice is an error, as only one of its values could count.

    Raises:
        TableError: it is.
    """
    document = dict(items)
    if len(document) < len(items):
        key = Counter(key for key, _ in items).most_common(1)[0][0]
        raise TableError(f'the key "{key}" is written more than once in one object; keep one of them')
    return document


def _entries(document: Any, where: str) -> tuple[list[Any], bool]:
    """The pairs in a document, and whether they stand in a list."""
    if isinstance(document, dict) and ("draft" in document or "target" in document):
        return [document], False
    if isinstance(document, dict):
        found = [key for key in LIST_KEYS if key in document]
        if len(found) != 1:
            raise TableError(
                f'{where}: expected a pair with "draft" and "target", a list of pairs, or an object with such a list '
                f'under either "pairs" or "instances"; found an object with the keys {_listed(document)}'
            )
        where, document = f'{where}: "{found[0]}"', document[found[0]]
    if not isinstance(document, list):
        raise TableError(f"{where}: expected a list of pairs, found {_kind(document)}")
    if not document:
        raise TableError(f"{where}: the list of pairs is empty; there is nothing to check")
    return document, True


def _pair(entry: Any, where: str, default_name: str) -> ToyPair:
    if not isinstance(entry, dict):
        raise TableError(f'{where}: expected an object with "draft" and "target", found {_kind(entry)}')
    for key in entry.keys() - set(KEYS):
        meant = get_close_matches(key, [known for known in KEYS if known not in entry], n=1, cutoff=0.75)
        if meant:
            raise TableError(f'{where}: has the key "{key}"; write it as "{meant[0]}", or leave it out')
    name = entry.get("name")
    if name is None:
        name = default_name
    elif not isinstance(name, str):
        raise TableError(f'{where}: "name" must be a text, found {_kind(name)}')
    named = f"{where} ({name!r})"
    draft, target = _model(entry, "draft", named), _model(entry, "target", named)
    drafts, length, vocab = (_count(entry, key, named) for key in ("drafts", "length", "vocab"))
    _check_vocab(vocab, {"draft": draft, "target": target}, named)
    try:
        return ToyPair(name, draft, target, drafts, length)
    except TableError as error:  # it names the pair itself
        raise TableError(f"{where}: {error}") from error


def _check_vocab(stated: int | None, models: dict[str, TableModel], where: str) -> None:
    for role, model in models.items():
        if stated is not None and stated != model.vocab:
            raise TableError(
                f'{where}: "vocab" is {stated}, but the laws of the {role} list {model.vocab} probabilities; '
                "correct one of them"
            )


def _model(entry: dict[str, Any], role: str, where: str) -> TableModel:
    if role not in entry:
        raise TableError(f'{where}: has no "{role}"; its keys are {_listed(entry)}')
    try:
        return TableModel.parse(entry[role])
    except TableError as error:
        raise TableError(f"{where}: {role}: {error}") from error


def _count(entry: dict[str, Any], key: str, where: str) -> int | None:
    value = entry.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TableError(f'{where}: "{key}" must be a whole number, found {_kind(value)}')


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with the keys {_listed(value)}"
    return json.dumps(value)[:60]


def _listed(document: dict[str, Any]) -> str:
    return ", ".join(f'"{key}"' for key in document) or "(none)"
