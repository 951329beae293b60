"""Terminal tables of the project's records."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectr_verify.report.counterexample import faults, laws_beside, models, sizes
from spectr_verify.report.snippet import snippet

if TYPE_CHECKING:  # these bring torch, and listing the rules must not wait for it
    from spectr_verify.audit import AuditReport, Finding, Verdict
    from spectr_verify.audit.gallery import GalleryRow
    from spectr_verify.bounds import BoundResult, Bounds
    from spectr_verify.bounds.rational import Certificate
    from spectr_verify.replay import Verifier
    from spectr_verify.rules import Rule


LONGEST_NAME = 36
LONGEST_FRACTION = 40

OWN = "block-race"
"""This project's rule: what the paper claims of its own is no fault in it."""


def rules_table(rules: Iterable[Rule]) -> Table:
    """The register, one row a rule."""
    table = _table("acceptance rules", "rule", "class", "drafts", "lossless", "what it does, and its source")
    for rule in rules:
        drafts = "any" if rule.max_drafts is None else str(rule.max_drafts)
        what = Text.assemble(rule.summary, ("\n" + rule.source, "dim"))
        table.add_row(rule.name, rule.kind, drafts, _yes_no(rule.lossless), what)
    return table


def compare_table(verdicts: list[Verdict], *, narrow: bool = False) -> Table:
    """One row a rule over all its pairs, in the order in which the rules came; narrow: without class and pair."""
    pairs = len({id(verdict.instance) for verdict in verdicts})
    title = f"exact laws on {pairs} pair{'s' if pairs != 1 else ''}"
    columns = ("rule", "class", "verdict", ">error", "on pair", ">E[τ]", ">share")
    kept = [column for column in columns if not (narrow and column in ("class", "on pair"))]
    table = _table(title, *kept)
    extent = "over several rounds" if any(verdict.text is not None for verdict in verdicts) else "in one round"
    table.caption = (
        f"error: largest total-variation distance from the target's law {extent}, and the pair it is on; E[τ] and its "
        "share of the optimum of the rule's class (with K drafts, for single-draft rules too) are means over pairs. "
        "Shares in brackets: a biased rule does not solve the problem that the optimum is of."
    )
    by_rule: dict[Rule | Verifier, list[Verdict]] = {}
    for verdict in verdicts:
        by_rule.setdefault(verdict.rule, []).append(verdict)
    for rule, found in by_rule.items():
        cells = dict(zip(columns, (_name(rule.name), rule.kind, *_summary(found)), strict=True))
        table.add_row(*(cells[column] for column in kept))
    return table


def _summary(verdicts: list[Verdict]) -> tuple[RenderableType, ...]:
    biased = [verdict for verdict in verdicts if not verdict.lossless]
    worst = max(biased or verdicts, key=lambda verdict: verdict.worst_error)
    word = Text(f"biased on {len(biased)}", style="bold red") if biased else Text("lossless", style="bold green")
    accepted = sum(verdict.round.expected_accepted for verdict in verdicts) / len(verdicts)
    shares = [verdict.share for verdict in verdicts if verdict.share is not None]
    share = f"{sum(shares) / len(shares):.1%}" if shares else "-"
    return (
        word,
        f"{worst.worst_error:.1e}",
        _name(worst.instance.pair.name),
        f"{accepted:.4f}",
        f"({share})" if biased else share,
    )


def bounds_table(bounds: Bounds) -> Table:
    """All bounds of one pair, from the smallest closed form to the largest."""
    title = f"{bounds.pair}: L = {bounds.length}, K = {bounds.drafts}"
    table = _table(title, "bound", ">E[τ]", "what it is")
    closed = bounds.closed
    rows = [
        ("token", closed["token"], "token verification, one draft"),
        ("block", closed["block"], "block verification: stateless optimum of one draft"),
        ("greedy_block", closed["greedy_block"], "greedy block verification: stateful optimum of one draft"),
        ("block_race", closed["block_race"], "the block race, lossless and stateless"),
        ("claimed", closed["claimed_bound"], "SpecTr-GBV's formula: attainable, not the largest"),
        ("optimum, stateless", bounds.stateless and bounds.stateless.value, _certificate(bounds.stateless)),
        ("optimum, stateful", bounds.stateful and bounds.stateful.value, _certificate(bounds.stateful)),
        ("level", closed["level_bound"], "one threshold set a level; exact for L = 1"),
        ("relaxed", closed["relaxed_bound"], "every node capped on its own"),
    ]
    for name, value, what in rows:
        table.add_row(name, "-" if value is None else f"{value:.9f}", what)
    return table


def _certificate(optimum: BoundResult | None) -> str:
    if optimum is None:
        return "linear program, too large: raise --max-variables"
    return f"linear program, certified gap {max(optimum.gap, 0.0):.0e}, {optimum.seconds:.2f} s"


def certificates_table(certificates: Iterable[Certificate]) -> Table:
    """Exact optima, one row each."""
    table = _table("optima in exact fractions", "pair", ">L", ">K", "class", ">E[τ]", "exactly")
    for found in certificates:
        sizes, exactly = (str(found.length), str(found.drafts)), "a long fraction"
        if max(abs(found.value.numerator), found.value.denominator) < 10**LONGEST_FRACTION:
            exactly = str(found.value)
        table.add_row(_name(found.pair.name), *sizes, found.kind, f"{float(found.value):.9f}", exactly)
    return table


