"""The command what-if."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectr_verify.cli.inputs import prompts_of
from spectr_verify.cli.options import Costs, Filtering, Json, Models, Plot, TextSeed, grouped, said_by_user
from spectr_verify.cli.output import console_for, keep, progress_line, writable_as, write
from spectr_verify.errors import InputError

if TYPE_CHECKING:
    from spectr_verify.simulate import TokenLogs

FOR_FILES = {"max_drafts", "max_length", "draft_cost", "further_cost", "overhead", "save", "plot", "json_file", "file"}
"""What ``what-if`` can be told about texts that are there; all else says how they are written."""


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
    whole_laws: Annotated[
        bool,
        typer.Option("--whole-laws", help="Without FILE: tournaments and optimal-token too; about a minute more."),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(callback=writable_as(".npz", ".jsonl"), help="Write the log-probabilities: .npz or .jsonl."),
    ] = None,
    plot: Plot = None,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Estimate tokens a round and speed-up for all K and L at once, from text that the target wrote.

    FILE has the log-probabilities that both models give to the tokens; without one the target writes text here.
    """
    keep([file or prompts, models.target, models.draft], json_file, save, plot)
    _fits(context, file, tokens, max_length)
    from spectr_verify.report.what_if import draw, what_if_tables
    from spectr_verify.simulate import read_logs, write_logs
    from spectr_verify.simulate import what_if as estimate

    time = costs.model()
    if file is not None:
        logs, source = read_logs(Path(file)), {"kind": "file", "file": file}
    else:
        sizes = {"texts": texts, "tokens": tokens, "behind": max_length - 1}
        drafts = max_drafts if whole_laws else 0
        logs, source = _written_here(models, filtering, prompts, sizes, seed, drafts)
    if save is not None:
        write_logs(logs, save)
    with progress_line() as progress:
        found = estimate(logs, drafts=max_drafts, length=max_length, progress=progress)
    console_for(json_file).print(what_if_tables(found, time))
    write(json_file, "what-if", found.to_json(time, source))
    if plot is not None:
        draw(found, time, plot)


def _fits(context: typer.Context, file: str | None, tokens: int, length: int) -> None:
    """Refuse options that a file has decided already, and texts that no draft fits into."""
    if file is None and tokens < length:
        raise InputError(
            f"a text of {tokens} tokens is shorter than a draft of {length}; ask for longer texts or shorter drafts"
        )
    if file is not None and context.params["whole_laws"]:
        raise InputError(
            f"--whole-laws needs the probabilities of all tokens at every place, and {file} has those of its texts' "
            "tokens alone: leave it out, or leave out the file and let the target write here"
        )
    for option in said_by_user(context, context.params.keys() - FOR_FILES) if file is not None else ():
        raise InputError(f"{option} says how texts are written, and those of {file} are written already: leave it out")


def _written_here(
    models: Models, filtering: Filtering, prompts: str, sizes: dict[str, int], seed: int, drafts: int
) -> tuple[TokenLogs, dict[str, Any]]:
    """Texts that the target writes, scored, and what they are of; with whole laws, if for so many drafts."""
    from spectr_verify.simulate import model_corpus, target_logs
    from spectr_verify.simulate.pieces import affordable

    filters, asked = filtering.filters(), prompts_of(prompts)
    with progress_line() as progress:
        progress("loading the models")
        pair = models.load()
        corpus = model_corpus(pair, prompts, asked)
        begins = [start.prompt for start in corpus.starts]
        length = sizes["behind"] + 1
        laws = {"piece": length, "most": affordable(pair.vocab, drafts, length)} if drafts else {}
        logs = target_logs(pair, begins, **sizes, **laws, filters=filters, seed=seed, progress=progress)
    return logs, {**corpus.source, **sizes, **vars(filters), "seed": seed}
