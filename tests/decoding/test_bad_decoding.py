"""What cannot be decoded is refused with its cause: prompts, sizes, models, rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_models import LIMIT, VOCAB, small_model, small_pair, tokenizer
from torch import Tensor

from spectr_verify.chance import Chance, ChanceError
from spectr_verify.decoding import Filters, ModelError, ModelPair, Texts, decode
from spectr_verify.decoding.models import pair_of
from spectr_verify.errors import InputError
from spectr_verify.rounds import Emission, EmissionError, Round
from spectr_verify.rules import RULES, Rule

INF, NAN = float("inf"), float("nan")


def decoded(
    rule: Rule = RULES["block"],
    prompts: list[list[int]] | None = None,
    *,
    pair: ModelPair | None = None,
    tokens: int = 8,
    drafts: int = 2,
    length: int = 3,
    filters: Filters | None = None,
) -> Texts:
    return decode(
        pair or small_pair(),
        rule,
        [[1, 2], [3]] if prompts is None else prompts,
        tokens=tokens,
        drafts=drafts,
        length=length,
        filters=filters,
        generator=torch.Generator().manual_seed(0),
    )


@pytest.mark.parametrize(
    ("prompts", "says"),
    [
        ([], "there is no prompt"),
        ([[1], []], "prompt 1 is empty"),
        ([[1], [1] * (LIMIT - 7)], f"prompt 1 has 33 tokens, which with 8 new ones is more than the {LIMIT}"),
        ([[1], [1] * (LIMIT + 1)], f"prompt 1 has {LIMIT + 1} tokens"),
        ([[1], [2, VOCAB]], "prompt 1 has a token outside the vocabulary 0..6"),
        ([[-1]], "prompt 0 has a token outside the vocabulary"),
    ],
)
def test_prompts(prompts: list[list[int]], says: str) -> None:
    with pytest.raises(InputError, match=says):
        decoded(prompts=prompts)


@pytest.mark.parametrize("name", RULES)
def test_the_longest_prompt_that_fits(name: str) -> None:
    """The last token stands where the models can read no further."""
    texts = decoded(RULES[name], [[1] * (LIMIT - 8), [2]])
    assert texts.lengths.tolist() == [8, 8]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tokens": 2}, "a text of 2 tokens is shorter than a draft of 3; ask for longer texts or shorter drafts"),
        ({"tokens": 0}, "tokens is 0; it must be at least 1"),
        ({"drafts": 0}, "drafts is 0; it must be at least 1"),
        ({"length": 0}, "length is 0; it must be at least 1"),
        ({"length": -1}, "length is -1; it must be at least 1"),
    ],
)
def test_sizes(given: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        decoded(**given)


def test_a_draft_as_long_as_the_text() -> None:
    assert decoded(tokens=3).lengths.tolist() == [3, 3]


def answering(value: float, *, token: int, calls: int = 0, seed: int = 0, embeddings: int = VOCAB) -> Any:
    """A small model that gives one token this logit, from some call on."""
    model = small_model(seed, embeddings=embeddings)
    seen = 0

    def changed(module: Any, given: Any, logits: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        return logits.index_fill(-1, torch.tensor(token), value) if seen > calls else logits

    model.lm_head.register_forward_hook(changed)
    return model


@pytest.mark.parametrize("filters", [Filters(), Filters(temperature=0), Filters(0.7, 5, 0.9, 0.05)], ids=str)
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("calls", [1, 4])
@pytest.mark.parametrize("which", ["target", "draft"])
def test_logits_that_are_no_numbers(which: str, calls: int, value: float, filters: Filters) -> None:
    """The first call of the target only reads the prompts: no law follows from it."""
    models = {"target": small_model(0), "draft": small_model(1), which: answering(value, token=3, calls=calls)}
    pair = pair_of(models["target"], models["draft"], tokenizer(), names=("large", "small"))
    name = "large" if which == "target" else "small"
    with pytest.raises(ModelError, match=f"{name} gives logits that are not finite numbers; no law follows"):
        decoded(pair=pair, filters=filters)


def test_minus_infinity_forbids_a_token() -> None:
    pair = pair_of(answering(-INF, token=3), small_model(1), tokenizer())
    assert not bool((decoded(pair=pair, tokens=20).tokens == 3).any())


def test_what_is_beyond_the_vocabulary_need_not_be_a_number() -> None:
    """Padding of an embedding may hold anything."""
    target = answering(NAN, token=VOCAB, embeddings=VOCAB + 1)
    texts = decoded(pair=pair_of(target, small_model(1), tokenizer()))
    assert texts.lengths.tolist() == [8, 8]
    assert bool(texts.target_probs.isfinite().all())


def emitting(tokens: list[int], length: int, draft: int) -> Callable[[Round, Chance], Emission]:
    def emit(round: Round, chance: Chance) -> Emission:
        row = torch.tensor([*tokens, *[-1] * (round.length + 1 - len(tokens))])
        return Emission(row.repeat(round.rows, 1), torch.tensor([length] * round.rows), torch.tensor([draft]))

    return emit


def one_too_many(round: Round, chance: Chance) -> Emission:
    emission = RULES["autoregressive"].verify(round, chance)
    return replace(emission, tokens=emission.tokens.clamp(min=0))


def not_accepted(round: Round, chance: Chance) -> Emission:
    """It says that it accepted a token that it was not offered."""
    emission = RULES["autoregressive"].verify(round, chance)
    tokens = emission.tokens.clone()
    tokens[:, 1] = tokens[:, 0]
    tokens[:, 0] = (round.drafts[:, 0, 0] + 1) % round.vocab
    return Emission(tokens, emission.length + 1, torch.zeros_like(emission.draft))


@pytest.mark.parametrize(
    ("verify", "says"),
    [
        (lambda round, chance: None, "must return an Emission; it returned NoneType"),
        (emitting([VOCAB], 1, -1), "every emitted token must be in the vocabulary 0..6"),
        (emitting([-1], 1, -1), "every emitted token must be in the vocabulary 0..6"),
        (emitting([0], 0, -1), "the length must be 1 to 4"),
        (emitting([0], 1, 2), "an accepted prefix must name its draft, 0 to 1"),
        (emitting([0, 0, 0, 0, 0], 5, 0), r"Emission.tokens must be an int64 tensor of shape \[1, 4\]"),
        (one_too_many, "positions after the last emitted token must hold -1"),
        (not_accepted, "not a prefix of the draft"),
    ],
)
def test_rules_that_emit_what_they_must_not(verify: Callable[..., Any], says: str) -> None:
    with pytest.raises(EmissionError, match=f"rule 'mine': .*{says}"):
        decoded(Rule("mine", verify), [[1, 2]])


def test_a_rule_that_raises() -> None:
    with pytest.raises(InputError, match="rule 'mine' raised ZeroDivisionError: division by zero") as refusal:
        decoded(Rule("mine", lambda round, chance: 1 / 0))
    assert isinstance(refusal.value.__cause__, ZeroDivisionError), "its traceback helps its author"


def test_a_rule_that_ends_the_program_is_stopped() -> None:
    def leave(round: Round, chance: Chance) -> Emission:
        raise SystemExit(3)

    with pytest.raises(InputError, match="rule 'mine' raised SystemExit: 3"):
        decoded(Rule("mine", leave))


def test_an_interruption_is_none_of_its_faults() -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decoded(Rule("mine", interrupted))
    with pytest.raises(KeyboardInterrupt):
        decoded(stateful(interrupted))


def test_a_rule_that_asks_for_an_impossible_choice() -> None:
    def asks(round: Round, chance: Chance) -> Emission:
        return emitting([int(chance.categorical(torch.zeros(1, 2)))], 1, -1)(round, chance)

    with pytest.raises(ChanceError, match="rule 'mine': categorical, row 0: no positive entry"):
        decoded(Rule("mine", asks))


@pytest.mark.parametrize("way", ["in place", "numpy", "data"])
def test_a_rule_that_writes_into_its_round_changes_nothing_else(way: str) -> None:
    """The reported probabilities, the caches and what later rounds owe would be those that it left."""

    def writes(round: Round, chance: Chance) -> Emission:
        emission = RULES["block"].verify(round.first_drafts(1), chance)
        for part in (round.target_probs, round.draft_probs, round.drafts):
            if way == "numpy":
                part.numpy()[:] = 1
            else:
                (part if way == "in place" else part.data).fill_(1)
        return emission

    def alone(round: Round, chance: Chance) -> Emission:
        return RULES["block"].verify(round.first_drafts(1), chance)

    one, other = decoded(Rule("mine", writes), tokens=12), decoded(Rule("mine", alone), tokens=12)
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.target_probs, other.target_probs)


def test_a_rule_may_use_its_tensors_again() -> None:
    """Its emission of this round must not become that of the next one."""
    greedy, kept = RULES["greedy-block"], {}

    def again(round: Round, chance: Chance) -> Emission:
        emission = greedy.verify(round, chance)
        for name in ("tokens", "length", "draft"):
            value = getattr(emission, name)
            kept[name] = kept.get(name, value).resize_(value.shape).copy_(value)
        return Emission(**kept)

    found, due = decoded(replace(greedy, verify=again), tokens=20), decoded(greedy, tokens=20)
    assert torch.equal(found.tokens, due.tokens)


def stateful(modified: Callable[..., Any]) -> Rule:
    return Rule("mine", RULES["greedy-block"].verify, kind="stateful", modified_target=modified, max_drafts=1)


def raises(tokens: Tensor, p: Tensor, q: Tensor, drafts: int) -> Tensor:
    raise LookupError("nothing there")


@pytest.mark.parametrize(
    ("modified", "says"),
    [
        (raises, "raised LookupError: nothing there"),
        (lambda tokens, p, q, drafts: None, "must return weights of shape"),
        (lambda tokens, p, q, drafts: q[..., :-1], r"must return weights of shape \[\d+, 3, 7\]"),
        (lambda tokens, p, q, drafts: q[:, :-1], r"must return weights of shape \[\d+, 3, 7\]"),
        (lambda tokens, p, q, drafts: (q * 9).long(), "must return weights of shape"),
        (lambda tokens, p, q, drafts: q * NAN, "must return finite weights, none negative"),
        (lambda tokens, p, q, drafts: q / 0, "must return finite weights, none negative"),
        (lambda tokens, p, q, drafts: q - p, "must return finite weights, none negative"),
    ],
)
def test_modified_targets(modified: Callable[..., Any], says: str) -> None:
    with pytest.raises(InputError, match=f"rule 'mine': modified_target {says}"):
        decoded(stateful(modified))


def test_a_modified_target_may_write_into_what_it_is_given() -> None:
    """Where it leaves only zeros the plain target holds, and not what it made of it."""

    def writes(tokens: Tensor, p: Tensor, q: Tensor, drafts: int) -> Tensor:
        return q.zero_()

    def zeros(tokens: Tensor, p: Tensor, q: Tensor, drafts: int) -> Tensor:
        return torch.zeros_like(q)

    assert torch.equal(decoded(stateful(writes), tokens=20).tokens, decoded(stateful(zeros), tokens=20).tokens)


def test_a_model_without_a_cache() -> None:
    target = small_model(0)
    target.forward = lambda input_ids: None
    with pytest.raises(ModelError, match=r"target \(LlamaForCausalLM\) has no cache of keys and values"):
        decoded(pair=pair_of(target, small_model(1), tokenizer()))
