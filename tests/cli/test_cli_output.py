"""What a result may not be written over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectr_verify.cli import app
from spectr_verify.cli.output import keep
from spectr_verify.errors import InputError
from spectr_verify.report.figures import figure_of, saved

LAWS = "[[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]"
PAIR = f'{{"draft": {LAWS}, "target": {LAWS}, "drafts": 1, "length": 1}}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.json").write_text(PAIR)
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    Path("mine.py").write_text("from spectr_verify.rules.token import token as rule\n")
    Path("symbolic.json").symlink_to("pairs.json")
    os.link("pairs.json", "hard.json")


@pytest.mark.parametrize("output", ["pairs.json", "./pairs.json", "symbolic.json", "hard.json", "model/config.json"])
def test_what_a_result_is_about_is_kept_under_every_name(output: str) -> None:
    with pytest.raises(InputError, match="is what the result is about"):
        keep(["nowhere", None, "", PAIR, "pairs.json", "model"], Path("result.json"), Path(output))


@pytest.mark.parametrize("output", ["result.json", "model/result.json", "-"])
def test_other_places_may_be_written_to(output: str) -> None:
    keep(["pairs.json", "model", "block-race", "null\0"], None, Path(output))


@pytest.mark.parametrize(
    ("one", "other"), [("a.png", "a.png"), ("a.png", "./a.png"), ("symbolic.json", "hard.json"), ("-", "-")]
)
def test_two_results_need_two_places(one: str, other: str) -> None:
    with pytest.raises(InputError, match="two results would be written to"):
        keep([], Path(one), Path(other))


def test_every_command_of_several_results_is_asked() -> None:
    for command in (
        ["audit", "token", "--pairs", "pairs.json", "--python", "x", "--json", "x"],
        ["audit", "token", "--pairs", "pairs.json", "--python", "hard.json"],
        ["what-if", "--target", "model", "--json", "model/config.json"],
        ["what-if", "--plot", "z.png", "--json", "z.png"],
        ["simulate", "--plot", "z.png", "--json", "z.png"],
        ["simulate", "--draft", "model", "--json", "model/config.json"],
        ["mc", "--draft", "model", "--json", "model/config.json"],
        ["generate", "--target", "model", "--json", "model/config.json"],
        ["certify", "pairs.json", "--out", ".", "--json", "pairs.stateful.json"],
        ["compare", "--pairs", "pairs.json", "--json", "hard.json"],
        ["bound", "hard.json", "--json", "pairs.json"],
        ["audit", "mine:rule", "--pairs", "pairs.json", "--python", "mine.py"],
        ["audit", "mine.py:rule", "--pairs", "pairs.json", "--python", "mine.py"],
    ):
        outcome = CliRunner().invoke(app, command)
        assert isinstance(outcome.exception, InputError), command
        said = str(outcome.exception)
        assert "is what the result is about" in said or "two results" in said, command
    assert Path("pairs.json").read_text() == PAIR
    assert Path("model/config.json").read_text() == "{}"


def test_names_that_clash_are_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.bounds.rational.certify", None)
    twice = f'[{PAIR[:-1]}, "name": "a b"}}, {PAIR[:-1]}, "name": "a-b"}}]'
    outcome = CliRunner().invoke(app, ["certify", twice, "--out", "."])
    assert "two certificates would be written to a-b.stateless.json" in str(outcome.exception)


def test_what_was_drawn_before_stays_until_a_plot_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure

    def halfway(self: object, file: Path) -> None:
        file.write_text("half")
        raise KeyboardInterrupt

    Path("z.svg").write_text("mine")
    monkeypatch.setattr(figure, "savefig", halfway)
    with pytest.raises(KeyboardInterrupt):
        saved(figure_of(1, 1), Path("z.svg"))
    assert Path("z.svg").read_text() == "mine"
    assert not list(Path().glob(".*.svg"))


@pytest.mark.parametrize("command", [["simulate", "--rule", "token"], ["what-if"]])
def test_plots_without_matplotlib_are_refused_before_the_work(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = CliRunner().invoke(app, [*command, "--plot", "z.svg"])
    assert isinstance(outcome.exception, InputError)
    assert str(outcome.exception).startswith("plots need the package matplotlib: pip install")


@pytest.mark.parametrize("command", [["audit", "mine:rule"], ["compare", "--rule", "mine.py:rule"], ["rules"]])
def test_no_result_is_written_over_a_python_file(command: list[str]) -> None:
    """Nor over one that the rule imports: which these are nobody knows before it runs."""
    assert CliRunner().invoke(app, [*command, "--json", "mine.py"]).exit_code == 2
    assert "token as rule" in Path("mine.py").read_text()


def test_a_link_stays_a_link_and_a_private_file_private() -> None:
    Path("pairs.json").chmod(0o600)
    assert CliRunner().invoke(app, ["rules", "--json", "symbolic.json"]).exit_code == 0
    assert Path("symbolic.json").is_symlink()
    assert '"spectr-verify/rules/1"' in Path("pairs.json").read_text()
    assert Path("pairs.json").stat().st_mode & 0o777 == 0o600
