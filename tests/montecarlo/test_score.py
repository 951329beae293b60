"""The reference against laws that are computed one token at a time, and what it says of number formats."""

from __future__ import annotations

import copy

import pytest
import torch
from small_models import LIMIT, VOCAB, small_model, small_pair, tokenizer

from spectr_verify.decoding import Filters, ModelError, ModelPair, Texts, decode
from spectr_verify.decoding.models import pair_of
from spectr_verify.montecarlo import Reference, Settings, monte_carlo, score
from spectr_verify.montecarlo.evidence import log_ratios
from spectr_verify.rules import RULES

PROMPTS = [[1, 2, 3], [4], [5, 6, 0, 1, 2, 3, 4]]
FILTERS = [Filters(), Filters(temperature=0.6, top_p=0.8), Filters(top_k=3, min_p=0.05), Filters(temperature=0.0)]


def written(pair: ModelPair, filters: Filters, prompts: list[list[int]] = PROMPTS, tokens: int = 10) -> Texts:
    generator = torch.Generator().manual_seed(3)
    rule = RULES["block-race"]
    return decode(
        pair, rule, prompts, tokens=tokens, drafts=2, length=3, filters=filters, generator=generator, stops=False
    )


def in_format(pair: ModelPair, dtype: torch.dtype) -> ModelPair:
    return pair_of(*(copy.deepcopy(model).to(dtype) for model in (pair.target, pair.draft)), pair.tokenizer)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_every_law_is_that_of_the_text_before(filters: Filters) -> None:
    """Prompts of different lengths, one of them up to the end of what the models read."""
    pair, prompts = small_pair(), [*PROMPTS, [number % VOCAB for number in range(LIMIT - 10)]]
    texts = written(pair, filters, prompts)
    found = Reference(pair, filters, torch.float64).score(texts)
    for row, prompt in enumerate(prompts):
        for place, token in enumerate(texts.tokens[row].tolist()):
            read = torch.tensor([prompt + texts.tokens[row, :place].tolist()])
            with torch.inference_mode():
                q, p = (filters.law(model(read).logits[0, -1:]) for model in (pair.target, pair.draft))
            if place == 0:
                torch.testing.assert_close(found.first[row], q[0], rtol=0, atol=1e-12)
            assert float(found.log_target[row, place].exp()) == pytest.approx(float(q[0, token]), abs=1e-12)
            assert float(found.log_draft[row, place].exp()) == pytest.approx(float(p[0, token]), abs=1e-12)
            expected = log_ratios(q, p, torch.tensor([token]))[0]
            torch.testing.assert_close(found.log_ratios[row, place], expected, rtol=1e-9, atol=1e-9)


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for one row, for two rows, and for less than one."""
    texts = written(small_pair(), Filters())
    reference = Reference(small_pair(), Filters(), torch.float64)
    whole = reference.score(texts)
    row = (max(map(len, PROMPTS)) + 10) * VOCAB * 4
    for size in (row, 2 * row, 1):
        monkeypatch.setattr(score, "CHUNK_BYTES", size)
        calls = []
        hook = reference.target.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        parts = reference.score(texts)
        hook.remove()
        assert len(calls) == (2 if size == 2 * row else 3)
        for name, value in vars(whole).items():
            torch.testing.assert_close(getattr(parts, name), value, rtol=1e-9, atol=1e-12)


def test_padding_of_an_embedding_has_no_probability() -> None:
    padded = [small_model(seed, embeddings=VOCAB + 4) for seed in (0, 1)]
    pair = pair_of(*padded, tokenizer())
    found = Reference(pair, Filters(), torch.float64).score(written(pair, Filters()))
    assert found.first.shape == (len(PROMPTS), VOCAB)
    torch.testing.assert_close(found.first.sum(dim=1), torch.ones(len(PROMPTS)).double())


def test_the_reference_copies_models_of_another_format_alone() -> None:
    pair = small_pair()
    same = Reference(pair, Filters(), torch.float64)
    assert same.target is pair.target
    assert same.draft is pair.draft
    other = Reference(pair, Filters())
    assert (other.target.dtype, other.draft.dtype) == (torch.float32, torch.float32)
    assert pair.target.dtype == torch.float64


@pytest.mark.parametrize(("dtype", "least", "most"), [(torch.float32, 0.0, 1e-6), (torch.bfloat16, 1e-3, 0.05)])
def test_the_distance_of_the_numbers_is_told(dtype: torch.dtype, least: float, most: float) -> None:
    """A bfloat16 number has 8 bits, of which some are lost on the way; float32 is the reference's own format."""
    pair = in_format(small_pair(), dtype)
    report = monte_carlo(pair, RULES["token"], PROMPTS, Settings(texts=120, tokens=12, length=3))
    assert report.end_to_end.dtype == "float32"
    assert least <= report.end_to_end.numerical <= most
    assert not report.lossless_rejected


def test_the_distance_is_the_total_variation() -> None:
    """Against a reference with other weights: the mean distance of the laws along texts from the first."""
    pair, filters = small_pair(), Filters()
    other = ModelPair(pair.draft, pair.draft, pair.tokenizer, pair.vocab, pair.names)
    reference = Reference(other, filters, torch.float64)
    asked = Settings(texts=900, tokens=12, length=3, batch=450)
    told = monte_carlo(pair, RULES["token"], PROMPTS, asked, reference=reference).end_to_end.numerical
    texts = written(pair, filters, PROMPTS * 100, tokens=12)
    prompts = [torch.cat([torch.tensor(prompt), row]) for prompt, row in zip(texts.prompts, texts.tokens, strict=True)]
    distances = []
    with torch.inference_mode():
        for prompt, text in zip(texts.prompts, prompts, strict=True):
            q, p = (
                filters.law(model(text[None]).logits[0, len(prompt) - 1 : -1]) for model in (pair.target, pair.draft)
            )
            distances.append(float((q - p).abs().sum(dim=-1).mean() / 2))
    spread = float(torch.tensor(distances).std()) / len(distances) ** 0.5
    assert told == pytest.approx(sum(distances) / len(distances), abs=6 * spread)


def test_numbers_that_are_not_finite_are_refused() -> None:
    texts, broken = written(small_pair(), Filters()), copy.deepcopy(small_pair().draft)
    with torch.no_grad():
        broken.lm_head.weight[2] = torch.nan
    pair = ModelPair(small_pair().target, broken, tokenizer(), VOCAB, ("one", "the other"))
    with pytest.raises(ModelError, match="the other gives logits that are not finite"):
        Reference(pair, Filters(), torch.float64).score(texts)
