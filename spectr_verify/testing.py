"""The properties of an acceptance rule as tests, in three lines of a test file.

    from spectr_verify.testing import property_suite
    from my_engine import verify

    TestVerify = property_suite(verify, calls="probabilities")

Every property holds for every correct rule on every pair of models. Hypothesis draws the pairs and shrinks one that
fails. The laws compared are exact: a test that fails has found a fault, never bad luck.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch

from spectr_verify.audit import Instance, Verdict, judge, wrong_text
from spectr_verify.audit.diagnosis import diagnose
from spectr_verify.audit.verdict import Stage, Subject
from spectr_verify.errors import InputError
from spectr_verify.exact import EnumerationError
from spectr_verify.replay import Budget, Calls, Verifier, edge_violation, verifier
from spectr_verify.report.counterexample import faults, laws_beside, models, sizes
from spectr_verify.report.tables import reproduction
from spectr_verify.rules import RULES, Rule
from toy_models import FAMILIES, TableError, TableModel, ToyPair, family_pairs, strategies

SIZES: dict[Calls, tuple[tuple[int, int, int], ...]] = {
    "round": ((3, 2, 2), (2, 2, 3), (4, 1, 2)),
    "probabilities": ((3, 2, 1), (4, 1, 1)),
    "step": ((2, 2, 1), (3, 1, 1)),
}
"""For every calling way the largest V, L and K drawn together: small enough for dozens of exact laws in seconds.

Code called with the probabilities of several drafts runs so often that the sizes of a step are its own.
"""

SKIPPED: dict[Calls, dict[str, str]] = {
    "round": {"test_edge_coins": "a rule of (round, chance) draws no uniform numbers of its own"},
    "probabilities": {},
    "step": {"test_within_the_optimum": "what a step could accept is not known: it drafts as it likes"},
}
"""The tests that have no meaning for a calling way, and why."""

DTYPES = {"float64": torch.float64, "float32": torch.float32}
"""Number formats that a verifier can be judged in."""

Test = Callable[..., None]

Check = Callable[["_Suite", ToyPair], str | None]
"""A property on one pair: what is wrong there in words, ``None`` if nothing is."""


def property_suite(
    function: Callable[..., Any] | Rule,
    calls: Calls = "round",
    *,
    name: str | None = None,
    arguments: Mapping[str, str] | None = None,
    drafts: int | None = None,
    length: int | None = None,
    temperature: float = 1.0,
    temperature_argument: str = "temperature",
    dtype: Literal["float64", "float32"] = "float64",
    max_examples: int = 20,
    seed: int | None = 0,
    seconds: float = 60.0,
) -> type:
    """A test class for pytest, to be bound to a name that starts with ``Test``.

    Args:
        function: the verifier; with ``calls="round"`` also a ``Rule``, which is how a stateful one is given.
        calls: how it is called, see ``spectr_verify.replay.verifier``.
        name: what failures call it; by default where ``spectr-verify audit`` finds it.
        arguments: further keyword arguments, each a Python expression, see ``spectr_verify.replay.verifier``.
        drafts: K of all pairs; by default 1, with ``calls="round"`` 1 to 3.
        length: L of all pairs; by default 1 and 2.
        temperature: with ``calls="step"`` the temperature of the target's law that the text should have.
        temperature_argument: with ``calls="step"`` the argument that is 0 in the test of temperature 0. A function
            without it is given models of point masses there, as with the other calling ways.
        dtype: number format of the laws that the function sees.
        max_examples: how many pairs Hypothesis draws for each property.
        seed: draws them, the same in every run; ``None`` draws anew, or as ``--hypothesis-seed`` says.
        seconds: longest that the replay of one pair may take; a pair that takes longer fails its test. No limit with
            ``calls="round"``.

    Raises:
        InputError: an argument cannot be used; the message says which and what to write. Whatever goes wrong later,
            in the function or in judging it, is the failure of a test.
    """
    _check(calls, dtype, drafts=drafts, length=length, max_examples=max_examples)
    Budget(seconds=seconds)  # each pair gets its own; what cannot be one is refused now
    if isinstance(function, Rule) and name is not None:
        function = replace(function, name=name)
    shown, given = name or _place(function), dict(arguments or {})
    subject = verifier(function, calls, name=shown, arguments=given, temperature=temperature)
    cold = None
    if calls == "step" and _takes(function, temperature_argument):
        given[temperature_argument] = "temperature"
        cold = verifier(function, calls, name=shown, arguments=given, temperature=0.0)
    suite = _Suite(shown, subject, cold, calls, drafts, length, DTYPES[dtype], max_examples, seed, seconds)
    return type("VerifierProperties", (), {"__doc__": f"The properties of {shown}.", **_tests(suite)})


def _check(calls: str, dtype: str, **counts: int | None) -> None:
    if calls not in SIZES:
        raise InputError(f"calls is {calls!r}; it must be one of {', '.join(SIZES)}")
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}")
    for name, count in counts.items():
        if count is not None and count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1")


# --- the properties ---------------------------------------------------------------------------------------------------


def lossless_in_one_round(suite: _Suite, pair: ToyPair) -> str | None:
    """The text of one round, completed from the target, has the target's law."""
    verdict = suite.judge(pair)
    return suite.fault(verdict, "is not lossless in one round") if verdict.stage <= Stage.ONE_ROUND else None


