"""Each family has the property that it is named after, for several sizes and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from toy_models.families import FAMILIES, family_pairs
from toy_models.tables import TableError, TableModel, ToyPair

SIZES = [(2, 1), (2, 3), (3, 2), (5, 2)]
EXACT = {"identical", "disjoint", "point-masses-agreeing", "point-masses-apart"}


def drawn(name: str) -> list[ToyPair]:
    return [FAMILIES[name](np.random.default_rng(seed), *size) for size in SIZES for seed in range(5)]


def distances(pair: ToyPair) -> np.ndarray:
    """Total variation between the two laws after every prefix, [prefixes]."""
    levels = zip(pair.draft.levels, pair.target.levels, strict=True)
    return np.concatenate([np.abs(p - q).sum(axis=-1) / 2 for p, q in levels])


def common_mass(pair: ToyPair) -> list[float]:
    """Sum of min(P, Q) over the texts of each length 1..L: what one draft can at most have accepted."""
    assert pair.length is not None
    both = zip(pair.draft.joints(pair.length), pair.target.joints(pair.length), strict=True)
    return [float(np.minimum(p, q).sum()) for p, q in both][1:]


def all_laws(model: TableModel) -> np.ndarray:
    return np.concatenate(model.levels)


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_have_the_size_asked_for_and_the_family_name(name: str) -> None:
    for (vocab, length), pair in zip([size for size in SIZES for _ in range(5)], drawn(name), strict=True):
        assert (pair.name, pair.vocab, pair.length, pair.max_length, pair.drafts) == (name, vocab, length, length, None)
        assert (pair.draft.fractions is not None) == (pair.target.fractions is not None) == (name in EXACT)
        for model in (pair.draft, pair.target):
            assert all_laws(model).min() >= 0
            np.testing.assert_allclose(all_laws(model).sum(axis=-1), 1, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_follow_from_the_seed_and_differ_between_seeds(name: str) -> None:
    first, again, other = (FAMILIES[name](np.random.default_rng(seed), 3, 3) for seed in (1, 1, 2))
    assert np.array_equal(all_laws(first.draft), all_laws(again.draft))
    assert np.array_equal(all_laws(first.target), all_laws(again.target))
    assert not np.array_equal(all_laws(first.draft), all_laws(other.draft))


def test_random_laws_cover_the_simplex() -> None:
    """The first token's probability is Beta(1, V-1): mean 1/V, and for V = 3 below 0.1 in 19 laws of 100."""
    laws = np.concatenate([all_laws(FAMILIES["random"](np.random.default_rng(s), 3, 3).draft) for s in range(100)])
    assert laws.mean(axis=0) == pytest.approx([1 / 3] * 3, abs=0.02)
    assert (laws[:, 0] < 0.1).mean() == pytest.approx(0.19, abs=0.03)


def test_sparse_laws_are_more_concentrated_than_random_ones() -> None:
    largest = {
        (name, role): np.concatenate([all_laws(getattr(pair, role)).max(axis=-1) for pair in drawn(name)[-5:]]).mean()
        for name in ("random", "sparse")
        for role in ("draft", "target")
    }
    assert largest["sparse", "draft"] > largest["random", "draft"] + 0.15
    assert largest["sparse", "target"] > largest["random", "target"] + 0.15


def test_with_zeros_has_a_zero_and_a_positive_entry_in_every_law() -> None:
    for pair in drawn("with-zeros"):
        for model in (pair.draft, pair.target):
            zeros = (all_laws(model) == 0).sum(axis=-1)
            assert zeros.min() >= 1
            assert zeros.max() <= pair.vocab - 1
    large = FAMILIES["with-zeros"](np.random.default_rng(0), 4, 3)
    only_draft = (all_laws(large.draft) > 0) & (all_laws(large.target) == 0)
    only_target = (all_laws(large.draft) == 0) & (all_laws(large.target) > 0)
    assert only_draft.any()
    assert only_target.any()


def test_identical_models_are_the_same_fractions() -> None:
    assert all(pair.draft.fractions == pair.target.fractions for pair in drawn("identical"))


