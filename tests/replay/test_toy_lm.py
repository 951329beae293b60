"""Toy language models give the laws of their table, however they are called."""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from spectr_verify.replay.toy_lm import ToyCache, ToyCallError, ToyLM, toy_lm
from toy_models import TableModel, family_pairs
from toy_models.strategies import tables

INSTALLED = find_spec("transformers") is not None
TABLE = family_pairs(seed=0, vocab=3, length=2)[2].target  # with zeros

variants = pytest.mark.parametrize(
    "plain",
    [True, pytest.param(False, marks=pytest.mark.skipif(not INSTALLED, reason="transformers is not installed"))],
    ids=["plain", "transformers"],
)


def laws_along(table: TableModel, tokens: list[int]) -> np.ndarray:
    """The law after each token, the first being the start of the text."""
    return np.stack([table.law(tokens[1:n]) for n in range(1, len(tokens) + 1)])


def probabilities(logits: torch.Tensor) -> np.ndarray:
    return logits.softmax(-1).numpy()


def assert_laws(logits: torch.Tensor, expected: np.ndarray) -> None:
    """Right to the rounding of a logarithm and back, and zero where a law is zero."""
    found = probabilities(logits)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    assert (found[expected == 0] == 0).all()


def crop(cache: Any, forgotten: int) -> None:
    """Both take a negative number of tokens to forget; with a positive one their versions differ."""
    cache.crop(-forgotten)


@variants
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_law_of_the_table_and_of_the_chain_beyond_it(depth: int, plain: bool) -> None:
    table = TableModel(TABLE.levels[:depth])
    lm = toy_lm(table, plain=plain)
    texts = torch.tensor([(0, *text) for text in itertools.product(range(3), repeat=4)])
    output = lm(texts)
    assert output.logits.shape == (81, 5, 3)
    for text, logits in zip(texts.tolist(), output.logits, strict=True):
        assert_laws(logits, laws_along(table, text))


