"""Every lossless rule on the shipped pair, whatever is asked of it: Hypothesis draws the decoding, an e-value judges.

On a GPU the same runs with ``pytest -m gpu``.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import Phase
from typer.testing import CliRunner

from spectr_verify.cli import app
from spectr_verify.cli.status import Biased
from spectr_verify.decoding import Filters, load_pair
from spectr_verify.montecarlo import FAULTS, Settings, monte_carlo, power
from spectr_verify.montecarlo.run import POWER
from spectr_verify.rules import RULES, Rule
from toy_models.prompts import prompt_sets, prompts

ALPHA = 1e-9
"""Hundreds of runs must not reject a lossless rule by chance."""

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]

no_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PLACES = [
    ("cpu", "float32"),
    pytest.param("cuda", "float32", marks=[pytest.mark.gpu, no_cuda]),
    pytest.param("cuda", "bfloat16", marks=[pytest.mark.gpu, no_cuda]),
]

SETTINGS = st.builds(
    Settings,
    drafts=st.integers(1, 4),
    length=st.integers(1, 5),
    tokens=st.integers(5, 16),
    texts=st.just(80),
    batch=st.just(80),
    alpha=st.just(ALPHA),
    filters=st.builds(
        Filters,
        # Laws without a filter more often: where little is possible, little can go wrong.
        temperature=st.sampled_from([1.0, 1.0, 0.0, 0.7, 1.5]),
        top_k=st.sampled_from([None, None, 1, 20]),
        top_p=st.sampled_from([1.0, 1.0, 0.9]),
        min_p=st.sampled_from([0.0, 0.0, 0.1]),
    ),
    seed=st.integers(0, 2**31),
)
PROMPTS = st.sampled_from(prompt_sets()).flatmap(lambda name: st.sampled_from(prompts(name)))


def command(
    rule: str, settings: Settings, *, prompts: Sequence[str] = (), device: str = "cpu", dtype: str = "float32"
) -> list[str]:
    """The words of the command that runs a rule on the shipped pair with these settings.

    Args:
        rule: by which the command finds the rule.
        settings: all of them.
        prompts: instead of the built-in ones.
        device, dtype: where and in which number format the models run.
    """
    filters = settings.filters
    options = {
        "rule": rule,
        "drafts": settings.drafts,
        "length": settings.length,
        "tokens": settings.tokens,
        "texts": settings.texts,
        "batch": settings.batch,
        "seconds": settings.seconds,
        "alpha": settings.alpha,
        "seed": settings.seed,
        "temperature": filters.temperature,
        "top-k": filters.top_k,
        "top-p": filters.top_p,
        "min-p": filters.min_p,
        "device": device,
        "dtype": dtype,
    }
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return ["spectr-verify", "mc", *words, *(f"--prompt={prompt}" for prompt in prompts)]


class Suite:
    """Runs of one rule or more, and what all of them together say: e-values of independent texts multiply."""

    def __init__(self, device: str, dtype: str) -> None:
        self.pair, self.device, self.dtype = load_pair(device=device, dtype=dtype), device, dtype
        self.evidence: dict[str, torch.Tensor] = {}

    def fault(self, rule: Rule, name: str, prompt: str, settings: Settings) -> str | None:
        """What is wrong in a run, and the command that shows it."""
        report = monte_carlo(self.pair, rule, self.pair.encode([prompt]), settings)
        found = torch.tensor(list(report.by_alternative.values()))
        self.evidence[name] = self.evidence.get(name, 0) + found
        wrong = [*report.reasons, *report.end_to_end_reasons]
        if not wrong:
            return None
        shown = command(name, settings, prompts=[prompt], device=self.device, dtype=self.dtype)
        return f"{'; '.join(wrong)}\nTo reproduce it:\n  {shlex.join(shown)}"

    def log10_e(self, name: str) -> float:
        """Of all runs of a rule together."""
        natural = self.evidence[name] * math.log(10)
        return (float(natural.logsumexp(dim=0)) - math.log(len(natural))) / math.log(10)


def examples(rules: st.SearchStrategy[Rule], suite: Suite, phases: Collection[Phase] = tuple(Phase)) -> None:
    """Draw decodings for rules, and run them."""

    @hypothesis.settings(max_examples=25, phases=phases)
    @hypothesis.given(rule=rules, prompt=PROMPTS, settings=SETTINGS)
    def whatever_is_asked(rule: Rule, prompt: str, settings: Settings) -> None:
        wrong = suite.fault(rule, rule.name, prompt, settings)
        assert wrong is None, wrong

    whatever_is_asked()


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_the_text_follows_the_target(device: str, dtype: str) -> None:
    suite = Suite(device, dtype)
    examples(st.sampled_from([RULES[name] for name in LOSSLESS]), suite)
    for name in suite.evidence:
        assert suite.log10_e(name) < -math.log10(ALPHA), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual-not-subtracted", "longest-of-the-blocks"])
def test_the_suite_has_the_power_to_fail(name: str) -> None:
    """A planted fault under the same drawn decodings, of which some, as those at temperature 0, hide it."""
    suite, rule = Suite("cpu", "float32"), next(fault.rule for fault in FAULTS if fault.rule.name == name)
    try:
        examples(st.just(rule), suite, [Phase.generate])  # without shrinking what is known to fail
    except AssertionError:
        return
    assert suite.log10_e(name) >= -math.log10(ALPHA)


def test_the_suite_sees_a_fault_of_the_cache() -> None:
    """The rule is told its laws and follows them; only the independent call tells that they are wrong."""

    def wrong_behind_a_cache(module: Any, given: Any, named: dict[str, Any], found: Any) -> Any:
        if "attention_mask" in named and named["attention_mask"].shape[1] > named["input_ids"].shape[1]:
            found.logits = found.logits * 1.3
        return found

    suite = Suite("cpu", "float32")
    hook = suite.pair.target.register_forward_hook(wrong_behind_a_cache, with_kwargs=True)
    settings = Settings(drafts=1, length=3, tokens=12, texts=300, batch=300, alpha=ALPHA)
    wrong = suite.fault(RULES["block"], "block", prompts("code")[0], settings)
    hook.remove()
    assert wrong is not None
    assert "independent call's laws" in wrong


@pytest.mark.slow
def test_every_planted_fault_is_rejected_with_the_default_budget() -> None:
    pair = load_pair()
    found = list(power(pair, pair.encode(prompts("code")), Settings()))
    assert [fault for fault, _ in found] == list(FAULTS)
    for fault, report in found:
        assert report.log10_e >= POWER, fault.rule.name
        assert report.lossless_rejected


@pytest.mark.slow
def test_a_fault_is_found_and_its_command_shows_it_again() -> None:
    """The property fails for a planted fault, and what it prints finds the fault again."""
    fault = next(fault for fault in FAULTS if fault.rule.name == "residual-not-subtracted")
    spec = "spectr_verify.montecarlo.faults:residual_not_subtracted"
    settings = Settings(drafts=1, length=3, tokens=12, texts=400, batch=200, alpha=ALPHA, seed=5)
    wrong = Suite("cpu", "float32").fault(fault.rule, spec, prompts("code")[0], settings)
    assert wrong is not None
    words = shlex.split(wrong.rpartition("To reproduce it:")[2])
    assert words[:2] == ["spectr-verify", "mc"]
    done = CliRunner().invoke(app, words[1:])
    assert isinstance(done.exception, Biased), done.output
    assert "NOT lossless" in done.output


def test_the_command_says_all_that_was_asked_for() -> None:
    asked = Settings(2, 3, 9, 50, Filters(0.7, 20, 0.9, 0.1), 1e-4, 8, 25, 30.0)
    words = command("token", asked, prompts=["a b", "--c"], device="cuda:1", dtype="bfloat16")
    line = shlex.join(words)
    for part in (
        "--rule token --drafts 2 --length 3 --tokens 9 --texts 50 --batch 25 --seconds 30.0 --alpha 0.0001 --seed 8",
        "--temperature 0.7 --top-k 20 --top-p 0.9 --min-p 0.1",
        "--device cuda:1 --dtype bfloat16",
        "'--prompt=a b' --prompt=--c",
    ):
        assert part in line
    assert command("token", replace(asked, filters=Filters(), seconds=None))[-1] != "--seconds"