def lossless(suite: _Suite, pair: ToyPair) -> str | None:
    """The text that several rounds write has the target's law: L + 2 tokens, for which at least two rounds run."""
    verdict = suite.judge(pair, further=2)
    return suite.fault(verdict, "is not lossless") if verdict.stage <= Stage.LATER_ROUNDS else None


def within_the_optimum(suite: _Suite, pair: ToyPair) -> str | None:
    """No more is accepted than any lossless rule of the class accepts."""
    verdict = suite.judge(pair)
    return suite.fault(verdict, "accepts more than any lossless rule can") if verdict.exceeds_optimum else None


def support(suite: _Suite, pair: ToyPair) -> str | None:
    """No text is written that the target gives probability zero."""
    verdict = suite.judge(pair)
    return None if verdict.impossible is None else suite.fault(verdict, "writes what the target never writes")


def edge_coins(suite: _Suite, pair: ToyPair) -> str | None:
    """No impossible token comes out where a uniform number is exactly 0, or the largest below 1."""
    where = suite.where(pair)
    subject = suite.within(suite.subject)
    if not isinstance(subject, Verifier):
        return None
    found = edge_violation(subject, pair, where.length, where.drafts, dtype=suite.dtype)
    return None if found is None else suite.fault(replace(suite.judge(pair), edge=found), "fails on an edge coin")


def greedy_at_temperature_zero(suite: _Suite, pair: ToyPair) -> str | None:
    """At temperature 0 the text is the one that takes the target's likeliest token each time, with probability one."""
    verdict = suite.judge(pair, further=2, cold=True)
    claim = "does not write the likeliest tokens at temperature 0"
    return suite.fault(verdict, claim) if verdict.stage <= Stage.LATER_ROUNDS else None


def _greedy(pair: ToyPair) -> ToyPair:
    """The pair at temperature 0: every law is a point mass on its likeliest token, the first of equals."""
    return replace(pair, draft=_likeliest(pair.draft), target=_likeliest(pair.target))


def _likeliest(model: TableModel) -> TableModel:
    chosen = (np.eye(model.vocab, dtype=np.int64)[level.argmax(axis=-1)] for level in model.levels)
    return TableModel.parse([level.tolist() for level in chosen])


def _identical(pair: ToyPair) -> ToyPair:
    return replace(pair, draft=pair.target)


# --- how they are asked -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Suite:
    """What is tested, and on which pairs.

    Attributes:
        name: what the verifier is called.
        subject: the verifier, as ``judge`` takes it.
        cold: the verifier at temperature 0, ``None`` where it takes no temperature.
        calls, drafts, length, dtype, max_examples, seed, seconds: as given to ``property_suite``.
    """

    name: str
    subject: Subject
    cold: Subject | None
    calls: Calls
    drafts: int | None
    length: int | None
    dtype: torch.dtype
    max_examples: int
    seed: int | None
    seconds: float

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """The largest V, L and K drawn together; blocks that are longer than usual have two tokens."""
        several = self.calls == "probabilities" and (self.drafts or 1) > 1
        usual = SIZES["step" if several else self.calls]
        return [(V if (self.length or 1) <= L else 2, L, K) for V, L, K in usual]

    def pairs(self, **laws: Any) -> st.SearchStrategy[ToyPair]:
        """Pairs of the sizes that the calling way affords; ``laws`` as in ``toy_models.strategies.laws``."""
        return st.one_of([self._pairs(*largest, **laws) for largest in self.sizes])

    def _pairs(self, vocab: int, length: int, drafts: int, **laws: Any) -> st.SearchStrategy[ToyPair]:
        return strategies.pairs(
            max_vocab=vocab,
            min_length=self.length or 1,
            max_length=self.length or length,
            min_drafts=self.drafts or 1,
            max_drafts=self.drafts or drafts,
            **laws,
        )

    def families(self) -> dict[str, ToyPair]:
        """One pair of every family."""
        vocab, length, _ = self.sizes[0]
        return dict(zip(FAMILIES, family_pairs(self.seed or 0, vocab, self.length or length), strict=True))

    def where(self, pair: ToyPair) -> Instance:
        """The pair with its K and L; those of the families have no K of their own."""
        return Instance.of(pair, drafts=self.drafts or (2 if self.calls == "round" else 1))

    def judge(self, pair: ToyPair, *, further: int | None = None, cold: bool = False) -> Verdict:
        """The verdict on one round, and on the first L + ``further`` tokens of a text."""
        where = self.where(pair)
        tokens = None if further is None else where.length + further
        subject = self.cold if cold and self.cold is not None else self.subject
        return judge(self.within(subject), where, tokens=tokens, dtype=self.dtype)

    def within(self, subject: Subject) -> Subject:
        """A verifier whose seconds count from now; it remembers what was seen of it, which takes long to see."""
        return replace(subject, budget=Budget(seconds=self.seconds)) if isinstance(subject, Verifier) else subject

    def fault(self, verdict: Verdict, claim: str) -> str:
        """What a test that fails says: the claim, the pair, the reasons, the laws, and how to see it again."""
        wrong = wrong_text(verdict)
        laws = [] if wrong is None else laws_beside(verdict, wrong)
        guess = diagnose([verdict])
        cause = [] if guess is None else [f"most likely: {guess}"]
        again = [] if not _can_be_found(self.name) else [f"to see it again: {reproduction(verdict)}"]
        shown = _shown(verdict.instance)
        return _lines(f"{self.name} {claim}", *shown, *faults(verdict, wrong), *cause, *laws, *again)

    def ask(self, check: Check, pair: ToyPair) -> str | None:
        """What is wrong. A function that breaks its contract is a fault too, told as such and not as ours."""
        try:
            return check(self, pair)
        except (InputError, TableError, EnumerationError) as error:
            return _lines(f"{self.name} gets no verdict: {error}", *_shown(self.where(pair)))


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _shown(where: Instance) -> list[str]:
    return [f"pair: {sizes(where)}", *models(where)]


