"""The decoding loop against one without cache and batch, token by token."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from costly import costly
from plain_loop import PlainLoop
from small_models import LIMIT, VOCAB, small_pair

from spectr_verify.decoding import Filters, Texts, decode, reader
from spectr_verify.rules import RULES

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1, 2, 3, 4]]


@pytest.mark.parametrize("drafts", [1, 3])
@pytest.mark.parametrize("name", costly(RULES))
def test_the_same_text_as_without_cache(name: str, drafts: int) -> None:
    for seed, prompt in enumerate(PROMPTS):
        plain = PlainLoop(small_pair(), RULES[name], drafts, 3, Filters(), seed)
        tokens, source = plain.write(prompt, 16)
        texts = decode(
            small_pair(),
            RULES[name],
            [prompt],
            tokens=16,
            drafts=drafts,
            length=3,
            generator=torch.Generator().manual_seed(seed),
        )
        assert texts.tokens[0].tolist() == tokens
        assert texts.source[0].tolist() == source


@hypothesis.settings(max_examples=25)
@hypothesis.given(
    name=st.sampled_from(list(RULES)),
    drafts=st.integers(1, 3),
    length=st.integers(1, 4),
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=LIMIT - 6),
    filters=st.builds(
        Filters,
        temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        top_k=st.sampled_from([None, 1, 3]),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.1]),
    ),
    seed=st.integers(0, 99),
)
@pytest.mark.slow
def test_whatever_is_asked_for(
    name: str, drafts: int, length: int, prompt: list[int], filters: Filters, seed: int
) -> None:
    """Filters, drafts that are cut short at the end of what the models read, texts that end early."""
    pair, count = small_pair(end=2), max(length, min(8, LIMIT - len(prompt)))
    expected, _ = PlainLoop(pair, RULES[name], drafts, length, filters, seed).write(prompt, count, ends=(2,))
    generator = torch.Generator().manual_seed(seed)
    texts = decode(
        pair,
        RULES[name],
        [prompt],
        tokens=count,
        drafts=drafts,
        length=length,
        filters=filters,
        generator=generator,
    )
    assert [token for token in texts.tokens[0].tolist() if token >= 0] == expected


class Recomputing:
    """A reader without a cache: every call reads every text from its beginning."""

    def __init__(self, model: Any, vocab: int, rows: int, name: str) -> None:
        self.model, self.vocab = model, vocab
        self.texts: list[list[int]] = [[] for _ in range(rows)]

    @property
    def length(self) -> torch.Tensor:
        return torch.tensor([len(text) for text in self.texts])

    def read(self, tokens: torch.Tensor, last: int = 1) -> torch.Tensor:
        for text, new in zip(self.texts, tokens.tolist(), strict=True):
            text += [token for token in new if token >= 0]
        with torch.inference_mode():
            # A text of which nothing is read yet is asked for nothing.
            given = [torch.tensor([text or [0]]) for text in self.texts]
            rows = [self.model(input_ids=text).logits[0, -last:, : self.vocab] for text in given]
        return torch.stack([torch.nn.functional.pad(row, (0, 0, last - len(row), 0)) for row in rows])

    def keep(self, rows: torch.Tensor, length: torch.Tensor) -> None:
        self.texts = [self.texts[row][:count] for row, count in zip(rows.tolist(), length.tolist(), strict=True)]


@pytest.mark.parametrize("name", RULES)
def test_many_texts_at_once_are_those_without_a_cache(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> Texts:
        generator = torch.Generator().manual_seed(7)
        pair, prompts = small_pair(end=2), PROMPTS * 2
        return decode(pair, RULES[name], prompts, tokens=12, drafts=2, length=3, generator=generator)

    with_cache = written()
    monkeypatch.setattr(reader, "Reader", Recomputing)
    without = written()
    for part in ("tokens", "source", "starts", "accepted", "drafted"):
        assert torch.equal(getattr(with_cache, part), getattr(without, part)), part
    torch.testing.assert_close(with_cache.target_probs, without.target_probs, rtol=1e-9, atol=1e-12)
    assert len(set(with_cache.lengths.tolist())) > 1, "some text should have ended before the others"
