"""Pairs of models: what is loaded, what is refused, ids and texts."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from small_models import VOCAB, small_model, small_pair, tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from spectr_verify.decoding import ModelError, ModelPair, Texts, decode, load_pair
from spectr_verify.decoding.models import pair_of
from spectr_verify.rules import RULES


def folder_of(path: Path, model: Any, words: Any) -> str:
    model.save_pretrained(path)
    words.save_pretrained(path)
    return str(path)


def words_of(*words: str, **special: str) -> Any:
    model = models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0])
    built = Tokenizer(model)
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=built, **special)


def written(pair: ModelPair, name: str = "greedy-block") -> Texts:
    generator = torch.Generator().manual_seed(3)
    return decode(pair, RULES[name], [[1, 2], [3]], tokens=16, drafts=2, length=3, generator=generator)


@lru_cache
def shipped() -> ModelPair:
    return load_pair()


def test_the_shipped_pair() -> None:
    pair = shipped()
    assert pair.names == ("trained target", "trained draft")
    assert pair.target.dtype == pair.draft.dtype == torch.float32
    assert not pair.target.training
    assert not pair.draft.training
    assert pair.device == torch.device("cpu")


def test_a_saved_pair_writes_the_same_text(tmp_path: Path) -> None:
    pair = small_pair(end=2)
    folders = [folder_of(tmp_path / name, getattr(pair, name), pair.tokenizer) for name in ("target", "draft")]
    loaded = load_pair(*folders, dtype="float64")
    assert loaded.names == tuple(folders)
    assert (loaded.vocab, loaded.limit, loaded.ends) == (pair.vocab, pair.limit, pair.ends)
    assert torch.equal(written(loaded).tokens, written(pair).tokens)


def test_the_number_format_is_that_of_both(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, small_model(0), tokenizer())
    pair = load_pair(folder, folder, dtype="bfloat16")
    assert pair.target.dtype == pair.draft.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"target": "some"}, "the draft model is not named"),
        ({"draft": "some"}, "the target model is not named"),
        ({"dtype": "int8"}, "the number format is 'int8'; it must be one of float32, float64"),
        ({"device": "nonsense"}, "there is no device 'nonsense'"),
        ({"device": "cuda:99"}, "there is no device 'cuda:99'"),
        ({"device": "meta"}, "there is no device 'meta'"),
        ({"device": ""}, "there is no device ''"),
    ],
)
def test_what_is_asked_for_is_not_there(given: dict[str, str], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        load_pair(**given)


def test_no_such_folder(tmp_path: Path) -> None:
    nowhere, folder = str(tmp_path / "nowhere"), folder_of(tmp_path / "there", small_model(0), tokenizer())
    for pair in ((nowhere, folder), (folder, nowhere)):
        with pytest.raises(ModelError, match=f"there is no folder {nowhere}"):
            load_pair(*pair)


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("model.safetensors", b"no weights", "model"),
        ("model.safetensors", None, "model"),
        ("tokenizer.json", b"{", "tokenizer"),
        ("config.json", b"{", "tokenizer"),
    ],
)
def test_damaged_folders(tmp_path: Path, file: str, content: bytes | None, what: str) -> None:
    folder = folder_of(tmp_path, small_model(0), tokenizer())
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ModelError, match=f"no {what} can be loaded from {folder}"):
        load_pair(folder, folder)


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (["t0", "t1", "t2", "u3", "t4", "t5", "t6"], "2.: 't3' has the number 3 in the one and no number in"),
        (["t0", "t1", "t2", "t4", "t3", "t5", "t6"], "2.: 't3' has the number 3 in the one and the number 4 in"),
        (["t0", "t1", "t2", "t3", "t4", "t5"], "1.: 't6' has the number 6 in the one and no number in"),
    ],
)
def test_different_vocabularies(tmp_path: Path, theirs: list[str], says: str) -> None:
    target = folder_of(tmp_path / "target", small_model(0), tokenizer())
    draft = folder_of(tmp_path / "draft", small_model(1), words_of(*theirs))
    with pytest.raises(
        ModelError, match=f"{target} and {draft} have different vocabularies .tokens that differ: {says}"
    ):
        load_pair(target, draft)


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelError, match=r"install it: pip install -c constraints.txt \"\.\[transformers\]\""):
        load_pair()


def test_a_vocabulary_larger_than_an_embedding() -> None:
    large = small_model(0, embeddings=VOCAB + 1)
    with pytest.raises(ModelError, match="draft has 7 tokens and the tokenizer 8"):
        pair_of(large, small_model(1), tokenizer(VOCAB + 1))
    with pytest.raises(ModelError, match="target has 7 tokens and the tokenizer 8"):
        pair_of(small_model(1), large, tokenizer(VOCAB + 1))


def test_models_that_are_no_pair() -> None:
    size = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    translator = T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, **size))
    with pytest.raises(ModelError, match="target is an encoder-decoder model"):
        pair_of(translator, small_model(0), tokenizer())
    with pytest.raises(ModelError, match="target is on cpu and draft on meta"):
        pair_of(small_model(0), small_model(0).to("meta"), tokenizer())


def padded(seed: int) -> tuple[Any, Any]:
    """A model with two ids beyond the vocabulary, which it finds likely, and the same model without them."""
    large, cut = small_model(seed, embeddings=VOCAB + 2), small_model(seed, embeddings=VOCAB + 2)
    for model in (large, cut):
        with torch.no_grad():
            model.lm_head.weight[VOCAB:] *= 3
    cut.resize_token_embeddings(VOCAB)
    return large, cut


@pytest.mark.parametrize("name", ["token", "greedy-block", "block-race", "exact-match"])
def test_ids_beyond_the_vocabulary_have_no_probability(name: str) -> None:
    (target, cut_target), draft = padded(5), small_model(5)
    with torch.inference_mode():
        laws = target(input_ids=torch.arange(VOCAB)[None]).logits.softmax(dim=-1)
    assert float(laws[..., VOCAB:].sum(dim=-1).max()) > 0.5, "they would come out if they could"
    for large, cut in (((target, draft), (cut_target, draft)), ((draft, target), (draft, cut_target))):
        found, due = (written(pair_of(*models, tokenizer()), name) for models in (large, cut))
        assert int(found.tokens.max()) < VOCAB
        assert torch.equal(found.tokens, due.tokens)
        assert torch.equal(found.source, due.source)
        torch.testing.assert_close(found.target_probs, due.target_probs, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("end", "ends"), [(None, ()), (2, (2,)), ([1, 4], (1, 4)), (VOCAB, ()), ([3, VOCAB + 1], (3,))], ids=str
)
def test_ends(end: Any, ends: tuple[int, ...]) -> None:
    """Ids beyond the vocabulary never come out, so they end nothing."""
    target = small_model(0, embeddings=VOCAB + 2)
    target.config.eos_token_id = end
    assert pair_of(target, small_model(1, end=5), tokenizer()).ends == ends


def test_the_limit_is_the_smaller_one() -> None:
    target, draft = small_model(0), small_model(1)
    draft.config.max_position_embeddings = 9
    assert pair_of(target, draft, tokenizer()).limit == 9


def with_start(*, writes_it: bool) -> Any:
    built = words_of("s", "a", "b", bos_token="s")
    if writes_it:
        template = processors.TemplateProcessing(single="s $A", special_tokens=[("s", 0)])
        built.backend_tokenizer.post_processor = template
    return built


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (with_start(writes_it=False), [0, 1, 2]),
        (with_start(writes_it=True), [0, 1, 2]),
        (words_of("s", "a", "b"), [1, 2]),
    ],
    ids=["it is put before", "the tokenizer writes it", "there is none"],
)
def test_the_start_of_text_stands_there_once(words: Any, ids: list[int]) -> None:
    pair = pair_of(small_model(0), small_model(1), words)
    assert pair.encode(["a b"]) == [ids]
    assert pair.encode(("b", "a b")) == [[*ids[:-2], 2], ids]


def test_a_prompt_that_begins_with_the_start_of_text() -> None:
    start = shipped().tokenizer.bos_token
    assert shipped().encode([f"{start}def"]) == shipped().encode(["def"])


def test_empty_prompts() -> None:
    with pytest.raises(ModelError, match="prompt 1 is empty"):
        shipped().encode(["def", ""])
    with pytest.raises(ModelError, match="prompt 0 is empty"):
        pair_of(small_model(0), small_model(1), words_of("a")).encode([" "])


def test_a_character_stands_where_its_last_token_is() -> None:
    tokens = shipped().encode(["ï🙂"])[0][1:]
    pieces = shipped().pieces(tokens)
    assert len(pieces) == len(tokens) > 2, "no token of the shipped pair is one of these characters"
    assert [piece for piece in pieces if piece] == ["ï", "🙂"]
    assert pieces[-1] == "🙂"
    assert shipped().pieces([]) == []


@hypothesis.given(tokens=st.lists(st.integers(0, 1023), max_size=12))
def test_pieces_are_the_text(tokens: list[int]) -> None:
    """Whatever a model writes, parts of characters that never become whole too."""
    pieces = shipped().pieces(tokens)
    assert len(pieces) == len(tokens)
    assert "".join(pieces) == shipped().tokenizer.decode(tokens)


@hypothesis.given(text=st.text(min_size=1, max_size=12))
def test_texts_come_back(text: str) -> None:
    start, *tokens = shipped().encode([text])[0]
    assert start == shipped().tokenizer.bos_token_id
    assert "".join(shipped().pieces(tokens)) == text


@pytest.mark.parametrize("name", ["./targte", "/no/such/folder", "~/targte", "a/b/c", "here/targte"])
def test_a_folder_that_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at the network, which can take minutes to say no."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=f"there is no folder {name}; a model is a folder, or a name ORG/MODEL"):
        load_pair(name, name)
