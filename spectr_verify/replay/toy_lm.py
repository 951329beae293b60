"""Causal language models whose next-token laws are those of a table, called as Hugging Face models are.

Their *cache* is real: the keys are the token ids themselves, so that code which forgets to roll a rejected token
back, or rolls back one too many, gets the laws of the wrong text, as it would from a transformer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from spectr_verify.errors import InputError
from toy_models import TableModel


class ToyCallError(InputError):
    """A toy model was called in a way that it cannot answer: the message says what and where."""


def toy_lm(model: TableModel, *, dtype: torch.dtype = torch.float64, plain: bool = False) -> nn.Module:
    """A causal language model whose law after ``start, x_1, .., x_n`` is ``model.law((x_1, .., x_n))``.

    The first attended token of every row of ``input_ids`` is a start-of-text token that no law depends on.
    ``logits`` are log-probabilities plus a constant of each law's own, -inf where a law is zero. Where the package
    ``transformers`` is installed the result is a ``PreTrainedModel`` with ``generate``; the package is imported here,
    which takes seconds the first time.

    Args:
        model: the laws; texts longer than its levels continue it as a Markov chain.
        dtype: the number format of the logits.
        plain: build the plain ``torch.nn.Module`` wherever it is, which needs nothing and answers faster.
    """
    laws = Laws(model)
    if plain or find_spec("transformers") is None:
        return ToyLM(laws, dtype).eval()
    from spectr_verify.replay.hugging_face import hugging_face_lm

    return hugging_face_lm(laws, dtype)


def logits(laws: Tensor) -> Tensor:
    """Logits of laws [.., V]: log-probabilities, to each law another constant added.

    A model's logits are not log-probabilities either, and code that takes them for such must not pass.
    """
    tokens = torch.arange(laws.shape[-1], dtype=laws.dtype)
    return laws.log() + 1.5 + (laws * tokens).sum(dim=-1, keepdim=True).cos()


class Laws:
    """Every law of a table under one number, and the way from each law to the next.

    Law 0 is that of the first token. Laws stand level by level, so that of row r in level i is
    1 + V + .. + V^(i-1) + r.
    """

    def __init__(self, model: TableModel) -> None:
        """Number the laws of ``model``."""
        self.model = model

    @property
    def vocab(self) -> int:
        """V, the number of tokens."""
        return self.model.vocab

    @cached_property
    def logits(self) -> Tensor:
        """float64 [number of laws, V], see ``logits``; -inf where a probability is zero."""
        return logits(torch.cat([torch.tensor(level) for level in self.model.levels]))

    @cached_property
    def follow(self) -> list[dict[int, int]]:
        """``follow[law][token]`` is the law after one more token; beyond the last level it drops the oldest."""
        vocab, depth = self.model.vocab, self.model.depth
        first = [(vocab**level - 1) // (vocab - 1) for level in range(depth)]
        follow = []
        for level in range(depth):
            after = min(level + 1, depth - 1)
            for row in range(vocab**level):
                follow.append({x: first[after] + (row * vocab + x) % vocab**after for x in range(vocab)})
        return follow

    def along(self, tokens: Sequence[int], attended: Sequence[int] | None) -> list[int]:
        """The law after every token of one row, its first attended token being the start of the text.

        A token that is not attended to changes nothing.
        """
        law, started, laws = 0, False, []
        for position, token in enumerate(tokens):
            if attended is None or attended[position]:
                law, started = self.follow[law][token] if started else 0, True
            laws.append(law)
        return laws

    def after(self, keys: Tensor, attention_mask: Tensor | None, new: int, keep: int | Tensor) -> list[list[int]]:
        """The laws that a call asks for, one list a row.

        Args:
            keys: int64 [B, 1, n, 1], all token ids from the start of the text.
            attention_mask: [B, n], 0 where a token is not attended to; ``None`` attends to all.
            new: how many of the n tokens are new: the last ones.
            keep: 0 asks for the laws after all new tokens, k for the last k, a tensor for those at its indices.
        """
        rows: list[list[int]] = keys[:, 0, :, 0].tolist()
        self._check_tokens(rows, new)
        masks: Sequence[Sequence[int] | None] = [None] * len(rows)
        if attention_mask is not None:
            _check_mask(attention_mask, keys, new)
            masks = attention_mask.tolist()
        laws = [self.along(row, mask)[len(row) - new :] for row, mask in zip(rows, masks, strict=True)]
        if isinstance(keep, Tensor):
            kept = keep.tolist()
            return [[row[position] for position in kept] for row in laws]
        return [row[-keep:] for row in laws]

    def _check_tokens(self, rows: list[list[int]], new: int) -> None:
        for row, tokens in enumerate(rows):
            if new and not 0 <= min(tokens[-new:]) <= max(tokens[-new:]) < self.vocab:
                raise ToyCallError(
                    f"a toy model was given the input_ids {tokens[-new:]} in row {row}; every token, padding too, must "
                    f"lie in its vocabulary 0..{self.vocab - 1}: pad with a token of it and mask that out"
                )


@dataclass
class ToyOutput:
    """What a plain toy model answers: by name, or by index as a tuple of the fields that are there.

    Attributes:
        logits: [B, n, V], of the token after each of the n new tokens.
        past_key_values: the cache, in the form in which it came; ``None`` without ``use_cache``.
    """

    logits: Tensor
    past_key_values: ToyCache | tuple[tuple[Tensor, Tensor], ...] | None = None

    @property
    def cache(self) -> ToyCache | tuple[tuple[Tensor, Tensor], ...] | None:
        """Another name of ``past_key_values``."""
        return self.past_key_values

    def to_tuple(self) -> tuple[Any, ...]:
        """The fields that are not ``None``."""
        return tuple(value for value in (self.logits, self.past_key_values) if value is not None)

    def __getitem__(self, key: int | str | slice) -> Any:
        return getattr(self, key) if isinstance(key, str) else self.to_tuple()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_tuple())


class ToyCache:
    """The cache of a plain toy model: one layer whose keys and values are the token ids, int64 [B, 1, n, 1]."""

    def __init__(self) -> None:
        """Begin empty."""
        self.layers: list[tuple[Tensor, Tensor]] = []

    def update(self, keys: Tensor, values: Tensor, layer: int = 0) -> tuple[Tensor, Tensor]:
        """Append along the sequence and return all keys and values."""
        if self.layers:
            keys, values = (torch.cat(both, dim=2) for both in zip(self.layers[layer], (keys, values), strict=True))
        self.layers = [(keys, values)]
        return self.layers[layer]

    def get_seq_length(self, layer: int = 0) -> int:
        """How many tokens of a row are stored."""
        return self.layers[layer][0].shape[2] if self.layers else 0

    def crop(self, length: int) -> None:
        """Keep the first ``length`` tokens; a negative number forgets as many of the last ones."""
        self.layers = [(keys[:, :, :length], values[:, :, :length]) for keys, values in self.layers]

    def __getitem__(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.layers[layer]

    def __len__(self) -> int:
        return len(self.layers)


class ToyLM(nn.Module):
    """See ``toy_lm``: the variant that needs nothing but torch."""

    def __init__(self, laws: Laws, dtype: torch.dtype) -> None:
        """Answer with ``laws``, as logits of ``dtype``."""
        super().__init__()
        self.laws = laws
        self.config = SimpleNamespace(vocab_size=laws.vocab, use_cache=True, is_encoder_decoder=False)
        self.table = nn.Parameter(laws.logits.to(dtype), requires_grad=False)

    @property
    def device(self) -> torch.device:
        """Where the logits are."""
        return self.table.device

    @property
    def dtype(self) -> torch.dtype:
        """The number format of the logits."""
        return self.table.dtype

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        *,
        cache: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool | None = None,
        **others: Any,
    ) -> ToyOutput | tuple[Any, ...]:
        """Score the new tokens.

        Args:
            input_ids: int64 [B, n], the new tokens alone where a cache is given.
            attention_mask: [B, stored + n], 0 where a token is not attended to.
            position_ids: change nothing, and neither does anything that is not listed here.
            past_key_values: a ``ToyCache``, which is extended in place, or tuples of (keys, values), which are not.
            cache: another name of ``past_key_values``.
            use_cache: whether to answer with a cache; yes unless told.
            logits_to_keep: 0 answers for every new token, k for the last k, a tensor for those at its indices.
            return_dict: ``False`` answers with a plain tuple.

        Raises:
            ToyCallError: a token is outside the vocabulary, the mask has another shape, the cache does not grow with
                the text, or there are ``labels``.
        """
        past = past_key_values if cache is None else cache
        refuse(input_ids, others)
        keys, past = remember(input_ids, ToyCache() if past is None else past)
        laws = self.laws.after(keys, attention_mask, input_ids.shape[1], logits_to_keep)
        logits = self.table[torch.tensor(laws, device=self.device)]
        output = ToyOutput(logits, None if use_cache is False else past)
        return output.to_tuple() if return_dict is False else output


def remember(input_ids: Tensor, past: Any) -> tuple[Tensor, Any]:
    """Put new tokens behind those of a cache: all keys, int64 [B, 1, n, 1], and the cache that holds them.

    Raises:
        ToyCallError: the cache does not hold the whole text and nothing else.
    """
    keys = input_ids[:, None, :, None]
    if isinstance(past, tuple | list):
        keys = torch.cat([past[0][0], keys], dim=2) if past else keys
        return keys, ((keys, keys),)
    expected = int(past.get_seq_length()) + input_ids.shape[1]
    keys, _ = past.update(keys, keys, 0)
    if keys.shape[2] != expected:
        raise ToyCallError(
            f"a toy model needs a cache that grows with the text, such as DynamicCache; {type(past).__name__} answered "
            f"with {keys.shape[2]} places for {expected} tokens"
        )
    return keys, past


def refuse(input_ids: Tensor | None, others: dict[str, Any]) -> None:
    """Refuse a call that asks for what a table does not have.

    Raises:
        ToyCallError: the tokens are missing or not int64 [B, n], or a loss is asked for.
    """
    if others.get("labels") is not None:
        raise ToyCallError("a toy model has no loss; call it without labels")
    if not isinstance(input_ids, Tensor) or input_ids.ndim != 2 or input_ids.shape[1] == 0:
        form = list(input_ids.shape) if isinstance(input_ids, Tensor) else type(input_ids).__name__
        raise ToyCallError(f"a toy model needs input_ids of shape [B, n] with n of at least 1; they are {form}")


def _check_mask(attention_mask: Tensor, keys: Tensor, new: int) -> None:
    expected = [keys.shape[0], keys.shape[2]]
    if list(attention_mask.shape) != expected:
        raise ToyCallError(
            f"a toy model was given an attention_mask of shape {list(attention_mask.shape)} with {keys.shape[2] - new} "
            f"stored tokens and {new} new ones; it must be {expected}, 0 where a token is not attended to"
        )
