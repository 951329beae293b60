"""The command line. Every command imports what it needs when it runs, so that the light ones answer at once."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from spectr_verify import __version__
from spectr_verify.errors import InputError, said
from spectr_verify.options import (
    DraftLength,
    Filtering,
    FurtherCost,
    Models,
    NumDrafts,
    Overhead,
    TextSeed,
    Truncation,
    grouped,
    numbers,
    said_by_user,
)
from toy_models import TableError, read_pairs
from toy_models.files import replace_file

if TYPE_CHECKING:
    from spectr_verify.audit import Instance
    from spectr_verify.exact import Limits
    from spectr_verify.rules import Rule
    from spectr_verify.simulate import Corpus, Settings, Sweep, TimeModel, TokenLogs
    from toy_models import ToyPair

app = typer.Typer(
    help="Acceptance rules for speculative decoding: exact laws, bounds, audits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

STATUS_BIASED = 1
STATUS_REFUSED = 2
STATUS_UNDECIDED = 3
STATUS_BROKEN = 70
STATUS_INTERRUPTED = 130

NARROW = 110
"""Terminals of fewer columns get a comparison without the columns that can be spared."""


class Format(StrEnum):
    """Number formats a rule can be judged in."""

    float64 = "float64"
    float32 = "float32"


class Called(StrEnum):
    """How a function under test is called."""

    round = "round"
    probabilities = "probabilities"
    step = "step"


class RuleClass(StrEnum):
    """Which class of rules an optimum is of."""

    stateless = "stateless"
    stateful = "stateful"
    both = "both"


STANDARD_OUTPUT = Path("-")


def _writable(path: Path | None) -> Path | None:
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


def _writable_as(*endings: str) -> Callable[[Path | None], Path | None]:
    """Refuse a name that does not say in which format to write, too."""

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix not in endings:
            raise typer.BadParameter(f"{path}: the name must end in {' or '.join(endings)}")
        return _writable(path)

    return check


Plot = Annotated[
    Path | None,
    typer.Option(callback=_writable_as(".png", ".svg"), help="Draw efficiency and speed-up: .png or .svg."),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_writable, help="Write the result as JSON; - for standard output."),
]
Seed = Annotated[int, typer.Option(help="Draws the built-in families and the search; the same seed, the same result.")]
Pairs = Annotated[
    list[str] | None,
    typer.Option("--pairs", metavar="FILE", help="Pairs to judge on, a JSON file or JSON text; may be repeated."),
]
Drafts = Annotated[int | None, typer.Option(min=1, help="K, drafts a round, for pairs that do not state their own.")]
Length = Annotated[int | None, typer.Option(min=1, help="L, tokens a draft, for pairs that do not state their own.")]
Dtype = Annotated[Format, typer.Option(help="Number format of the laws that the rule sees.")]
Tolerance = Annotated[
    float | None, typer.Option(min=0.0, help="Largest error that counts as rounding; by default 1e-9, in float32 1e-5.")
]
MaxTuples = Annotated[int | None, typer.Option(min=1, help="Most draft tuples in one law, counted before it runs.")]
MaxWorlds = Annotated[int | None, typer.Option(min=1, help="Most worlds (draft tuples x random choices) in one law.")]
MaxTexts = Annotated[int | None, typer.Option(min=1, help="Most texts in one law.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Acceptance rules for speculative decoding: exact laws, bounds, audits."""


class Biased(Exception):  # noqa: N818 - a verdict, not an error
    """An audit's verdict on its way to the exit status, which nothing else may use."""


class Undecided(Exception):  # noqa: N818 - no verdict, and no error
    """An audit that a bound ended, on its way to the exit status."""


class Interrupted(Exception):  # noqa: N818 - asked for by the user
    """A run that was interrupted and has told what it has, on its way to the exit status."""


@app.command()
def rules(json_file: Json = None) -> None:
    """List the register of acceptance rules."""
    from spectr_verify.report.tables import rules_table
    from spectr_verify.rules import RULES

    _console(json_file).print(rules_table(RULES.values()))
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
    _write(json_file, "rules", {"rows": listed})


