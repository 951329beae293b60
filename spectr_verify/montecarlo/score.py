"""The reference: both models' laws of a finished text, from one call a model that knows no cache and no draft."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from spectr_verify.decoding import Filters, ModelError, ModelPair, Texts
from spectr_verify.montecarlo.evidence import log_ratios

Ratios = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The laws q and p, [n, V], and tokens [n] to log r(token)/q(token), [n, J]."""

CHUNK_BYTES = 1 << 27
"""About how large one array of laws may be."""


@dataclass(frozen=True, eq=False)
class Scored:
    """What the reference says of B texts of N tokens.

    Attributes:
        log_target, log_draft: float64 [B, N], log-probability of every token under the target and the draft.
        log_ratios: float64 [B, N, J], of every alternative.
        first: [B, V], the target's laws of the first token.
        edge: bool [B, N], places where rounding decides what a filter keeps, and tokens of probability zero that it
            would keep, were the numbers rounded otherwise. A token that no rounding makes possible is at no edge.
        draft_edge: bool [B, N], places where rounding decides what a filter keeps of the draft's law.
    """

    log_target: Tensor
    log_draft: Tensor
    log_ratios: Tensor
    first: Tensor
    edge: Tensor
    draft_edge: Tensor


class Reference:
    """Both models in full precision, read from the beginning of a text to its end."""

    def __init__(self, pair: ModelPair, filters: Filters, dtype: torch.dtype = torch.float32) -> None:
        """Copies of the pair's models in ``dtype``, where they are not in it already.

        Raises:
            ModelError: ``dtype`` is coarser than float32, and no standard for anything.
        """
        if not full_precision(dtype):
            raise ModelError(f"the independent call cannot compute in {short(dtype)}: its laws are taken for the truth")
        self.pair, self.filters = pair, filters
        self.target, self.draft = (_in_format(model, dtype) for model in (pair.target, pair.draft))

    def score(self, texts: Texts, alternatives: Ratios = log_ratios) -> Scored:
        """Score texts without an end before their N-th token."""
        parts = [self._score(texts, rows, alternatives) for rows in self._chunks(texts)]
        return Scored(*(torch.cat([getattr(part, each.name) for part in parts]) for each in fields(Scored)))

    def apart(self) -> Reference:
        """The same with models of its own, which code that holds the pair's cannot change."""
        copied = copy.copy(self)
        copied.target, copied.draft = copy.deepcopy(self.target), copy.deepcopy(self.draft)
        return copied

    def _chunks(self, texts: Texts) -> Iterator[slice]:
        """Rows whose laws fit, texts of all prompts."""
        longest = max(map(len, texts.prompts)) + texts.tokens.shape[1]
        rows = max(1, CHUNK_BYTES // (longest * self.pair.vocab * 4))
        for begin in range(0, len(texts.prompts), rows):
            yield slice(begin, begin + rows)

    def _score(self, texts: Texts, rows: slice, alternatives: Ratios) -> Scored:
        tokens, prompts = texts.tokens[rows], texts.prompts[rows]
        B, N = tokens.shape
        logits, draft_logits = (self._logits(model, prompts, tokens) for model in (self.target, self.draft))
        q = self.filters.law_of_model(logits, self.pair.names[0])
        p = self.filters.law_of_model(draft_logits, self.pair.names[1])
        place = tokens[..., None]
        log_q, log_p = (law.gather(-1, place)[..., 0].to(torch.float64).log() for law in (q, p))
        ratios = alternatives(q.flatten(0, 1), p.flatten(0, 1), tokens.flatten()).unflatten(0, (B, N))
        edge, impossible = self.filters.undecided(logits), log_q == -torch.inf
        if bool(impossible.any()):
            nearly = self.filters.nearly_possible(logits[impossible])
            edge[impossible] = nearly.gather(-1, tokens[impossible][:, None])[:, 0]
        return Scored(log_q, log_p, ratios, q[:, 0].clone(), edge, self.filters.undecided(draft_logits))

    def _logits(self, model: Any, prompts: list[list[int]], tokens: Tensor) -> Tensor:
        """Logits of every token of the texts: [B, N, V]."""
        N, device = tokens.shape[1], tokens.device
        begin = torch.tensor([len(prompt) for prompt in prompts], device=device)
        longest = int(begin.max())
        # What stands behind a text's end is read by no token before it: no mask is needed.
        text = torch.zeros(len(prompts), longest + N, dtype=torch.int64, device=device)
        for number, prompt in enumerate(prompts):
            text[number, : len(prompt)] = torch.tensor(prompt, device=device)
        place = begin[:, None] + torch.arange(N, device=device)
        text.scatter_(1, place, tokens)
        row = torch.arange(len(prompts), device=device)[:, None]
        with torch.inference_mode():
            logits = model(input_ids=text, use_cache=False).logits[..., : self.pair.vocab]
            found: Tensor = logits[row, place - 1]
        return found


def full_precision(dtype: torch.dtype) -> bool:
    """Whether a number format is float32 or finer. Coarser ones give laws that enough texts can always tell apart."""
    return torch.finfo(dtype).eps <= torch.finfo(torch.float32).eps


def short(dtype: torch.dtype) -> str:
    """A number format's name without "torch."."""
    return str(dtype).removeprefix("torch.")


def _in_format(model: Any, dtype: torch.dtype) -> Any:
    return model if model.dtype == dtype else copy.deepcopy(model).to(dtype)
