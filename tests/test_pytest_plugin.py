"""pytest with --spectr-verify: the suite without a test file; and nothing at all without it."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spectr_verify.rules.load import load_object
from spectr_verify.testing import property_suite

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parent.parent / "examples"

ENGINE = """
import torch

def verify(draft_tokens, draft_probs, target_probs):
    for i, token in enumerate(draft_tokens):
        if torch.rand(()) >= target_probs[i, token] / draft_probs[i, token]:
            residual = (target_probs[i] - draft_probs[i]).clamp(min=0)
            return torch.cat([draft_tokens[:i], torch.multinomial(residual, 1)])
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])

def accepts_everything(draft_tokens, draft_probs, target_probs):
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])

def tells(draft_tokens, draft_probs, target_probs, gamma, word):
    raise ValueError(f"{list(draft_tokens.shape)} {draft_probs.dtype} {gamma} {word}")
"""

TESTS = 22
"""How many tests a suite has."""

FEW = "--spectr-verify-examples=3"
PROBABILITIES = "--spectr-verify-calls=probabilities"


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """A run inside of this one forgets what it imported, and late parts of torch cannot be imported twice."""
    verify = load_object(f"{EXAMPLES}/pytest_suite/my_engine.py:verify")
    assert isinstance(verify, Callable)
    suite = property_suite(verify, "probabilities", max_examples=5)
    suite().test_lossless_over_several_rounds()
    suite().test_within_the_optimum()


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with an engine and a test of its own."""
    pytester.makepyfile(my_engine=ENGINE, test_own="def test_own(): pass")
    return pytester


# --- three lines in a file --------------------------------------------------------------------------------------------


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    for file in (EXAMPLES / "pytest_suite").glob("*.py"):
        shutil.copy(file, pytester.path)
    test = pytester.path / "test_my_verifier.py"
    assert len(ast.parse(test.read_text()).body[1:]) == 3  # after the docstring
    result = pytester.runpytest("-k", "one_round or optimum or support or edge_coins")
    result.assert_outcomes(passed=4, deselected=TESTS - 4)


def test_a_suite_in_a_file_fails_with_the_message_and_without_a_traceback(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        from my_engine import accepts_everything
        from spectr_verify.testing import property_suite
        TestEverything = property_suite(accepts_everything, calls="probabilities", max_examples=10)
        """
    )
    result = project.runpytest("test_mine.py", "-k", "one_round or random")
    result.assert_outcomes(failed=2, deselected=TESTS - 2)
    result.stdout.fnmatch_lines(
        [
            "*_ TestEverything.test_lossless_in_one_round _*",
            "E   AssertionError: my_engine.py:accepts_everything is not lossless in one round",
            "E   pair: V = 2, L = 1, K = 1",
            "E     draft   1/2 1/2  |  1/2 1/2 ; 1/2 1/2",
            "E   - its first token is *",
            "E   law of the first token:",
            "E     text  produced *due",
            "E   to see it again: spectr-verify audit my_engine.py:accepts_everything --calls probabilities --pairs *",
            "E   drawn with @seed(0)",
            "E   *: test_lossless_in_one_round(",
            "E   You can reproduce * by temporarily adding @reproduce_failure(*",
            "*_ TestEverything.test_family?random? _*",
            "E   AssertionError: my_engine.py:accepts_everything is not lossless in one round",
            "FAILED test_mine.py::TestEverything::test_lossless_in_one_round - *",
        ]
    )
    frames = [line for line in result.outlines if line.startswith((">", "/", "."))]
    assert all("def test(self" in line or "testing.py" in line or not line.startswith(">") for line in frames)
    result.stdout.no_fnmatch_line("*torch*.py:*")
    result.stdout.no_fnmatch_line("*/replay/*")


def test_hypothesis_own_seed_option_decides_where_the_suite_has_none(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        from spectr_verify.rules.token import token
        from spectr_verify.testing import property_suite

        def watched(round, chance):
            print("SAW", round.target_probs.flatten().tolist())
            return token(round, chance)

        TestMine = property_suite(watched, max_examples=4, seed=None)
        """
    )

    def seen(seed: int) -> list[str]:
        result = project.runpytest("test_mine.py", "-k", "one_round", "-s", f"--hypothesis-seed={seed}")
        result.assert_outcomes(passed=1, deselected=TESTS - 1)
        return [line for line in result.outlines if "SAW" in line]

    assert seen(1) == seen(1) != seen(2)


# --- no file at all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["my_engine:verify", "my_engine.py:verify"])
def test_the_suite_alone_is_collected(project: pytest.Pytester, target: str) -> None:
    result = project.runpytest(f"--spectr-verify={target}", PROBABILITIES, FEW)
    result.assert_outcomes(passed=TESTS)
    result.stdout.fnmatch_lines([f"spectr-verify: {target}", "spectr-verify *"])
    result.stdout.no_fnmatch_line("*test_own*")


def test_a_registered_rule_without_the_cache(project: pytest.Pytester) -> None:
    result = project.runpytest("--spectr-verify=token", FEW, "-p", "no:cacheprovider", "-v")
    result.assert_outcomes(passed=TESTS - 1, skipped=1)
    result.stdout.fnmatch_lines(["spectr-verify::TestVerifier::test_lossless_in_one_round *PASSED*"])


def test_files_that_are_named_are_collected_too(project: pytest.Pytester) -> None:
    project.runpytest("--spectr-verify=token", FEW, "test_own.py").assert_outcomes(passed=TESTS, skipped=1)


