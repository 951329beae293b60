"""A causal language model whose laws are those of a table, with a cache that any slip of the loop makes wrong."""

from __future__ import annotations

from typing import Any

import torch
from small_models import tokenizer
from torch import Tensor, nn
from transformers import DynamicCache, PretrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast

from spectr_verify.decoding import ModelPair
from spectr_verify.decoding.models import pair_of
from toy_models import TableModel, ToyPair

START = 0
"""The first token of every text. No law depends on it."""


class TableLM(nn.Module):
    """Its law after ``START, x_1, .., x_n`` is ``model.law((x_1, .., x_n))``.

    The keys in its cache are the token ids and the values their positions. A text is read back from them, as a
    transformer does, where the attention mask is 1. What it answers for a token that is masked is NaN.
    """

    def __init__(self, model: TableModel, limit: int, end: int | None) -> None:
        super().__init__()
        self.config = PretrainedConfig(vocab_size=model.vocab, max_position_embeddings=limit, eos_token_id=end)
        self.vocab, self.depth = model.vocab, model.depth
        self.laws = torch.cat([torch.tensor(level) for level in model.levels])
        self.device = torch.device("cpu")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: DynamicCache, **_: Any
    ) -> CausalLMOutputWithPast:
        assert int(position_ids.max()) < self.config.max_position_embeddings, "it reads beyond its limit"
        new = input_ids.shape[1]
        entries = [each[:, None, :, None].double() for each in (input_ids, position_ids)]
        tokens, position = (each[:, 0, :, 0].long() for each in past_key_values.update(*entries, 0))
        seen = attention_mask.bool()
        assert torch.equal(position[seen], (seen.cumsum(dim=1) - 1)[seen]), "positions count what is attended to"
        # How far each token of the cache lies behind each new one: [R, new, S].
        behind = position_ids[:, :, None] - position[:, None]
        causal = torch.ones(new, tokens.shape[1], dtype=torch.bool).tril(tokens.shape[1] - new)
        order = self.depth - 1
        counts = seen[:, None] & causal & (position > 0)[:, None] & (behind < order)
        context = torch.where(counts, tokens[:, None] * self.vocab ** behind.clamp(0, order), 0).sum(dim=2)
        level = position_ids.clamp(max=order)
        law = self.laws[(self.vocab**level - 1) // (self.vocab - 1) + context]
        logits = torch.where(seen[:, -new:, None], law.log(), torch.nan)
        return CausalLMOutputWithPast(logits=logits)


def table_pair(pair: ToyPair, limit: int = 64, end: int | None = None) -> ModelPair:
    return pair_of(TableLM(pair.target, limit, end), TableLM(pair.draft, limit, end), tokenizer(pair.vocab))
