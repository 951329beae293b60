"""The command simulate."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectr_verify.cli.inputs import files_of, prompts_of, rule_of, seed_everything
from spectr_verify.cli.options import Costs, Json, Models, Plot, TextSeed, Truncation, grouped, numbers, said_by_user
from spectr_verify.cli.output import console_for, keep, progress_line, writable_as, write
from spectr_verify.cli.status import Interrupted
from spectr_verify.errors import InputError
from toy_models import read_pairs

if TYPE_CHECKING:
    from spectr_verify.simulate import Corpus, Settings, Sweep, TimeModel
    from toy_models import ToyPair

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
            "--resume", "--log", callback=writable_as(".jsonl"), help="Keep finished cells there, and go on from them."
        ),
    ] = None,
    plot: Plot = None,
    seed: TextSeed = 0,
    json_file: Json = None,
) -> None:
    """Decode and count: tokens a round, speed-up and time of every rule, for all K, L, temperatures and prompts.

    Ctrl-C ends a sweep with what it has, and status 130; with --resume the same command goes on from there.
    """
    of_texts = [*prompts.split(","), *(laws.pairs or ()), models.target, models.draft]
    keep([*files_of(rule or ()), *of_texts], json_file, resume, plot)
    time = costs.given(context)
    laws.check(context)
    from spectr_verify.simulate import Axes, sweep

    settings, pairs = amount.settings(laws, truncation, seed), laws.read()
    every_pair = [pair for several in pairs.values() for pair in several]
    all_drafts, about_drafts = _sizes("--drafts", drafts, [pair.drafts for pair in every_pair])
    all_lengths, about_lengths = _sizes("--length", length, [pair.length for pair in every_pair])
    temperatures = numbers(temperature, "--temperature", float)
    axes = Axes([rule_of(name, "simulate") for name in rule or PAPER], all_drafts, all_lengths, temperatures)
    seed_everything(seed)
    with progress_line() as progress:
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
    console_for(json_file).print(simulate_tables(found, compared, behind, time))
    if found.interrupted and resume is not None:
        print(f"to go on: the same command, with --resume {resume}", file=sys.stderr)
    write(json_file, "simulate", to_json(found, compared, behind, time))
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
    asked = [prompts_of(name) for name in names]
    pair = models.load()
    return [model_corpus(pair, name, texts) for name, texts in zip(names, asked, strict=True)]