def claims_table(findings: Iterable[Finding]) -> Table:
    """One row a claim and rule."""
    table = _table("the claims of SpecTr-GBV", "claim, and what was measured", "rule", "verdict", "worst pair")
    for finding in findings:
        no = Text("does not hold") if finding.rule == OWN else Text("refuted", style="bold red")
        word = Text("holds", style="green") if finding.holds else no
        what = Text.assemble(finding.claim, ("\n" + finding.evidence, "dim"))
        table.add_row(what, Text(finding.rule), word, Text(finding.instance))
    return table


def audit_text(report: AuditReport) -> RenderableType:
    """The verdict of an audit; for a biased rule the smallest counterexample and how to reproduce it."""
    import torch  # takes seconds, see above

    from spectr_verify.audit.verdict import TOLERANCE, Stage

    name = report.rule.name
    runs = f", {report.paths:,} paths" if report.paths else ""
    pairs = "pair" if report.judged == 1 else "pairs"
    judged = f"{report.judged} {pairs} judged ({report.range}; seed {report.seed}{runs})"
    notes = [Text(f"Note: {note}.") for note in report.notes]
    verdict = report.counterexample
    if verdict is None:
        error = f"largest total-variation error {report.worst_error:.1e}, {report.tolerance:g} allowed"
        if report.stopped is None:
            return Group(Text.assemble((f"{name}: lossless", "bold green"), f" on all {judged}; {error}"), *notes)
        if not report.judged:
            return Group(
                Text.assemble((f"{name}: undecided", "bold yellow"), f": nothing was judged, {report.stopped}")
            )
        said = f": no fault found on {judged}; {error}. That is not a verdict: {report.stopped}"
        return Group(Text.assemble((f"{name}: undecided", "bold yellow"), said), *notes)
    where = verdict.instance
    found = "Smallest counterexample" if report.shrunk else "Counterexample"
    lines: list[RenderableType] = [
        Text.assemble((f"{name}: biased", "bold red"), f", {judged}"),
        Text(f"\n{found}: {sizes(where)}"),
        *(Text(line) for line in (*models(where), *faults(verdict, report.wrong))),
    ]
    if verdict.stage is Stage.EDGE_COINS:
        lines.append(
            Text(
                "Apart from extreme uniforms it is lossless: the largest total-variation error on all pairs is "
                f"{report.worst_error:.1e}. (--no-edge-coins leaves them aside.)"
            )
        )
    elif verdict.worst_error <= TOLERANCE[torch.float32]:
        lines.append(
            Text(
                "That is as far off as the rounding of float32 would be. Where the code computes in float32 outside "
                f"torch, say --tolerance {TOLERANCE[torch.float32]:g}."
            )
        )
    if report.guess is not None:
        lines.append(Text(f"Most likely: {report.guess}."))
    if report.wrong is not None:
        lines.append(Text("\n" + "\n".join(laws_beside(verdict, report.wrong))))
    lines += [*notes, Text("\nTo reproduce it:\n  " + reproduction(verdict))]
    file = plain_file(report)
    if file is not None:
        lines.append(Text("\nThe same by drawing texts, as a Python file:\n\n" + file.rstrip()))
    return Group(*lines)


def plain_file(report: AuditReport) -> str | None:
    """The counterexample as a Python file of its own, see ``snippet``; for replayed code only."""
    from spectr_verify.replay import Verifier  # brings torch, see above

    if report.counterexample is None or not isinstance(report.rule, Verifier):
        return None
    return snippet(report.counterexample, report.rule, report.wrong)


def reproduction(verdict: Verdict) -> str:
    """The command that judges the same rule on the same pair, in the same number format and with the same tolerance."""
    from spectr_verify.audit.verdict import TOLERANCE  # brings torch, see above
    from spectr_verify.replay import Verifier

    rule, options = verdict.rule, ["--pairs", verdict.instance.as_json()]
    if isinstance(rule, Verifier):
        options = ["--calls", rule.calls, *options]
        for argument in rule.arguments.expressions.items():
            options += ["--arg", "=".join(argument)]
        if rule.temperature != 1:
            options += ["--temperature", repr(rule.temperature)]
    form = str(verdict.dtype).removeprefix("torch.")
    if form != "float64":
        options += ["--dtype", form]
    if verdict.tolerance not in TOLERANCE.values():
        options += ["--tolerance", repr(verdict.tolerance)]
    return shlex.join(["spectr-verify", "audit", rule.name, *options])


def gallery_table(rows: Iterable[GalleryRow]) -> Table:
    """One row a fault, then one a correct rule."""
    table = _table(
        "planted faults and correct rules", "name", "calls", "verdict", "what goes wrong, and how it was seen"
    )
    for row in rows:
        word = Text(row.word, style="bold green" if row.right else "bold red")
        what = Text.assemble(row.fault.says, ("\n" + row.evidence, "dim")) if row.evidence else Text(row.fault.says)
        table.add_row(Text(row.fault.name), row.fault.calls, word, what)
    return table


def _table(title: str, *columns: str) -> Table:
    """A table without boxes; a column called ">name" is set to the right, and only the longest texts wrap."""
    table = Table(title=Text(title), box=SIMPLE_HEAD, title_justify="left", caption_justify="left", pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if right else "left", no_wrap="what" not in column)
    return table


def _name(name: str) -> Text:
    """A name of anybody's, cut where it would push the other columns out."""
    return Text(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…")


def _yes_no(value: bool | None) -> Text:
    if value is None:
        return Text("?")
    return Text("yes", style="green") if value else Text("no", style="red")
