"""Commands that compute optima: bound, certify."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from spectr_verify.cli.inputs import instances
from spectr_verify.cli.options import Drafts, Json, Length, RuleClass
from spectr_verify.cli.output import console_for, keep, progress_line, write
from toy_models import read_pairs

CLASSES: dict[RuleClass, tuple[Literal["stateless", "stateful"], ...]] = {
    RuleClass.stateless: ("stateless",),
    RuleClass.stateful: ("stateful",),
    RuleClass.both: ("stateless", "stateful"),
}
"""What a choice of classes stands for."""


def bound(
    file: Annotated[str, typer.Argument(help="Pairs: a JSON file or JSON text.")],
    drafts: Drafts = None,
    length: Length = None,
    max_variables: Annotated[int | None, typer.Option(min=1, help="Largest linear program that is solved.")] = None,
    json_file: Json = None,
) -> None:
    """Print every bound on the accepted length, for each pair in a file."""
    keep([file], json_file)
    from spectr_verify.bounds import MAX_VARIABLES, bounds
    from spectr_verify.report.tables import bounds_table

    console = console_for(json_file)
    rows = []
    for where in instances([file], drafts, length, 0):
        with progress_line() as progress:
            progress(f"{where.pair.name}: two linear programs")
            limit = max_variables or MAX_VARIABLES
            found = bounds(where.pair, where.length, where.drafts, max_variables=limit)
        console.print(bounds_table(found))
        rows.append({"vocab": where.pair.vocab, **found.as_dict()})
    write(json_file, "bound", {"rows": rows})


def certify(
    file: Annotated[str, typer.Argument(help="Pairs: a JSON file or JSON text.")],
    kind: Annotated[RuleClass, typer.Option("--class", help="Which optimum.")] = RuleClass.both,
    drafts: Drafts = None,
    length: Length = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="Write a file for each certificate there."),
    ] = None,
    json_file: Json = None,
) -> None:
    """Compute optima as exact fractions, with certificates that proofs/check_certificate.py checks by itself.

    Numbers with a decimal point in FILE are the decimals that they are written as; each law must sum to 1 exactly.
    """
    from spectr_verify.audit import Instance
    from spectr_verify.bounds.rational import certify as find
    from spectr_verify.report.certificates import certificate_files, write_certificates
    from spectr_verify.report.tables import certificates_table

    pairs = [Instance.of(pair, length=length, drafts=drafts) for pair in read_pairs(file, exact=True)]
    optima = [(where, one) for where in pairs for one in CLASSES[kind]]
    files = [] if out is None else certificate_files(out, ((where.pair.name, one) for where, one in optima))
    keep([file], json_file, *files)
    found = []
    with progress_line() as progress, _digits_of_any_number():
        for where, one in optima:
            progress(f"{where.pair.name}: the {one} optimum in fractions")
            found.append(find(where.pair, where.length, where.drafts, one))
    with _digits_of_any_number():
        console_for(json_file).print(certificates_table(found))
        if out is not None:
            write_certificates(out, found)
        write(json_file, "certify", {"rows": [certificate.to_json() for certificate in found]})


@contextmanager
def _digits_of_any_number() -> Iterator[None]:
    """Laws over many decades have optima of thousands of digits, more than Python writes without being asked."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)
