"""The enumeration of one rule on one pair: emission laws after any number of contexts at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from spectr_verify.errors import InputError, said
from spectr_verify.exact.limits import LimitError, Limits
from spectr_verify.exact.tables import (
    Ints,
    along_every_path,
    count_tuples,
    digits,
    draft_tuples,
    from_every_path,
    index,
    round_builder,
)
from spectr_verify.exact.worlds import worlds
from spectr_verify.rounds import EmissionError, check_round
from spectr_verify.rules import Rule
from toy_models import ToyPair
from toy_models.tables import Floats

MAX_DRAFTS = 1000
"""Most drafts a round; far beyond what fits, and small enough to count with."""

ROUND_BYTES = 4_000_000
"""Size of the rounds that one vectorised run of a rule gets: small enough to stay in the processor's cache."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: on arrays of this size threads wait for each other longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Engine:
    """One rule on one pair with K, L, number format and limits.

    Attributes:
        finished: worlds enumerated so far.
    """

    def __init__(self, rule: Rule, pair: ToyPair, length: int, drafts: int, dtype: torch.dtype, limits: Limits) -> None:
        """Raises ``TableError`` if K or L is out of range for the pair, ``LimitError`` if K is beyond counting."""
        if not isinstance(rule, Rule):
            raise InputError(f"{rule!r} is not a Rule; wrap a function as Rule('a name', function), or use load_rule")
        pair.check_size(length, drafts)
        if drafts > MAX_DRAFTS:
            raise LimitError(
                f"pair {pair.name!r}: drafts (K) is {drafts:,}; exact laws are enumerated up to {MAX_DRAFTS}"
            )
        self.rule, self.pair, self.dtype, self.limits = rule, pair, dtype, limits
        self.V, self.L, self.K = pair.vocab, length, rule.used_drafts(drafts)
        self.what = f"rule {rule.name!r} on pair {pair.name!r}"
        self.finished = 0

    def draft_tables(self, context: Ints, position: int) -> list[Floats]:
        """The draft model's L levels after each context of ``position`` tokens.

        A probability that is zero in the rule's number format is zero here too: no draft shows that token.
        """
        levels = self.pair.draft.continuations(context, position, self.L)
        return [np.where((torch.from_numpy(level).to(self.dtype) > 0).numpy(), level, 0.0) for level in levels]

    def target_tables(self, context: Ints, position: int) -> list[Floats]:
        """The plain target's L+1 levels after each context."""
        return self.pair.target.continuations(context, position, self.L + 1)

    def next_target(self, draft: list[Floats], target: list[Floats]) -> list[Floats]:
        """The target that the rounds after this one use, along the text from this round's start: L+1 levels."""
        if self.rule.modified_target is None:
            return target
        C, L, V = target[0].shape[0], self.L, self.V
        p, q = (torch.from_numpy(along_every_path(levels[:L])).to(self.dtype) for levels in (draft, target))
        tokens = digits(np.tile(np.arange(V ** (L - 1)) * V, C), L, V)
        weights = self._modified(torch.from_numpy(tokens), p, q)
        # No law depends on the last token, so it may be any other.
        tokens[:, -1] = V - 1
        again = self._modified(torch.from_numpy(tokens), p, q)
        modified = from_every_path(weights, C)
        rounding = 1e-12 if self.dtype == torch.float64 else 1e-6
        allowed = rounding * weights.max(axis=-1, keepdims=True)
        if any((np.abs(along_every_path(modified) - one) > allowed).any() for one in (weights, again)):
            raise EmissionError(
                f"{self.what}: modified_target gives one position different laws after the same tokens; the law at "
                "position i may depend on the first i tokens only, and on no chance"
            )
        return [_normalised(laws, plain) for laws, plain in zip(modified, target, strict=False)] + [target[L]]

    def _modified(self, tokens: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> Floats:
        assert self.rule.modified_target is not None
        try:
            weights = self.rule.modified_target(tokens, p.clone(), q.clone(), self.K)
            right_form = isinstance(weights, torch.Tensor) and weights.shape == q.shape and weights.is_floating_point()
            found: Floats = weights.detach().to(torch.float64).numpy() if right_form else np.full(1, np.nan)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the rule is anybody's code
            raise EmissionError(f"{self.what}: modified_target raised {said(error)}") from error
        if not (np.isfinite(found) & (found >= 0)).all():
            raise EmissionError(
                f"{self.what}: modified_target must return finite floating-point weights, none negative, of shape "
                f"{list(q.shape)}"
            )
        return found

    def check_tuples(self, tables: Iterable[list[Floats]], part: str) -> None:
        """Refuse an enumeration of too many draft tuples, over all these draft tables, before it starts."""
        found = list(tables)

        def count(length: int, drafts: int) -> int:
            return sum(count_tuples(draft[:length], drafts) for draft in found)

        self.limits.check_tuples(count, self.V, self.L, self.K, f"{self.what}: {part}")

    def emissions(self, draft: list[Floats], target: list[Floats]) -> list[Floats]:
        """Law of the emission after each of C contexts: ``[t]`` is float64 [C, V**(t+1)], of t+1 tokens."""
        C, K, L, V = target[0].shape[0], self.K, self.L, self.V
        self.limits.check_entries(C * V ** (L + 1), self.what)
        offsets = np.cumsum([0, *(V ** (t + 1) for t in range(L + 1))])
        law = np.zeros(C * offsets[-1])
        chunk = max(64, ROUND_BYTES // (K * (2 * L + 1) * V * 8))
        total, done, first = count_tuples(draft, K), 0, self.finished
        for context, drafted, weight in draft_tuples(draft, K, chunk):
            build = round_builder(context, drafted, draft, target, self.dtype)
            check_round(build(torch.arange(len(context))))
            for batch in worlds(self.rule, build, len(context), chunk, self.limits):
                row = batch.row.numpy()
                tokens, accepted = batch.emission.tokens.numpy(), batch.emission.length.numpy() - 1
                place = context[row] * offsets[-1] + offsets[accepted] + index(tokens, V)
                law += np.bincount(place, batch.weight.numpy() * weight[row], minlength=len(law))
                self.finished += len(row)
                self.limits.check_worlds(self.finished, self.finished, self.what)
            done += len(context)
            foretold = first + (self.finished - first) * total // done
            self.limits.check_worlds(self.finished, foretold, self.what)
        by_context = law.reshape(C, -1)
        return [by_context[:, offsets[t] : offsets[t + 1]] for t in range(L + 1)]


def _normalised(weights: Floats, plain: Floats) -> Floats:
    largest = weights.max(axis=-1, keepdims=True)
    scaled = weights / np.where(largest > 0, largest, 1.0)  # the sum of finite weights could be infinite
    return np.where(largest > 0, scaled / np.where(largest > 0, scaled.sum(axis=-1, keepdims=True), 1.0), plain)