@pytest.mark.parametrize(("name", "distance"), [("nearly-identical", 1e-3), ("barely-different", 1e-9)])
def test_near_models_are_near_but_not_equal(name: str, distance: float) -> None:
    for pair in drawn(name):
        assert distances(pair).max() <= distance
        assert distances(pair).max() >= distance / 100


def test_disjoint_models_share_no_first_token() -> None:
    for pair in drawn("disjoint"):
        assert common_mass(pair)[0] == 0
        assert (all_laws(pair.draft)[1:] > 0).all()


def test_agreeing_point_masses_agree_on_half_of_the_block() -> None:
    for pair in drawn("point-masses-agreeing"):
        assert pair.length is not None
        agreed = -(-pair.length // 2)
        assert common_mass(pair) == [1.0] * agreed + [0.0] * (pair.length - agreed)


@pytest.mark.parametrize("name", ["point-masses-agreeing", "point-masses-apart"])
def test_point_masses_are_point_masses(name: str) -> None:
    for pair in drawn(name):
        for model in (pair.draft, pair.target):
            assert set(np.unique(all_laws(model))) == {0.0, 1.0}


def test_point_masses_apart_differ_after_every_prefix() -> None:
    assert all(distances(pair).min() == 1 for pair in drawn("point-masses-apart"))


@pytest.mark.parametrize(("name", "temperature"), [("flattened", 2.0), ("sharpened", 0.5)])
def test_tempered_draft_is_the_target_to_a_power(name: str, temperature: float) -> None:
    for pair in drawn(name):
        power = all_laws(pair.target) ** (1 / temperature)
        np.testing.assert_allclose(all_laws(pair.draft), power / power.sum(axis=-1, keepdims=True), rtol=1e-9)


def test_context_free_models_keep_one_law() -> None:
    for pair in drawn("context-free"):
        for model in (pair.draft, pair.target):
            assert (all_laws(model) == model.levels[0]).all()


def test_long_memory_recalls_the_first_token_after_the_whole_block() -> None:
    for pair in drawn("long-memory"):
        for model, weight in ((pair.draft, 0.6), (pair.target, 0.9)):
            for level in model.levels[1:]:
                by_first = level.reshape(pair.vocab, -1, pair.vocab)
                favourites = by_first.argmax(axis=-1)
                assert by_first.max(axis=-1).min() >= weight
                assert (favourites == favourites[:, :1]).all()
                assert len(set(favourites[:, 0])) == pair.vocab


def test_adversarial_ratios_span_24_orders_of_magnitude_in_every_law() -> None:
    for pair in drawn("adversarial"):
        ratios = all_laws(pair.target) / all_laws(pair.draft)
        assert ratios.max(axis=-1).min() > 1e12 / pair.vocab
        assert ratios.min(axis=-1).max() < 1e-12 * pair.vocab


def test_family_pairs_holds_every_family_once_and_says_its_seed() -> None:
    pairs = family_pairs(7, 3, 2)
    assert [pair.name for pair in pairs] == [f"{name}-V3-L2-seed7" for name in FAMILIES]
    again = family_pairs(7, 3, 2)
    assert all(np.array_equal(all_laws(a.target), all_laws(b.target)) for a, b in zip(pairs, again, strict=True))
    starts = {pair.draft.levels[0].tobytes() for pair in pairs if pair.draft.fractions is None}
    assert len(starts) == len(FAMILIES) - len(EXACT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1), "vocab is 1; it must be at least 2"),
        ((0, 2, 0), "length is 0; it must be at least 1"),
        ((-1, 2, 1), "seed is -1; it must be at least 0"),
        ((0, 2, 22), "the longest that fit have length 21"),
        ((0, 3, 50), "the longest that fit have length 12"),
    ],
)
def test_family_pairs_refuses_sizes_out_of_range(arguments: tuple[int, int, int], message: str) -> None:
    with pytest.raises(TableError, match=message):
        family_pairs(*arguments)
