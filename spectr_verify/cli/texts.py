"""Commands that write text with real models: mc, generate."""

from __future__ import annotations

from typing import Annotated

import typer

from spectr_verify.cli.inputs import files_of, prompts_of, rule_of, seed_everything
from spectr_verify.cli.options import Called, DraftLength, Filtering, Json, Models, NumDrafts, TextSeed, grouped
from spectr_verify.cli.output import console_for, keep, progress_line, write
from spectr_verify.cli.status import STATUS_BROKEN, Biased, Interrupted


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
    reference_dtype: Annotated[
        str, typer.Option(help="Number format of the independent call: float32 or float64.")
    ] = "float32",
    alpha: Annotated[float, typer.Option(help="Probability at which each test rejects a lossless rule.")] = 1e-3,
    power: Annotated[bool, typer.Option("--power", help="Run planted faults too, which must be rejected.")] = False,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Test on real models that decoded text follows the target. Status 0: no fault found, 1: not lossless.

    An e-value over texts of fixed length, which may be looked at all the time: the run ends when it reaches 1/alpha.
    With --power the status is 70 if a planted fault is missed. Ctrl-C ends a run with what it has, and status 130.
    """
    keep([*files_of([rule]), prompts, models.target, models.draft], json_file)
    import torch

    from spectr_verify.decoding import DTYPES, ModelError
    from spectr_verify.montecarlo import Reference, Settings, monte_carlo
    from spectr_verify.montecarlo import power as planted
    from spectr_verify.montecarlo.score import full_precision
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
    formats = [name for name, dtype in DTYPES.items() if full_precision(dtype)]
    if reference_dtype not in formats:
        raise ModelError(
            f"the number format of the independent call is {reference_dtype!r}; it must be one of {', '.join(formats)}"
        )
    console = console_for(json_file, soft_wrap=True)
    seed_everything(seed)
    found = []
    with progress_line() as progress:
        progress("loading the models")
        pair = models.load()
        reference = Reference(pair, filters, getattr(torch, reference_dtype))
        asked = pair.encode(prompt or prompts_of(prompts))
        faults = planted(pair, asked, settings, reference=reference, progress=progress) if power else iter(())
        report = monte_carlo(pair, subject, asked, settings, reference=reference, progress=progress)
        for fault, outcome in faults if report.ended != "interrupted" else ():
            found.append((fault, outcome))
            if outcome.ended == "interrupted":
                break
    console.print(monte_carlo_text(report))
    if found:
        console.print("")
        console.print(power_table(found))
    content = report.to_json() | {
        "models": {"target": pair.names[0], "draft": pair.names[1], "dtype": models.dtype, "device": models.device},
        "calls": calls.value,
        "arguments": arg or [],
        "prompts": prompt or prompts,
        "power": [{"says": fault.says, **outcome.to_json()} for fault, outcome in found],
    }
    write(json_file, "mc", content)
    if "interrupted" in (report.ended, *(outcome.ended for _, outcome in found)):
        raise Interrupted
    if report.lossless_rejected or report.end_to_end_rejected:
        raise Biased
    if any(outcome.log10_e < outcome.settings["enough"] for _, outcome in found):
        raise SystemExit(STATUS_BROKEN)


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

    keep([*files_of([rule]), models.target, models.draft], json_file)
    chosen = rule_of(rule, "generate")
    with progress_line() as progress:
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
    console = console_for(json_file, soft_wrap=True)
    console.print(decoded_text(prompt, pieces, chosen.used_drafts(drafts), legend=console.is_terminal))
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
    write(json_file, "generate", content)
