"""Synthetic pairs: laws that follow from the context alone, as peaked and as far apart as they say."""

from __future__ import annotations

import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from toy_models import TableError, synthetic
from toy_models.synthetic import EXPONENTS, SyntheticPair


def pair(**other: int | float) -> SyntheticPair:
    return SyntheticPair(**{"vocab": 50, "overlap": 0.7, **other})


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.lists(st.lists(st.integers(-1, 49), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_same_context_has_the_same_law_in_any_company(contexts: list[list[int]]) -> None:
    given = torch.tensor(contexts)
    for model in ("target", "draft"):
        together = getattr(pair(), model)(given)
        assert together.dtype == torch.float32
        assert together.shape == (len(contexts), 50)
        assert together.isfinite().all()
        alone = torch.cat([getattr(pair(), model)(each[None]) for each in given])
        assert torch.equal(together, alone)


def test_every_token_of_the_context_counts_and_so_does_the_seed() -> None:
    one = torch.tensor([[1, 2, 3, 4]])
    laws = [pair().target(one), pair(seed=1).target(one)]
    for position in range(4):
        other = one.clone()
        other[0, position] = 7
        laws.append(pair().target(other))
    laws.append(pair().target(torch.tensor([[-1, 2, 3, 4]])))
    for number, law in enumerate(laws):
        assert not any(torch.equal(law, before) for before in laws[:number])


def test_no_more_than_the_last_tokens_is_asked_for() -> None:
    assert pair(order=1).target(torch.tensor([[3], [3]])).unique(dim=0).shape == (1, 50)


def test_hashing_in_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = pair().contexts(9)
    whole = [pair().target(contexts), pair().draft(contexts)]
    monkeypatch.setattr(synthetic, "CHUNK", 1)
    assert all(torch.equal(a, b) for a, b in zip(whole, [pair().target(contexts), pair().draft(contexts)], strict=True))


def test_laws_fall_like_those_of_zipf() -> None:
    """From the 10th to the 1000th likeliest token by a factor of about 100^s, with s in the middle of its bounds."""
    big = SyntheticPair(20_000, 1.0)
    ordered = big.target(big.contexts(400)).sort(dim=-1, descending=True).values
    slope = (ordered[:, 9] - ordered[:, 999]) / torch.tensor(100.0).log()
    assert abs(float(slope.mean()) - sum(EXPONENTS) / 2) < 0.1
    assert float(slope.std()) > 0.3, "some contexts are nearly certain and others wide open"


@pytest.mark.parametrize(("vocab", "overlap"), [(5, 0.5), (1_000, 0.95), (1_000, 0.3), (32_000, 0.7)])
def test_the_overlap_is_reached(vocab: int, overlap: float) -> None:
    made = SyntheticPair(vocab, overlap, seed=2)
    contexts = made.contexts(200)
    q, p = (logits(contexts).softmax(-1) for logits in (made.target, made.draft))
    found = torch.minimum(p, q).sum(dim=-1)
    assert abs(float(found.mean()) - overlap) < 4 * float(found.std()) / 200**0.5


def test_an_overlap_of_one_is_one_model() -> None:
    same = pair(overlap=1)
    assert same.noise == 0
    assert torch.equal(same.target(same.contexts(3)), same.draft(same.contexts(3)))


def test_noise_grows_as_the_overlap_falls() -> None:
    noises = [pair(overlap=overlap).noise for overlap in (0.95, 0.8, 0.5, 0.3)]
    assert noises == sorted(noises)
    assert noises[0] > 0


def test_prompts_are_tokens_and_differ() -> None:
    contexts = pair().contexts(50)
    assert contexts.shape == (50, 4)
    assert 0 <= int(contexts.min()) <= int(contexts.max()) < 50
    assert len(contexts.unique(dim=0)) == 50
    assert not torch.equal(contexts, pair(seed=1).contexts(50))


LARGE = """
import resource, torch
from toy_models.synthetic import SyntheticPair
torch.zeros(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pair = SyntheticPair(151_936, 0.7)
laws = pair.draft(pair.contexts(100))
print(laws.numel(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="ru_maxrss counts other units there")
def test_memory_at_the_largest_vocabulary() -> None:
    """100 laws of 151,936 tokens are 58 MiB; making them, and fitting the noise, takes less than ten times as much."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=300, check=True)
    numbers, kibibytes = map(int, done.stdout.split())
    assert numbers == 15_193_600
    assert kibibytes < 580 * 1024


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vocab": 1}, "the vocabulary is 1"),
        ({"vocab": 1 << 21}, "the vocabulary is 2097152"),
        ({"overlap": 0}, "the overlap is 0"),
        ({"overlap": 1.5}, "the overlap is 1.5"),
        ({"overlap": float("nan")}, "the overlap is nan"),
        ({"seed": -1}, "the seed is -1"),
        ({"order": 0}, "the order is 0"),
        ({"vocab": 2, "overlap": 0.01}, "no noise makes 2 tokens overlap as little as 0.01; ask for more than 0."),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict, message: str) -> None:
    with pytest.raises(TableError, match=message):
        pair(**wrong)
