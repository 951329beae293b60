"""Options that commands share: a group in a signature is an option for each of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from spectr_verify.cli import app
from spectr_verify.cli.options import Filtering, grouped, numbers, said_by_user
from spectr_verify.errors import InputError


@dataclass(frozen=True)
class Pair:
    left: Annotated[int, typer.Option(help="The one.")] = 1
    far_right: Annotated[str | None, typer.Option(help="The other.")] = None


def command() -> tuple[typer.Typer, list]:
    made, seen = typer.Typer(), []

    @made.command()
    @grouped
    def it(*, context: typer.Context, name: str = "", pair: Pair, loud: bool = False) -> None:
        seen.append((name, pair, loud, said_by_user(context, {"left", "loud", "name"})))

    return made, seen


def test_a_group_is_handed_on_whole() -> None:
    made, seen = command()
    for words in (["--name", "a"], ["--name", "b", "--left", "3", "--far-right", "x", "--loud"]):
        done = CliRunner().invoke(made, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert seen == [("a", Pair(), False, ["--name"]), ("b", Pair(3, "x"), True, ["--left", "--loud", "--name"])]


def test_help_lists_the_options_of_a_group() -> None:
    made, _ = command()
    said = CliRunner().invoke(made, ["--help"]).output
    assert all(word in said for word in ("--left", "The one.", "--far-right", "The other.", "--name", "--loud"))


def test_a_wrong_value_names_its_option() -> None:
    made, seen = command()
    done = CliRunner().invoke(made, ["--name", "a", "--left", "x"])
    assert done.exit_code == 2
    assert "--left" in done.output
    assert not seen


@pytest.mark.parametrize("name", ["mc", "generate", "what-if", "simulate"])
def test_commands_that_decode_share_their_options(name: str) -> None:
    said = CliRunner().invoke(app, [name, "--help"]).output
    shared = ("--target", "--draft", "--device", "--dtype", "--temperature", "--top-k", "--top-p", "--min-p", "--seed")
    assert [option for option in shared if option not in said] == []


def test_filters_are_those_of_the_options() -> None:
    assert vars(Filtering(3, 0.5, 0.1, 0.7).filters()) == {"temperature": 0.7, "top_k": 3, "top_p": 0.5, "min_p": 0.1}


def test_lists_of_numbers() -> None:
    assert numbers("1,2,10", "--drafts", int) == [1, 2, 10]
    assert numbers("0.5", "--temperature", float) == [0.5]
    for text in ("", "1,", "1;2", "1.5"):
        with pytest.raises(InputError, match="--drafts is "):
            numbers(text, "--drafts", int)
