"""Options of the commands: each is written once, and groups of them become one argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from spectr_verify.cli.output import drawable, writable_json
from spectr_verify.errors import InputError

if TYPE_CHECKING:
    from spectr_verify.decoding import Filters, ModelPair
    from spectr_verify.simulate import TimeModel


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


Plot = Annotated[
    Path | None,
    typer.Option(callback=drawable, help="Draw efficiency and speed-up: .png or .svg; needs matplotlib."),
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", callback=writable_json, help="Write the result as JSON; - for standard output."
    ),
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
Target = Annotated[
    str | None,
    typer.Option(
        help="Target model, a folder or name for Hugging Face's from_pretrained; by default the pair we ship."
    ),
]
Draft = Annotated[str | None, typer.Option(help="Draft model, likewise. With --target smollm2 there is one already.")]
NumDrafts = Annotated[int, typer.Option("--drafts", min=1, help="K, drafts a round.")]
DraftLength = Annotated[int, typer.Option("--length", min=1, help="L, tokens a draft.")]
Temperature = Annotated[float, typer.Option(help="Of both models' laws; 0 takes the likeliest token.")]
TopK = Annotated[int | None, typer.Option(help="Keep the k likeliest tokens of both laws.")]
TopP = Annotated[float, typer.Option(help="Keep the likeliest tokens up to this probability.")]
MinP = Annotated[float, typer.Option(help="Keep tokens of at least this share of the likeliest one's probability.")]
Device = Annotated[str, typer.Option(help="Where the models run, as torch names it: cpu, cuda, cuda:1.")]
ModelFormat = Annotated[str, typer.Option("--dtype", help="Number format of the models: float32, bfloat16, ..")]
TextSeed = Annotated[int, typer.Option(min=0, max=(1 << 63) - 1, help="Draws the texts.")]
FurtherCost = Annotated[float, typer.Option(help="What each further draft adds to it, as a share.")]
Overhead = Annotated[float, typer.Option(help="Everything else in a round, in target calls.")]


@dataclass(frozen=True)
class Models:
    """Which models run, and how."""

    target: Target = None
    draft: Draft = None
    device: Device = "cpu"
    dtype: ModelFormat = "float32"

    def load(self) -> ModelPair:
        """Load them.

        Raises:
            ModelError: see ``load_pair``.
        """
        from spectr_verify.decoding import load_pair

        return load_pair(self.target, self.draft, dtype=self.dtype, device=self.device)


@dataclass(frozen=True)
class Truncation:
    """Which tokens both laws keep."""

    top_k: TopK = None
    top_p: TopP = 1.0
    min_p: MinP = 0.0


@dataclass(frozen=True)
class Filtering(Truncation):
    """What is done to both laws."""

    temperature: Temperature = 1.0

    def filters(self) -> Filters:
        """The same for decoding.

        Raises:
            InputError: a number is out of its range.
        """
        from spectr_verify.decoding import Filters

        return Filters(self.temperature, self.top_k, self.top_p, self.min_p)


@dataclass(frozen=True)
class Costs:
    """The time model that speed-ups are modelled with."""

    draft_cost: Annotated[
        float | None,
        typer.Option(help="A draft step, in target calls; by default 0.05, but `simulate` measures it of models."),
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


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer takes it: where it takes a group, there is an option for each of the group's fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name not in groups:
            options.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))
            continue
        own = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            options.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=own[field.name])
            )

    @wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__annotations__ = {option.name: option.annotation for option in options}
    called.__dict__["__signature__"] = Signature(options)
    return called


def numbers(text: str, option: str, kind: Callable[[str], Any]) -> list[Any]:
    """The numbers of a list such as ``1,2,4``.

    Raises:
        InputError: a part is no number.
    """
    found = []
    for part in text.split(","):
        try:
            found.append(kind(part))
        except ValueError as error:
            raise InputError(
                f"{option} is {text!r}, and {part!r} is no {'whole ' if kind is int else ''}number; write a number, or "
                "several as in 1,2,4"
            ) from error
    return found


def said_by_user(context: typer.Context, names: set[str]) -> list[str]:
    """Which of these options were written on the command line, as they are written there."""
    written = []
    for name in sorted(names & context.params.keys()):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            written.append(f"--{name.replace('_', '-')}")
    return written
