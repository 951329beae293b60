"""Exact laws of replayed code, however it is called."""

from __future__ import annotations

import torch

from spectr_verify import exact
from spectr_verify.exact import Limits, RoundLaw, TextLaw
from spectr_verify.exact.law import TOTAL_TOLERANCE, EnumerationError
from spectr_verify.replay import step
from spectr_verify.replay.probabilities import Replayed
from spectr_verify.replay.verifier import Verifier
from spectr_verify.rules import Rule
from toy_models import ToyPair


def replayed_laws(
    verifier: Verifier,
    pair: ToyPair,
    length: int,
    drafts: int,
    tokens: int | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    limits: Limits | None = None,
) -> tuple[RoundLaw, TextLaw | None]:
    """The law of one round, and if asked that of the first ``tokens`` tokens.

    A "step" function may append more than L + 1 tokens; its round is then what one call appends.

    Args:
        verifier: replayed code.
        pair, length, drafts: the models, L and K.
        tokens: the length of the text.
        dtype: number format of the laws that it sees.
        limits: how large the enumeration may get.

    Raises:
        BudgetError: the verifier's budget is used up.
        ReplayError, EmissionError, ArgumentError: no law; the message says what was seen and what to do.
        LimitError: it would be larger than ``limits``.
    """
    limits = limits or Limits()
    if verifier.calls == "step":
        stepper = step.Stepper(verifier, pair, length, drafts, dtype)
        round = step.round_law(stepper, limits)
        text = None if tokens is None else step.text_law(stepper, tokens, limits)
        for law in (round, text):
            if law is not None and not abs(law.total - 1) <= TOTAL_TOLERANCE:
                raise EnumerationError(f"{verifier.name}: the paths' weights sum to {law.total!r}, not to 1")
        return round, text
    rule = Rule(verifier.name, Replayed(verifier))
    round = exact.round_law(rule, pair, length, drafts, dtype=dtype, limits=limits)
    text = None if tokens is None else exact.text_law(rule, pair, length, drafts, tokens, dtype=dtype, limits=limits)
    return round, text
