"""Families of toy pairs: each provokes one kind of behaviour in an acceptance rule.

A family is a function ``(rng, vocab, length) -> ToyPair`` that draws tables of ``length + 1`` levels, so blocks of
``length`` tokens can be checked. Its name is the pair's name and its key in ``FAMILIES``. Families whose laws are
rational by nature (identical, disjoint, point masses) are exact; the others are written in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from math import floor, log2
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from toy_models.tables import Floats, TableError, TableModel, ToyPair

LARGEST_LEVEL = 2**22
"""Most probabilities in the last level of a table that a family draws."""

Family = Callable[[np.random.Generator, int, int], ToyPair]
Tokens = list[NDArray[np.int64]]


def random(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Both models uniform on the simplex, each law by itself."""
    return _pair("random", _dirichlet(rng, vocab, length), _dirichlet(rng, vocab, length), length)


def sparse(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Laws with most of their mass on few tokens, as language models have: Dirichlet of concentration 0.2."""
    return _pair("sparse", _dirichlet(rng, vocab, length, 0.2), _dirichlet(rng, vocab, length, 0.2), length)


def with_zeros(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Every law gives some token the probability 0; which one, draft and target choose independently, as top-k does."""
    draft, target = (_without_some(rng, _dirichlet(rng, vocab, length)) for _ in range(2))
    return _pair("with-zeros", draft, target, length)


def identical(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """The draft is the target, exactly. Most rules accept everything."""
    model = _exact(rng.integers(1, 10, size=(vocab**level, vocab)) for level in range(length + 1))
    return ToyPair("identical", model, model, length=length)


def nearly_identical(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Laws at a distance below 1e-3: a rule that subtracts them loses three digits."""
    return _near(rng, vocab, length, "nearly-identical", 1e-3)


def barely_different(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Laws at a distance below 1e-9: residuals are mostly rounding, and thresholds for "equal" show."""
    return _near(rng, vocab, length, "barely-different", 1e-9)


def disjoint(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """No first token is possible under both models, so no draft can be accepted; exact."""
    draft, target = ([rng.integers(1, 10, size=(vocab**i, vocab)) for i in range(length + 1)] for _ in range(2))
    order = rng.permutation(vocab)
    draft[0][0, order[: vocab // 2]] = 0
    target[0][0, order[vocab // 2 :]] = 0
    return ToyPair("disjoint", _exact(draft), _exact(target), length=length)


def point_masses_agreeing(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Temperature 0: the models agree on the first ⌈L/2⌉ tokens and on none after; exact.

    Any number of drafts lets a rule accept at most ⌈L/2⌉ tokens, and every good rule accepts as many.
    """
    return _greedy(rng, vocab, length, "point-masses-agreeing", agreed=(length + 1) // 2)


def point_masses_apart(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Temperature 0, and the models choose different tokens after every prefix; exact. Nothing can be accepted."""
    return _greedy(rng, vocab, length, "point-masses-apart", agreed=0)


def flattened(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """The draft is the target at twice its temperature: it proposes unlikely tokens too often."""
    return _tempered(rng, vocab, length, "flattened", 2.0)


def sharpened(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """The draft is the target at half its temperature: it hardly proposes unlikely tokens."""
    return _tempered(rng, vocab, length, "sharpened", 0.5)


def context_free(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Products: the law of a token depends on nothing before it."""
    draft, target = (_repeat(_dirichlet(rng, vocab, 0)[0], length) for _ in range(2))
    return _pair("context-free", draft, target, length)


def long_memory(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Every law depends on the first token, and hardly on those between: a rule that mixes up prefixes is far off.

    The target puts at least 0.9 on a token that the first token determines, the draft at least 0.6.
    """
    favourite = rng.permutation(vocab)
    draft, target = _dirichlet(rng, vocab, length), _dirichlet(rng, vocab, length)
    for weight, levels in ((0.6, draft), (0.9, target)):
        for level in levels[1:]:
            first = np.arange(len(level)) // (len(level) // vocab)
            level *= 1 - weight
            level[np.arange(len(level)), favourite[first]] += weight
    return _pair("long-memory", draft, target, length)


def adversarial(rng: np.random.Generator, vocab: int, length: int) -> ToyPair:
    """Ratios q/p from about 1e-12 to 1e12 in every law, in any order: cancellation and overflow in products."""
    draft, target = [], []
    for level in range(length + 1):
        exponents = np.sort(rng.uniform(-12, 0, size=(vocab**level, vocab)), axis=-1)
        exponents[:, 0], exponents[:, -1] = -12, 0
        exponents = rng.permuted(exponents, axis=-1)
        draft.append(_normalised(10.0**exponents))
        target.append(_normalised(10.0 ** (-12 - exponents)))
    return _pair("adversarial", draft, target, length)


FAMILIES: dict[str, Family] = {
    "random": random,
    "sparse": sparse,
    "with-zeros": with_zeros,
    "identical": identical,
    "nearly-identical": nearly_identical,
    "barely-different": barely_different,
    "disjoint": disjoint,
    "point-masses-agreeing": point_masses_agreeing,
    "point-masses-apart": point_masses_apart,
    "flattened": flattened,
    "sharpened": sharpened,
    "context-free": context_free,
    "long-memory": long_memory,
    "adversarial": adversarial,
}
"""Every family under the name that its pairs bear."""


def family_pairs(seed: int, vocab: int, length: int) -> list[ToyPair]:
    """One pair of every family, named ``family-V..-L..-seed..``.

    Each family draws from a generator of its own, seeded with ``seed`` and its name, so that a new family leaves the
    pairs of the others as they were.

    Raises:
        TableError: ``vocab`` is less than 2, ``length`` less than 1, or ``seed`` negative.
    """
    for what, value, least in (("vocab", vocab, 2), ("length", length, 1), ("seed", seed, 0)):
        if value < least:
            raise TableError(f"{what} is {value}; it must be at least {least}")
    if (length + 1) * log2(vocab) > log2(LARGEST_LEVEL):
        raise TableError(
            f"tables of {vocab} tokens and length {length} have levels of more than {LARGEST_LEVEL:,} probabilities; "
            f"the longest that fit have length {floor(log2(LARGEST_LEVEL) / log2(vocab)) - 1}"
        )
    pairs = []
    for name, family in FAMILIES.items():
        rng = np.random.default_rng([seed, crc32(name.encode())])
        pairs.append(replace(family(rng, vocab, length), name=f"{name}-V{vocab}-L{length}-seed{seed}"))
    return pairs


def _pair(name: str, draft: list[Floats], target: list[Floats], length: int) -> ToyPair:
    return ToyPair(name, TableModel(tuple(draft)), TableModel(tuple(target)), length=length)


def _dirichlet(rng: np.random.Generator, vocab: int, length: int, concentration: float = 1.0) -> list[Floats]:
    """Levels 0..length of independent Dirichlet laws."""
    return [rng.dirichlet(np.full(vocab, concentration), size=vocab**level) for level in range(length + 1)]


def _normalised(weights: Floats) -> Floats:
    law: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return law


def _exact(levels: Iterable[NDArray[np.int64]]) -> TableModel:
    """The model whose laws are proportional to integer weights."""
    return TableModel.parse([[_proportional(row) for row in level.tolist()] for level in levels])


def _proportional(weights: list[int]) -> list[Fraction]:
    return [Fraction(weight, sum(weights)) for weight in weights]


def _without_some(rng: np.random.Generator, levels: list[Floats]) -> list[Floats]:
    """Take one or more tokens, but not all, out of every law."""
    vocab = levels[0].shape[-1]
    thinned = []
    for level in levels:
        ranks = rng.permuted(np.tile(np.arange(vocab), (len(level), 1)), axis=-1)
        kept = rng.integers(1, vocab, size=(len(level), 1))
        thinned.append(_normalised(np.where(ranks < kept, level, 0.0)))
    return thinned


def _near(rng: np.random.Generator, vocab: int, length: int, name: str, distance: float) -> ToyPair:
    """A random draft, and a target that is the draft mixed with a little of another law."""
    draft, other = _dirichlet(rng, vocab, length), _dirichlet(rng, vocab, length)
    target = [(1 - distance) * p + distance * r for p, r in zip(draft, other, strict=True)]
    return _pair(name, draft, target, length)


def _greedy(rng: np.random.Generator, vocab: int, length: int, name: str, agreed: int) -> ToyPair:
    """Point masses, equal in the first ``agreed`` levels and at different tokens in all others."""
    chosen: Tokens = [rng.integers(vocab, size=vocab**level) for level in range(length + 1)]
    shifts = [rng.integers(1, vocab, size=vocab**level) * (level >= agreed) for level in range(length + 1)]
    shifted = [(tokens + shift) % vocab for tokens, shift in zip(chosen, shifts, strict=True)]
    draft, target = (_exact(np.eye(vocab, dtype=np.int64)[tokens] for tokens in model) for model in (chosen, shifted))
    return ToyPair(name, draft, target, length=length)


def _tempered(rng: np.random.Generator, vocab: int, length: int, name: str, temperature: float) -> ToyPair:
    """A target with normal logits of standard deviation 2, and a draft with the same logits at ``temperature``."""
    logits = [rng.normal(scale=2.0, size=(vocab**level, vocab)) for level in range(length + 1)]
    draft = [_normalised(np.exp(level / temperature)) for level in logits]
    return _pair(name, draft, [_normalised(np.exp(level)) for level in logits], length)


def _repeat(law: Floats, length: int) -> list[Floats]:
    """Levels 0..length that all hold the same law, float64 [1, V]."""
    return [np.repeat(law, law.shape[-1] ** level, axis=0) for level in range(length + 1)]
