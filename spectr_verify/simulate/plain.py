"""Text of the target without any draft: what speed-ups are measured against, and what bounds and what-ifs are of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from spectr_verify.chance import Sampled
from spectr_verify.decoding import Filters, ModelError, Source
from spectr_verify.decoding.loop import check_texts


class Written(NamedTuple):
    """Texts that the target wrote, as both models score them, on the CPU.

    Attributes:
        tokens: int64 [B, N].
        log_draft, log_target: float64 [B, N], of the very laws that they were drawn from.
    """

    tokens: Tensor
    log_draft: Tensor
    log_target: Tensor


def steps(
    source: Source, prompts: Sequence[Sequence[int]], *, tokens: int, filters: Filters, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Autoregressive decoding with the target alone, one token a call, all texts at once and behind their ends too.

    Args:
        source: the models.
        prompts: token ids of each of B texts.
        tokens: N.
        filters: of the target's laws.
        generator: draws everything, on the device of the models.

    Yields:
        N times the next token of each text, int64 [B], and the laws that they are drawn from, [B, V].

    Raises:
        InputError: what cannot be decoded, see ``decode``.
    """
    check_texts(source, prompts, tokens, 1, 1)
    chance, (reader, _) = Sampled(generator), source.readers(len(prompts))
    unread = _to_the_right(prompts, source.device)
    for _ in range(tokens):
        law = _law(filters, reader.read(unread), source.names[0])
        drawn = chance.categorical(law)
        yield drawn, law
        unread = drawn[:, None]


def continuations(
    source: Source,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    filters: Filters,
    generator: torch.Generator,
    watch: Callable[[Tensor, Tensor], None] = lambda p, q: None,
) -> Written:
    """Texts that the target writes, one after each prompt, as both models score them.

    Args, Raises: as ``steps``; the filters are of both models' laws, and ``watch`` is called with the draft's and the
    target's laws of all texts' next token, [B, V], N times.
    """
    _, draft = source.readers(len(prompts))
    unread = _to_the_right(prompts, source.device)
    tokens_of: list[Tensor] = []
    log_p: list[Tensor] = []
    log_q: list[Tensor] = []
    for drawn, q in steps(source, prompts, tokens=tokens, filters=filters, generator=generator):
        p = _law(filters, draft.read(unread), source.names[1])
        watch(p, q)
        unread = drawn[:, None]
        tokens_of.append(drawn.cpu())
        for law, logs in ((p, log_p), (q, log_q)):
            logs.append(law.gather(1, unread)[:, 0].double().log().cpu())
    return Written(*(torch.stack(column, dim=1) for column in (tokens_of, log_p, log_q)))


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
    for drawn, _ in steps(source, prompts, tokens=sample, filters=filters, generator=generator):
        drawn.tolist()  # which waits for a GPU
        marks.append(time.perf_counter())
    return marks[1] - marks[0] + (tokens - 1) * (marks[-1] - marks[1]) / (sample - 1)


def _law(filters: Filters, logits: Tensor, name: str) -> Tensor:
    """The laws after each text's last token, from logits [B, 1, V]: [B, V]."""
    law = filters.law(logits)[:, 0]
    if bool(law.isnan().any()):
        raise ModelError(f"{name} gives logits that are not finite numbers; no law follows from them")
    return law


def _to_the_right(prompts: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Prompts as int64 [B, longest], -1 to the left."""
    longest = max(map(len, prompts))
    return torch.tensor([[-1] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
