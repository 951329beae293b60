"""What commands write: tables on a console, results in files, which never replace what they are about."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from spectr_verify import __version__
from spectr_verify.errors import InputError
from toy_models.files import replace_file

STANDARD_OUTPUT = Path("-")


def writable(path: Path | None) -> Path | None:
    """Refuse an unusable output file before the work, not after it."""
    if path is None or path == STANDARD_OUTPUT:
        return path
    try:
        if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
            raise typer.BadParameter(
                f"{path} cannot be written: it is not a file that may be replaced (- is standard output)"
            )
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            return path
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}") from error


def writable_json(path: Path | None) -> Path | None:
    """Refuse names of Python files, too: a rule may be written there, or what it imports."""
    if path is not None and path.suffix == ".py":
        raise typer.BadParameter(f"{path}: the result is JSON, and the name is that of a Python file")
    return writable(path)


def writable_as(*endings: str) -> Callable[[Path | None], Path | None]:
    """Refuse a name that does not say in which format to write, too."""

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix not in endings:
            raise typer.BadParameter(f"{path}: the name must end in {' or '.join(endings)}")
        return writable(path)

    return check


def drawable(path: Path | None) -> Path | None:
    """Refuse a plot that cannot be drawn or written."""
    if path is not None and importlib.util.find_spec("matplotlib") is None:
        from spectr_verify.report.figures import WITHOUT

        raise InputError(WITHOUT)
    return writable_as(".png", ".svg")(path)


def keep(sources: Iterable[str | None], *outputs: Path | None) -> None:
    """Refuse to write over what a result is about, or two results to one place.

    Args:
        sources: files, and folders of models; what is no path is passed over.
        outputs: where results go, if they are asked for.
    """
    asked = [output for output in outputs if output is not None]
    for number, output in enumerate(asked):
        if any(_is_same(output, other) for other in asked[:number]):
            raise InputError(f"two results would be written to {output}; give each a file of its own")
        for source in sources:
            if source and _is_part(output, Path(source)):
                raise InputError(f"{output} is what the result is about; write the result to another file")


def _is_same(output: Path, other: Path) -> bool:
    if output.exists() and other.exists():
        return output.samefile(other)
    return output.resolve() == other.resolve()


def _is_part(output: Path, source: Path) -> bool:
    """Whether a file is there already, under whichever name, and is the source or lies in it."""
    try:
        return output.exists() and (
            output.samefile(source) or (source.is_dir() and source.resolve() in output.resolve().parents)
        )
    except (OSError, ValueError):  # JSON text in the place of a path, or the name of a registered rule
        return False


def write(path: Path | None, kind: str, content: dict[str, Any]) -> None:
    """Write a result as JSON of the schema ``spectr-verify/KIND/1``, where a file is asked for."""
    if path is None:
        return
    header = {"schema": f"spectr-verify/{kind}/1", "version": __version__}
    write_text(path, json.dumps(header | content, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file in one step.

    Raises:
        InputError: it cannot be written.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        replace_file(path, text)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def console_for(json_file: Path | None, *, soft_wrap: bool = False) -> Console:
    """Where tables go: standard output, or standard error when that carries the JSON.

    Where that is not a terminal it is wide enough for the tables.
    """
    to_error = json_file == STANDARD_OUTPUT
    stream = sys.stderr if to_error else sys.stdout
    return Console(stderr=to_error, soft_wrap=soft_wrap, width=None if stream.isatty() else 120)


@contextmanager
def progress_line() -> Iterator[Any]:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""
    with Console(stderr=True).status("starting") as status:
        yield lambda line: status.update(Text(line))
