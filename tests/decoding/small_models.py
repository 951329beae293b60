"""Small random models in float64, for tests: their laws are sharp enough that drafts are accepted and rejected."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from spectr_verify.decoding import ModelPair
from spectr_verify.decoding.models import pair_of

VOCAB = 7
LIMIT = 40


def tokenizer(vocab: int = VOCAB) -> Any:
    words = {f"t{number}": number for number in range(vocab)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="t0")))


def small_model(seed: int, *, embeddings: int = VOCAB, layers: int = 2, end: int | None = None) -> Any:
    config = LlamaConfig(
        vocab_size=embeddings,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=LIMIT,
        eos_token_id=end,
        bos_token_id=None,
        initializer_range=0.6,
    )
    generator = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config).double().eval()
    torch.random.set_rng_state(generator)
    return model


@lru_cache
def small_pair(seed: int = 0, *, end: int | None = None) -> ModelPair:
    """A draft near the target: both share most of their weights."""
    target, draft = small_model(seed, end=end), small_model(seed, end=end)
    noise = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.15 * torch.randn(weight.shape, generator=noise, dtype=weight.dtype)
    return pair_of(target, draft, tokenizer())