@app.command()
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
    _keep(pairs, json_file)
    from spectr_verify.audit import compare as run_compare
    from spectr_verify.report.tables import compare_table
    from spectr_verify.rules import RULES
    from spectr_verify.rules.load import load_rule

    with _progress() as progress:
        verdicts = run_compare(
            [load_rule(name) for name in dict.fromkeys(rule or RULES)],
            _instances(pairs, drafts, length, seed),
            rounds=rounds,
            dtype=_dtype(dtype),
            tolerance=tolerance,
            limits=_limits(max_tuples, max_worlds, max_texts),
            progress=progress,
        )
    console = _console(json_file)
    console.print(compare_table(verdicts, narrow=console.width < NARROW))
    settings = {"seed": seed, "rounds": rounds, "dtype": dtype.value, "tolerance": verdicts[0].tolerance}
    _write(json_file, "compare", {**settings, "rows": [verdict.to_json() for verdict in verdicts]})


@app.command()
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
            "--python", metavar="FILE", callback=_writable, help="Write the counterexample's Python file there."
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
    for written in (json_file, python_file):
        _keep([*(pairs or ()), target.rpartition(":")[0]], written)
    from hypothesis.configuration import set_hypothesis_home_dir

    from spectr_verify.audit import audit as run_audit
    from spectr_verify.replay import Arguments, Budget, load_verifier
    from spectr_verify.report.tables import audit_text, plain_file, reproduction

    # Hypothesis keeps files of its own, which have no business in the user's folder.
    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "spectr-verify-hypothesis")
    with _progress() as progress:
        report = run_audit(
            load_verifier(
                target,
                calls.value,
                arguments=Arguments.parse(arg or []),
                temperature=temperature,
                budget=Budget(max_paths, max_seconds),
            ),
            instances=_instances(pairs, drafts, length, seed, replayed=calls is not Called.round) if pairs else None,
            tokens=tokens,
            length=length,
            drafts=drafts,
            seed=seed,
            max_examples=examples,
            edges=edge_coins,
            dtype=_dtype(dtype),
            tolerance=tolerance,
            limits=_limits(max_tuples, max_worlds, max_texts),
            progress=progress,
        )
    _console(json_file, soft_wrap=True).print(audit_text(report))
    found = report.counterexample
    if python_file is not None and (source := plain_file(report)) is not None:
        _write_text(python_file, source)
    _write(
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


@app.command()
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

    with _progress() as progress:
        rows = run_gallery(seed=seed, quick=quick, progress=progress)
    console = _console(json_file)
    console.print(gallery_table(rows))
    faults = [row for row in rows if row.planted]
    caught, flagged = sum(row.right for row in faults), sum(not row.right for row in rows if not row.planted)
    console.print(
        f"{caught} of {len(faults)} planted faults caught, {flagged} of {len(rows) - len(faults)} correct rules flagged"
    )
    _write(json_file, "gallery", {"seed": seed, "quick": quick, "rows": [row.to_json() for row in rows]})
    if not all(row.right for row in rows):
        raise SystemExit(STATUS_BROKEN)


@app.command()
@grouped
def mc(
    *,
    rule: Annotated[
        str, typer.Option(help="A registered name, module:function or file.py:function; see --calls.")
    ] = "block-race",
    calls: Annotated[
        Called, typer.Option(help="How a function is called, as for `audit`; it runs as it is, not replayed.")
    ] = Called.round,
    arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME=EXPRESSION", help="An argument of the function, as for `audit`.")
    ] = None,
    models: Models,
    drafts: Annotated[
        int | None, typer.Option(min=1, help="K, drafts a round: 3, or 1 with --calls probabilities or step.")
    ] = None,
    length: DraftLength = 4,
    filtering: Filtering,
    texts: Annotated[int, typer.Option(min=1, help="Most texts.")] = 2_000,
    tokens: Annotated[int, typer.Option(min=1, help="N, tokens of each text.")] = 24,
    prompts: Annotated[
        str, typer.Option(help="A set (code, arithmetic, multilingual, news, instructions) or a file, --- between two.")
    ] = "code",
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt of your own, instead; may be repeated.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts that are decoded together.")] = 200,
    seconds: Annotated[
        float | None,
        typer.Option(help="Seconds after which no further batch begins, for the rule and for every fault."),
    ] = None,
    reference_dtype: Annotated[str, typer.Option(help="Number format of the independent call.")] = "float32",
    alpha: Annotated[float, typer.Option(help="Probability at which each test rejects a lossless rule.")] = 1e-3,
    power: Annotated[bool, typer.Option("--power", help="Run planted faults too, which must be rejected.")] = False,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Test on real models that decoded text follows the target. Status 0: no fault found, 1: not lossless.

    An e-value over texts of fixed length, which may be looked at all the time: the run ends when it reaches 1/alpha.
    With --power the status is 70 if a planted fault is missed. Ctrl-C ends a run with what it has, and status 130.
    """
    _keep([rule.rpartition(":")[0], prompts], json_file)
    import torch

    from spectr_verify.decoding import DTYPES, ModelError
    from spectr_verify.montecarlo import Reference, Settings, monte_carlo
    from spectr_verify.montecarlo import power as planted
    from spectr_verify.montecarlo.run import POWER
    from spectr_verify.replay import Arguments, load_verifier
    from spectr_verify.report.montecarlo import monte_carlo_text, power_table

    filters = filtering.filters()
    drafts = drafts or (3 if calls is Called.round else 1)
    settings = Settings(drafts, length, tokens, texts, filters, alpha, seed, batch, seconds)
    subject = load_verifier(
        rule,
        calls.value,
        arguments=Arguments.parse(arg or []),
        temperature=filtering.temperature if calls is Called.step else 1.0,
    )
    if power and filtering.temperature == 0:
        raise InputError("at temperature 0 most planted faults write what they should; ask for --power at another one")
    if reference_dtype not in DTYPES:
        raise ModelError(f"the number format is {reference_dtype!r}; it must be one of {', '.join(DTYPES)}")
    console = _console(json_file, soft_wrap=True)
    _seed_everything(seed)
    found = []
    with _progress() as progress:
        progress("loading the models")
        pair = models.load()
        reference = Reference(pair, filters, getattr(torch, reference_dtype))
        asked = pair.encode(prompt or _prompts(prompts))
        report = monte_carlo(pair, subject, asked, settings, reference=reference, progress=progress)
        interrupted = report.ended == "interrupted"
        if power and not interrupted:
            for fault, outcome in planted(pair, asked, settings, reference=reference, progress=progress):
                found.append((fault, outcome))
                interrupted = outcome.ended == "interrupted"
                if interrupted:
                    break
    console.print(monte_carlo_text(report))
    if found:
        console.print("")
        console.print(power_table(found, POWER))
    content = report.to_json() | {
        "models": {"target": pair.names[0], "draft": pair.names[1], "dtype": models.dtype, "device": models.device},
        "calls": calls.value,
        "arguments": arg or [],
        "prompts": prompt or prompts,
        "power": [{"says": fault.says, **outcome.to_json()} for fault, outcome in found],
    }
    _write(json_file, "mc", content)
    if interrupted:
        raise Interrupted
    if report.lossless_rejected or report.end_to_end_rejected:
        raise Biased
    if any(outcome.log10_e < POWER for _, outcome in found):
        raise SystemExit(STATUS_BROKEN)


def _seed_everything(seed: int) -> None:
    """Seed the generators that code under test may draw from."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the code under test may draw from it
    torch.manual_seed(seed)


def _prompts(source: str) -> tuple[str, ...]:
    """The prompts of a set or a file."""
    from toy_models.prompts import SEPARATOR, prompt_sets, prompts

    if source in prompt_sets():
        return prompts(source)
    try:
        return tuple(Path(source).read_text(encoding="utf-8").removesuffix("\n").split(SEPARATOR))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{source!r} is no prompt set ({', '.join(prompt_sets())}) and no file that can be read: {said(error)}"
        ) from error