def _place(function: Callable[..., Any] | Rule) -> str:
    """Where a function is found by ``spectr-verify audit``: as module:function, or as file.py:function."""
    if isinstance(function, Rule):
        return function.name
    attribute = getattr(function, "__qualname__", f"<{type(function).__name__}>")
    module = sys.modules.get(getattr(function, "__module__", ""))
    if module is None or module.__package__ or not module.__file__:
        return f"{getattr(function, '__module__', '<unknown>')}:{attribute}"
    # pytest puts a test file's folder on the path; a command does not, but it finds the file.
    path = Path(module.__file__)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{attribute}"


def _can_be_found(name: str) -> bool:
    """Whether a command finds what has this name; what is defined inside of a function none does."""
    return name in RULES or (":" in name and "<" not in name)


def _takes(function: Callable[..., Any] | Rule, argument: str) -> bool:
    """Whether the function has an argument of that name."""
    try:
        return callable(function) and argument in inspect.signature(function).parameters
    except (ValueError, TypeError):  # a function of C has no signature to read
        return False


# --- the tests --------------------------------------------------------------------------------------------------------


def _tests(suite: _Suite) -> dict[str, Test]:
    """Every test by its name."""
    anything, sparse = suite.pairs(), suite.pairs(max_weight=1)
    greedy = anything if suite.cold is not None else anything.map(_greedy)
    tests = {
        "test_lossless_in_one_round": _drawn(suite, lossless_in_one_round, anything),
        "test_lossless_over_several_rounds": _drawn(suite, lossless, anything),
        "test_within_the_optimum": _drawn(suite, within_the_optimum, anything),
        "test_support": _drawn(suite, support, sparse),
        "test_edge_coins": _drawn(suite, edge_coins, sparse),
        "test_zero_probabilities": _drawn(suite, lossless, sparse),
        "test_temperature_zero": _drawn(suite, greedy_at_temperature_zero, greedy),
        "test_identical_models": _drawn(suite, lossless, anything.map(_identical)),
        "test_family": _on_families(suite, lossless_in_one_round),
    }
    for name, reason in SKIPPED[suite.calls].items():
        tests[name] = pytest.mark.skip(reason=reason)(tests[name])
    for test in tests.values():
        vars(test)["__test__"] = True  # whatever python_functions says
    return tests


def _drawn(suite: _Suite, check: Check, pairs: st.SearchStrategy[ToyPair]) -> Test:
    """The test of a property on drawn pairs."""
    settings = hypothesis.settings(
        max_examples=suite.max_examples,
        deadline=None,  # the first law of a session takes longer than all others
        derandomize=False,  # a profile, as Hypothesis loads one on build servers, does not overrule ``seed``
        print_blob=True,
        report_multiple_bugs=False,  # one fault has many faces, and the first is told in full
        phases=set(hypothesis.Phase) - {hypothesis.Phase.explain},  # it traces every line of torch
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    if suite.seed is None:
        return settings(hypothesis.given(pair=pairs)(_test(suite, check)))
    test = _test(suite, check, f"\ndrawn with @seed({suite.seed})")
    return hypothesis.seed(suite.seed)(settings(hypothesis.given(pair=pairs)(test)))


def _on_families(suite: _Suite, check: Check) -> Test:
    """The test of a property on one pair of every family."""
    families = suite.families()
    return pytest.mark.parametrize("pair", families.values(), ids=families)(_test(suite, check))


def _test(suite: _Suite, check: Check, origin: str = "") -> Test:
    """The test of a property on the pair that it is given; ``origin`` says where that is from."""

    @_named(f"test_{check.__name__}", check.__doc__)
    def test(self: object, pair: ToyPair) -> None:
        __tracebackhide__ = True
        if fault := suite.ask(check, pair):
            raise AssertionError(fault + origin)

    return test


def _named(name: str, description: str | None) -> Callable[[Test], Test]:
    """Gives a function the name and the description under which it is reported."""

    def rename(test: Test) -> Test:
        test.__name__, test.__doc__ = name, description
        return test

    return rename
