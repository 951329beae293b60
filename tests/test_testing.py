"""The property suite: it passes what is right, and says in plain words what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from torch import Tensor

from spectr_verify.chance import Chance
from spectr_verify.errors import InputError
from spectr_verify.rounds import Emission, Round
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.load import load_rule
from spectr_verify.rules.token import token as token_rule
from spectr_verify.testing import property_suite

EXAMPLES = Path(__file__).parent.parent / "examples"

DRAWN = (
    "lossless_in_one_round",
    "lossless_over_several_rounds",
    "within_the_optimum",
    "support",
    "edge_coins",
    "zero_probabilities",
    "temperature_zero",
    "identical_models",
)


@pytest.fixture(autouse=True)
def forgetful_hypothesis() -> Iterator[None]:
    """What Hypothesis kept of earlier runs must not decide what it finds."""
    hypothesis.settings.register_profile("forgetful", hypothesis.settings.get_profile("default"), database=None)
    hypothesis.settings.load_profile("forgetful")
    yield
    hypothesis.settings.load_profile("default")


# --- engines, as engines are written ----------------------------------------------------------------------------------


def correct(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    for i, token in enumerate(draft_tokens):
        if torch.rand(()) >= target_probs[i, token] / draft_probs[i, token]:
            residual = (target_probs[i] - draft_probs[i]).clamp(min=0)
            return torch.cat([draft_tokens[:i], torch.multinomial(residual, 1)])
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])


def accepts_at_zero(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Accepts where u <= q / p, so an impossible token where u is 0."""
    for i, token in enumerate(draft_tokens):
        if torch.rand(()) > target_probs[i, token] / draft_probs[i, token]:
            residual = (target_probs[i] - draft_probs[i]).clamp(min=0)
            return torch.cat([draft_tokens[:i], torch.multinomial(residual, 1)])
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])