@app.command()
@grouped
def generate(
    *,
    prompt: Annotated[str, typer.Argument(help="What the text goes on from.")] = "def read(path):\n",
    rule: Annotated[str, typer.Option(help="A registered name, module:function or file.py:function.")] = "block-race",
    models: Models,
    drafts: NumDrafts = 3,
    length: DraftLength = 4,
    tokens: Annotated[int, typer.Option(min=1, help="N, the most tokens to write.")] = 64,
    filtering: Filtering,
    rounds: Annotated[bool, typer.Option("--rounds", help="List the rounds as well.")] = False,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Write a text with a rule, coloured by where each token came from: a draft, a correction, or a bonus."""
    import torch

    from spectr_verify.decoding import decode
    from spectr_verify.report.montecarlo import decoded_text, rounds_table
    from spectr_verify.rules.load import load_rule

    chosen = load_rule(rule)
    with _progress() as progress:
        progress("loading the models")
        pair = models.load()
        texts = decode(
            pair,
            chosen,
            pair.encode([prompt]),
            tokens=tokens,
            drafts=drafts,
            length=length,
            filters=filtering.filters(),
            generator=torch.Generator(device=pair.device).manual_seed(seed),
        )
    written = texts.tokens[0, : int(texts.lengths[0])].tolist()
    pieces = list(zip(pair.pieces(written), texts.source[0].tolist(), strict=False))
    console = _console(json_file, soft_wrap=True)
    console.print(decoded_text(prompt, pieces, chosen.used_drafts(drafts)))
    if rounds:
        console.print(rounds_table(texts, pair.tokenizer.decode))
    efficiency = len(written) / texts.rounds
    console.print(
        f"{len(written)} tokens in {texts.rounds} rounds, {efficiency:.2f} a round; {chosen.name}, seed {seed}"
    )
    content = {
        "rule": chosen.name,
        "prompt": prompt,
        "text": pair.tokenizer.decode(written),
        "tokens": written,
        "source": texts.source[0, : len(written)].tolist(),
        "rounds": [
            {"start": start, "accepted": accepted, "drafted": drafted}
            for start, accepted, drafted in zip(
                texts.starts[0].tolist(), texts.accepted[0].tolist(), texts.drafted.tolist(), strict=True
            )
        ],
        "seed": seed,
    }
    _write(json_file, "generate", content)


@dataclass(frozen=True)
class Costs:
    """The time model that speed-ups are modelled with."""

    draft_cost: Annotated[
        float | None,
        typer.Option(help="A draft step, in target calls; by default what `simulate` measures of models, else 0.05."),
    ] = None
    further_cost: FurtherCost = 0.0
    overhead: Overhead = 0.0

    def model(self) -> TimeModel:
        """As ``what-if`` takes it: the usual cost of a draft step where nobody says otherwise."""
        from spectr_verify.simulate import TimeModel

        return TimeModel(
            TimeModel.draft if self.draft_cost is None else self.draft_cost, self.further_cost, self.overhead
        )

    def given(self, context: typer.Context) -> TimeModel | None:
        """As ``simulate`` takes it; ``None``: costs are measured."""
        if self.draft_cost is not None:
            return self.model()
        for option in said_by_user(context, {"further_cost", "overhead"}):
            raise InputError(f"{option} goes with --draft-cost, without which all costs are measured: give that too")
        return None


FOR_FILES = {"max_drafts", "max_length", "draft_cost", "further_cost", "overhead", "save", "plot", "json_file", "file"}
"""What ``what-if`` can be told about texts that are there; all else says how they are written."""


@app.command(name="what-if")
@grouped
def what_if(
    *,
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(help="Log-probabilities of text of the target: .npz, .safetensors, .parquet or .jsonl."),
    ] = None,
    models: Models,
    max_drafts: Annotated[int, typer.Option("--drafts", min=1, help="The largest K.")] = 7,
    max_length: Annotated[int, typer.Option("--length", min=1, help="The largest L.")] = 12,
    costs: Costs,
    filtering: Filtering,
    texts: Annotated[int, typer.Option(min=2, help="Without FILE: how many texts the target writes.")] = 400,
    tokens: Annotated[int, typer.Option(min=1, help="Without FILE: tokens of each.")] = 48,
    prompts: Annotated[str, typer.Option(help="Without FILE: a set of prompts or a file, as for `mc`.")] = "code",
    save: Annotated[
        Path | None,
        typer.Option(callback=_writable_as(".npz", ".jsonl"), help="Write the log-probabilities: .npz or .jsonl."),
    ] = None,
    plot: Plot = None,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Estimate tokens a round and speed-up for all K and L at once, from text that the target wrote.

    FILE has the log-probabilities that both models give to the tokens; without one the target writes text here.
    """
    for written in (json_file, save, plot):
        _keep([file or prompts], written)
    _fits(context, file, tokens, max_length)
    from spectr_verify.report.what_if import draw, what_if_tables
    from spectr_verify.simulate import read_logs, write_logs
    from spectr_verify.simulate import what_if as estimate

    time = costs.model()
    if file is not None:
        logs, source = read_logs(Path(file)), {"kind": "file", "file": file}
    else:
        logs, source = _written_here(models, filtering, prompts, texts=texts, tokens=tokens, seed=seed)
    if save is not None:
        write_logs(logs, save)
    found = estimate(logs, drafts=max_drafts, length=max_length)
    _console(json_file).print(what_if_tables(found, time))
    _write(json_file, "what-if", found.to_json(time, source))
    if plot is not None:
        draw(found, time, plot)


def _fits(context: typer.Context, file: str | None, tokens: int, length: int) -> None:
    """Refuse options that a file has decided already, and texts that no draft fits into."""
    if file is None and tokens < length:
        raise InputError(
            f"a text of {tokens} tokens is shorter than a draft of {length}; ask for longer texts or shorter drafts"
        )
    for option in said_by_user(context, context.params.keys() - FOR_FILES) if file is not None else ():
        raise InputError(f"{option} says how texts are written, and those of {file} are written already: leave it out")


def _written_here(
    models: Models, filtering: Filtering, prompts: str, *, texts: int, tokens: int, seed: int
) -> tuple[TokenLogs, dict[str, Any]]:
    """Texts that the target writes, scored, and what they are of."""
    from spectr_verify.simulate import model_corpus, target_logs

    filters, asked = filtering.filters(), _prompts(prompts)
    with _progress() as progress:
        progress("loading the models")
        pair = models.load()
        corpus = model_corpus(pair, prompts, asked)
        begins = [start.prompt for start in corpus.starts]
        logs = target_logs(pair, begins, texts=texts, tokens=tokens, filters=filters, seed=seed, progress=progress)
    return logs, {**corpus.source, "texts": texts, "tokens": tokens, **vars(filters), "seed": seed}


FOR_MODELS = {"target", "draft", "device", "dtype", "prompts"}
"""What ``simulate`` can be told about models; laws that stand in for them have none of it."""

FOR_TEXTS = {"tokens"}
"""What it can be told about texts of several rounds; over tables every text is one."""

PAPER = (
    "token",
    "block",
    "k-seq",
    "greedy-block",
    "spectr-gbv-published",
    "spectr-gbv-released",
    "block-race",
    "tournament-block",
    "tournament-greedy-block",
    "ironed-tournament-block",
    "ironed-tournament-greedy-block",
    "optimal-token",
)
"""The rules of the SpecTr-GBV paper's table, and those that came after."""

USUAL = {"--drafts": 3, "--length": 4}
"""K and L where nobody says otherwise."""


@dataclass(frozen=True)
class Laws:
    """What stands in for models."""

    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pairs", metavar="FILE", help="Laws instead of models: a file of pairs, or recorded; may be repeated."
        ),
    ] = None
    overlap: Annotated[
        str | None, typer.Option(help="A synthetic pair instead, whose laws overlap so much; several as in 0.9,0.6.")
    ] = None
    vocab: Annotated[int, typer.Option(help="With --overlap: tokens of its vocabulary.")] = 32_000

    @property
    def option(self) -> str | None:
        """The one that was given, or ``None`` where models decode."""
        return "--pairs" if self.pairs is not None else "--overlap" if self.overlap is not None else None

    def check(self, context: typer.Context) -> None:
        """Refuse options that are about something else."""
        if self.option is None:
            for option in said_by_user(context, {"vocab"}):
                raise InputError(f"{option} goes with --overlap, the synthetic pairs: give that too, or leave it out")
            return
        others = FOR_MODELS if self.pairs is None else FOR_MODELS | FOR_TEXTS | {"overlap", "vocab"}
        for option in said_by_user(context, others):
            raise InputError(f"{option} does not go with {self.option}: leave it out")

    def read(self) -> dict[str, list[ToyPair]]:
        """The pairs of every file."""
        from toy_models import recorded_pairs

        return {
            # A file's name, or what stands for JSON text.
            "pairs" if source.lstrip().startswith(("{", "[")) else source: (
                recorded_pairs() if source == "recorded" else read_pairs(source)
            )
            for source in self.pairs or ()
        }


