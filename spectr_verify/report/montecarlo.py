"""Monte Carlo runs and decoded texts in the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from spectr_verify.decoding import Texts
    from spectr_verify.montecarlo import AcceptedLength, EndToEnd, MonteCarloReport, PlantedFault

DRAFT_COLOURS = ("green", "cyan", "blue", "magenta", "bright_green", "bright_cyan", "bright_blue", "bright_magenta")
CORRECTION_STYLE = "bold red"
BONUS_STYLE = "bold yellow"

WEAK = 0.25
"""A share of the draft that stays possible and is so large that the run says little."""


def monte_carlo_text(report: MonteCarloReport) -> RenderableType:
    """The verdict of a run and what it rests on."""
    reasons = report.reasons or report.end_to_end_reasons
    lines = [_verdict(report), *(Text(f"- {reason}") for reason in reasons), Text("")]
    return Group(*lines, _evidence(report))


def _verdict(report: MonteCarloReport) -> Text:
    rejected = report.lossless_rejected or report.end_to_end_rejected
    share = report.effect_upper_bound
    found = "no fault found" if share is not None and share <= WEAK else "no fault found, and hardly any could be"
    words = "NOT lossless" if report.lossless_rejected else found if report.texts else "nothing judged"
    if rejected and not report.lossless_rejected:
        end = report.end_to_end
        words = "the text follows the laws that the rule is told, and those are not the models' own"
        if not end.impossible and end.log10_e < report.threshold:
            words = "the text follows the target, but the accepted length is not what the models' own laws give"
    asked = report.settings
    sizes = f"K = {asked['drafts']}, L = {asked['length']}, temperature {asked['filters']['temperature']:g}"
    how = {"e-value": "the evidence was enough", "texts": "all texts written", "seconds": "time was up"}
    ended = how.get(report.ended, report.ended)
    return Text.assemble(
        (f"{report.rule}: {words}", "bold red" if rejected else "bold green"),
        f", {report.tokens:,} tokens in {report.texts:,} texts ({sizes}; seed {asked['seed']}; {ended})",
    )


def _evidence(report: MonteCarloReport) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    end, evidence = report.end_to_end, f"log10 e = {_number(report.log10_e)} (rejects from {report.threshold:.2f} on)"
    if report.log10_e > 0:
        evidence += f"; it comes from: {report.worst_alternative}"
    table.add_row("e-value", evidence)
    if not report.lossless_rejected:
        table.add_row("still possible", _still_possible(report))
    table.add_row("end to end", _end_to_end(end))
    first = report.first_token
    if first is None:
        table.add_row("first token", "too few draws after each prompt to tell anything")
    else:
        table.add_row("first token", f"p = {first.p:.4f}, {first.draws:,} draws, prompts: {first.prompts}")
    if report.accepted is not None:
        table.add_row("accepted", _accepted(report.accepted))
    if end.judged and end.accepted is not None and end.accepted.log10_e >= report.threshold:
        table.add_row("", f"{_accepted(end.accepted)} of the {end.dtype} call")
    seconds = report.seconds
    efficiency = f"{report.block_efficiency:.3f} tokens a round"
    if report.acceptance_rate is not None:
        efficiency += f", {report.acceptance_rate:.1%} of drafted positions accepted"
    table.add_row("efficiency", efficiency)
    table.add_row(
        "time",
        f"{report.tokens_per_second:,.0f} tokens a second; draft {seconds.draft:.1f} s, target {seconds.target:.1f} s, "
        f"rule {seconds.verify:.1f} s, tests {report.scoring:.1f} s",
    )
    return table


def _still_possible(report: MonteCarloReport) -> str:
    share = report.effect_upper_bound
    if share is None:
        return "no share of the draft in the target's text explains the texts"
    weak = "; these models and texts can hardly show a fault" if share > WEAK else ""
    confidence = f"confidence {100 * (1 - report.alpha):.10g}%"
    return f"at most {share:.2%} of the output comes from the draft instead ({confidence}){weak}"


def _end_to_end(end: EndToEnd) -> str:
    edge = f"; {end.edge} tokens are left out, as rounding decides there" if end.edge else ""
    if end.numerical is None:
        return f"a step's own laws are not known: all tests take an independent call's{edge}"
    against = f"log10 e = {_number(end.log10_e)} against a {end.dtype} call, {end.numerical:.1e} apart per token"
    if end.impossible:
        against += f", which has {end.impossible} tokens at zero"
    against += edge
    return against if end.judged else f"{against} (another number format: nothing is rejected for that)"


def _accepted(found: AcceptedLength) -> str:
    should = "by the closed form" if found.exact else "at most, whatever the rule"
    return (
        f"{found.measured:.4f} draft tokens a round, {found.expected:.4f} {should} "
        f"(difference {found.measured - found.expected:+.4f} ± {found.error:.4f}, log10 e = {found.log10_e:.2f})"
    )


def _number(log10_e: float) -> str:
    return "infinite" if math.isinf(log10_e) else f"{log10_e:.2f}"


def power_table(found: list[tuple[PlantedFault, MonteCarloReport]]) -> Table:
    """Planted faults, and how soon each was rejected."""
    asked = found[0][1].settings
    needed = asked["enough"]
    title = f"planted faults at K = {asked['drafts']}, L = {asked['length']}: rejected from log10 e = {needed:g} on"
    table = Table(box=SIMPLE_HEAD, title=title, title_style="bold", title_justify="left", show_edge=False)
    for column in ("fault", "verdict", "log10 e", "tokens", "what is wrong"):
        table.add_column(column, justify="right" if column in ("log10 e", "tokens") else "left")
    for fault, report in found:
        caught = report.log10_e >= needed
        word = Text("rejected", "green") if caught else Text("MISSED", "bold red")
        if not caught and report.ended == "interrupted":
            word = Text("interrupted")
        table.add_row(fault.rule.name, word, _number(report.log10_e), f"{report.tokens:,}", fault.says)
    return table


def decoded_text(prompt: str, pieces: list[tuple[str, int]], drafts: int, *, legend: bool = True) -> Text:
    """A text with its tokens coloured by where they came from.

    Args:
        prompt: what it goes on from.
        pieces: tokens as text, and the source of each as in ``Texts.source``.
        drafts: K.
        legend: whether to say what the colours mean; without colours they mean nothing.
    """
    text = Text.assemble((prompt, "dim"))
    for piece, source in pieces:
        text.append(piece, style_of(source))
    if not legend:
        return text.append("\n")
    names = [(f"draft {k}", k) for k in range(drafts)] + [("correction", -1), ("bonus", -2)]
    text.append("\n\n")
    for number, (name, source) in enumerate(names):
        text.append(", " if number else "").append(name, style_of(source))
    return text


def style_of(source: int) -> str:
    """The style of a token by its source."""
    if source >= 0:
        return DRAFT_COLOURS[source % len(DRAFT_COLOURS)]
    return CORRECTION_STYLE if source == -1 else BONUS_STYLE


def rounds_table(texts: Texts, decode: Any) -> Table:
    """The rounds of the first text: which draft was taken, what of it, and the token behind it."""
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for column in ("round", "from", "accepted", "text of the accepted tokens", "then", "token"):
        table.add_column(column)
    tokens = texts.tokens[0].tolist()
    sources = texts.source[0].tolist()
    starts = [start for start in texts.starts[0].tolist() if start >= 0]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(tokens)], strict=True)):
        part = [(token, source) for token, source in zip(tokens, sources, strict=True)][start:end]
        kept = [(token, source) for token, source in part if token >= 0 and source >= 0]
        extra = [(token, source) for token, source in part if token >= 0 and source < 0]
        table.add_row(
            str(number + 1),
            f"draft {kept[0][1]}" if kept else "-",
            f"{int(texts.accepted[0, number])} of {int(texts.drafted[number])}",
            Text(repr(decode([token for token, _ in kept])) if kept else "", style_of(kept[0][1]) if kept else ""),
            {-1: "correction", -2: "bonus"}[extra[0][1]] if extra else "-",
            Text(repr(decode([extra[0][0]])) if extra else "", style_of(extra[0][1]) if extra else ""),
        )
    return table