def accepts_everything(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    return torch.cat([draft_tokens, torch.multinomial(target_probs[-1], 1)])


def step(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int, temperature: float = 1.0) -> Tensor:
    def law(logits: Tensor) -> Tensor:
        if temperature == 0:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
        return torch.softmax(logits / temperature, -1)

    ids, start, laws = input_ids, input_ids.shape[1], []
    for _ in range(gamma):
        laws.append(law(draft_model(ids).logits[0, -1]))
        ids = torch.cat([ids, torch.multinomial(laws[-1], 1)[None]], 1)
    emitted = correct(ids[0, start:], torch.stack(laws), law(target_model(ids).logits[0, start - 1 :]))
    return torch.cat([input_ids, emitted[None]], 1)


def always_warm(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int, temperature: float = 1.0) -> Tensor:
    """Forgets the temperature."""
    return step(draft_model, target_model, input_ids, gamma)


def without_temperature(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int) -> Tensor:
    return step(draft_model, target_model, input_ids, gamma)


# --- how they fare ----------------------------------------------------------------------------------------------------


def passes(test: Callable[[], None]) -> str | None:
    """What a test says: ``None`` where it passes."""
    try:
        test()
    except AssertionError as error:
        return "\n".join([str(error), *getattr(error, "__notes__", [])])
    return None


def each_test(suite: type) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every test by its name without ``test_``, as pytest would run it."""
    for name, test in vars(suite).items():
        if not name.startswith("test_"):
            continue
        marks = {mark.name: mark for mark in getattr(test, "pytestmark", [])}
        if "parametrize" in marks:
            pairs, families = marks["parametrize"].args[1], marks["parametrize"].kwargs["ids"]
            for family, pair in zip(families, pairs, strict=True):
                yield f"family[{family}]", lambda test=test, pair=pair: test(suite(), pair)
        elif "skip" not in marks:
            yield name.removeprefix("test_"), lambda test=test: test(suite())


def failures(*arguments: Any, **options: Any) -> dict[str, str]:
    """What the tests of a suite that fail say, by their names."""
    told = {name: passes(test) for name, test in each_test(property_suite(*arguments, **options))}
    return {name: said for name, said in told.items() if said is not None}


def says(test: str, *arguments: Any, **options: Any) -> str:
    """What one test of a suite says; it must fail."""
    said = passes(dict(each_test(property_suite(*arguments, **options)))[test])
    assert said is not None
    return said


# --- what is right passes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["token", "block-race", "k-seq", "greedy-block"])
def test_a_lossless_rule_passes(name: str) -> None:
    assert failures(RULES[name], max_examples=5) == {}


@pytest.mark.slow
def test_an_engine_that_is_right_passes() -> None:
    assert failures(correct, "probabilities", max_examples=4) == {}
    single = property_suite(correct, "probabilities", dtype="float32", max_examples=4)
    assert passes(dict(each_test(single))["lossless_in_one_round"]) is None


@pytest.mark.parametrize("engine", [step, without_temperature])
def test_a_step_that_is_right_passes(engine: Callable[..., Tensor]) -> None:
    assert failures(engine, "step", arguments={"gamma": "L"}, max_examples=4) == {}


def test_every_property_has_its_test() -> None:
    suite = property_suite(correct, "probabilities")
    assert {name.partition("[")[0] for name, _ in each_test(suite)} == {*DRAWN, "family"}
    assert len(list(each_test(suite))) == len(DRAWN) + 14


@pytest.mark.parametrize(
    ("function", "calls", "name", "why"),
    [
        (token_rule, "round", "test_edge_coins", "no uniform numbers of its own"),
        (step, "step", "test_within_the_optimum", "it drafts as it likes"),
    ],
)
def test_what_has_no_meaning_is_skipped_and_says_why(
    function: Callable[..., Any], calls: str, name: str, why: str
) -> None:
    suite = property_suite(function, calls)
    (skip,) = vars(suite)[name].pytestmark
    assert skip.name == "skip"
    assert why in skip.kwargs["reason"]
    assert {f"test_{name.partition('[')[0]}" for name, _ in each_test(suite)} == {
        *(f"test_{drawn}" for drawn in DRAWN),
        "test_family",
    } - {name}


# --- what is wrong fails, where it should and in plain words ----------------------------------------------------------


@pytest.mark.slow
def test_a_biased_rule_fails_what_it_breaks_and_nothing_else() -> None:
    failed = failures(load_rule(f"{EXAMPLES}/best_of_k.py:best_of_k"), max_examples=20)
    assert {name for name in failed if not name.startswith("family")} == {
        "lossless_in_one_round",
        "lossless_over_several_rounds",
        "within_the_optimum",
        "zero_probabilities",
    }
    assert {"family[identical]", "family[point-masses-apart]"}.isdisjoint(failed)
    assert "family[random]" in failed


@pytest.mark.slow
def test_a_fault_of_later_rounds_shows_over_several_rounds_only() -> None:
    forgetful = load_rule(f"{EXAMPLES}/stateful_rule.py:FORGETFUL")
    assert "- its first token is" not in says("lossless_over_several_rounds", forgetful)


def test_the_message_tells_the_pair_the_reasons_the_text_the_laws_and_how_to_see_it_again() -> None:
    said = says("lossless_in_one_round", RULES["spectr-gbv-released"])
    expected = r"""spectr-gbv-released is not lossless in one round
pair: V = 2, L = 1, K = 2
  draft   1/2 1/2  \|  1/2 1/2 ; 1/2 1/2
  target  1/3 2/3  \|  1/2 1/2 ; 1/2 1/2
- its first token is 0\.0309 from the target's law in total variation
- the text of one round is 0\.0309 from the target's law in total variation
(- .*
)*- the text «0» has probability 49/162 = 0\.302469 and should have 1/3 = 0\.333333
(- .*
)*law of the first token:
  text  produced       due
     0  0\.302469  0\.333333
     1  0\.697531  0\.666667
to see it again: spectr-verify audit spectr-gbv-released .*--pairs '\{"name": "drawn", .*\}'
drawn with @seed\(0\)
"""
    assert re.match(expected, said)
    # What Hypothesis adds: the arguments as Python text, and its own decorator.
    assert "draft=TableModel.parse([[['1/2', '1/2']], [['1/2', '1/2'], ['1/2', '1/2']]])" in said
    assert "@reproduce_failure(" in said


@pytest.mark.slow
def test_a_wrong_second_token_is_shown_in_the_law_of_two() -> None:
    said = says("lossless_over_several_rounds", load_rule(f"{EXAMPLES}/stateful_rule.py:FORGETFUL"))
    assert "law of the first 2 tokens:\n  text  produced  " in said
    assert re.search(r"\n +0 1 +0\.\d+ +0\.\d+\n", said)


def test_a_long_law_is_cut_to_what_is_furthest_off() -> None:
    said = says("family[random]", load_rule("spectr_verify.rules.greedy_block:greedy_block"), length=3)
    assert "law of the first 2 tokens:" in said  # 9 texts, all shown
    drawn = says("lossless_in_one_round", wrong_at_the_end, "probabilities", length=3)
    assert "law of the first 4 tokens, the 12 of 16 texts that are furthest off:" in drawn
    assert len(re.findall(r"\n +[01] [01] [01] [01] +\S+ +\S+(?=\n)", drawn)) == 12


def wrong_at_the_end(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The token after a wholly accepted draft is the likeliest."""
    emitted = correct(draft_tokens, draft_probs, target_probs)
    if len(emitted) == len(target_probs):
        emitted[-1] = target_probs[-1].argmax()
    return emitted


def test_a_rule_beyond_the_optimum() -> None:
    said = says("within_the_optimum", RULES["typical"])
    assert said.startswith("typical accepts more than any lossless rule can\npair: ")
    assert "no lossless stateless rule can accept more than" in said


def test_an_engine_that_accepts_everything_writes_what_the_target_cannot() -> None:
    said = says("support", accepts_everything, "probabilities")
    assert "accepts_everything writes what the target never writes\n" in said
    assert "  target  1 0  |" in said
    assert "\n     1       0.5    0\n" in said


@pytest.mark.slow
def test_an_impossible_token_under_a_coin_of_exactly_zero() -> None:
    failed = failures(accepts_at_zero, "probabilities", max_examples=8)
    assert list(failed) == ["edge_coins"]
    assert "fails on an edge coin\npair: V = 2, L = 1, K = 1\n" in failed["edge_coins"]
    assert "- when a uniform random number is exactly 0 it emits " in failed["edge_coins"]
    assert "the target gives token 1 at position 0 probability zero" in failed["edge_coins"]


@pytest.mark.slow
def test_a_forgotten_temperature() -> None:
    failed = failures(always_warm, "step", arguments={"gamma": "L"}, max_examples=4)
    assert list(failed) == ["temperature_zero"]
    assert "does not write the likeliest tokens at temperature 0" in failed["temperature_zero"]
    assert "and should have 1" in failed["temperature_zero"] or "and should have 0" in failed["temperature_zero"]


def test_the_temperature_may_have_another_name() -> None:
    def heat(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int, heat: float = 1.0) -> Tensor:
        return step(draft_model, target_model, input_ids, gamma, heat)

    def sampled(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int, heat: float = 1.0) -> Tensor:
        return step(draft_model, target_model, input_ids, gamma)

    options = {"arguments": {"gamma": "L"}, "temperature_argument": "heat", "max_examples": 5}
    right, wrong = (dict(each_test(property_suite(engine, "step", **options))) for engine in (heat, sampled))
    assert passes(right["temperature_zero"]) is None
    assert passes(wrong["temperature_zero"]) is not None


# --- no verdict is a failure too, and is told as one ------------------------------------------------------------------


def raises(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    raise ValueError("not today")


def returns_a_text(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> str:
    return "tokens"


def rule_that_raises(round: Round, chance: Chance) -> Emission:
    raise ValueError("not today")


@pytest.mark.parametrize(
    ("function", "calls", "what"),
    [
        (raises, "probabilities", "raised ValueError: not today"),
        (rule_that_raises, "round", "ValueError: not today"),
        (returns_a_text, "probabilities", r"returned str \('tokens'\)"),
        (raises, "step", "unexpected keyword argument 'gamma'"),
    ],
)
@pytest.mark.parametrize("name", ["lossless_in_one_round", "family[random]"])
def test_a_function_that_breaks_its_contract_fails_with_a_plain_message(
    name: str, function: Callable[..., Any], calls: str, what: str
) -> None:
    said = says(name, function, calls, arguments={"gamma": "L"} if calls == "step" else None)
    assert re.match(rf"tests/test_testing.py:{function.__name__} gets no verdict: .*{what}.*\npair: V = ", said)


def test_what_is_too_large_says_so() -> None:
    assert "no verdict: rule 'k-seq' on pair" in says("lossless_in_one_round", RULES["k-seq"], drafts=30)


# --- what is drawn ----------------------------------------------------------------------------------------------------


class Watched:
    """A rule that remembers the rounds it saw."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []

    def __call__(self, round: Round, chance: Chance) -> Emission:
        self.rounds.append(round)
        return token_rule(round, chance)


def watched(**options: Any) -> list[Round]:
    rule = Watched()
    assert passes(dict(each_test(property_suite(rule, **options)))["lossless_in_one_round"]) is None
    return rule.rounds


def test_the_sizes_are_those_asked_for() -> None:
    rounds = watched(drafts=2, length=3, max_examples=5)
    assert {(round.num_drafts, round.length) for round in rounds} == {(2, 3)}
    assert {(round.num_drafts, round.length) for round in watched(max_examples=40)} >= {(1, 1), (2, 1), (2, 2)}


def test_the_number_format_is_the_one_asked_for() -> None:
    assert {round.target_probs.dtype for round in watched(dtype="float32", max_examples=2)} == {torch.float32}


def test_the_same_seed_draws_the_same_pairs() -> None:
    one, other, third = (
        [round.target_probs.flatten().tolist() for round in watched(seed=seed, max_examples=5)] for seed in (1, 1, 2)
    )
    assert one == other != third


def test_without_a_seed_none_is_told() -> None:
    assert "drawn with @seed" not in says("lossless_in_one_round", RULES["typical"], seed=None)


# --- what the verifier is called --------------------------------------------------------------------------------------


def test_a_function_that_no_command_finds_has_no_command() -> None:
    said = says("lossless_in_one_round", lambda *_: torch.zeros(1, dtype=torch.int64), "probabilities")
    assert "<lambda> is not lossless in one round" in said
    assert "spectr-verify audit" not in said


@pytest.mark.slow
def test_a_function_is_called_by_where_it_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def told(*arguments: Any, **options: Any) -> str:
        return says("lossless_in_one_round", *arguments, max_examples=4, **options)

    assert "audit tests/test_testing.py:accepts_everything " in told(*EVERYTHING)
    monkeypatch.chdir(tmp_path)
    assert f"audit {__file__}:accepts_everything " in told(*EVERYTHING)
    packaged = load_rule("spectr_verify.rules.typical:typical").verify
    assert "audit spectr_verify.rules.typical:typical " in told(packaged)
    assert "audit my.engine:verify " in told(*EVERYTHING, name="my.engine:verify")
    mine = Rule("mine", packaged)
    assert "spectr-verify audit" not in told(mine)
    assert "spectr-verify audit my.engine:RULE " in told(mine, name="my.engine:RULE")


EVERYTHING = (accepts_everything, "probabilities")


# --- what cannot be used is refused at once ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "what"),
    [
        (("verify",), {}, "must be a function"),
        ((correct, "rounds"), {}, "calls is 'rounds'; it must be one of round, probabilities, step"),
        ((RULES["token"], "step"), {}, "is a Rule"),
        ((token_rule,), {"dtype": "float16"}, "dtype is 'float16'; it must be one of float64, float32"),
        ((token_rule,), {"drafts": 0}, "drafts is 0; it must be at least 1"),
        ((token_rule,), {"length": -1}, "length is -1; it must be at least 1"),
        ((token_rule,), {"max_examples": 0}, "max_examples is 0; it must be at least 1"),
        ((token_rule,), {"arguments": {"gamma": "L"}}, "takes no arguments"),
        ((correct, "probabilities"), {"arguments": {"gamma": "L +"}}, "gamma=L \\+ is not a Python expression"),
        ((correct, "probabilities"), {"temperature": 0.5}, "a temperature is for calls='step'"),
        ((correct, "probabilities"), {"seconds": 0}, "seconds is 0"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense(arguments: tuple[Any, ...], options: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        property_suite(*arguments, **options)