@dataclass(frozen=True)
class Amount:
    """How much is decoded."""

    texts: Annotated[
        int | None,
        typer.Option(min=1, help="Texts after each prompt: 1 of models, 2,000 of pairs, 8 of synthetic ones."),
    ] = None
    tokens: Annotated[int, typer.Option(min=1, help="N, the most tokens of each.")] = 48
    batch: Annotated[
        int | None, typer.Option(min=1, help="Texts of a prompt that are decoded together: 1 of models, else all.")
    ] = None
    samples: Annotated[
        int, typer.Option(min=0, help="Texts a prompt that level bounds are estimated from; 0: no bounds.")
    ] = 64

    def settings(self, laws: Laws, truncation: Truncation, seed: int) -> Settings:
        """The same for a sweep."""
        from spectr_verify.simulate import Settings

        texts = self.texts or {"--pairs": 2_000, "--overlap": 8, None: 1}[laws.option]
        batch = self.batch or (1 if laws.option is None else texts)
        return Settings(texts, self.tokens, batch, **vars(truncation), samples=self.samples, seed=seed)


@app.command()
@grouped
def simulate(
    *,
    context: typer.Context,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="NAME",
            help="A registered name, or module:function or file.py:function of (round, chance); may be repeated. "
            "Functions that are called otherwise: `mc --calls`.",
        ),
    ] = None,
    drafts: Annotated[
        str | None, typer.Option(help="K, drafts a round: 3, or what pairs state; several as in 1,3,7.")
    ] = None,
    length: Annotated[
        str | None, typer.Option(help="L, tokens a draft: 4, or what pairs state; several as in 1,2,4,8.")
    ] = None,
    temperature: Annotated[str, typer.Option(help="Of both models' laws; several as in 0.1,0.4,1.")] = "1",
    prompts: Annotated[
        str,
        typer.Option(
            help="A set (code, arithmetic, multilingual, news, instructions) or a file; several as in code,news."
        ),
    ] = "code",
    models: Models,
    laws: Laws,
    truncation: Truncation,
    amount: Amount,
    costs: Costs,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", "--log", callback=_writable_as(".jsonl"), help="Keep finished cells there, and go on from them."
        ),
    ] = None,
    plot: Plot = None,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Decode and count: tokens a round, speed-up and time of every rule, for all K, L, temperatures and prompts.

    Ctrl-C ends a sweep with what it has, and status 130; with --resume the same command goes on from there.
    """
    for written in (json_file, resume, plot):
        _keep([*prompts.split(","), *(laws.pairs or ()), *(name.rpartition(":")[0] for name in rule or ())], written)
    if resume is not None and json_file is not None and resume.resolve() == json_file.resolve():
        raise InputError(f"{resume} is to hold the finished cells; write the result to another file")
    time = costs.given(context)
    laws.check(context)
    from spectr_verify.simulate import Axes, sweep

    settings, pairs = amount.settings(laws, truncation, seed), laws.read()
    every_pair = [pair for several in pairs.values() for pair in several]
    all_drafts, about_drafts = _sizes("--drafts", drafts, [pair.drafts for pair in every_pair])
    all_lengths, about_lengths = _sizes("--length", length, [pair.length for pair in every_pair])
    temperatures = numbers(temperature, "--temperature", float)
    axes = Axes([_swept_rule(name) for name in rule or PAPER], all_drafts, all_lengths, temperatures)
    _seed_everything(seed)
    with _progress() as progress:
        progress("loading the models")
        corpora = _corpora(models, prompts, laws, pairs, seed)
        found = sweep(corpora, axes, settings, log=resume, progress=progress)
    found.notes.extend([*about_drafts, *about_lengths])
    _tell(found, time, resume, plot, json_file)


def _tell(found: Sweep, time: TimeModel | None, resume: Path | None, plot: Path | None, json_file: Path | None) -> None:
    """Print, write and draw what a sweep found."""
    from spectr_verify.report.simulate import simulate_tables
    from spectr_verify.report.simulate_plots import draw
    from spectr_verify.simulate import behind_best, differences, to_json

    if not found.outcomes:
        print("interrupted before the first cell was finished: nothing is counted or written", file=sys.stderr)
        raise Interrupted
    compared, behind = differences(found), behind_best(found, time)
    _console(json_file).print(simulate_tables(found, compared, behind, time))
    if found.interrupted and resume is not None:
        print(f"to go on: the same command, with --resume {resume}", file=sys.stderr)
    _write(json_file, "simulate", to_json(found, compared, behind, time))
    if plot is not None:
        draw(found, time, plot)
    if found.interrupted:
        raise Interrupted


def _sizes(option: str, said: str | None, stated: list[int | None]) -> tuple[list[int], list[str]]:
    """What K or L is swept: what was asked for, else all that pairs state, else the usual; and what to say of it."""
    own = sorted({size for size in stated if size is not None})
    values = numbers(said, option, int) if said is not None else own or [USUAL[option]]
    sign, listed = ("K" if option == "--drafts" else "L"), ", ".join(map(str, own))
    if said is not None and own and own != values:
        return values, [f"{option} is taken as it is given; the pairs state {sign} = {listed}."]
    if len(own) > 1:
        return values, [f"The pairs state {sign} = {listed}, and each is taken at all of these; {option} chooses."]
    return values, []


def _swept_rule(name: str) -> Rule:
    """A rule to sweep."""
    from spectr_verify.rules import RuleError
    from spectr_verify.rules.load import load_rule

    try:
        return load_rule(name)
    except RuleError as error:
        if "--calls" not in str(error):
            raise
        raise RuleError(
            f"{error}. `simulate` sweeps rules alone and has no --calls; `mc --calls` decodes with such code and counts"
        ) from error


def _corpora(models: Models, prompts: str, laws: Laws, pairs: dict[str, list[ToyPair]], seed: int) -> list[Corpus]:
    """What is decoded: prompts of models, files of pairs, or synthetic pairs."""
    from spectr_verify.simulate import model_corpus, synthetic_corpus, table_corpus
    from toy_models.synthetic import SyntheticPair

    if laws.pairs is not None:
        return [table_corpus(name, several) for name, several in pairs.items()]
    if laws.overlap is not None:
        shares = numbers(laws.overlap, "--overlap", float)
        return [synthetic_corpus(SyntheticPair(laws.vocab, share, seed)) for share in shares]
    names = prompts.split(",")
    asked = [_prompts(name) for name in names]
    pair = models.load()
    return [model_corpus(pair, name, texts) for name, texts in zip(names, asked, strict=True)]


@app.command()
def bound(
    file: Annotated[str, typer.Argument(help="Pairs: a JSON file or JSON text.")],
    drafts: Drafts = None,
    length: Length = None,
    max_variables: Annotated[int | None, typer.Option(min=1, help="Largest linear program that is solved.")] = None,
    json_file: Json = None,
) -> None:
    """Print every bound on the accepted length, for each pair in a file."""
    _keep([file], json_file)
    from spectr_verify.bounds import MAX_VARIABLES, bounds
    from spectr_verify.report.tables import bounds_table

    console = _console(json_file)
    rows = []
    for where in _instances([file], drafts, length, 0):
        with _progress() as progress:
            progress(f"{where.pair.name}: two linear programs")
            limit = max_variables or MAX_VARIABLES
            found = bounds(where.pair, where.length, where.drafts, max_variables=limit)
        console.print(bounds_table(found))
        rows.append({"vocab": where.pair.vocab, **found.as_dict()})
    _write(json_file, "bound", {"rows": rows})


@app.command()
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
    _keep([file], json_file)
    from spectr_verify.audit import Instance
    from spectr_verify.bounds.rational import certify as find
    from spectr_verify.report.certificates import write_certificates
    from spectr_verify.report.tables import certificates_table

    found = []
    with _progress() as progress, _digits_of_any_number():
        for where in (Instance.of(pair, length=length, drafts=drafts) for pair in read_pairs(file, exact=True)):
            for one in ("stateless", "stateful") if kind is RuleClass.both else (kind.value,):
                progress(f"{where.pair.name}: the {one} optimum in fractions")
                found.append(find(where.pair, where.length, where.drafts, one))
    with _digits_of_any_number():
        _console(json_file).print(certificates_table(found))
        if out is not None:
            write_certificates(out, found)
        _write(json_file, "certify", {"rows": [certificate.to_json() for certificate in found]})


@contextmanager
def _digits_of_any_number() -> Iterator[None]:
    """Laws over many decades have optima of thousands of digits, more than Python writes without being asked."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