@variants
@pytest.mark.parametrize("start", [0, 1, 2])
def test_no_law_depends_on_the_start(start: int, plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    assert_laws(lm(torch.tensor([[start, 2, 1]])).logits[0], laws_along(TABLE, [0, 2, 1]))


@variants
def test_left_padding(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    ids = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    logits = lm(ids, attention_mask=mask).logits
    assert_laws(logits[0], laws_along(TABLE, [0, 2, 1, 1]))
    assert_laws(logits[1, 2:], laws_along(TABLE, [0, 2]))


@variants
def test_tokens_masked_out_are_as_good_as_gone(plain: bool) -> None:
    """As where a batch keeps rejected tokens in its cache and masks them."""
    lm = toy_lm(TABLE, plain=plain)
    past = lm(torch.tensor([[0, 2, 1]])).past_key_values
    masked = lm(torch.tensor([[0]]), attention_mask=torch.tensor([[1, 1, 0, 1]]), past_key_values=past)
    assert_laws(masked.logits[0], laws_along(TABLE, [0, 2, 0])[-1:])


@variants
def test_a_cache_is_extended_in_place(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    first = lm(torch.tensor([[0, 1]]), use_cache=True)
    second = lm(torch.tensor([[2]]), past_key_values=first.past_key_values, use_cache=True)
    assert second.past_key_values is first.past_key_values
    assert second.past_key_values.get_seq_length() == 3
    assert_laws(second.logits[0], laws_along(TABLE, [0, 1, 2])[-1:])
    third = lm(torch.tensor([[0]]), cache=first.past_key_values)  # its name from version 5 on
    assert_laws(third.logits[0], laws_along(TABLE, [0, 1, 2, 0])[-1:])


@variants
def test_cropping_forgets_and_not_cropping_does_not(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    past = lm(torch.tensor([[0, 1, 2]])).past_key_values
    kept = lm(torch.tensor([[0]]), past_key_values=past)
    assert_laws(kept.logits[0], laws_along(TABLE, [0, 1, 2, 0])[-1:])
    crop(past, 2)
    assert past.get_seq_length() == 2
    cropped = lm(torch.tensor([[0]]), past_key_values=past)
    assert_laws(cropped.logits[0], laws_along(TABLE, [0, 1, 0])[-1:])
    assert not np.allclose(probabilities(kept.logits), probabilities(cropped.logits))


def test_a_plain_cache_is_cropped_to_a_length() -> None:
    cache = ToyCache()
    cache.crop(3)
    assert cache.get_seq_length() == 0
    keys = torch.arange(5)[None, None, :, None]
    cache.update(keys, keys)
    cache.crop(7)
    assert cache.get_seq_length() == 5
    cache.crop(2)
    assert cache[0][0][0, 0, :, 0].tolist() == cache[0][1][0, 0, :, 0].tolist() == [0, 1]
    assert len(cache) == 1
    cache.crop(0)
    assert cache.get_seq_length() == 0


@variants
def test_tuples_of_keys_and_values_can_be_cut_along_the_sequence(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    past = lm(torch.tensor([[0, 1, 2], [0, 2, 2]]), past_key_values=()).past_key_values
    assert isinstance(past, tuple)
    assert past[0][0].shape == past[0][1].shape == (2, 1, 3, 1)
    cut = tuple((keys[:, :, :2], values[:, :, :2]) for keys, values in past)
    output = lm(torch.tensor([[0], [1]]), past_key_values=cut)
    assert_laws(output.logits[0], laws_along(TABLE, [0, 1, 0])[-1:])
    assert_laws(output.logits[1], laws_along(TABLE, [0, 2, 1])[-1:])
    assert past[0][0].shape[2] == output.past_key_values[0][0].shape[2] == 3


@variants
def test_rows_of_a_cache_can_be_chosen(plain: bool) -> None:
    """As where the drafts of one text share its cache."""
    lm = toy_lm(TABLE, plain=plain)
    past = lm(torch.tensor([[0, 1], [0, 2]]), past_key_values=()).past_key_values
    chosen = tuple((keys[[1, 1]], values[[1, 1]]) for keys, values in past)
    output = lm(torch.tensor([[0], [1]]), past_key_values=chosen)
    assert_laws(output.logits[0], laws_along(TABLE, [0, 2, 0])[-1:])
    assert_laws(output.logits[1], laws_along(TABLE, [0, 2, 1])[-1:])


@variants
@given(data=st.data())
def test_cached_runs_agree_with_uncached_ones(plain: bool, data: st.DataObject) -> None:
    """Pieces of any size, with tokens taken back in between, as a rejecting verifier does."""
    table = data.draw(tables(data.draw(st.integers(2, 3)), data.draw(st.integers(1, 3)), max_weight=4))
    lm = toy_lm(table, plain=plain)
    past, text = None, []
    for _ in range(data.draw(st.integers(1, 4))):
        if len(text) > 1:
            back = data.draw(st.integers(0, len(text) - 1))
            crop(past, back) if back else None
            text = text[: len(text) - back]
        piece = data.draw(st.lists(st.integers(0, table.vocab - 1), min_size=1, max_size=3))
        text = text + piece
        cached = lm(torch.tensor([piece]), past_key_values=past)
        past = cached.past_key_values
        uncached = lm(torch.tensor([text]), use_cache=False)
        assert uncached.past_key_values is None
        assert torch.equal(cached.logits, uncached.logits[:, -len(piece) :])
        assert_laws(uncached.logits[0], laws_along(table, text))


@variants
def test_logits_to_keep(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    ids = torch.tensor([[0, 1, 2, 0]])
    everything = lm(ids).logits
    assert torch.equal(lm(ids, logits_to_keep=2).logits, everything[:, -2:])
    assert torch.equal(lm(ids, logits_to_keep=torch.tensor([0, 2])).logits, everything[:, [0, 2]])


@variants
def test_outputs_by_name_and_by_index(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    ids = torch.tensor([[0, 1]])
    output = lm(ids)
    assert output[0] is output.logits
    assert output["logits"] is output.logits
    assert output[1] is output.past_key_values
    assert not plain or output.cache is output.past_key_values
    assert len(output[:2]) == 2
    assert torch.equal(lm(ids, return_dict=False)[0], output.logits)
    assert len(lm(ids, return_dict=False, use_cache=False)) == 1


@variants
def test_what_code_asks_a_model_about_itself(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain, dtype=torch.float32)
    assert not lm.training
    assert lm.eval() is lm
    assert lm.device == next(lm.parameters()).device == torch.device("cpu")
    assert lm.dtype == lm(torch.tensor([[0]])).logits.dtype == torch.float32
    assert lm.to(torch.float64).dtype == torch.float64
    assert lm.config.vocab_size == 3
    assert not lm(torch.tensor([[0]])).logits.requires_grad


@variants
def test_positions_change_nothing(plain: bool) -> None:
    lm = toy_lm(TABLE, plain=plain)
    ids = torch.tensor([[0, 1]])
    output = lm(ids, position_ids=torch.tensor([[5, 6]]), cache_position=torch.tensor([5, 6]), output_attentions=False)
    assert torch.equal(output.logits, lm(ids).logits)


@variants
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": torch.tensor([[0, 3]])}, r"row 0.*vocabulary 0\.\.2"),
        ({"input_ids": torch.tensor([[0, 1], [0, -1]])}, r"\[0, -1\] in row 1"),
        ({"input_ids": torch.tensor([0, 1])}, r"shape \[B, n\].*they are \[2\]"),
        ({"input_ids": torch.zeros(1, 0, dtype=torch.int64)}, r"n of at least 1; they are \[1, 0\]"),
        ({"input_ids": None}, "they are NoneType"),
        ({"input_ids": torch.tensor([[0]]), "labels": torch.tensor([[0]])}, "without labels"),
        (
            {"input_ids": torch.tensor([[0, 1]]), "attention_mask": torch.ones(1, 3)},
            r"shape \[1, 3\] with 0 stored tokens and 2 new ones; it must be \[1, 2\]",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str, plain: bool) -> None:
    with pytest.raises(ToyCallError, match=message):
        toy_lm(TABLE, plain=plain)(**arguments)


def test_without_transformers_the_model_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["spectr_verify.replay.toy_lm"], "find_spec", lambda name: None)
    assert type(toy_lm(TABLE)) is ToyLM


def test_transformers_is_imported_only_where_a_model_is_built() -> None:
    code = "import sys, spectr_verify.replay.toy_lm; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not INSTALLED, reason="transformers is not installed")
class TestTransformers:
    def test_the_model_is_one_of_the_package(self) -> None:
        from transformers import GenerationMixin, PreTrainedModel

        lm = toy_lm(TABLE)
        assert isinstance(lm, PreTrainedModel)
        assert isinstance(lm, GenerationMixin)

    def test_a_cache_of_fixed_size_is_refused(self) -> None:
        from transformers import StaticCache

        lm = toy_lm(TABLE)
        with pytest.raises(ToyCallError, match="such as DynamicCache; StaticCache answered with 6 places for 2 tokens"):
            lm(torch.tensor([[0, 1]]), past_key_values=StaticCache(config=lm.config, max_cache_len=6))

    def test_generate_follows_the_likeliest_tokens(self) -> None:
        lm = toy_lm(TABLE)
        text: list[int] = []
        for _ in range(5):
            text.append(int(TABLE.law(text).argmax()))
        found = lm.generate(torch.tensor([[0]]), max_new_tokens=5, do_sample=False)
        assert found[0].tolist() == [0, *text]

    def test_generate_with_left_padding(self) -> None:
        lm = toy_lm(TABLE)
        mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
        ids = torch.tensor([[1, 0, 2], [0, 2, 1]])
        both = lm.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0)
        alone = lm.generate(ids[:1, 1:], max_new_tokens=4, do_sample=False)
        assert both[0, 1:].tolist() == alone[0].tolist()
