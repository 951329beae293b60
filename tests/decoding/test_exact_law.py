"""The exact law of the text that the loop writes, over several rounds, is the target's.

Two ways lead there. The project's own replay answers every random number that one text is decoded with. And the loop
decodes every text that can come out in one batch: all worlds run in lock-step and fork at each choice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from table_lm import START, table_pair
from torch import Tensor, nn

from spectr_verify.audit import Instance, judge
from spectr_verify.chance import Chance, check_intervals, check_weights, smallest_uniform_law
from spectr_verify.decoding import ModelPair, decode, loop
from spectr_verify.errors import InputError
from spectr_verify.replay import verifier
from spectr_verify.rules import RULES, Rule
from toy_models import TableModel, ToyPair, family_pairs, strategies

UNMODIFIED = Rule("greedy-block without its modified target", RULES["greedy-block"].verify, max_drafts=1)

LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]

TOLERANCE = 1e-9

Text = tuple[int, ...]


def drawn_pair(vocab: int, length: int) -> ToyPair:
    return family_pairs(0, vocab, length)[0]


def replayed_error(rule: Rule, drafts: int, length: int, tokens: int) -> float:
    """Total-variation distance of the first tokens of one text, decoded by itself, from the target's law."""
    pair = drawn_pair(2, 2)
    models = table_pair(pair)

    def step(draft: nn.Module, target: nn.Module, input_ids: Tensor) -> Tensor:
        wanted: dict[str, Any] = {"tokens": tokens, "drafts": drafts, "length": length}
        texts = decode(models, rule, input_ids.tolist(), **wanted, generator=torch.Generator())
        return torch.cat([input_ids, texts.tokens], dim=1)

    return judge(verifier(step, "step"), Instance(pair, length, drafts)).round.tv_round


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "drafts", "length", "tokens"),
    [
        ("token", 1, 2, 2),
        ("block", 1, 2, 2),
        ("greedy-block", 1, 2, 3),
        ("block-race", 2, 1, 1),
        ("tournament-greedy-block", 2, 2, 2),
    ],
)
def test_replayed(name: str, drafts: int, length: int, tokens: int) -> None:
    """With the generator that draws in use, and not another chance in its place."""
    assert replayed_error(RULES[name], drafts, length, tokens) <= TOLERANCE


def test_replay_sees_the_bias_of_a_rule_without_its_modified_target() -> None:
    assert replayed_error(UNMODIFIED, 1, 2, 2) > 1e-3


class ForkError(InputError):
    """A choice that is not recorded. The loop takes it for a refusal, and lets it pass."""

    def __init__(self, worlds: Tensor, law: Tensor) -> None:
        super().__init__("not recorded")
        self.worlds, self.law = worlds, law


@dataclass
class Worlds(Chance):
    """Every way that texts can go on, one a row of the batch.

    Attributes:
        prompt: int64 [W], which prompt each world goes on from.
        record: int64 [W, D], what was answered so far; -1 where the world's text was finished.
        weight: float64 [W], the probability of that.
        batch: of the loop that runs; it knows whose texts are not finished.
    """

    prompt: Tensor
    record: Tensor
    weight: Tensor = field(init=False)
    asked: int = 0
    batch: Any = None

    def __post_init__(self) -> None:
        self.weight = torch.ones(len(self.prompt), dtype=torch.float64)

    def categorical(self, weights: Tensor) -> Tensor:
        several = weights.flatten(0, -2)
        return self._answers(several / check_weights(several)[:, None]).view(weights.shape[:-1])

    def smallest_uniform(self, low: Tensor, high: Tensor) -> Tensor:
        check_intervals(low, high)
        return self._answers(smallest_uniform_law(low, high))

    def _answers(self, law: Tensor) -> Tensor:
        """To one choice of each active text, or to one of each of its drafts: choices independent of each other."""
        of_text = law.unflatten(0, (len(self.batch.active), -1))
        return torch.stack([self._answer(each) for each in of_text.unbind(dim=1)], dim=1).flatten()

    def _answer(self, law: Tensor) -> Tensor:
        active = self.batch.active
        if self.asked == self.record.shape[1]:
            raise ForkError(active, law)
        answer = self.record[active, self.asked]
        self.weight[active] *= law.gather(1, answer[:, None])[:, 0]
        self.asked += 1
        return answer

    def forked(self, fork: ForkError) -> Worlds:
        """Every active world once for each outcome of positive probability."""
        row, outcome = (fork.law > 0).nonzero(as_tuple=True)
        finished = torch.ones(len(self.prompt), dtype=torch.bool)
        finished[fork.worlds] = False
        origin = torch.cat([finished.nonzero()[:, 0], fork.worlds[row]])
        answer = torch.cat([torch.full((int(finished.sum()),), -1), outcome])
        return Worlds(self.prompt[origin], torch.cat([self.record[origin], answer[:, None]], dim=1))


