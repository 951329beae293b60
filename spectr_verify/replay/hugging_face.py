"""Toy language models as ``transformers`` has them: real ``PreTrainedModel``s, for code that needs one.

Imported only where a model is built, as importing ``transformers`` takes seconds.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from spectr_verify.replay.toy_lm import Laws, refuse, remember

CACHE = "cache" if "cache" in {field.name for field in fields(CausalLMOutputWithPast)} else "past_key_values"
"""What the installed version calls the cache in an output."""


def hugging_face_lm(laws: Laws, dtype: torch.dtype) -> ToyLMForCausalLM:
    """See ``toy_lm``."""
    model = ToyLMForCausalLM(ToyLMConfig(vocab_size=laws.vocab), laws, dtype)
    model.eval()
    return model


class ToyLMConfig(PretrainedConfig):
    """One layer of one head that stores one number a token: its id."""

    model_type = "spectr_verify_toy_lm"

    def __init__(self, vocab_size: int = 2, **others: Any) -> None:
        """Describe a model of ``vocab_size`` tokens, none of which ends a text."""
        super().__init__(**others)
        self.vocab_size = vocab_size
        self.num_hidden_layers = self.num_attention_heads = self.num_key_value_heads = self.hidden_size = 1
        self.use_cache = True


class ToyLMForCausalLM(PreTrainedModel, GenerationMixin):
    """See ``toy_lm``: the variant that ``generate`` and ``assistant_model`` take."""

    config_class = ToyLMConfig
    _supports_cache_class = True

    def __init__(self, config: ToyLMConfig, laws: Laws, dtype: torch.dtype) -> None:
        """Answer with ``laws``, as logits of ``dtype``."""
        super().__init__(config)
        self.laws = laws
        self.table = nn.Parameter(laws.logits.to(dtype), requires_grad=False)

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
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Score the new tokens: as ``ToyLM.forward``, with a ``DynamicCache`` of ``transformers``."""
        past = past_key_values if cache is None else cache
        refuse(input_ids, others)
        keys, past = remember(input_ids, DynamicCache() if past is None else past)
        laws = self.laws.after(keys, attention_mask, input_ids.shape[1], logits_to_keep)
        logits = self.table[torch.tensor(laws, device=self.device)]
        output = CausalLMOutputWithPast(logits=logits, **{CACHE: None if use_cache is False else past})
        return output.to_tuple() if return_dict is False else output
