"""Every rule: golden values, losslessness, formats, and one definition for exact and sampled runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from costly import costly
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectr_verify.bounds.closed_form import closed_forms
from spectr_verify.chance import Sampled
from spectr_verify.exact import round_law, text_law, total_variation
from spectr_verify.exact.tables import round_builder
from spectr_verify.rounds import Round, check_emission
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.spectr_gbv import acceptance
from spectr_verify.rules.tournament import winner_law, winning_draft
from toy_models import TableModel, ToyPair, family_pairs, read_pairs, recorded_pairs
from toy_models.strategies import pairs

GOLDEN = Path(__file__).parent.parent / "data" / "golden.json"
LOSSLESS = [name for name, rule in RULES.items() if rule.lossless]
BIASED = [name for name, rule in RULES.items() if not rule.lossless]
STATEFUL = [name for name in LOSSLESS if RULES[name].kind == "stateful"]

SMALL = pairs(max_vocab=3, max_length=2, max_drafts=2) | pairs(max_vocab=2, max_length=2, max_drafts=3)


def golden() -> list[tuple[ToyPair, dict]]:
    import json

    instances = json.loads(GOLDEN.read_text())["instances"]
    return list(zip(read_pairs(GOLDEN), instances, strict=True))


def expected_accepted(instance: dict) -> dict[str, float]:
    closed, enumerated = instance["expected"], instance["expected_by_enumeration"]
    values = {
        "token": closed["token_k1"],
        "block": closed["block_k1"],
        "greedy-block": closed["greedy_block_k1"],
        "block-race": closed["block_race"],
        **enumerated,
    }
    for variant in ("published", "released"):
        if f"{variant}_spectr_gbv" in instance:
            values[f"spectr-gbv-{variant}"] = instance[f"{variant}_spectr_gbv"]["expected_accepted"]
    return values


@pytest.mark.parametrize("number", range(14))
def test_golden_values_are_reproduced_by_the_enumerated_laws(number: int) -> None:
    pair, instance = golden()[number]
    for name, value in expected_accepted(instance).items():
        law = round_law(RULES[name], pair, pair.length, pair.drafts)
        assert law.expected_accepted == pytest.approx(value, abs=1e-8), name


@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("variant", ["published", "released"])
def test_golden_errors_of_spectr_gbv_are_reproduced(number: int, variant: str) -> None:
    pair, instance = golden()[number]
    law = round_law(RULES[f"spectr-gbv-{variant}"], pair, pair.length, pair.drafts)
    recorded = instance[f"{variant}_spectr_gbv"]
    assert law.tv_first_token == pytest.approx(recorded["tv_first_token"], abs=1e-8)
    if "tv_block" in recorded:
        assert law.tv_round == pytest.approx(recorded["tv_block"], abs=1e-8)


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("pair", [*family_pairs(0, 3, 2), *family_pairs(1, 2, 3)], ids=lambda pair: pair.name)
def test_lossless_in_one_round_on_every_family(name: str, pair: ToyPair) -> None:
    assert round_law(RULES[name], pair, pair.length, 2).tv_round <= 1e-12


@pytest.mark.parametrize("name", costly(LOSSLESS))
@pytest.mark.parametrize("pair", recorded_pairs(), ids=lambda pair: pair.name)
def test_lossless_in_one_round_on_every_recorded_pair(name: str, pair: ToyPair) -> None:
    assert round_law(RULES[name], pair, 2, 2).tv_round <= 1e-12


@pytest.mark.parametrize("name", costly(LOSSLESS))
@pytest.mark.parametrize(
    "pair", [*family_pairs(0, 2, 2), *family_pairs(0, 3, 1), *recorded_pairs()], ids=lambda pair: pair.name
)
def test_lossless_over_two_rounds_of_text_on_every_built_in_pair(name: str, pair: ToyPair) -> None:
    length = 2 if pair.vocab == 2 else 1
    assert text_law(RULES[name], pair, length, 2, 2 * (length + 1)).tv_text <= 1e-12


@pytest.mark.parametrize("name", costly(STATEFUL))
@pytest.mark.parametrize("pair", family_pairs(3, 2, 3), ids=lambda pair: pair.name)
def test_nested_modifications_are_lossless(name: str, pair: ToyPair) -> None:
    """L = 3: a modified target holds for up to two positions, so rounds that accept nothing nest."""
    assert text_law(RULES[name], pair, 3, 2, 7).tv_text <= 1e-12


@pytest.mark.parametrize("name", costly(LOSSLESS))
@given(pair=SMALL)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_lossless_on_drawn_pairs(name: str, pair: ToyPair) -> None:
    rule = RULES[name]
    assert round_law(rule, pair, pair.length, pair.drafts).tv_round <= 1e-12
    if rule.kind == "stateful" or pair.length == 1:
        assert text_law(rule, pair, pair.length, pair.drafts, pair.length + 2).tv_text <= 1e-12


@given(pair=SMALL)
@settings(max_examples=50)
def test_closed_forms_are_the_enumerated_accepted_lengths(pair: ToyPair) -> None:
    L, K = pair.length, pair.drafts
    closed = closed_forms(pair, L, K)
    for name in ("token", "block", "greedy_block", "block_race"):
        law = round_law(RULES[name.replace("_", "-")], pair, L, K)
        assert law.expected_accepted == pytest.approx(closed[name], abs=1e-12), name


@given(pair=SMALL)
@settings(max_examples=50)
@pytest.mark.slow
def test_with_one_draft_the_rules_reduce_to_single_draft_rules(pair: ToyPair) -> None:
    for several, single in (
        ("recursive-rejection", "token"),
        ("k-seq", "token"),
        ("block-race", "block"),
        ("tournament-block", "block"),
        ("tournament-greedy-block", "greedy-block"),
        ("spectr-gbv-published", "greedy-block"),
        ("spectr-gbv-released", "greedy-block"),
    ):
        ours, theirs = (round_law(RULES[name], pair, pair.length, 1).emissions for name in (several, single))
        assert sum(total_variation(a, b) for a, b in zip(ours, theirs, strict=True)) <= 1e-12, several


@pytest.mark.parametrize("name", ["spectr-gbv-published", "spectr-gbv-released"])
def test_spectr_gbv_is_biased_from_the_first_token_with_two_drafts(name: str) -> None:
    pair, _ = golden()[0]
    assert round_law(RULES[name], pair, 1, 2).tv_first_token > 4e-4


def test_the_released_spectr_gbv_is_biased_with_one_draft_over_several_rounds() -> None:
    pair, _ = golden()[4]
    law = round_law(RULES["spectr-gbv-released"], pair, 2, 1)
    assert law.tv_first_token <= 1e-12
    assert text_law(RULES["spectr-gbv-released"], pair, 2, 1, 4).tv_text > 0.02


@pytest.mark.parametrize("name", STATEFUL)
def test_a_stateful_rule_without_its_modification_is_biased_though_its_first_token_is_right(name: str) -> None:
    rule = replace(RULES[name], kind="stateless", modified_target=None)
    pair, _ = golden()[4]
    law = round_law(rule, pair, 2, 1)
    assert law.tv_first_token <= 1e-12
    assert law.tv_round > 0.01
    assert text_law(rule, pair, 2, 1, 4).tv_text > 0.01


def test_typical_acceptance_is_lossy() -> None:
    pair, _ = golden()[1]
    assert round_law(RULES["typical"], pair, 1, 2).tv_first_token > 0.1


@pytest.mark.parametrize("name", costly(RULES))
@pytest.mark.parametrize("pair", family_pairs(0, 3, 2), ids=lambda pair: pair.name)
def test_float32_gives_the_same_law_to_its_precision(name: str, pair: ToyPair) -> None:
    single, double = (round_law(RULES[name], pair, 2, 2, dtype=d) for d in (torch.float32, torch.float64))
    if RULES[name].lossless:
        assert single.tv_round <= 1e-6
    if not name.startswith("tournament"):  # whose order of nearly equal ratios may fall the other way
        assert single.expected_accepted == pytest.approx(double.expected_accepted, abs=1e-5)


@pytest.mark.parametrize("name", costly(RULES))
def test_sampled_runs_follow_the_enumerated_law(name: str) -> None:
    """The same definition, drawn instead of enumerated: a G-test against the exact emission law."""
    pair, _ = golden()[8]
    L, K, n = 2, RULES[name].max_drafts or 2, 40_000
    law = np.concatenate(round_law(RULES[name], pair, L, K).emissions)
    rng = np.random.default_rng(0)
    drafted = rng.choice(9, size=(n, K), p=pair.draft.joint(L))
    root = np.zeros(1, dtype=np.int64)
    draft, target = pair.draft.continuations(root, 0, L), pair.target.continuations(root, 0, L + 1)
    round = round_builder(np.zeros(n, dtype=np.int64), drafted, draft, target, torch.float64)(torch.arange(n))
    emission = check_emission(round, RULES[name].verify(round, Sampled(torch.Generator().manual_seed(1))))
    counts = np.bincount([_emission_index(t[t >= 0].tolist(), 3) for t in emission.tokens], minlength=len(law))
    assert counts[law == 0].sum() == 0
    seen = law > 0
    expected = n * law[seen]
    statistic = ((counts[seen] - expected) ** 2 / expected).sum()
    from scipy.stats import chi2

    assert chi2.sf(statistic, seen.sum() - 1) > 1e-4


def _emission_index(tokens: list[int], V: int) -> int:
    index = 0
    for token in tokens:
        index = index * V + token
    return index + sum(V ** (t + 1) for t in range(len(tokens) - 1))


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(seed=st.integers(0, 2**16), B=st.integers(1, 3), K=st.integers(1, 4), L=st.integers(1, 6), V=st.integers(2, 40))
@settings(max_examples=15)
def test_rules_keep_the_contract_at_any_size(
    name: str, dtype: torch.dtype, seed: int, B: int, K: int, L: int, V: int
) -> None:
    """Peaked laws in real sizes: long blocks, many tokens, ratios of many orders of magnitude, zeros, ties."""
    generator = torch.Generator().manual_seed(seed)
    if RULES[name].max_drafts is not None:
        K = RULES[name].max_drafts
    round = random_round(generator, B, K, L, V, dtype)
    check_emission(round, RULES[name].verify(round, Sampled(generator)))


def random_round(generator: torch.Generator, B: int, K: int, L: int, V: int, dtype: torch.dtype) -> Round:
    """Laws that depend on the row and position only, so that drafts that agree have equal laws."""

    def laws(levels: int) -> torch.Tensor:
        logits = torch.randn(B, 1, levels, V, generator=generator, dtype=torch.float64) * 8
        logits[torch.rand(B, 1, levels, V, generator=generator) < 0.2] = -torch.inf
        logits[..., 0] = logits[..., 0].clamp(min=-30)
        return logits.softmax(-1).to(dtype).expand(B, K, levels, V).clone()

    p, q = laws(L), laws(L + 1)
    drafts = torch.stack(
        [torch.multinomial(p[:, 0, i].double(), K, replacement=True, generator=generator) for i in range(L)], dim=-1
    )
    return Round(drafts, p, q)


@given(pair=pairs(max_vocab=3, max_length=2, min_drafts=2, max_drafts=3))
@settings(max_examples=30)
def test_the_tournament_winner_has_the_law_it_is_said_to_have(pair: ToyPair) -> None:
    V, L, K = pair.vocab, pair.length, pair.drafts
    root = np.zeros(1, dtype=np.int64)
    draft, target = pair.draft.continuations(root, 0, L), pair.target.continuations(root, 0, L + 1)
    leaves = V**L
    every = np.stack(np.meshgrid(*[np.arange(leaves)] * K, indexing="ij"), -1).reshape(-1, K)
    weight = pair.draft.joint(L)[every].prod(axis=1)
    every, weight = every[weight > 0], weight[weight > 0]
    build = round_builder(np.zeros(len(every), dtype=np.int64), every, draft, target, torch.float64)
    round = build(torch.arange(len(every)))
    won = every[np.arange(len(every)), winning_draft(round).numpy()]
    played = np.bincount(won, weight, minlength=leaves)
    alone = round_builder(np.zeros(leaves, dtype=np.int64), np.arange(leaves)[:, None], draft, target, torch.float64)
    path = alone(torch.arange(leaves))
    laws = winner_law(path.drafts[:, 0], path.draft_probs[:, 0], path.target_probs[:, 0, :-1], K)
    said = laws.gather(-1, path.drafts[:, 0, :, None])[..., 0].prod(-1).numpy()
    possible = pair.draft.joint(L) > 0
    np.testing.assert_allclose(np.where(possible, said, 0), played, atol=1e-14)


TINY = st.sampled_from([1.0, 0.5, 1e-3, 1e-12, 1e-100, 1e-200, 1e-300, 5e-324, 0.0])


@st.composite
def hostile_pairs(draw: st.DrawFn) -> ToyPair:
    """Laws whose small entries underflow along a path: two tokens, two or three levels."""
    length = draw(st.integers(1, 2))

    def model() -> TableModel:
        entries = [[draw(TINY) for _ in range(2**i)] for i in range(length + 1)]
        return TableModel(
            tuple(np.array([[e, 1.0] for e in level]) / (1 + np.array(level)[:, None]) for level in entries)
        )

    return ToyPair("hostile", model(), model(), length=length, drafts=draw(st.integers(1, 3)))


@pytest.mark.parametrize("name", costly(LOSSLESS))
@given(pair=hostile_pairs())
@settings(max_examples=40)
def test_lossless_where_products_underflow(name: str, pair: ToyPair) -> None:
    for dtype, allowed in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        assert round_law(RULES[name], pair, pair.length, pair.drafts, dtype=dtype).tv_round <= allowed


@given(pair=SMALL)
@settings(max_examples=30)
def test_spectr_gbv_acceptances_are_probabilities(pair: ToyPair) -> None:
    root = np.zeros(1, dtype=np.int64)
    L = pair.length
    draft, target = pair.draft.continuations(root, 0, L), pair.target.continuations(root, 0, L + 1)
    support = np.flatnonzero(pair.draft.joint(L) > 0)
    drafted = np.repeat(support[:, None], pair.drafts, axis=1)
    round = round_builder(np.zeros(len(support), dtype=np.int64), drafted, draft, target, torch.float64)(
        torch.arange(len(support))
    )
    h = acceptance(round)
    assert h.isfinite().all()
    assert (h >= 0).all()
    assert (h <= 1).all()


def test_identical_models_accept_everything_and_disjoint_ones_nothing() -> None:
    by_name = {pair.name.split("-V")[0]: pair for pair in family_pairs(0, 3, 2)}
    for name in ("token", "block", "greedy-block", "k-seq", "recursive-rejection", "block-race"):
        same = round_law(RULES[name], by_name["identical"], 2, 2)
        assert same.expected_accepted == pytest.approx(2, abs=1e-12), name
    for name in RULES:
        apart = round_law(RULES[name], by_name["disjoint"], 2, 2)
        assert apart.expected_accepted == pytest.approx(0, abs=1e-12), name


def test_a_stateful_rule_must_bring_its_modified_target() -> None:
    with pytest.raises(ValueError, match="modified_target"):
        Rule("mine", RULES["block"].verify, kind="stateful")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rules_run_on_a_gpu(name: str, dtype: torch.dtype) -> None:
    cpu = random_round(torch.Generator().manual_seed(0), 8, RULES[name].max_drafts or 3, 4, 50, dtype)
    round = Round(cpu.drafts.cuda(), cpu.draft_probs.cuda(), cpu.target_probs.cuda())
    emission = RULES[name].verify(round, Sampled(torch.Generator("cuda").manual_seed(0)))
    assert emission.tokens.is_cuda
    check_emission(round, emission)
