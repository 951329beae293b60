"""The command line. Every command imports what it needs when it runs, so that the light ones answer at once."""

from __future__ import annotations

import io
import signal
import sys
import traceback
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from spectr_verify import __version__
from spectr_verify.cli.estimates import what_if
from spectr_verify.cli.optima import bound, certify
from spectr_verify.cli.status import STATUS_BIASED, STATUS_BROKEN, STATUS_INTERRUPTED, STATUS_REFUSED, Ended
from spectr_verify.cli.sweeps import simulate
from spectr_verify.cli.texts import generate, mc
from spectr_verify.cli.verdicts import audit, claims, compare, gallery, rules
from spectr_verify.errors import InputError
from toy_models import TableError

app = typer.Typer(
    help="Acceptance rules for speculative decoding: exact laws, bounds, audits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (rules, compare, audit, gallery, mc, generate, what_if, simulate, bound, certify, claims):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Acceptance rules for speculative decoding: exact laws, bounds, audits."""


def main() -> None:
    """Run the command line; refusals are printed as one message and end with status 2.

    Status 1 is the verdict "biased" and nothing else: whatever else would end with it ends with another.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit keeps what was found, as Ctrl-C does
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that cannot be printed must not hide a verdict
    sys.exit(_status())


def _status() -> int:
    try:
        app()
    except Ended as ended:
        return ended.status
    except (InputError, TableError) as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"error: {error}", style="red"))
        return STATUS_REFUSED
    except KeyboardInterrupt:
        return _without_result()
    except SystemExit as end:  # typer's own; it ends with 1 when the output is closed
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else STATUS_BROKEN
        if code == STATUS_INTERRUPTED:
            return _without_result()
        return STATUS_BROKEN if code == STATUS_BIASED else code
    except BaseException:  # a fault of this program must not end with the status of a verdict
        traceback.print_exc()
        return STATUS_BROKEN
    return 0


def _without_result() -> int:
    print("interrupted: no result; what was written before, as the finished cells of a log, is kept", file=sys.stderr)
    return STATUS_INTERRUPTED
