"""Runs on small models: lossless rules pass, faults do not, and a run that ends early tells what it has."""

from __future__ import annotations

import copy
import io
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from costly import costly
from leviathan import verify as token_verification
from rich.console import Console
from small_models import VOCAB, small_model, small_pair, tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM

from spectr_verify.chance import Chance
from spectr_verify.decoding import Filters, ModelPair
from spectr_verify.decoding.models import pair_of
from spectr_verify.errors import InputError
from spectr_verify.montecarlo import FAULTS, MonteCarloReport, PlantedFault, Reference, Settings, monte_carlo, power
from spectr_verify.montecarlo.first_token import first_token_test
from spectr_verify.montecarlo.run import POWER
from spectr_verify.replay import verifier
from spectr_verify.report.montecarlo import monte_carlo_text
from spectr_verify.rounds import Emission, EmissionError, Round
from spectr_verify.rules import RULES, Rule

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1]]
SMALL = Settings(drafts=3, length=3, tokens=12, texts=60, batch=60)
LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]


def outcome(report: MonteCarloReport) -> dict[str, Any]:
    """All that a report says, but for the time that it took."""
    return {name: value for name, value in report.to_json().items() if name not in ("seconds", "tokens_per_second")}


def shown(report: MonteCarloReport) -> str:
    """The report as a wide terminal shows it."""
    out = io.StringIO()
    Console(file=out, width=300).print(monte_carlo_text(report))
    return out.getvalue()


@pytest.mark.parametrize("name", costly(LOSSLESS))
def test_lossless_rules_stay_below(name: str) -> None:
    """At alpha = 1e-4 one in a thousand of these suites may fail, and with fixed seeds none."""
    for seed in range(3):
        asked = replace(SMALL, texts=200, batch=200, seed=seed, alpha=1e-4)
        report = monte_carlo(small_pair(), RULES[name], PROMPTS, asked)
        assert not report.lossless_rejected, report.reasons
        assert not report.end_to_end_rejected, report.end_to_end_reasons
        assert report.ended == "texts"
        assert (report.texts, report.tokens) == (200, 200 * 12)
        assert report.effect_upper_bound is not None


@pytest.mark.parametrize("filters", [Filters(0.0), Filters(0.7, top_k=3), Filters(1.3, top_p=0.8, min_p=0.1)], ids=str)
def test_filters_leave_a_lossless_rule_lossless(filters: Filters) -> None:
    """Tokens that the filters leave out would be impossible, were the reference's laws other than the verifier's."""
    report = monte_carlo(small_pair(), RULES["block-race"], PROMPTS, replace(SMALL, texts=200, filters=filters))
    assert not report.lossless_rejected, report.reasons
    assert (report.impossible, report.end_to_end.impossible) == (0, 0)


@pytest.mark.slow
def test_planted_faults_are_rejected() -> None:
    """The faintest, drafts at a temperature declared 10% too high, takes most: some 40,000 tokens."""
    asked = Settings(drafts=3, length=4, tokens=12, texts=6_000, batch=500)
    found = list(power(small_pair(), PROMPTS, asked))
    assert [fault for fault, _ in found] == list(FAULTS)
    for fault, report in found:
        assert report.log10_e >= POWER, fault.rule.name
        assert report.ended == "e-value"
        assert report.lossless_rejected
        assert report.rule == fault.rule.name
        assert report.settings["enough"] == POWER
        faint = fault.rule.name == "declared-at-another-temperature"
        assert report.tokens <= (72_000 if faint else 20_000)