def test_the_testpaths_of_a_project_are_left_out(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ntestpaths = .")
    result = project.runpytest("--spectr-verify=token", FEW, "-k", "support or own")
    result.assert_outcomes(passed=1, deselected=TESTS - 1)
    result.stdout.no_fnmatch_line("testpaths*")


def test_names_of_tests_that_the_project_chose_do_not_hide_the_suite(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npython_classes = *Case\npython_functions = check_*\npython_files = check_*.py")
    project.runpytest("--spectr-verify=token", FEW, "-k", "support").assert_outcomes(passed=1, deselected=TESTS - 1)


def test_a_biased_verifier_ends_with_status_1(project: pytest.Pytester) -> None:
    result = project.runpytest("--spectr-verify=my_engine:accepts_everything", PROBABILITIES, FEW, "-k", "support")
    result.assert_outcomes(failed=1, deselected=TESTS - 1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["E   AssertionError: my_engine:accepts_everything writes what the target never writes"]
    )


def test_the_options_reach_the_verifier(project: pytest.Pytester) -> None:
    options = ["--spectr-verify=my_engine:tells", PROBABILITIES, "--spectr-verify-dtype=float32", "-k", "one_round"]
    sizes = ["--spectr-verify-drafts=2", "--spectr-verify-length=3", "--spectr-verify-arg", "gamma=L + 1"]
    result = project.runpytest(*options, *sizes, "--spectr-verify-arg=word='x=y'")
    result.assert_outcomes(failed=1, deselected=TESTS - 1)
    result.stdout.fnmatch_lines(["*raised ValueError: [[]2, 3[]] torch.float32 4 x=y, at *"])


def test_the_number_of_pairs_is_the_one_asked_for(project: pytest.Pytester) -> None:
    for examples in (2, 5):
        result = project.runpytest(
            "--spectr-verify=token",
            f"--spectr-verify-examples={examples}",
            "-k",
            "one_round",
            "--hypothesis-show-statistics",
        )
        result.stdout.fnmatch_lines([f"*- {examples} passing*, 0 failing*"])


@pytest.mark.slow
def test_the_suite_runs_in_parallel(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("--spectr-verify=token", FEW, "-n", "2", timeout=120)
    result.assert_outcomes(passed=TESTS - 1, skipped=1)


def test_failed_tests_run_again_alone(project: pytest.Pytester) -> None:
    options = ["--spectr-verify=my_engine:accepts_everything", PROBABILITIES, FEW, "-k", "support or identical_models"]
    project.runpytest(*options).assert_outcomes(passed=1, failed=1, deselected=TESTS - 2)
    project.runpytest(*options, "--last-failed").assert_outcomes(failed=1, deselected=TESTS - 1)


# --- wrong usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--spectr-verify=blok"], "no rule is called 'blok'"),
        (["--spectr-verify=my_engine:missing", PROBABILITIES], "my_engine has no 'missing'; it has verify"),
        (["--spectr-verify=missing.py:verify", PROBABILITIES], "there is no file"),
        (["--spectr-verify=my_engine:verify"], "--spectr-verify-calls probabilities"),
        (["--spectr-verify=token", PROBABILITIES], "token is a registered rule"),
        (["--spectr-verify=my_engine:ENGINE", PROBABILITIES], "my_engine has no 'ENGINE'"),
        (["--spectr-verify=my_engine:torch", PROBABILITIES], "is of type module; it must be a function"),
        (["--spectr-verify=token", "--spectr-verify-drafts=0"], "drafts is 0; it must be at least 1"),
        (["--spectr-verify=token", "--spectr-verify-arg=gamma"], "'gamma' has no value; write it as NAME=EXPRESSION"),
        (["--spectr-verify=token", "--spectr-verify-arg=gamma=L"], "takes no arguments"),
        (["--spectr-verify-drafts=2"], "--spectr-verify-drafts needs --spectr-verify=TARGET"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_plain_message(project: pytest.Pytester, options: list[str], what: str) -> None:
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (message,) = (line for line in result.errlines if line)
    assert message.startswith("ERROR: --spectr-verify")
    assert what in message


@pytest.mark.parametrize("option", ["--spectr-verify-calls=steps", "--spectr-verify-length=long"])
def test_a_value_that_pytest_refuses(project: pytest.Pytester, option: str) -> None:
    result = project.runpytest("--spectr-verify=token", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*argument {option.partition('=')[0]}: invalid*"])


# --- everyone else ----------------------------------------------------------------------------------------------------


def test_other_runs_import_nothing_of_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            ours = {name for name in sys.modules if name.startswith(("spectr_verify", "toy_models"))}
            assert ours == {"spectr_verify", "spectr_verify.pytest_plugin"}
            assert not {"torch", "numpy", "hypothesis", "typer", "rich"} & set(sys.modules)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others' plugins are not what is looked at
    pytester.runpytest_subprocess("-p", "spectr_verify.pytest_plugin").assert_outcomes(passed=1)


def test_the_plugin_is_found_without_being_named(pytester: pytest.Pytester) -> None:
    told = pytester.runpytest("--help").stdout.str()
    options = ("=TARGET", "-calls={", "-arg=NAME=EXPR", "-drafts=K", "-length=L", "-examples=N", "-dtype={")
    assert [option for option in options if f"  --spectr-verify{option}" not in told] == []
