"""Commands run in this process, which saves importing torch."""

from typer.testing import CliRunner

from spectr_verify.cli import app
from spectr_verify.cli.status import (
    STATUS_BIASED,
    STATUS_INTERRUPTED,
    STATUS_REFUSED,
    STATUS_UNDECIDED,
    Biased,
    Interrupted,
    Undecided,
)
from spectr_verify.errors import InputError

VERDICTS = {Biased: STATUS_BIASED, Undecided: STATUS_UNDECIDED, Interrupted: STATUS_INTERRUPTED}


def run(*arguments: str) -> tuple[int, str]:
    """The status that the command ends with, and what it says."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, InputError):
        return STATUS_REFUSED, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, (*VERDICTS, SystemExit)):
        raise result.exception
    return VERDICTS.get(type(result.exception), result.exit_code), result.output
