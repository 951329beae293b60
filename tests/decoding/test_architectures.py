"""Models of other architectures: absolute and rotary positions, sliding windows, grouped and parallel attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from plain_loop import PlainLoop
from small_models import LIMIT, VOCAB, tokenizer

from spectr_verify.decoding import Filters, ModelError, decode
from spectr_verify.decoding.models import pair_of
from spectr_verify.decoding.reader import check_reading
from spectr_verify.rules import RULES

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1, 2, 3, 4]]

USUAL = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": LIMIT,
    "initializer_range": 0.6,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "GPT2": {
        "vocab_size": VOCAB,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": LIMIT,
        "initializer_range": 0.6,
        "bos_token_id": None,
        "eos_token_id": None,
    },
    "Qwen2": {**USUAL, "num_key_value_heads": 1},
    "Mistral": {**USUAL, "num_key_value_heads": 1, "sliding_window": 4},
    "Gemma2": {**USUAL, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4},
    "OPT": {**USUAL, "ffn_dim": 16, "word_embed_proj_dim": 16, "init_std": 0.6},
    "GPTNeoX": dict(USUAL),
}


def model(architecture: str, seed: int) -> Any:
    """A random model in float64 that adds nothing random of its own."""
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    config = getattr(transformers, f"{architecture}Config")(**ARCHITECTURES[architecture])
    made = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    torch.random.set_rng_state(state)
    return made


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_text_as_without_cache_and_batch(architecture: str) -> None:
    pair = pair_of(model(architecture, 0), model(architecture, 1), tokenizer())
    for seed, prompt in enumerate(PROMPTS):
        tokens, _ = PlainLoop(pair, RULES["block-race"], 2, 3, Filters(), seed).write(prompt, 14)
        generator = torch.Generator().manual_seed(seed)
        texts = decode(pair, RULES["block-race"], [prompt], tokens=14, drafts=2, length=3, generator=generator)
        assert texts.tokens[0].tolist() == tokens


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_that_reads_alike_in_every_way_is_taken(architecture: str) -> None:
    check_reading(model(architecture, 2).float(), VOCAB, LIMIT, architecture)


def test_padding_that_gives_no_numbers_is_named() -> None:
    """The smallest float64 is minus infinity in the float32 that the eager attention computes in."""
    with pytest.raises(ModelError, match="eager attention does so in float64: ask for float32"):
        check_reading(model("Gemma2", 2), VOCAB, LIMIT, "gemma")


def test_a_model_without_positions_of_its_own_is_refused() -> None:
    config = transformers.BloomConfig(vocab_size=VOCAB, hidden_size=16, n_layer=2, n_head=2)
    bloom = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    with pytest.raises(ModelError, match="position_ids"):
        decode(
            pair_of(bloom, bloom, tokenizer()),
            RULES["token"],
            [[1, 2]],
            tokens=4,
            generator=torch.Generator().manual_seed(0),
        )