PROMPTS = [[START], [START, 1, 0]]


def decoded(models: ModelPair, rule: Rule, drafts: int, length: int, tokens: int) -> list[Counter[Text]]:
    """The law of the text after each prompt; all texts in one batch."""
    started = loop._started
    worlds = Worlds(torch.arange(len(PROMPTS)), torch.empty(len(PROMPTS), 0, dtype=torch.int64))

    def noted(*arguments: Any) -> Any:
        worlds.batch = started(*arguments)
        return worlds.batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_started", noted)
        patch.setattr(loop, "Sampled", lambda generator: worlds)
        wanted: dict[str, Any] = {"tokens": tokens, "drafts": drafts, "length": length}
        while True:
            prompts = [PROMPTS[number] for number in worlds.prompt.tolist()]
            try:
                texts = decode(models, rule, prompts, **wanted, generator=torch.Generator())
                break
            except ForkError as fork:
                worlds = worlds.forked(fork)
    laws: list[Counter[Text]] = [Counter() for _ in PROMPTS]
    every = zip(worlds.prompt.tolist(), texts.tokens.tolist(), worlds.weight.tolist(), strict=True)
    for number, text, weight in every:
        laws[number][tuple(token for token in text if token >= 0)] += weight
    return laws


def owed(target: TableModel, prompt: list[int], tokens: int, end: int | None) -> Counter[Text]:
    """The target's law of the text after a prompt."""
    law: Counter[Text] = Counter()
    joint = target.after(prompt[1:], tokens).joint(tokens)
    for text, weight in zip(product(range(target.vocab), repeat=tokens), joint.tolist(), strict=True):
        law[text[: text.index(end) + 1] if end in text else text] += weight
    return law


def worst_error(
    rule: Rule, pair: ToyPair, drafts: int, length: int, tokens: int, *, limit: int = 64, end: int | None = None
) -> float:
    """Largest total-variation distance from the target's law, of the text after any of the prompts."""
    laws = decoded(table_pair(pair, limit, end), rule, drafts, length, tokens)
    errors = []
    for prompt, law in zip(PROMPTS, laws, strict=True):
        due = owed(pair.target, prompt, tokens, end)
        errors.append(sum(abs(law[text] - due[text]) for text in law.keys() | due.keys()) / 2)
    return max(errors)


@pytest.mark.parametrize("name", LOSSLESS)
def test_many_rounds(name: str) -> None:
    """Every text that can come out is in one batch, and the caches of the texts are of different lengths."""
    assert worst_error(RULES[name], drawn_pair(2, 2), 1, 2, 4) <= TOLERANCE


@pytest.mark.parametrize("name", LOSSLESS)
def test_two_drafts(name: str) -> None:
    assert worst_error(RULES[name], drawn_pair(2, 2), 2, 2, 2) <= TOLERANCE


@pytest.mark.parametrize(
    ("name", "drafts", "length", "tokens"), [("greedy-block", 1, 3, 4), ("tournament-greedy-block", 2, 2, 3)]
)
def test_nested_modified_targets(name: str, drafts: int, length: int, tokens: int) -> None:
    """The third round's target is what the second left of what the first left."""
    assert worst_error(RULES[name], drawn_pair(2, length), drafts, length, tokens) <= TOLERANCE


def test_a_modified_target_of_zeros_is_the_plain_one() -> None:
    def nothing(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
        return torch.zeros_like(target_probs)

    rule = Rule("block, stateful", RULES["block"].verify, kind="stateful", modified_target=nothing, max_drafts=1)
    assert worst_error(rule, drawn_pair(2, 2), 1, 2, 4) <= TOLERANCE


@pytest.mark.parametrize("name", ["block", "greedy-block", "tournament-greedy-block"])
def test_near_the_end_of_what_the_models_read(name: str) -> None:
    """Drafts are cut short, so that rounds of different lengths follow each other."""
    longest = max(map(len, PROMPTS))
    assert worst_error(RULES[name], drawn_pair(2, 3), 1, 3, 4, limit=longest + 4) <= TOLERANCE


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.slow
def test_texts_that_end(name: str) -> None:
    assert worst_error(RULES[name], drawn_pair(3, 2), 1, 2, 3, end=2) <= TOLERANCE


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    name=st.sampled_from(LOSSLESS), pair=strategies.pairs(max_vocab=2, max_drafts=2), tokens=st.integers(2, 3)
)
def test_any_pair(name: str, pair: ToyPair, tokens: int) -> None:
    """Laws with zeros among them, and drafts that share their first tokens."""
    assert pair.drafts is not None
    assert pair.length is not None
    assert worst_error(RULES[name], pair, pair.drafts, pair.length, tokens) <= TOLERANCE


def test_a_rule_without_its_modified_target_is_biased() -> None:
    assert worst_error(UNMODIFIED, drawn_pair(2, 2), 1, 2, 3) > 1e-3
