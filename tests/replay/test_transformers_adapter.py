"""What the package ``transformers`` emits, enumerated exactly: the installed version, as it is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from spectr_verify.errors import InputError
from spectr_verify.replay import Verifier, edge_violation, replayed_laws, toy_lm, verifier
from spectr_verify.rules import Rule
from toy_models import ToyPair, family_pairs

pytest.importorskip("transformers")

from transformers import DynamicCache
from transformers.utils import logging

from spectr_verify.adapters.transformers import generate, speculative_sampling

SINGLE = 1e-6
"""``generate`` makes float32 of all logits, so its probabilities are right to about 1e-7."""

L = {"num_assistant_tokens": "L"}


def replayed(function: Any, calls: Any, **options: Any) -> Verifier:
    found = verifier(function, calls, **options)
    assert not isinstance(found, Rule)
    return found


def named(family: str, vocab: int, length: int) -> ToyPair:
    return next(pair for pair in family_pairs(0, vocab, length) if pair.name.startswith(family))


pairs = pytest.mark.parametrize(
    "pair",
    [*family_pairs(0, 2, 1), *family_pairs(0, 3, 1), named("random", 2, 2), named("with-zeros", 2, 2)],
    ids=lambda pair: pair.name,
)


@pairs
def test_generate_follows_the_target(pair: ToyPair) -> None:
    whole = replayed(generate, "step", arguments=L)
    law, _ = replayed_laws(whole, pair, pair.max_length, 1)
    assert law.tv_round < SINGLE
    assert law.emissions[-1].sum() == pytest.approx(1)  # always L + 1 tokens
    assert whole.seen.single or law.tv_round == 0.0


@pairs
def test_speculative_sampling_follows_the_target(pair: ToyPair) -> None:
    rule = replayed(speculative_sampling, "probabilities")
    law, _ = replayed_laws(rule, pair, pair.max_length, 1)
    assert law.tv_round < 1e-12
    assert not rule.seen.single


@pytest.mark.parametrize("tokens", [1, 3, 4])
def test_generate_over_several_rounds(tokens: int) -> None:
    """The package's own rounds, each on the caches that the one before left behind."""
    pair = named("long-memory", 2, 1)
    whole = replayed(generate, "step", arguments={**L, "max_new_tokens": str(tokens)})
    law, _ = replayed_laws(whole, pair, 1, 1)
    assert law.target.shape == (2**tokens,)
    assert law.tv_round < SINGLE


def test_generate_called_again_on_its_own_text() -> None:
    whole = replayed(generate, "step", arguments=L)
    _, text = replayed_laws(whole, named("sparse", 2, 1), 1, 1, 4)
    assert text is not None
    assert text.tv_text < SINGLE


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_generate_at_a_temperature(temperature: float) -> None:
    arguments = {**L, "temperature": "temperature"}
    whole = replayed(generate, "step", arguments=arguments, temperature=temperature)
    law, _ = replayed_laws(whole, named("random", 3, 1), 1, 1)
    assert law.tv_round < SINGLE


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_that_it_is_not_told_is_noticed(temperature: float) -> None:
    whole = replayed(generate, "step", arguments=L, temperature=temperature)
    law, _ = replayed_laws(whole, named("random", 3, 1), 1, 1)
    assert law.tv_round > 0.01


def test_a_cache_that_forgets_to_forget_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejected tokens that stay in the caches change the law: what generate does with them is really under test."""
    monkeypatch.setattr(DynamicCache, "crop", lambda *_: None)
    whole = replayed(generate, "step", arguments={**L, "max_new_tokens": "3"})
    law, _ = replayed_laws(whole, named("random", 2, 2), 1, 1)
    assert law.tv_round > 1000 * SINGLE


@pytest.mark.parametrize(("function", "calls"), [(generate, "step"), (speculative_sampling, "probabilities")])
def test_a_uniform_of_zero_accepts_the_impossible(function: Any, calls: Any) -> None:
    """It accepts where ``u <= p / q``, so that u = 0, once in 2^24 draws, lets a token of probability zero through."""
    options = {"arguments": L} if calls == "step" else {}
    found = edge_violation(replayed(function, calls, **options), named("disjoint", 2, 1), 1, 1)
    assert found is not None
    assert found.edge == 0.0
    assert edge_violation(replayed(function, calls, **options), named("flattened", 2, 1), 1, 1) is None


def test_torch_does_draw_that_zero() -> None:
    """Drawn, not replayed: with this seed the first number of torch.rand is 0."""
    torch.manual_seed(5528393)
    assert torch.rand(1).item() == 0.0
    torch.manual_seed(5528393)
    certain = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    assert speculative_sampling(torch.tensor([0]), torch.tensor([[0.5, 0.5]]), certain).tolist() == [0, 1]


def test_generate_adds_as_many_tokens_as_it_is_asked_for() -> None:
    pair = named("random", 3, 1)
    ids = torch.tensor([[0, 2]])
    for asked, added in ((None, 3), (1, 1), (5, 5)):
        longer = generate(toy_lm(pair.draft), toy_lm(pair.target), ids, num_assistant_tokens=2, max_new_tokens=asked)
        assert longer.shape == (1, 2 + added)
        assert longer[0, :2].tolist() == [0, 2]


def test_the_package_warns_as_before_afterwards() -> None:
    pair = named("random", 3, 1)
    before = logging.get_verbosity()
    generate(toy_lm(pair.draft), toy_lm(pair.target), torch.tensor([[0]]), num_assistant_tokens=1)
    with pytest.raises(ValueError, match="batch_size = 1"):
        generate(toy_lm(pair.draft), toy_lm(pair.target), torch.zeros(2, 1, dtype=torch.int64), num_assistant_tokens=1)
    assert logging.get_verbosity() == before


def test_several_drafts_are_refused() -> None:
    law = torch.full((2, 1, 2), 0.5)
    with pytest.raises(
        InputError, match=r"one draft a round; draft_tokens has shape \[2, 1\], not \[L\]: .*--drafts 1"
    ):
        speculative_sampling(torch.zeros(2, 1, dtype=torch.int64), law, law.expand(2, 2, 2))


def test_without_transformers_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['transformers'] = None; import spectr_verify.adapters.transformers"
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.returncode == 1
    assert 'pip install -c constraints.txt ".[transformers]"' in run.stderr.splitlines()[-1]
