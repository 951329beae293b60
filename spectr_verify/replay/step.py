"""Functions that draft by themselves, ``f(draft_model, target_model, input_ids)``: the law of what they append."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from spectr_verify.exact import Limits, RoundLaw, TextLaw
from spectr_verify.replay.arguments import check_call
from spectr_verify.replay.runner import Failure, Outcome, outcomes
from spectr_verify.replay.tokens import emitted_tokens
from spectr_verify.replay.toy_lm import toy_lm
from spectr_verify.replay.verifier import Verifier
from spectr_verify.rounds import EmissionError
from toy_models import TableModel, ToyPair
from toy_models.tables import Floats

START = 0
"""The start-of-text token: the first of ``input_ids``, on which no law depends."""

Text = tuple[int, ...]


class Stepper:
    """One function on the models of one pair.

    Attributes:
        reference: what the text must follow: the target at the verifier's temperature.
    """

    def __init__(self, verifier: Verifier, pair: ToyPair, length: int, drafts: int, dtype: torch.dtype) -> None:
        """Build the models; K and L are for the arguments."""
        pair.check_size(length, drafts)
        models = ("draft_model", "target_model", "input_ids")
        check_call(verifier.function, verifier.name, models, verifier.arguments.expressions)
        self.verifier, self.pair, self.length, self.drafts = verifier, pair, length, drafts
        # Models of transformers are for code that uses transformers; importing it for others would cost seconds.
        plain = "transformers" not in sys.modules
        self.models: list[nn.Module] = [toy_lm(model, dtype=dtype, plain=plain) for model in (pair.draft, pair.target)]
        verifier.models.extend(self.models)
        self.reference = tempered(pair.target, verifier.temperature)
        self.paths = 0
        self._laws: dict[Text, dict[Text, float]] = {}

    def law(self, prefix: Text) -> dict[Text, float]:
        """What is appended to a text, and its probability."""
        if prefix not in self._laws:
            law: dict[Text, float] = {}
            for tokens, weight, _ in self.appended(prefix):
                self.paths += 1
                if isinstance(tokens, Failure):
                    self.verifier.seen.note_failure(tokens, weight)
                else:
                    law[tokens] = law.get(tokens, 0.0) + weight
            total = sum(law.values())
            self._laws[prefix] = {tokens: weight / total for tokens, weight in law.items()}
        return self._laws[prefix]

    def appended(self, prefix: Text, *, edges: bool = False) -> Iterator[tuple[Text | Failure, float, float | None]]:
        """Every path: the tokens appended to ``prefix``, the weight, and the extreme value that a uniform took."""
        verifier = self.verifier
        for outcome in outcomes(lambda: self._call(prefix), verifier.name, verifier.budget, verifier.seen, edges=edges):
            if isinstance(outcome.result, Failure):
                yield outcome.result, outcome.weight, outcome.edge
                continue
            yield self._tokens(outcome, prefix), outcome.weight, outcome.edge

    def _call(self, prefix: Text) -> Any:
        verifier = self.verifier
        names = {
            "L": self.length,
            "K": self.drafts,
            "V": self.pair.vocab,
            "temperature": verifier.temperature,
            "torch": torch,
        }
        ids = torch.tensor([[START, *prefix]])
        given = verifier.arguments.values(names)
        before = ids._version
        result = verifier.function(*self.models, ids, **given)
        if ids._version != before:
            verifier.seen.note("it writes into the input_ids that it is given")
        return result

    def _tokens(self, outcome: Outcome, prefix: Text) -> Text | Failure:
        name, given = self.verifier.name, (START, *prefix)
        try:
            tokens = emitted_tokens(outcome.result, name, self.pair.vocab, None)
            if tokens[: len(given)] != given:
                raise EmissionError(
                    f"{name} returned the ids {list(tokens)} for the input_ids {list(given)}; it must return those "
                    "and behind them the new tokens"
                )
            if len(tokens) == len(given):
                raise EmissionError(f"{name} returned its input_ids {list(given)} with no new token behind them")
        except EmissionError as error:
            if not outcome.excused:
                raise
            return Failure(str(error))
        return tokens[len(given) :]


def round_law(stepper: Stepper, limits: Limits) -> RoundLaw:
    """Law of what one call appends to the empty text, completed with the reference to the longest that it appends."""
    V, law = stepper.pair.vocab, stepper.law(())
    most = max(map(len, law))
    limits.check_texts(V, most, stepper.verifier.name)
    emissions = tuple(np.zeros(V ** (t + 1)) for t in range(most))
    completed = np.zeros(V**most)
    for tokens, weight in law.items():
        emissions[len(tokens) - 1][stepper.reference.index(tokens)] += weight
        completed += weight * _completed(stepper.reference, tokens, most)
    return RoundLaw(emissions, completed, stepper.reference.joint(most), sum(law.values()), stepper.paths)


def text_law(stepper: Stepper, tokens: int, limits: Limits) -> TextLaw:
    """Law of the first tokens of a text that call after call writes, each on the longer text of the one before."""
    V = stepper.pair.vocab
    limits.check_texts(V, tokens, stepper.verifier.name)
    text = np.zeros(V**tokens)
    starts: dict[Text, float] = {(): 1.0}
    while starts:
        prefix = min(starts, key=len)
        reached = starts.pop(prefix)
        for appended, weight in stepper.law(prefix).items():
            longer = prefix + appended
            if len(longer) >= tokens:
                text[stepper.reference.index(longer[:tokens])] += reached * weight
            else:
                starts[longer] = starts.get(longer, 0.0) + reached * weight
    return TextLaw(text, stepper.reference.joint(tokens), tokens, float(text.sum()), stepper.paths)


def _completed(reference: TableModel, tokens: Text, length: int) -> Floats:
    """Law of texts that begin with ``tokens`` and go on with the reference: float64 [V**length]."""
    V, rest = reference.vocab, length - len(tokens)
    law = np.zeros((V ** len(tokens), V**rest))
    law[reference.index(tokens)] = reference.after(tokens, rest).joint(rest) if rest else 1.0
    found: Floats = law.ravel()
    return found


def tempered(model: TableModel, temperature: float) -> TableModel:
    """The model with its logits divided by a temperature; at 0 the likeliest token is certain, of equals the first."""
    if temperature == 1:
        return model
    levels = []
    for level in model.levels:
        if temperature == 0:
            levels.append(np.eye(model.vocab)[level.argmax(axis=1)])
            continue
        with np.errstate(divide="ignore"):
            logits = np.log(level) / temperature
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        levels.append(weights / weights.sum(axis=1, keepdims=True))
    return TableModel(tuple(levels))


__all__ = ["START", "Stepper", "round_law", "tempered", "text_law"]
