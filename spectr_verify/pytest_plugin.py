"""pytest options that test a verifier without a test file: ``pytest --spectr-verify=my_engine:verify``.

pytest loads this page in every run, also of those who never use it. So it imports nothing that pytest has not
imported, and does nothing before the option is given.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CALLS = ("round", "probabilities", "step")
FURTHER = ("calls", "arg", "drafts", "length", "examples", "dtype")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each stands for an argument of ``spectr_verify.testing.property_suite``."""
    group = parser.getgroup("spectr-verify")
    group.addoption(
        "--spectr-verify",
        metavar="TARGET",
        help="Test this verifier for the properties of every lossless one, by exact laws: module:function, "
        "file.py:function, or a registered rule. Other tests are collected only where they are named.",
    )
    group.addoption(
        "--spectr-verify-calls",
        choices=CALLS,
        help="How it is called: with a round (the default), with probabilities, or as a step with two models.",
    )
    group.addoption(
        "--spectr-verify-arg",
        metavar="NAME=EXPR",
        action="append",
        help="A further keyword argument, a Python expression as in gamma=L; may be repeated.",
    )
    group.addoption("--spectr-verify-drafts", metavar="K", type=int, help="K, drafts a round.")
    group.addoption("--spectr-verify-length", metavar="L", type=int, help="L, tokens a draft.")
    group.addoption("--spectr-verify-examples", metavar="N", type=int, help="Pairs that are drawn for a property.")
    group.addoption(
        "--spectr-verify-dtype", choices=("float64", "float32"), help="Number format of the laws that it sees."
    )


def pytest_configure(config: pytest.Config) -> None:
    """With the option, put the suite in the place of what would be collected unasked.

    Raises:
        UsageError: there is no such verifier, or the options do not fit.
    """
    target = config.getoption("spectr_verify")
    given = {name: config.getoption(f"spectr_verify_{name}") for name in FURTHER}
    given = {name: value for name, value in given.items() if value is not None}
    if target is None:
        if given:
            raise pytest.UsageError(f"--spectr-verify-{next(iter(given))} needs --spectr-verify=TARGET")
        return
    config.pluginmanager.register(_Suite(target, _suite(target, given)), "spectr-verify-suite")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args, config.args_source = [], pytest.Config.ArgsSource.ARGS


def _suite(target: str, given: dict[str, Any]) -> type:
    """The test class of the verifier."""
    from spectr_verify.errors import InputError
    from spectr_verify.replay import Arguments, Verifier, load_verifier
    from spectr_verify.testing import property_suite

    calls = given.pop("calls", "round")
    named = {"arg": "arguments", "examples": "max_examples"}
    options = {named.get(name, name): value for name, value in given.items()}
    try:
        if "arguments" in options:
            options["arguments"] = Arguments.parse(options["arguments"]).expressions
        loaded = load_verifier(target, calls)
        function = loaded.function if isinstance(loaded, Verifier) else loaded
        return property_suite(function, calls, name=target, **options)
    except InputError as error:
        # The messages name the options of the command spectr-verify.
        raise pytest.UsageError(f"--spectr-verify: {str(error).replace('--calls', '--spectr-verify-calls')}") from error


class _Suite:
    """Adds the suite to what the session collects."""

    def __init__(self, target: str, suite: type) -> None:
        self.target, self.suite = target, suite

    def pytest_report_header(self) -> str:
        return f"spectr-verify: {self.target}"

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            report.result.append(self._module(collector))
        return report

    def _module(self, session: pytest.Session) -> pytest.Module:
        """A test module that is in no file."""
        name = "spectr-verify"
        module: pytest.Module = pytest.Module.from_parent(session, name=name, nodeid=name, path=Path(__file__))
        module.obj = ModuleType(name)
        module.obj.TestVerifier = type(
            "TestVerifier", (self.suite,), {"__test__": True}
        )  # whatever python_classes says
        return module