def test_faults_say_what_is_wrong() -> None:
    assert len({fault.rule.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert isinstance(fault, PlantedFault)
        assert fault.says.endswith(".")
        assert fault.rule.lossless is not True


def test_a_run_ends_where_the_evidence_is_enough() -> None:
    rule = next(fault.rule for fault in FAULTS if fault.rule.name == "residual-not-subtracted")
    asked = replace(SMALL, texts=2_000, batch=10, alpha=0.01)
    report = monte_carlo(small_pair(), rule, PROMPTS, asked)
    assert report.ended == "e-value"
    assert report.log10_e >= report.threshold == 2
    assert report.texts < 200
    assert report.texts % 10 == 0
    assert "the text does not follow the target" in report.reasons[0]
    longer = monte_carlo(small_pair(), rule, PROMPTS, replace(asked, enough=10.0))
    assert longer.log10_e >= 10
    assert longer.texts > report.texts


def test_a_run_ends_when_time_is_up() -> None:
    report = monte_carlo(small_pair(), RULES["token"], PROMPTS, replace(SMALL, texts=10**6, batch=20, seconds=0.3))
    assert report.ended == "seconds"
    assert 20 <= report.texts < 10**5
    assert report.texts % 20 == 0


def accept_everything(round: Round, chance: Chance) -> Emission:
    """All of the first draft, and a token from q behind it."""
    last = chance.categorical(round.target_probs[:, 0, -1])
    B, L = round.rows, round.length
    return Emission(
        torch.cat([round.drafts[:, 0], last[:, None]], dim=1), torch.full((B,), L + 1), torch.zeros(B).long()
    )


def interrupts(call: int) -> Rule:
    """Token verification, and Ctrl-C in its ``call``-th round."""
    calls = []

    def verify(round: Round, chance: Chance) -> Emission:
        calls.append(round.rows)
        if len(calls) == call:
            raise KeyboardInterrupt
        return RULES["token"].verify(round, chance)

    return Rule("interrupted", verify, max_drafts=1)


def test_an_interrupted_run_tells_what_it_has() -> None:
    asked = replace(SMALL, texts=100, batch=10)
    rounds = 40
    report = monte_carlo(small_pair(), interrupts(rounds), PROMPTS, asked)
    assert report.ended == "interrupted"
    assert 0 < report.texts < 100
    assert report.texts % 10 == 0
    assert report.tokens == report.texts * 12
    whole = monte_carlo(
        small_pair(),
        Rule("interrupted", RULES["token"].verify, max_drafts=1),
        PROMPTS,
        replace(asked, texts=report.texts),
    )
    expected = outcome(whole)
    differing = {name for name, value in outcome(report).items() if value != expected[name]}
    assert differing == {"ended", "settings"}


def test_a_run_that_is_interrupted_at_once_has_nothing_to_tell() -> None:
    report = monte_carlo(small_pair(), interrupts(1), PROMPTS, SMALL)
    assert (report.ended, report.texts, report.tokens, report.rounds) == ("interrupted", 0, 0, 0)
    assert (report.log10_e, report.effect_upper_bound) == (pytest.approx(0), 1.0)
    assert report.first_token is None
    assert not report.lossless_rejected
    json.dumps(report.to_json(), allow_nan=False)


def test_an_interrupted_search_for_power_tells_of_its_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.montecarlo.run.FAULTS", (PlantedFault(interrupts(1), "It is interrupted."),))
    ((_, report),) = power(small_pair(), PROMPTS, SMALL)
    assert report.ended == "interrupted"


def test_the_same_seed_gives_the_same_report() -> None:
    first, again, other = (
        monte_carlo(small_pair(), RULES["block-race"], PROMPTS, replace(SMALL, seed=seed)) for seed in (1, 1, 2)
    )
    assert outcome(first) == outcome(again)
    assert first.log10_e != other.log10_e


@pytest.mark.slow
def test_the_size_of_a_batch_is_of_no_account() -> None:
    """Every prompt is taken as often as before, and as many texts are written; the last batch may be smaller."""
    for batch in (1, 7, 25):
        report = monte_carlo(small_pair(), RULES["token"], PROMPTS, replace(SMALL, texts=25, batch=batch))
        assert (report.texts, report.tokens) == (25, 300)
        assert report.first_token is not None
        assert (report.first_token.draws, report.first_token.prompts) == (25, 3)


def test_progress_is_told_after_every_batch() -> None:
    lines: list[str] = []
    monte_carlo(small_pair(), RULES["token"], PROMPTS, replace(SMALL, batch=20), progress=lines.append)
    assert [line.partition(",")[0] for line in lines] == [f"token: {done} of 60 texts" for done in (20, 40, 60)]


def test_a_report_is_valid_json() -> None:
    written = json.loads(
        json.dumps(monte_carlo(small_pair(), RULES["token"], PROMPTS, SMALL).to_json(), allow_nan=False)
    )
    for name in (
        "rule",
        "lossless_rejected",
        "log10_e",
        "alpha",
        "texts",
        "tokens",
        "worst_alternative",
        "effect_upper_bound",
        "block_efficiency",
        "acceptance_rate",
    ):
        assert written[name] is not None
    assert {"draft", "target", "verify"} <= set(written["seconds"])
    assert all(written["seconds"][part] > 0 for part in ("draft", "target", "verify"))
    assert written["lossless_rejected"] is False
    assert 1 <= written["block_efficiency"] <= 4
    assert written["block_efficiency"] == pytest.approx(1 + 3 * written["acceptance_rate"])
    assert written["settings"]["filters"]["temperature"] == 1


def says_the_unlikeliest(round: Round, chance: Chance) -> Emission:
    """Nothing is accepted, and the token is the one that the target likes least."""
    B, L = round.rows, round.length
    tokens = torch.full((B, L + 1), -1)
    tokens[:, 0] = round.target_probs[:, 0, 0].argmin(dim=-1)
    return Emission(tokens, torch.ones(B).long(), torch.full((B,), -1))


def test_impossible_tokens_are_reported_and_leave_valid_json() -> None:
    """With enough texts to compare the accepted length, which has no closed form along such text."""
    asked = replace(SMALL, texts=120, batch=120, tokens=4, filters=Filters(top_k=2))
    report = monte_carlo(small_pair(), Rule("perverse", says_the_unlikeliest), PROMPTS, asked)
    assert report.impossible == report.tokens == 480
    assert (report.log10_e, report.ended) == (math.inf, "e-value")
    assert report.reasons[0] == "480 tokens came out that the target gives probability zero"
    assert "log10 e = infinite" in shown(report)
    assert "still possible" not in shown(report)
    assert (report.effect_upper_bound, report.accepted) == (None, None)
    assert report.first_token is not None
    assert report.first_token.p == 1e-4
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (written["log10_e"], written["impossible"], written["lossless_rejected"]) == (None, 480, True)
    assert written["end_to_end"]["rejected"] is True


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; it must lie between 0 and 1"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"texts": 0}, "texts is 0; it must be at least 1"),
        ({"batch": 0}, "batch is 0"),
        ({"seconds": 0.0}, "seconds is 0.0; it must be a number above 0"),
        ({"seconds": math.nan}, "seconds is nan"),
        ({"seconds": math.inf}, "seconds is inf"),
        ({"enough": math.inf}, "enough is inf; it must be a number"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0 on"),
        ({"seed": 1 << 63}, "below 2.63"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Settings(**changed)


@pytest.mark.parametrize(
    ("changed", "prompts", "says"),
    [
        ({"tokens": 2}, PROMPTS, "a text of 2 tokens is shorter than a draft of 3"),
        ({"drafts": 0}, PROMPTS, "drafts is 0"),
        ({}, [], "there is no prompt"),
        ({}, [[1], []], "prompt 1 is empty"),
        ({"tokens": 39}, [[1, 2]], "more than the 40 that the models read"),
        ({}, [[VOCAB]], "outside the vocabulary"),
    ],
)
def test_what_cannot_be_decoded_is_refused(changed: dict[str, Any], prompts: list[list[int]], says: str) -> None:
    with pytest.raises(InputError, match=says):
        monte_carlo(small_pair(), RULES["token"], prompts, replace(SMALL, **changed))


def test_a_rule_that_breaks_its_contract_is_refused() -> None:
    def wrong(round: Round, chance: Chance) -> Emission:
        emission = says_the_unlikeliest(round, chance)
        return replace(emission, tokens=emission.tokens + VOCAB)

    with pytest.raises(EmissionError, match=r"rule 'wrong': row 0.*must be in the vocabulary"):
        monte_carlo(small_pair(), Rule("wrong", wrong), PROMPTS, SMALL)


def leviathan(residual: bool) -> Callable[..., Tensor]:
    """Token verification, or a fault of it."""

    def verify(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        return token_verification(draft_tokens, draft_probs, target_probs, residual)

    return verify


def stepping(residual: bool) -> Callable[..., Tensor]:
    """A function that drafts by itself: one round."""
    verify = leviathan(residual)

    def step(draft_model: Any, target_model: Any, input_ids: Tensor, gamma: int) -> Tensor:
        text, laws = input_ids, []
        for _ in range(gamma):
            laws.append(draft_model(text).logits[0, -1].softmax(-1))
            text = torch.cat([text, torch.multinomial(laws[-1], 1)[None]], dim=1)
        start = input_ids.shape[1]
        target = target_model(text).logits[0, start - 1 :].softmax(-1)
        return torch.cat([input_ids[0], verify(text[0, start:], torch.stack(laws), target)])

    return step


@pytest.mark.parametrize("right", [True, False])
def test_a_function_of_probabilities_runs_as_it_is(right: bool) -> None:
    torch.manual_seed(0)
    subject = verifier(leviathan(residual=right), "probabilities", name="mine.py:verify")
    report = monte_carlo(small_pair(), subject, PROMPTS, replace(SMALL, drafts=1, texts=400, batch=100, enough=6.0))
    assert report.rule == "mine.py:verify"
    assert report.lossless_rejected is not right
    assert report.end_to_end_rejected is not right
    assert report.ended == ("texts" if right else "e-value")
    assert report.accepted is None or not report.accepted.exact


@pytest.mark.parametrize("right", [True, False])
def test_a_step_runs_as_it_is(right: bool) -> None:
    torch.manual_seed(0)
    subject = verifier(stepping(residual=right), "step", name="mine.py:step", arguments={"gamma": "L"})
    asked = replace(SMALL, texts=60 if right else 150, batch=30, enough=6.0, tokens=8)
    report = monte_carlo(small_pair(), subject, PROMPTS, asked)
    assert report.lossless_rejected is not right
    assert report.log10_e == report.end_to_end.log10_e
    assert (report.end_to_end.numerical, report.accepted) == (None, None)
    assert report.tokens == report.texts * 8
    assert 1 < report.block_efficiency < 4
    assert report.seconds.target > 0


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda draft, target, ids: ids, "returned 3 ids for 3 input_ids"),
        (lambda draft, target, ids: ids[:, 1:], "returned 2 ids"),
        (lambda draft, target, ids: torch.cat([ids[:, 1:], ids[:, :1], ids], dim=1), "it must return those"),
        (lambda draft, target, ids: 1 / 0, "mine raised ZeroDivisionError"),
        (lambda draft, target, ids: torch.cat([ids, torch.tensor([[VOCAB]])], dim=1), "vocabulary"),
    ],
)
def test_steps_that_write_no_text_are_refused(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        monte_carlo(small_pair(), verifier(function, "step", name="mine"), PROMPTS, SMALL)


class CacheFault(LlamaForCausalLM):
    """A target that goes wrong where it reads on from a cache, as a kernel of its own for that might."""

    def __init__(self, config: Any, shift: int = 0, scale: float = 1.0) -> None:
        super().__init__(config)
        self.shift, self.scale = shift, scale

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        **more: Any,
    ) -> Any:
        cached = past_key_values is not None and past_key_values.get_seq_length() > 0
        if cached and position_ids is not None:
            position_ids = position_ids + self.shift
        found = super().forward(input_ids, attention_mask, position_ids, past_key_values, **more)
        if cached:
            found.logits = found.logits * self.scale
        return found


def with_cache_fault(**fault: Any) -> ModelPair:
    sound = small_pair()
    target = CacheFault(sound.target.config, **fault).double()
    target.load_state_dict(sound.target.state_dict())
    return pair_of(target, sound.draft, tokenizer())


@pytest.mark.parametrize("fault", [{"shift": 1}, {"scale": 1.15}], ids=str)
def test_a_fault_of_the_cache_shows_end_to_end_and_is_not_the_rule_s(fault: dict[str, Any]) -> None:
    """With prompts of one token too, after which nothing is cached: their first tokens are right."""
    pair = with_cache_fault(**fault)
    reference = Reference(pair, Filters(), torch.float64)
    assert reference.target is pair.target
    asked = Settings(drafts=2, length=3, tokens=12, texts=2_000, batch=1_000)
    report = monte_carlo(pair, RULES["block"], PROMPTS, asked, reference=reference)
    assert report.end_to_end.log10_e > 6
    assert report.end_to_end_rejected
    assert report.end_to_end.numerical > 0.005
    assert not report.lossless_rejected, report.reasons
    assert report.log10_e < report.threshold
    assert report.ended == "texts"
    said = shown(report)
    assert "block: the text follows the laws that the rule is told, and those are not the models' own" in said
    assert "- the text does not follow an independent call's laws; the best alternative: " in said
    assert "NOT lossless" not in said


def test_a_draft_of_other_weights_shows_in_the_accepted_length_alone() -> None:
    """The text is right whatever the draft is; that it is not the draft that was meant shows in what it reaches."""
    pair = small_pair()
    meant = ModelPair(pair.target, small_model(5), pair.tokenizer, pair.vocab, pair.names)
    report = monte_carlo(
        pair, RULES["block"], PROMPTS, replace(SMALL, texts=400, batch=400), reference=Reference(meant, Filters())
    )
    assert not report.lossless_rejected
    assert report.end_to_end.log10_e < report.threshold
    assert report.end_to_end_reasons == ["the accepted length is not that of the rule's closed form"]
    assert report.end_to_end_rejected
    assert "the text follows the target, but the accepted length is not what the models' own laws give" in shown(report)
    assert " of the float32 call" in shown(report)
    assert report.accepted is not None
    assert report.accepted.log10_e < report.threshold, "by the laws that the rule saw it is"


@pytest.mark.parametrize("filters", [Filters(top_p=0.7), Filters(top_k=2), Filters(0.0)], ids=str)
def test_another_number_format_is_not_blamed_on_the_rule(filters: Filters) -> None:
    """A filter cuts elsewhere in bfloat16: the independent call has tokens at zero. Faults show nevertheless."""
    sound = small_pair()
    half = [copy.deepcopy(model).to(torch.bfloat16) for model in (sound.target, sound.draft)]
    pair = pair_of(*half, tokenizer())
    asked = replace(SMALL, drafts=1, texts=400, batch=200, filters=filters, enough=6.0)
    right = monte_carlo(pair, RULES["block"], PROMPTS, asked)
    assert not right.end_to_end.judged
    assert (right.reasons, right.end_to_end_reasons) == ([], [])
    assert right.impossible == 0, "the laws that the rule saw are those that it is tested with"
    assert right.log10_e < right.threshold
    if filters.temperature:
        wrong = next(fault.rule for fault in FAULTS if fault.rule.name == "residual-not-subtracted")
        assert monte_carlo(pair, wrong, PROMPTS, asked).log10_e >= 6


def shrink(model: Any) -> None:
    model.lm_head.weight.data.copy_(small_pair().target.lm_head.weight / 1.5)


def flatten(model: Any) -> None:
    if not model.lm_head._forward_hooks:
        model.lm_head.register_forward_hook(lambda module, given, logits: logits / 1.5)


@pytest.mark.parametrize("change", [shrink, flatten])
def test_the_reference_does_not_follow_functions_that_change_the_models(change: Callable[[Any], Any]) -> None:
    """The independent call has models of its own."""
    pair = pair_of(*(copy.deepcopy(model) for model in (small_pair().target, small_pair().draft)), tokenizer())

    def step(draft_model: Any, target_model: Any, input_ids: Tensor) -> Tensor:
        change(target_model)
        law = target_model(input_ids).logits[0, -1].softmax(-1)
        return torch.cat([input_ids, torch.multinomial(law, 1)[None]], dim=1)

    torch.manual_seed(0)
    report = monte_carlo(pair, verifier(step, "step", name="mine"), PROMPTS, replace(SMALL, texts=120, batch=40))
    assert report.lossless_rejected
    assert report.acceptance_rate is None


@pytest.mark.parametrize("filters", [Filters(top_p=0.7), Filters(top_k=2), Filters(min_p=0.2), Filters(0.0)], ids=str)
def test_what_is_far_from_a_filter_s_edge_is_not_excused(filters: Filters) -> None:
    """A reference of other weights cuts elsewhere, and no rounding explains it."""
    pair = small_pair()
    other = copy.deepcopy(pair.target)
    with torch.no_grad():
        for weight in other.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=weight.dtype)
    reference = Reference(ModelPair(other, pair.draft, pair.tokenizer, pair.vocab, pair.names), filters, torch.float64)
    report = monte_carlo(
        pair, RULES["token"], PROMPTS, replace(SMALL, texts=400, batch=400, filters=filters), reference=reference
    )
    assert not report.lossless_rejected
    assert report.end_to_end.impossible > 0


def test_one_prompt_s_law_may_be_rounded_otherwise_in_another_batch() -> None:
    """Temperature 0 and a tie that rounding breaks: tokens that are impossible by the law of another batch."""

    calls = itertools.count()

    def wavering(module: Any, given: Any, logits: Tensor) -> Tensor:
        tied = torch.zeros_like(logits)
        tied[..., next(calls) % 2] = 1e-6
        return tied

    target = copy.deepcopy(small_pair().target)
    target.lm_head.register_forward_hook(wavering)
    pair = pair_of(target, small_pair().draft, tokenizer())
    report = monte_carlo(pair, RULES["token"], PROMPTS, replace(SMALL, texts=300, batch=50, filters=Filters(0.0)))
    assert report.first_token is None or report.first_token.p > report.alpha
    assert not report.lossless_rejected


def test_power_is_at_drafts_that_every_fault_shows_with() -> None:
    found = list(power(small_pair(), PROMPTS, replace(SMALL, drafts=1, length=1, tokens=2, texts=1, batch=1)))
    assert {(report.settings["drafts"], report.settings["length"]) for _, report in found} == {(3, 4)}
    with pytest.raises(InputError, match="temperature 0"):
        power(small_pair(), PROMPTS, replace(SMALL, filters=Filters(0.0)))


def test_power_goes_on_until_alpha_rejects() -> None:
    """A fault counts as rejected where its own report says so."""
    for alpha, enough in ((1e-3, POWER), (1e-8, 8)):
        asked = replace(SMALL, tokens=4, texts=1, batch=1, alpha=alpha)
        for _, report in power(small_pair(), PROMPTS, asked):
            assert report.settings["enough"] == pytest.approx(enough)


def test_the_confidence_is_not_rounded_to_certainty() -> None:
    for alpha, words in ((1e-3, "99.9%"), (1e-4, "99.99%")):
        report = monte_carlo(small_pair(), RULES["token"], PROMPTS, replace(SMALL, texts=30, batch=30, alpha=alpha))
        assert f"(confidence {words})" in shown(report)


@pytest.mark.parametrize("seed", range(4))
def test_code_that_is_seeded_with_the_run_s_number_does_not_meet_its_own_drafts(seed: int) -> None:
    """One number a call, as the drafts take: with one stream, what accepts a draft would be what drew another."""
    accept = torch.Generator().manual_seed(seed)

    def verify(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        token = int(draft_tokens[0])
        p, q = draft_probs[0], target_probs[0]
        accepted = bool(torch.rand(1, generator=accept, dtype=torch.float64) < q[token] / p[token])
        law = target_probs[1] if accepted else (q - p).clamp(min=0)
        behind = int((torch.rand(1, generator=accept, dtype=torch.float64) * law.sum() > law.cumsum(0)).sum())
        return torch.tensor([token, behind] if accepted else [behind])

    asked = Settings(drafts=1, length=1, tokens=8, texts=1_000, batch=100, seed=seed)
    report = monte_carlo(small_pair(), verifier(verify, "probabilities", name="mine"), PROMPTS, asked)
    assert not report.lossless_rejected, report.reasons
    assert not report.end_to_end_rejected, report.end_to_end_reasons


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_number_formats_that_are_no_standard_are_refused(dtype: torch.dtype) -> None:
    """A step's text cannot be told from rounding, and a coarse call is no truth to hold any rule against."""
    sound = small_pair()
    half = pair_of(*(copy.deepcopy(model).to(dtype) for model in (sound.target, sound.draft)), tokenizer())
    subject = verifier(stepping(residual=True), "step", name="mine", arguments={"gamma": "L"})
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(InputError, match=f"mine is a step, and the target runs in {name}.*load the models in float32"):
        monte_carlo(half, subject, PROMPTS, SMALL)
    with pytest.raises(InputError, match=f"the independent call cannot compute in {name}"):
        Reference(sound, Filters(), dtype)


def with_constant_logits(*logits: float) -> ModelPair:
    """A target that says the same of every token, by a head of its own, and the usual draft."""
    target = copy.deepcopy(small_pair().target)

    def constant(module: Any, given: Any, found: Tensor) -> Tensor:
        return torch.tensor(logits, dtype=torch.float64).expand_as(found).to(found.dtype)

    target.lm_head.register_forward_hook(constant)
    return pair_of(target, small_pair().draft, tokenizer())


NEARLY_TIED = (2.0, 1 + 1e-9, 1.0, 0.0, -1.0, -1.0, -1.0)


@pytest.mark.parametrize("filters", [Filters(top_k=2), Filters(top_p=0.6), Filters(min_p=math.exp(-1))], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_rounding_keeps_or_drops_is_not_held_against_rules(filters: Filters, dtype: torch.dtype) -> None:
    """Float64 models against a float32 call that takes two tokens for equal, and one that does not."""
    pair = with_constant_logits(*NEARLY_TIED)
    asked = replace(SMALL, filters=filters, texts=300, batch=300)
    report = monte_carlo(pair, RULES["block"], PROMPTS, asked, reference=Reference(pair, filters, dtype))
    assert not report.lossless_rejected, report.reasons
    assert not report.end_to_end_rejected, report.end_to_end_reasons
    assert report.end_to_end.edge == report.tokens == 300 * 12
    assert report.end_to_end.accepted is None
    assert f"{report.tokens} tokens are left out, as rounding decides there" in shown(report)


@pytest.mark.parametrize("filters", [Filters(top_k=2), Filters(top_p=0.6)], ids=str)
def test_what_rounding_keeps_or_drops_is_not_held_against_steps(filters: Filters) -> None:
    """A step that keeps the one of two equals that the reference does not; and one that keeps what nobody does."""
    pair = with_constant_logits(*NEARLY_TIED)

    def keeps(token: int) -> Callable[..., Tensor]:
        law = pair.target(torch.tensor([[0]])).logits[0, -1].softmax(-1)

        def step(draft_model: Any, target_model: Any, ids: Tensor) -> Tensor:
            kept = torch.zeros_like(law)
            kept[[0, token]] = law[[0, token]]
            return torch.cat([ids, torch.multinomial(kept, 1, generator=generator)[None]], dim=1)

        return step

    asked = replace(SMALL, filters=filters, texts=100, batch=50, tokens=6, length=1)
    for token, rejected in ((1, False), (2, False), (4, True)):
        generator = torch.Generator().manual_seed(3)
        report = monte_carlo(pair, verifier(keeps(token), "step", name="mine"), PROMPTS, asked)
        assert report.lossless_rejected is rejected, report.reasons
        assert "are left out, as rounding decides there" in shown(report)
        assert report.tokens == 6 * report.texts
    generator = torch.Generator().manual_seed(3)
    clear = with_constant_logits(2.0, 1.1, 1.0, 0.0, -1.0, -1.0, -1.0)
    assert monte_carlo(clear, verifier(keeps(2), "step", name="mine"), PROMPTS, asked).lossless_rejected


@pytest.mark.parametrize("filters", [Filters(top_k=2), Filters(top_p=0.6)], ids=str)
def test_what_rounding_decides_of_the_draft_s_law_is_not_held_against_its_length(filters: Filters) -> None:
    """The closed form by the independent call's draft is another one; by the laws that the rule saw it is reached."""
    tied, clear = with_constant_logits(*NEARLY_TIED), with_constant_logits(2.0, 1.1, 0.9, 0.0, -1.0, -1.0, -1.0)
    pair = ModelPair(clear.target, tied.target, clear.tokenizer, clear.vocab, clear.names)
    report = monte_carlo(pair, RULES["block"], PROMPTS, replace(SMALL, filters=filters, texts=200, batch=200))
    assert not report.end_to_end_rejected, report.end_to_end_reasons
    assert (report.end_to_end.edge, report.end_to_end.accepted) == (0, None)
    assert report.compared_end_to_end is report.accepted is not None


def test_a_registered_rule_is_held_to_its_closed_form_at_edges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_draft_alone(round: Round, chance: Chance) -> Emission:
        return RULES["block"].verify(round.first_drafts(1), chance)

    slow = replace(RULES["block-race"], verify=first_draft_alone)
    monkeypatch.setattr("spectr_verify.montecarlo.accepted.RULES", {"block-race": slow})
    pair, filters = with_constant_logits(*NEARLY_TIED), Filters(top_k=5)
    report = monte_carlo(pair, slow, PROMPTS, replace(SMALL, filters=filters, texts=300, batch=300))
    assert report.end_to_end.accepted is None
    assert report.end_to_end_reasons == ["the accepted length is not that of the rule's closed form"]


def test_a_rule_that_draws_for_itself_does_not_meet_its_own_drafts() -> None:
    """Of torch's own generator, which the command line seeds with the run's number."""

    def verify(round: Round, chance: Chance) -> Emission:
        token, row = round.drafts[:, 0, 0], torch.arange(round.rows)
        p, q = round.draft_probs[:, 0, 0], round.target_probs[:, 0]
        accepted = torch.rand(round.rows, dtype=torch.float64) < q[row, 0, token] / p[row, token]
        residual = chance.categorical((q[:, 0] - p).clamp(min=0) + 1e-300)
        tokens = torch.stack([torch.where(accepted, token, residual), chance.categorical(q[:, 1])], dim=1)
        length = accepted.long() + 1
        tokens[~accepted, 1] = -1
        return Emission(tokens, length, torch.where(accepted, 0, -1))

    for seed in range(4):
        torch.manual_seed(seed)
        asked = Settings(1, 1, 1, 2_000, Filters(2.0), batch=2_000, seed=seed)
        report = monte_carlo(small_pair(), Rule("own", verify, max_drafts=1), PROMPTS, asked)
        assert not report.lossless_rejected, report.reasons
        assert not report.end_to_end_rejected, report.end_to_end_reasons


def test_ratios_beyond_all_numbers_are_evidence_like_others() -> None:
    """q is 1e-310 where p is 1: an infinite ratio would be no JSON, and no verdict."""
    pair = with_constant_logits(0.0, -713.0, *[-800.0] * 5)
    draft = copy.deepcopy(pair.draft)
    draft.lm_head.register_forward_hook(
        lambda module, given, found: torch.zeros_like(found).index_fill(-1, torch.tensor([1]), 800.0)
    )
    always = Rule("accept-everything", accept_everything, max_drafts=1)
    other = ModelPair(pair.target, draft, pair.tokenizer, pair.vocab, pair.names)
    reference = Reference(other, Filters(), torch.float64)
    report = monte_carlo(other, always, PROMPTS, replace(SMALL, drafts=1), reference=reference)
    assert report.lossless_rejected
    assert math.isfinite(report.log10_e) is (report.impossible == 0)
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (written["log10_e"] is None) is (written["impossible"] > 0)


def test_an_interruption_of_the_report_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tested, calls = first_token_test, []

    def interrupted_once(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return tested(*given, **named)

    monkeypatch.setattr("spectr_verify.montecarlo.run.first_token_test", interrupted_once)
    report = monte_carlo(small_pair(), RULES["token"], PROMPTS, SMALL)
    assert (report.ended, report.texts) == ("interrupted", 60)


def test_a_step_that_breaks_a_tie_otherwise_is_right() -> None:
    """Temperature 0, two tokens that rounding decides between, and a step that rounds to the other one."""
    first, second = 0, 1

    def tied(module: Any, given: Any, logits: Tensor) -> Tensor:
        flat = torch.zeros_like(logits)
        flat[..., first], flat[..., second] = 5.0, 5.0 - 1e-6
        return flat

    target = copy.deepcopy(small_pair().target)
    target.lm_head.register_forward_hook(tied)
    pair = pair_of(target, small_pair().draft, tokenizer())

    def writes(token: int) -> Callable[..., Tensor]:
        return lambda draft_model, target_model, ids: torch.cat([ids, torch.tensor([[token]])], dim=1)

    asked = replace(SMALL, filters=Filters(0.0))
    for token, rejected in ((first, False), (second, False), (2, True)):
        report = monte_carlo(pair, verifier(writes(token), "step", name="mine", temperature=0.0), PROMPTS, asked)
        assert report.lossless_rejected is rejected, report.reasons
