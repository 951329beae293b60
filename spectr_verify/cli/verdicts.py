"""Commands that judge rules exactly: rules, compare, audit, gallery, claims."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from spectr_verify.cli.inputs import files_of, instances, limits_of, torch_dtype
from spectr_verify.cli.options import (
    Called,
    Drafts,
    Dtype,
    Format,
    Json,
    Length,
    MaxTexts,
    MaxTuples,
    MaxWorlds,
    Pairs,
    Seed,
    Tolerance,
)
from spectr_verify.cli.output import console_for, keep, progress_line, writable, write, write_text
from spectr_verify.cli.status import STATUS_BROKEN, Biased, Undecided

NARROW = 110
"""Terminals of fewer columns get a comparison without the columns that can be spared."""


def rules(json_file: Json = None) -> None:
    """List the register of acceptance rules."""
    from spectr_verify.report.tables import rules_table
    from spectr_verify.rules import RULES

    console_for(json_file).print(rules_table(RULES.values()))
    listed = [
        {
            "name": rule.name,
            "class": rule.kind,
            "max_drafts": rule.max_drafts,
            "lossless": rule.lossless,
            "summary": rule.summary,
            "source": rule.source,
        }
        for rule in RULES.values()
    ]
    write(json_file, "rules", {"rows": listed})


def compare(
    pairs: Pairs = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="NAME",
            help="A registered name, module:function or file.py:function; may be repeated. Without: all.",
        ),
    ] = None,
    drafts: Drafts = None,
    length: Length = None,
    rounds: Annotated[int, typer.Option(min=1, help="With 2 or more: also the law of N (L + 1) tokens of text.")] = 1,
    dtype: Dtype = Format.float64,
    tolerance: Tolerance = None,
    max_tuples: MaxTuples = None,
    max_worlds: MaxWorlds = None,
    max_texts: MaxTexts = None,
    seed: Seed = 0,
    json_file: Json = None,
) -> None:
    """Compare rules with the target's law and with the optimum. Without options: all rules, the built-in suite.

    The status is 0 whatever is found; ``audit`` ends with a verdict.
    """
    keep([*(pairs or ()), *files_of(rule or ())], json_file)
    from spectr_verify.audit import compare as run_compare
    from spectr_verify.report.tables import compare_table
    from spectr_verify.rules import RULES
    from spectr_verify.rules.load import load_rule

    with progress_line() as progress:
        verdicts = run_compare(
            [load_rule(name) for name in dict.fromkeys(rule or RULES)],
            instances(pairs, drafts, length, seed),
            rounds=rounds,
            dtype=torch_dtype(dtype),
            tolerance=tolerance,
            limits=limits_of(max_tuples, max_worlds, max_texts),
            progress=progress,
        )
    console = console_for(json_file)
    console.print(compare_table(verdicts, narrow=console.width < NARROW))
    settings = {"seed": seed, "rounds": rounds, "dtype": dtype.value, "tolerance": verdicts[0].tolerance}
    write(json_file, "compare", {**settings, "rows": [verdict.to_json() for verdict in verdicts]})


def audit(
    target: Annotated[str, typer.Argument(help="A registered name, module:function or file.py:function.")],
    calls: Annotated[
        Called,
        typer.Option(
            help="round: f(round, chance), a rule. probabilities: f(draft_tokens, draft_probs, target_probs), tokens. "
            "step: f(draft_model, target_model, input_ids), longer ids. The last two are replayed as they are."
        ),
    ] = Called.round,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EXPRESSION",
            help="An argument of the function, as in gamma=L; over L, K, V and whatever it is called with.",
        ),
    ] = None,
    pairs: Pairs = None,
    drafts: Drafts = None,
    length: Length = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="With --pairs: length of the text that is compared.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="With --calls step: the temperature of the target that the text must follow.")
    ] = 1.0,
    examples: Annotated[
        int | None, typer.Option(min=1, help="Pairs that Hypothesis draws: 200, or 100 and 40 of the replayed kinds.")
    ] = None,
    edge_coins: Annotated[
        bool, typer.Option("--edge-coins/--no-edge-coins", help="Also try the extreme uniforms; replayed code only.")
    ] = True,
    python_file: Annotated[
        Path | None,
        typer.Option(
            "--python", metavar="FILE", callback=writable, help="Write the counterexample's Python file there."
        ),
    ] = None,
    dtype: Dtype = Format.float64,
    tolerance: Tolerance = None,
    max_tuples: MaxTuples = None,
    max_worlds: MaxWorlds = None,
    max_texts: MaxTexts = None,
    max_paths: Annotated[int, typer.Option(min=1, help="Most runs of replayed code, in all.")] = 500_000,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="Most seconds for replayed code, in all.")] = 600.0,
    seed: Seed = 0,
    json_file: Json = None,
) -> None:
    """Look for a pair on which a rule is biased. Status 0: lossless, 1: biased, 2: wrong usage or input, 3: undecided.

    With --pairs only those are judged, over text that has a round after every context that their tables tell apart;
    without, pairs drawn by Hypothesis, which looks for the smallest counterexample, and the built-in suite. Undecided
    is replayed code on which no fault was found before --max-paths or --max-seconds was reached.
    """
    keep([*(pairs or ()), *files_of([target])], json_file, python_file)
    from hypothesis.configuration import set_hypothesis_home_dir

    from spectr_verify.audit import audit as run_audit
    from spectr_verify.replay import Arguments, Budget, load_verifier
    from spectr_verify.report.tables import audit_text, plain_file, reproduction

    # Hypothesis keeps files of its own, which have no business in the user's folder.
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "spectr-verify-hypothesis")
    with progress_line() as progress:
        report = run_audit(
            load_verifier(
                target,
                calls.value,
                arguments=Arguments.parse(arg or []),
                temperature=temperature,
                budget=Budget(max_paths, max_seconds),
            ),
            instances=instances(pairs, drafts, length, seed, replayed=calls is not Called.round) if pairs else None,
            tokens=tokens,
            length=length,
            drafts=drafts,
            seed=seed,
            max_examples=examples,
            edges=edge_coins,
            dtype=torch_dtype(dtype),
            tolerance=tolerance,
            limits=limits_of(max_tuples, max_worlds, max_texts),
            progress=progress,
        )
    console_for(json_file, soft_wrap=True).print(audit_text(report))
    found = report.counterexample
    if python_file is not None and (source := plain_file(report)) is not None:
        write_text(python_file, source)
    write(
        json_file,
        "audit",
        {
            "seed": seed,
            "dtype": dtype.value,
            "rule": report.rule.name,
            "calls": calls.value,
            "arguments": arg or [],
            "verdict": report.verdict,
            "lossless": report.lossless,
            "stopped": report.stopped,
            "judged": report.judged,
            "paths": report.paths,
            "worst_error": report.worst_error,
            "tolerance": report.tolerance,
            "notes": list(report.notes),
            "counterexample": None
            if found is None
            else found.to_json() | {"models": json.loads(found.instance.as_json())},
            "wrong_text": None if report.wrong is None else vars(report.wrong),
            "guess": report.guess,
            "reproduce": None if found is None else reproduction(found),
            "python": plain_file(report),
        },
    )
    if report.verdict == "biased":
        raise Biased
    if report.verdict == "undecided":
        raise Undecided


def gallery(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Judge each on six small pairs instead: a minute rather than six."),
    ] = False,
    seed: Seed = 0,
    json_file: Json = None,
) -> None:
    """Audit every planted fault, which must be caught, and every correct rule, which must not: the tool's own score.

    A fault is audited up to its first counterexample. Status 0 if all are judged rightly, 70 if any is not.
    """
    from spectr_verify.audit.gallery import run_gallery
    from spectr_verify.report.tables import gallery_table

    with progress_line() as progress:
        rows = run_gallery(seed=seed, quick=quick, progress=progress)
    console = console_for(json_file)
    console.print(gallery_table(rows))
    faults = [row for row in rows if row.planted]
    caught, flagged = sum(row.right for row in faults), sum(not row.right for row in rows if not row.planted)
    console.print(
        f"{caught} of {len(faults)} planted faults caught, {flagged} of {len(rows) - len(faults)} correct rules flagged"
    )
    write(json_file, "gallery", {"seed": seed, "quick": quick, "rows": [row.to_json() for row in rows]})
    if not all(row.right for row in rows):
        raise SystemExit(STATUS_BROKEN)


def claims(seed: Seed = 0, json_file: Json = None) -> None:
    """Put the claims of the SpecTr-GBV paper to the test, one line each with its evidence."""
    from spectr_verify.audit import judge_claims
    from spectr_verify.report.tables import claims_table

    with progress_line() as progress:
        findings = judge_claims(seed, progress)
    console_for(json_file).print(claims_table(findings))
    write(json_file, "claims", {"seed": seed, "rows": [vars(finding) for finding in findings]})
