"""Commands run in this process, which saves importing torch."""

from typer.testing import CliRunner

from spectr_verify.cli import app
from spectr_verify.cli.status import STATUS_REFUSED, Ended
from spectr_verify.errors import InputError


def run(*arguments: str) -> tuple[int, str]:
    """The status that the command ends with, and what it says."""
    result = CliRunner().invoke(app, list(arguments))
    match result.exception:
        case InputError() as refusal:
            return STATUS_REFUSED, str(refusal)
        case Ended() as ended:
            return ended.status, result.output
        case None | SystemExit():
            return result.exit_code, result.output
        case broken:
            raise broken
