"""Texts written by a function that drafts and verifies by itself, ``f(draft_model, target_model, input_ids)``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from spectr_verify.decoding import CORRECTION, ModelPair, Seconds, Texts
from spectr_verify.decoding.loop import NOTHING, check_texts
from spectr_verify.errors import InputError, said
from spectr_verify.replay import Verifier
from spectr_verify.replay.tokens import emitted_tokens
from spectr_verify.rounds import EmissionError


def write_by_steps(
    pair: ModelPair,
    verifier: Verifier,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    drafts: int,
    length: int,
    seconds: Seconds,
) -> Texts:
    """Call the function again and again until each text has N tokens; what it writes beyond them is dropped.

    A call counts as a round that accepted all its tokens but one. What it took for the target's laws is not known:
    ``target_probs`` is NaN. Its time is all counted as the target's.

    Args:
        pair: the models that it is given.
        verifier: the function, called "step", and its arguments.
        prompts: token ids of each.
        tokens: N.
        drafts, length: K and L, for the arguments.
        seconds: where the time is added up.

    Raises:
        InputError: a prompt cannot be read, or the function raises.
        EmissionError: it does not return its ids and more behind them.
    """
    check_texts(pair, prompts, tokens, drafts, length)
    names = {"L": length, "K": drafts, "V": pair.vocab, "temperature": verifier.temperature, "torch": torch}
    given = verifier.arguments.values(names)
    written, starts = torch.empty(len(prompts), tokens, dtype=torch.int64), []
    for row, prompt in enumerate(prompts):
        text, begun = list(prompt), []
        while len(text) < len(prompt) + tokens:
            begun.append((len(text) - len(prompt), 0))
            with seconds.spent("target", pair.device):
                longer = _called(pair, verifier, text, given)
            begun[-1] = (begun[-1][0], len(longer) - len(text) - 1)
            text = longer
        written[row] = torch.tensor(text[len(prompt) : len(prompt) + tokens])
        starts.append(begun)
    rounds = max(map(len, starts))
    table = torch.tensor([[*begun, *[(NOTHING, NOTHING)] * (rounds - len(begun))] for begun in starts])
    return Texts(
        [list(prompt) for prompt in prompts],
        written.to(pair.device),
        torch.full_like(written, CORRECTION),
        torch.full(written.shape, torch.nan, dtype=torch.float64, device=pair.device),
        table[..., 0],
        table[..., 1],
        torch.full((rounds,), length),
    )


def _called(pair: ModelPair, verifier: Verifier, text: list[int], given: dict[str, object]) -> list[int]:
    ids: Tensor = torch.tensor([text], device=pair.device)
    try:
        result = verifier.function(pair.draft, pair.target, ids, **given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the function is anybody's code
        raise InputError(f"{verifier.name} raised {said(error)}") from error
    longer = list(emitted_tokens(result, verifier.name, pair.vocab, None))
    if longer[: len(text)] != text or len(longer) == len(text):
        raise EmissionError(
            f"{verifier.name} returned {len(longer)} ids for {len(text)} input_ids; it must return those and behind "
            "them at least one new token (switch off what ends a text early)"
        )
    return longer