@app.command()
def claims(seed: Seed = 0, json_file: Json = None) -> None:
    """Put the claims of the SpecTr-GBV paper to the test, one line each with its evidence."""
    from spectr_verify.audit import judge_claims
    from spectr_verify.report.tables import claims_table

    with _progress() as progress:
        findings = judge_claims(seed, progress)
    _console(json_file).print(claims_table(findings))
    _write(json_file, "claims", {"seed": seed, "rows": [vars(finding) for finding in findings]})


def main() -> None:
    """Run the command line; refusals are printed as one message and end with status 2.

    Status 1 is the verdict "biased" and nothing else: whatever else would end with it ends with another.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that cannot be printed must not hide a verdict
    sys.exit(_status())


def _status() -> int:
    try:
        app()
    except Biased:
        return STATUS_BIASED
    except Undecided:
        return STATUS_UNDECIDED
    except (InputError, TableError) as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"error: {error}", style="red"))
        return STATUS_REFUSED
    except Interrupted:
        return STATUS_INTERRUPTED
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
    print("interrupted: no verdict, and nothing was written", file=sys.stderr)
    return STATUS_INTERRUPTED


def _keep(sources: Iterable[str] | None, json_file: Path | None) -> None:
    """Refuse to write the result over what it is about."""
    for source in sources or ():
        if json_file is not None and os.path.exists(source) and os.path.realpath(source) == os.path.realpath(json_file):
            raise InputError(f"{json_file} is what is judged; write the result to another file")


def _instances(
    sources: Iterable[str] | None, drafts: int | None, length: int | None, seed: int, *, replayed: bool = False
) -> list[Instance]:
    """The pairs of some files, or the built-in suite. Replayed code is handed one draft where nobody says otherwise."""
    from spectr_verify.audit.instance import DRAFTS, LENGTH, Instance, builtin_suite

    if not sources:
        return builtin_suite(seed, length=length or LENGTH, drafts=drafts or DRAFTS)
    drafts = drafts or (1 if replayed else None)
    return [Instance.of(pair, length=length, drafts=drafts) for source in sources for pair in read_pairs(source)]


def _dtype(name: Format) -> Any:
    import torch

    return getattr(torch, name.value)


def _limits(tuples: int | None, worlds: int | None, texts: int | None) -> Limits:
    from spectr_verify.exact import Limits

    given = {"tuples": tuples, "worlds": worlds, "texts": texts}
    return Limits(**{name: limit for name, limit in given.items() if limit is not None})


def _write(path: Path | None, kind: str, content: dict[str, Any]) -> None:
    if path is None:
        return
    header = {"schema": f"spectr-verify/{kind}/1", "version": __version__}
    _write_text(path, json.dumps(header | content, indent=1, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        replace_file(path.resolve(), text)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _console(json_file: Path | None, *, soft_wrap: bool = False) -> Console:
    """Where tables go: standard output, or standard error when that carries the JSON.

    Where that is not a terminal it is wide enough for the tables.
    """
    to_error = json_file == STANDARD_OUTPUT
    stream = sys.stderr if to_error else sys.stdout
    return Console(stderr=to_error, soft_wrap=soft_wrap, width=None if stream.isatty() else 120)


@contextmanager
def _progress() -> Iterator[Any]:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""
    with Console(stderr=True).status("starting") as status:
        yield lambda line: status.update(Text(line))
