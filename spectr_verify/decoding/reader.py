"""A model and what it has read: a cache that can be rolled back, and that every text of a batch has for itself."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from spectr_verify.decoding.models import ModelError


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
        self._read = torch.zeros(rows, 0, dtype=torch.bool, device=model.device)

    @property
    def length(self) -> Tensor:
        """See the class."""
        return self._read.sum(dim=1)

    def read(self, tokens: Tensor, last: int = 1) -> Tensor:
        """Read on, and tell what may follow the last ones.

        Args:
            tokens: int64 [R, m], what follows in each text; -1 to the left where there is less.
            last: after how many of the last tokens.

        Returns:
            Logits [R, last, V].
        """
        new = tokens >= 0
        mask = torch.cat([self._read, new], dim=1)
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
            logits: Tensor = self.model(**given).logits
        self._read = mask
        self._check(logits)
        return logits[:, -last:, : self.vocab]

    def keep(self, rows: Tensor, length: Tensor) -> None:
        """Go on with these texts, each cut to its first tokens.

        Args:
            rows: int64 [S], which texts; one may come more than once.
            length: int64 [S], how many of its tokens, at most as many as are read.
        """
        read = self._read[rows]
        size = int(length.max()) if len(length) else 0
        # Where the n-th token of a text stands; texts that keep fewer have anything to their left.
        place = torch.arange(size, device=rows.device) - (size - length)[:, None]
        slot = torch.searchsorted(read.cumsum(dim=1), place.clamp(min=0) + 1).clamp(max=read.shape[1] - 1)
        with torch.inference_mode():
            for layer in self._layers():
                layer.keys = _gathered(layer.keys, rows, slot)
                layer.values = _gathered(layer.values, rows, slot)
        self._read = place >= 0

    def _layers(self) -> list[Any]:
        return list(self._cache.layers)

    def _check(self, logits: Tensor) -> None:
        """Refuse a model that did not write one key a token, as a model without attention does."""
        held = [tuple(layer.keys.shape[::2]) for layer in self._layers() if getattr(layer, "keys", None) is not None]
        if not held or set(held) != {tuple(self._read.shape)}:
            raise ModelError(
                f"{self.name} ({type(self.model).__name__}) did not keep the keys and values of every token in its "
                "cache, so it cannot be rolled back"
            )
        if logits.shape[-1] < self.vocab:
            raise ModelError(f"{self.name} gives {logits.shape[-1]:,} logits for a vocabulary of {self.vocab:,}")


def _gathered(entries: Tensor, rows: Tensor, slot: Tensor) -> Tensor:
    """Entries [R, H, S, D] to [rows, H, slots, D]."""
    return entries[rows[:, None], :, slot].transpose(1, 2)
