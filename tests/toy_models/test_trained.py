"""The trained pair as it is shipped, what its card says, and its training in small."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toy_models.trained import trained_pair
from toy_models.trained.corpus import Corpus, standard_library

pytest.importorskip("transformers")

from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from toy_models.trained import train as command
from toy_models.trained.card import page, write_card
from toy_models.trained.measure import measure, spread_windows
from toy_models.trained.training import Recipe, encode, learn_vocabulary, new_model, sample, train, warm_cosine

SHIPPED = trained_pair()
CARD = json.loads((SHIPPED.target.parent / "card.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class SmallRecipe(Recipe):
    vocabulary: int = 300
    context: int = 32
    rows: int = 3
    pool: int = 2
    prompt: int = 8


SMALL = SmallRecipe(target_steps=3, draft_steps=3)


@pytest.fixture(scope="module")
def models() -> tuple[torch.nn.Module, torch.nn.Module]:
    target, draft = (AutoModelForCausalLM.from_pretrained(folder) for folder in SHIPPED)
    return target, draft


@pytest.fixture(scope="module")
def tokenizers() -> list:
    return [AutoTokenizer.from_pretrained(folder) for folder in SHIPPED]


@pytest.fixture(scope="module")
def small_corpus() -> Corpus:
    whole = standard_library()
    return Corpus(whole.training[:6], whole.held_out[:1], "of a part")


# As it is shipped


def test_the_folders_are_named_without_importing_a_model() -> None:
    program = (
        "import sys; from toy_models.trained import trained_pair; print(*map(str, trained_pair()), sep='\\n'); "
        "print([m for m in ('torch', 'transformers', 'spectr_verify') if m in sys.modules])"
    )
    # From the folder of the package that this process imported, which is installed or lies in the working folder.
    where = SHIPPED.target.parent.parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=where)
    assert done.stdout.splitlines() == [str(SHIPPED.target), str(SHIPPED.draft), "[]"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"target.config\.json.*install the package again"):
        trained_pair(tmp_path)


def test_all_of_it_takes_twelve_megabytes_at_most() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.target.parent.rglob("*") if path.is_file()) < 12e6


def test_the_target_has_about_ten_times_the_parameters(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    target, draft = (sum(weight.numel() for weight in model.parameters()) for model in models)
    assert CARD["parameters"] == {"target": target, "draft": draft}
    assert 8 < target / draft < 12


def test_both_load_in_single_precision_with_every_weight(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    for folder, model in zip(SHIPPED, models, strict=True):
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        _, found = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        assert not found["missing_keys"]
        assert not found["unexpected_keys"]


def test_both_share_one_vocabulary(models: tuple[torch.nn.Module, torch.nn.Module], tokenizers: list) -> None:
    target, draft = tokenizers
    assert target.get_vocab() == draft.get_vocab()
    assert [model.config.vocab_size for model in models] == [len(target)] * 2
    assert target.bos_token_id == target.eos_token_id == models[0].config.bos_token_id == 0


@given(text=st.text(max_size=60))
def test_every_text_comes_back_as_it_was(tokenizers: list, text: str) -> None:
    for tokenizer in tokenizers:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_tokenizer_that_is_loaded_is_the_one_that_was_trained(tokenizers: list) -> None:
    trained = Tokenizer.from_file(str(SHIPPED.target / "tokenizer.json"))
    text = CARD["excerpt"]["text"]
    assert tokenizers[0].encode(text) == tokenizers[1].encode(text) == trained.encode(text).ids
    assert len(text) / len(trained.encode(text).ids) > 2


# What the card says


def test_the_card_of_the_shipped_pair_is_the_page_of_its_numbers() -> None:
    assert (SHIPPED.target.parent / "MODEL_CARD.md").read_text(encoding="utf-8") == page(CARD)


def test_the_excerpt_is_measured_again_to_four_digits(models: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    """The same text on every machine: only the order of floating-point sums may differ."""
    tokens = encode(Tokenizer.from_file(str(SHIPPED.target / "tokenizer.json")), [CARD["excerpt"]["text"]])
    found = measure(*models, tokens[None])
    assert found.positions == CARD["excerpt"]["positions"]
    for name in ("overlap", "target_perplexity", "draft_perplexity"):
        assert getattr(found, name) == pytest.approx(CARD["excerpt"][name], rel=1e-4)


def test_the_held_out_sources_of_this_python_measure_like_the_card(
    models: tuple[torch.nn.Module, torch.nn.Module],
) -> None:
    """An eighth of the windows, perhaps of another Python: overlap within 0.04, perplexities within a quarter."""
    tokens = encode(Tokenizer.from_file(str(SHIPPED.target / "tokenizer.json")), standard_library().held_out)
    found = measure(*models, spread_windows(tokens, 32, CARD["recipe"]["context"]))
    assert found.overlap == pytest.approx(CARD["held_out"]["overlap"], abs=0.04)
    assert found.target_perplexity == pytest.approx(CARD["held_out"]["target_perplexity"], rel=0.25)
    assert found.draft_perplexity == pytest.approx(CARD["held_out"]["draft_perplexity"], rel=0.25)


def test_the_pair_behaves_like_one_that_people_deploy() -> None:
    for text in ("held_out", "sampled"):
        assert 0.6 < CARD[text]["overlap"] < 0.8
        assert CARD[text]["target_perplexity"] < CARD[text]["draft_perplexity"] < 100


# Measuring


def laws(rows: torch.Tensor) -> object:
    """A model whose law after token i is row i."""

    class Table(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, use_cache: bool) -> object:
            return type("Output", (), {"logits": rows.log()[tokens]})

    return Table()


def test_measuring_two_laws_of_two_tokens_by_hand() -> None:
    target = laws(torch.tensor([[0.5, 0.5], [0.2, 0.8]]))
    draft = laws(torch.tensor([[0.25, 0.75], [0.6, 0.4]]))
    found = measure(target, draft, torch.tensor([[0, 1, 0]]))
    assert found.positions == 2
    assert found.overlap == pytest.approx((0.75 + 0.6) / 2)
    assert found.target_perplexity == pytest.approx((0.5 * 0.2) ** -0.5)
    assert found.draft_perplexity == pytest.approx((0.75 * 0.6) ** -0.5)


def test_windows_do_not_overlap_and_reach_over_the_text() -> None:
    tokens = torch.arange(103)
    assert spread_windows(tokens, 5, 10).tolist() == [list(range(i, i + 10)) for i in (0, 20, 40, 60, 80)]
    assert spread_windows(tokens, 99, 10).shape == (10, 10)


# Training in small


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_training_repeated_writes_the_same_files_and_another_seed_others(
    small_corpus: Corpus, tmp_path: Path
) -> None:
    seconds = {"vocabulary": 1.0, "target": 2.0, "draft": 3.0}
    for name, recipe in (("one", SMALL), ("two", SMALL), ("other", replace(SMALL, seed=1))):
        torch.rand(1)  # a state of torch's own generator that must not matter
        assert train(small_corpus, recipe, tmp_path / name).keys() == seconds.keys()
        write_card(small_corpus, recipe, seconds, tmp_path / name)
    one, two, other = (files(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two
    assert {"MODEL_CARD.md", "card.json", "target/model.safetensors", "draft/model.safetensors"} <= one.keys()
    for role in ("target", "draft"):
        assert one[f"{role}/model.safetensors"] != other[f"{role}/model.safetensors"]
        assert one[f"{role}/tokenizer.json"] == other[f"{role}/tokenizer.json"]


def test_more_steps_bring_the_draft_nearer_to_the_target(small_corpus: Corpus, tmp_path: Path) -> None:
    overlap = []
    for name, steps in (("few", 1), ("more", 40)):
        train(small_corpus, replace(SMALL, target_steps=15, draft_steps=steps), tmp_path / name)
        target, draft = (AutoModelForCausalLM.from_pretrained(folder) for folder in trained_pair(tmp_path / name))
        tokens = encode(Tokenizer.from_file(str(tmp_path / name / "target" / "tokenizer.json")), small_corpus.held_out)
        overlap.append(measure(target, draft, spread_windows(tokens, 8, SMALL.context)).overlap)
    assert overlap[1] > overlap[0] + 0.05


def test_the_vocabulary_has_every_byte_and_the_start_first(small_corpus: Corpus) -> None:
    tokenizer = learn_vocabulary(small_corpus.training, 300)
    assert tokenizer.get_vocab_size() == 300
    assert encode(tokenizer, ["é\0", ""]).tolist()[0] == encode(tokenizer, ["é\0", ""]).tolist()[-1] == 0
    assert tokenizer.decode(tokenizer.encode("é\0\U0001f600").ids) == "é\0\U0001f600"


def test_sampled_text_goes_on_over_the_end_of_a_file_and_leaves_the_global_generator_alone() -> None:
    model = new_model(replace(SMALL.draft, layers=1), replace(SMALL, vocabulary=2), torch.Generator().manual_seed(0))
    prompts = torch.ones(4, 3, dtype=torch.int64)
    before = torch.get_rng_state()
    text = sample(model, prompts, 40, torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert text.shape == (4, 40)
    assert torch.equal(text[:, :3], prompts)
    assert torch.equal(text, sample(model, prompts, 40, torch.Generator().manual_seed(1)))
    ended = (text == 0).cummax(dim=1).values
    assert (text[ended] == 1).any()


def test_the_learning_rate_rises_and_then_falls() -> None:
    rates = [warm_cosine(step, 100) for step in range(100)]
    peak = rates.index(1.0)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert 0 < rates[-1] < 0.03


# The command


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("toy_models.trained.card", "toy_models.trained.training"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SystemExit, match=r"needs the package tokenizers; install it: pip install .spectr-verify"):
        command.main([])


def test_the_command_trains_and_writes_where_it_is_told(
    small_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "standard_library", lambda: small_corpus)
    monkeypatch.setattr("toy_models.trained.training.Recipe", SmallRecipe)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # other tests go on after this one
    command.main(["--seed", "3", "--target-steps", "1", "--draft-steps", "2", "--out", str(tmp_path / "pair")])
    recipe = json.loads((tmp_path / "pair" / "card.json").read_text(encoding="utf-8"))["recipe"]
    assert (recipe["seed"], recipe["target_steps"], recipe["draft_steps"]) == (3, 1, 2)
    assert "MODEL_CARD.md" in capsys.readouterr().out


def test_a_python_without_sources_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(SystemExit, match="has 0 sources of the standard library"):
        command.main([])
