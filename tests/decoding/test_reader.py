"""Readers against models that read every text from its beginning, whatever was read, cut and repeated before."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from small_models import LIMIT, VOCAB, small_model
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from spectr_verify.decoding import ModelError
from spectr_verify.decoding.reader import Reader

SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


def seeded(build: Any, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(config).double().eval()


MODELS = {
    "llama": small_model(0),
    "grouped heads": seeded(
        LlamaForCausalLM, LlamaConfig(vocab_size=VOCAB, num_key_value_heads=2, initializer_range=0.6, **SIZES)
    ),
    "learned positions": seeded(
        GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_positions=LIMIT, n_embd=16, n_layer=2, n_head=2)
    ),
    "sliding window": seeded(
        MistralForCausalLM,
        MistralConfig(vocab_size=VOCAB, num_key_value_heads=2, sliding_window=4, initializer_range=0.6, **SIZES),
    ),
}


class Histories:
    """A reader beside the texts that it has read."""

    def __init__(self, model: Any, rows: int) -> None:
        self.model, self.reader = model, Reader(model, VOCAB, rows, "small")
        self.texts: list[list[int]] = [[] for _ in range(rows)]

    def read(self, new: list[list[int]], last: int) -> None:
        """Some rows may have nothing new."""
        width = max(last, *map(len, new))
        padded = torch.tensor([[-1] * (width - len(row)) + row for row in new])
        logits = self.reader.read(padded, last)
        assert list(logits.shape) == [len(new), last, VOCAB]
        assert bool(logits.isfinite().all()), "what is padded must not make NaN"
        for text, row, found in zip(self.texts, new, logits, strict=True):
            text += row
            told = min(last, len(row))
            torch.testing.assert_close(found[last - told :], self.due(text, told), rtol=1e-9, atol=1e-9)
        assert self.reader.length.tolist() == [len(text) for text in self.texts]

    def due(self, text: list[int], told: int) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = self.model(input_ids=torch.tensor([text or [0]])).logits
        return logits[0, logits.shape[1] - told :]

    def keep(self, rows: list[int], length: list[int]) -> None:
        self.reader.keep(torch.tensor(rows), torch.tensor(length))
        self.texts = [self.texts[row][:count] for row, count in zip(rows, length, strict=True)]
        assert self.reader.length.tolist() == length


TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=3)


@pytest.mark.parametrize("name", MODELS)
def test_any_history(name: str) -> None:
    @hypothesis.settings(max_examples=15)
    @hypothesis.given(data=st.data())
    def reads_as_from_the_beginning(data: st.DataObject) -> None:
        histories = Histories(MODELS[name], data.draw(st.integers(1, 3), "rows"))
        for _ in range(data.draw(st.integers(1, 5), "steps")):
            rows = len(histories.texts)
            new = data.draw(st.lists(TOKENS, min_size=rows, max_size=rows), "new")
            histories.read(new, data.draw(st.integers(1, 3), "last"))
            kept = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=4), "kept")
            histories.keep(kept, [data.draw(st.integers(0, len(histories.texts[row])), "length") for row in kept])

    reads_as_from_the_beginning()


def test_nothing_is_read_of_a_text_that_begins_later() -> None:
    """The models see padding alone in one row, and then its first tokens."""
    histories = Histories(MODELS["llama"], 2)
    histories.read([[1, 2, 3], []], 1)
    histories.read([[4], [5]], 1)


def test_a_reader_may_be_cut_to_nothing() -> None:
    histories = Histories(MODELS["llama"], 1)
    histories.read([[1, 2, 3]], 1)
    histories.keep([0, 0], [0, 0])
    histories.read([[4, 5], [6]], 2)


class Hidden(nn.Module):
    """A model behind another signature."""

    def __init__(self) -> None:
        super().__init__()
        self.model = small_model(0)
        self.device = self.model.device


class TakesNoCache(Hidden):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)


class TakesNoPositions(Hidden):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, past_key_values: Any) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=past_key_values)


class IgnoresTheCache(Hidden):
    def forward(self, input_ids: Tensor, position_ids: Tensor, past_key_values: Any, **_: Any) -> Any:
        return self.model(input_ids=input_ids, position_ids=position_ids)


class ForgetsAToken(Hidden):
    def forward(self, input_ids: Tensor, position_ids: Tensor, past_key_values: Any, **_: Any) -> Any:
        keys = input_ids[:, None, 1:, None].double()
        past_key_values.update(keys, keys, 0)
        return self.model(input_ids=input_ids, position_ids=position_ids)


def mamba() -> Any:
    return MambaForCausalLM(MambaConfig(vocab_size=VOCAB, hidden_size=8, state_size=4, num_hidden_layers=1))


@pytest.mark.parametrize("build", [mamba, TakesNoCache, TakesNoPositions])
def test_a_model_that_takes_no_cache(build: Any) -> None:
    with pytest.raises(ModelError, match=r"mine \(\w+\) has no cache of keys and values"):
        Reader(build(), VOCAB, 1, "mine")


@pytest.mark.parametrize("build", [IgnoresTheCache, ForgetsAToken])
def test_a_model_that_does_not_fill_its_cache(build: Any) -> None:
    reader = Reader(build(), VOCAB, 1, "mine")
    with pytest.raises(ModelError, match=rf"mine \({build.__name__}\) did not keep the keys and values"):
        reader.read(torch.tensor([[1, 2]]))


def test_too_few_logits() -> None:
    with pytest.raises(ModelError, match="mine gives 7 logits for a vocabulary of 8"):
        Reader(small_model(0), VOCAB + 1, 1, "mine").read(torch.tensor([[1]]))
