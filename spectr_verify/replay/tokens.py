"""What functions under test return, read as tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectr_verify.rounds import EmissionError


def emitted_tokens(result: Any, name: str, vocab: int, most: int | None) -> tuple[int, ...]:
    """The tokens of one request: of a tensor, array or list, alone or first in a tuple, batch of one allowed.

    Args:
        result: what the function returned; negative numbers behind the last token are padding.
        name: what messages call the function.
        vocab: V.
        most: the most tokens that there may be, ``None`` for any number.

    Raises:
        EmissionError: it is something else, empty, too long, or has a token outside the vocabulary.
    """
    read = _integers(_first(result))
    if read is None:
        raise EmissionError(
            f"{name} returned {_described(result)}; it must return tokens as whole numbers: a tensor, array or list, "
            "alone or first in a tuple"
        )
    while read.ndim > 1 and read.shape[0] == 1:
        read = read[0]
    if read.ndim != 1:
        raise EmissionError(
            f"{name} returned tokens of shape {list(read.shape)}; there is one request, so they must be a list of "
            "tokens (a leading dimension of 1 is allowed)"
        )
    tokens = [int(token) for token in read]
    while tokens and tokens[-1] < 0:
        tokens.pop()
    if not tokens:
        raise EmissionError(f"{name} returned no token; every round emits at least one")
    if most is not None and len(tokens) > most:
        raise EmissionError(f"{name} returned {len(tokens)} tokens, {tokens}; a round emits at most {most}: L + 1")
    if not all(0 <= token < vocab for token in tokens):
        raise EmissionError(
            f"{name} returned the tokens {tokens}; all must be in the vocabulary 0..{vocab - 1} "
            "(behind the last one, negative numbers are padding)"
        )
    return tuple(tokens)


def _first(result: Any) -> Any:
    """The tokens of a tuple that begins with them."""
    if isinstance(result, tuple) and result and not isinstance(result[0], int | np.integer):
        return result[0]
    return result


def _integers(value: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """An array of whole numbers, ``None`` if it is nothing of the kind."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy() if value.dtype not in (torch.bfloat16,) else None
    if isinstance(value, list | tuple):
        value = [_integers(entry) if not isinstance(entry, int) else entry for entry in value]
        if any(entry is None for entry in value):
            return None
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return None
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    return array.astype(np.int64) if array.dtype.kind in "iu" else None


def _described(result: Any) -> str:
    if isinstance(result, Tensor):
        return f"a tensor of {result.dtype}, shape {list(result.shape)}"
    if isinstance(result, tuple) and result:
        return f"a tuple that begins with {_described(result[0])}"
    if isinstance(result, np.ndarray):
        return f"an array of {result.dtype}, shape {list(result.shape)}"
    return "None" if result is None else f"{type(result).__name__} ({repr(result)[:60]})"
