"""Text of the target without any draft: what speed-ups are measured against, and what bounds are estimated from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from spectr_verify.chance import Sampled
from spectr_verify.decoding import Filters, ModelError, Source
from spectr_verify.decoding.loop import check_texts

MOST_LOGITS = 1 << 26
"""About how many logits are held at once."""


def steps(
    source: Source, prompts: Sequence[Sequence[int]], *, tokens: int, filters: Filters, generator: torch.Generator
) -> Iterator[Tensor]:
    """Autoregressive decoding with the target alone, one token a call, all texts at once and behind their ends too.

    Args:
        source: the models.
        prompts: token ids of each of B texts.
        tokens: N.
        filters: of the target's laws.
        generator: draws everything, on the device of the models.

    Yields:
        N times the next token of each text: int64 [B].

    Raises:
        InputError: what cannot be decoded, see ``decode``.
    """
    check_texts(source, prompts, tokens, 1, 1)
    chance, (reader, _) = Sampled(generator), source.readers(len(prompts))
    unread = _to_the_right(prompts, source.device)
    for _ in range(tokens):
        drawn = chance.categorical(_laws(filters, reader.read(unread), source.names[0])[:, 0])
        yield drawn
        unread = drawn[:, None]


def seconds_alone(
    source: Source,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    sample: int,
    filters: Filters,
    generator: torch.Generator,
) -> float:
    """Seconds that the target alone takes for N more tokens of each text, all at once.

    Args:
        source: the models.
        prompts: token ids of each text.
        tokens: N.
        sample: how many tokens are written to tell, 2 at least; the first one, which the prompt is read for, is a case
            of its own.
        filters: of the target's laws.
        generator: draws the texts.
    """
    marks = [time.perf_counter()]
    for drawn in steps(source, prompts, tokens=sample, filters=filters, generator=generator):
        drawn.tolist()  # which waits for a GPU
        marks.append(time.perf_counter())
    return marks[1] - marks[0] + (tokens - 1) * (marks[-1] - marks[1]) / (sample - 1)


def continuations(
    source: Source, prompt: Sequence[int], *, count: int, length: int, filters: Filters, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Texts that the target writes after one prompt, as log-probabilities.

    Args:
        source: the models.
        prompt: token ids.
        count: n, how many texts.
        length: L, tokens of each; a text goes on behind its end.
        filters: of both models' laws.
        generator: draws the texts, on the device of the models.

    Returns:
        log p and log q of the tokens, float64 [n, L] each, on the CPU.
    """
    rows = max(1, MOST_LOGITS // (length * source.vocab))
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for begin in range(0, count, rows):
        prompts = [list(prompt)] * min(rows, count - begin)
        drawn = steps(source, prompts, tokens=length, filters=filters, generator=generator)
        text = torch.stack(list(drawn), dim=1)
        read = torch.cat([_to_the_right(prompts, source.device), text[:, :-1]], dim=1)
        for reader, name, logs in zip(source.readers(len(prompts)), source.names, found[::-1], strict=True):
            laws = _laws(filters, reader.read(read, last=length), name)
            logs.append(laws.gather(-1, text[..., None])[..., 0].double().log().cpu())
    log_p, log_q = (torch.cat(logs) for logs in found)
    return log_p, log_q


def _laws(filters: Filters, logits: Tensor, name: str) -> Tensor:
    laws = filters.law(logits)
    if bool(laws.isnan().any()):
        raise ModelError(f"{name} gives logits that are not finite numbers; no law follows from them")
    return laws


def _to_the_right(prompts: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Prompts as int64 [B, longest], -1 to the left."""
    longest = max(map(len, prompts))
    return torch.tensor([[-1] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
