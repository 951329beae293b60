"""A model and what it has read: a cache that can be rolled back, and that every text of a batch has for itself."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor

from spectr_verify.decoding.source import ModelError
from spectr_verify.errors import said


class Reader:
    """A causal language model and its cache of R texts, whose lengths may differ.

    Keys and values of a text stand at the right end of the cache; what stands to their left is masked.

    Attributes:
        length: int64 [R], how many tokens of each text are read.
    """

    def __init__(self, model: Any, vocab: int, rows: int, name: str) -> None:
        """Nothing is read yet of ``rows`` texts; logits are cut to the first ``vocab`` tokens.

        Raises:
            ModelError: the model takes no cache.
        """
        from transformers import DynamicCache

        taken = inspect.signature(model.forward).parameters
        # The argument's name depends on the version of transformers.
        self._cache_argument = next((each for each in ("cache", "past_key_values") if each in taken), "")
        if not self._cache_argument or "position_ids" not in taken:
            raise ModelError(
                f"{name} ({type(model).__name__}) has no cache of keys and values; decoding rolls one back, so the "
                "model must take past_key_values and position_ids"
            )
        self._shortens = "logits_to_keep" in taken
        self.model, self.vocab, self.name = model, vocab, name
        self._cache = DynamicCache()
        # What stands in the cache: int64 [R, S], -1 to the left of a text.
        self._tokens = torch.zeros(rows, 0, dtype=torch.int64, device=model.device)

    @property
    def length(self) -> Tensor:
        """See the class."""
        return (self._tokens >= 0).sum(dim=1)

    def read(self, tokens: Tensor, last: int = 1) -> Tensor:
        """Read on, and tell what may follow the last ones.

        Args:
            tokens: int64 [R, m], what follows in each text; -1 to the left where there is less.
            last: after how many of the last tokens.

        Returns:
            Logits [R, last, V].
        """
        tokens = self._without_holes(tokens)
        self._tokens = torch.cat([self._tokens, tokens], dim=1)
        mask = self._tokens >= 0
        position = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        given: dict[str, Any] = {
            "input_ids": tokens.clamp(min=0),
            "attention_mask": mask.to(torch.int64),
            "position_ids": position,
            self._cache_argument: self._cache,
            "use_cache": True,
            **({"logits_to_keep": last} if self._shortens else {}),
        }
        with torch.inference_mode():
            try:
                logits: Tensor = self.model(**given).logits
            except Exception as error:  # a model's own code meets a cache that it may not be made for
                raise ModelError(
                    f"{self.name} ({type(self.model).__name__}) cannot read with a cache of keys and values: "
                    f"{said(error)}"
                ) from error
        self._check(logits)
        return logits[:, -last:, : self.vocab]

    def _without_holes(self, tokens: Tensor) -> Tensor:
        """Where a text has less to read than others, what it reads again in front of that; it is cut by as much.

        A hole between its tokens in the cache would widen the distances that sliding windows measure.
        """
        again = torch.minimum((tokens < 0).sum(dim=1), self.length)
        if not bool(again.any()):
            return tokens
        every = torch.cat([self._tokens, tokens], dim=1)
        holes_first = (every >= 0).int().argsort(dim=1, stable=True)
        self.keep(torch.arange(len(tokens), device=tokens.device), self.length - again)
        return every.gather(1, holes_first)[:, -tokens.shape[1] :]

    def keep(self, rows: Tensor, length: Tensor) -> None:
        """Go on with these texts, each cut to its first tokens.

        Args:
            rows: int64 [S], which texts; one may come more than once.
            length: int64 [S], how many of its tokens, at most as many as are read.
        """
        size = int(length.max()) if len(length) else 0
        # Which token of a text a place is for; texts that keep fewer have anything to their left.
        number = torch.arange(size, device=rows.device) - (size - length)[:, None]
        slot = (number + (self._tokens.shape[1] - self.length[rows])[:, None]).clamp(min=0)
        with torch.inference_mode():
            for layer in self._layers():
                layer.keys = _gathered(layer.keys, rows, slot)
                layer.values = _gathered(layer.values, rows, slot)
        self._tokens = torch.where(number >= 0, self._tokens[rows].gather(1, slot), -1)

    def _layers(self) -> list[Any]:
        return list(self._cache.layers)

    def _check(self, logits: Tensor) -> None:
        """Refuse a model that did not write one key a token, as a model without attention does."""
        keys = [getattr(layer, "keys", None) for layer in self._layers()]
        held = {tuple(entries.shape[::2]) if isinstance(entries, Tensor) else None for entries in keys}
        if held != {tuple(self._tokens.shape)}:
            raise ModelError(
                f"{self.name} ({type(self.model).__name__}) did not keep the keys and values of every token in its "
                "cache, so it cannot be rolled back"
            )
        if logits.shape[-1] < self.vocab:
            raise ModelError(f"{self.name} gives {logits.shape[-1]:,} logits for a vocabulary of {self.vocab:,}")


def _gathered(entries: Tensor, rows: Tensor, slot: Tensor) -> Tensor:
    """Entries [R, H, S, D] to [rows, H, slots, D]."""
    return entries[rows[:, None], :, slot].transpose(1, 2)


NEAR = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.2}
"""How far laws may be apart in total variation that are one law but for rounding."""

PROBED = 12
"""Tokens of the text that a model is tried on."""


def check_reading(model: Any, vocab: int, limit: int, name: str) -> None:
    """Try a model on a short text: a cache and a batch must change nothing, nor may the tokens that follow.

    Raises:
        ModelError: its laws differ by more than rounding.
    """
    n = min(PROBED, limit)
    if n < 4:
        return
    text = (torch.arange(n, device=model.device) * 7 + 3) % vocab
    half = n // 2

    def alone(count: int) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model(input_ids=text[None, :count], use_cache=False).logits[0, half - 1, :vocab]
        return logits.double().softmax(-1)

    beside = torch.stack([torch.cat([torch.full_like(text[half:], -1), text[:half]]), text])
    reader = Reader(model, vocab, 2, name)
    reader.read(beside[:, :-1])
    cached = reader.read(beside[:, -1:])[0, -1].double().softmax(-1)
    for law, fault in (
        (alone(n), "the tokens that follow change the law of one before them: it is no causal language model"),
        (cached, "a cache and a batch change its laws"),
    ):
        apart = float((law - alone(half)).abs().sum() / 2)
        if math.isnan(apart):
            raise ModelError(
                f"{name} ({type(model).__name__}) gives logits that are not numbers for texts of different lengths; "
                "transformers' eager attention does so in float64: ask for float32"
            )
        if not apart < NEAR[model.dtype]:
            raise ModelError(f"{name} ({type(model).__name__}): {fault} (by {apart:.2g} in total variation)")
