"""What several rules share: weights along a draft, stopping points, corrections.

All functions take any leading shape ``..``: [B] for one draft a row, [B, K] for all drafts at once.
Quantities along a path are float64 whatever the laws are. Over the vocabulary the arithmetic is in the format of the
laws, float32 at least, and sums accumulate in float64, from blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from spectr_verify.chance import BLOCK, block_masses
from spectr_verify.rounds import Emission, Round

_LARGEST = 1e300
"""Ratios of probabilities stop here; what lies beyond has a weight below 1e-300."""

_ENTRIES = 2**16
"""So many numbers of a law are worked on at once, that what is made of them stays in the cache."""


def on_path(laws: Tensor, tokens: Tensor) -> Tensor:
    """Probability of each token under the law at its position: [.., L, V] and [.., L] to float64 [.., L]."""
    return laws.gather(-1, tokens[..., None])[..., 0].to(torch.float64)


def on_paths(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Both models' probability of each drafted token: float64 [.., L].

    Args:
        tokens: int64 [.., L]; draft_probs: [.., L, V]; target_probs: [.., L or L+1, V].
    """
    return on_path(draft_probs, tokens), on_path(target_probs[..., : tokens.shape[-1], :], tokens)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """``numerator / denominator``, 0 where the numerator is 0, finite everywhere."""
    quotient = torch.where(numerator > 0, numerator / denominator, torch.zeros_like(numerator))
    return quotient.clamp(max=_LARGEST)


def any_of(probability: Tensor, count: Tensor | int) -> Tensor:
    """1 - (1 - x)^n, the probability that one of n independent events happens, without cancellation."""
    return -torch.expm1(count * torch.log1p(-probability.clamp(max=1.0)))


def residual(weight: Tensor, target: Tensor, draft: Tensor) -> Tensor:
    """(q - p/w)+, which is (w q - p)+ in units of w, over the vocabulary: weights [..], laws [.., V].

    It is computed as (q - p) + (1 - 1/w) p: where draft and target are close and w is close to 1, what cancels are
    numbers of the size of their differences; and finite whatever w is. In float32 at least.
    """
    form = working_format(target, draft)
    return _residual(_surplus(weight, form)[..., None], target.to(form), draft.to(form))


def _surplus(weight: Tensor, form: torch.dtype) -> Tensor:
    """1 - 1/w, finite: at the limit the residual is nothing where the draft's law is anything."""
    return (1 - weight.reciprocal()).clamp(min=-torch.finfo(form).max).to(form)


def _residual(surplus: Tensor, target: Tensor, draft: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.sub(target, draft, out=out).addcmul_(draft, surplus).clamp_(min=0.0)


def total(weights: Tensor) -> Tensor:
    """Sum over the vocabulary, [n, V] to float64 [n], added up in float64 from blocks."""
    return block_masses(weights).sum(dim=-1)


def working_format(*laws: Tensor) -> torch.dtype:
    """The number format in which laws are worked with: the finest of theirs, float32 at least."""
    form = torch.float32
    for law in laws:
        form = torch.promote_types(form, law.dtype)
    return form


@dataclass(frozen=True, eq=False)
class Places:
    """Places on drafts and the laws of both models there, looked up when they are worked with.

    Attributes:
        target_probs, draft_probs: [.., V], any laws.
        target_at, draft_at: int64 [n], which of them, counted over ``..``.
    """

    target_probs: Tensor
    target_at: Tensor
    draft_probs: Tensor
    draft_at: Tensor

    @classmethod
    def on_drafts(cls, round: Round, draft: Tensor, length: Tensor) -> Places:
        """After the first ``length`` [n] tokens of the drafts numbered ``draft`` [n], counted over B and K.

        The draft model's law after a whole draft is not known: it is the last one there.
        """
        L = round.length
        target_at, draft_at = draft * (L + 1) + length, draft * L + length.clamp(max=L - 1)
        return cls(round.target_probs, target_at, round.draft_probs, draft_at)

    def take(self, at: Tensor) -> Places:
        """Some of the places: int64 [m]."""
        return replace(self, target_at=self.target_at[at], draft_at=self.draft_at[at])

    @property
    def form(self) -> torch.dtype:
        """The number format that the laws are worked with in."""
        return working_format(self.target_probs, self.draft_probs)

    def laws(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Which places, q and p [m, V] there: a few at a time, that what is made of them stays in the cache."""
        (targets, target_at), (drafts, draft_at) = self._both()
        form, count = self.form, len(target_at)
        size = max(1, _ENTRIES // targets.shape[-1]) if targets.device.type == "cpu" else max(1, count)
        for first in range(0, count, size):
            part = slice(first, first + size)
            target, draft = _some(targets, target_at[part]), _some(drafts, draft_at[part])
            yield part, target.to(form), draft.to(form)

    def masses(self, weight: Tensor) -> Tensor:
        """Sums of (w q - p)+ over the vocabulary, for weights in [0, 1]: float64 [n]."""
        return self.sums(weight).sum(dim=-1) * weight

    def sums(self, weight: Tensor) -> Tensor:
        """Sums of the ``residual`` over blocks of the vocabulary, see ``chance.block_masses``: float64 [n, blocks]."""
        surplus = _surplus(weight, self.form)[:, None]
        return self._over_blocks(block_masses(_residual(surplus[part], q, p)) for part, q, p in self.laws())

    def target_sums(self) -> Tensor:
        """Sums of the target over blocks of the vocabulary: float64 [n, blocks]."""
        return self._over_blocks(block_masses(q) for _, q, _ in self.laws())

    def _over_blocks(self, found: Iterable[Tensor]) -> Tensor:
        parts = list(found)
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts) if parts else block_masses(self.target_probs.new_zeros(0, self.target_probs.shape[-1]))

    def block(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """One block of the vocabulary, int64 [n], out of q and p: [n, BLOCK] each, zero beyond the vocabulary."""
        index = number[:, None] * BLOCK + torch.arange(BLOCK, device=number.device)
        beyond = index >= self.target_probs.shape[-1]
        index = index.masked_fill_(beyond, 0)
        q, p = (_block(laws, at, index).masked_fill(beyond, 0.0).to(self.form) for laws, at in self._both())
        return q, p

    def left(self, weight: Tensor, q: Tensor, p: Tensor) -> Tensor:
        """The ``residual`` of some entries of the laws, [n, m]."""
        return _residual(_surplus(weight, self.form)[:, None], q, p)

    def _both(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        return (self.target_probs.detach(), self.target_at), (self.draft_probs.detach(), self.draft_at)


def _some(laws: Tensor, at: Tensor) -> Tensor:
    """The laws [.., V] numbered ``at`` [n], counted over ``..``: [n, V]. A single one is not copied."""
    rows, at = _one_behind_the_other(laws, at)
    return rows.narrow(0, int(at), 1) if len(at) == 1 else rows.index_select(0, at)


def _block(laws: Tensor, at: Tensor, index: Tensor) -> Tensor:
    """The entries ``index`` [n, m] of the laws numbered ``at`` [n]: [n, m]."""
    rows, at = _one_behind_the_other(laws, at)
    return rows[at[:, None], index]


def _one_behind_the_other(laws: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [R, V] of memory, and which of them the laws [.., V] numbered ``at`` are, so that few are copied."""
    size, steps = laws.shape[-1], laws.stride()
    if laws.is_contiguous():
        return laws.view(-1, size), at
    where = torch.unravel_index(at, laws.shape[:-1])
    if steps[-1] != 1 or any(step % size for step in steps[:-1]):
        return laws[where], torch.arange(len(at), device=at.device)
    # Laws of some drafts, or one law for several: with others between them, or seen more than once.
    rows = [step // size for step in steps[:-1]]
    count = 1 + sum((length - 1) * step for length, step in zip(laws.shape, rows, strict=False))
    at = sum((index * step for index, step in zip(where, rows, strict=True)), torch.zeros_like(at))
    return laws.as_strided((count, size), (size, 1)), at


def or_target(weights: Tensor, target: Tensor) -> Tensor:
    """The residual weights [.., V], or the target's law in rows where nothing is left of them.

    Exactly zero rows have probability zero; rounding can reach them, and the target is then the right law
    to within that rounding.
    """
    return torch.where((weights > 0).any(dim=-1, keepdim=True), weights, target)


def stop_at_first_rejection(accept: Tensor) -> Tensor:
    """P(tau = i) when tokens are accepted in turn with probabilities ``accept`` [.., L]: [.., L+1]."""
    reached = torch.cat([torch.ones_like(accept[..., :1]), accept.cumprod(dim=-1)], dim=-1)
    return reached * torch.cat([1 - accept, torch.ones_like(accept[..., :1])], dim=-1)


def emit(round: Round, draft: Tensor, accepted: Tensor, extra: Tensor) -> Emission:
    """The first ``accepted`` [B] tokens of draft number ``draft`` [B], then ``extra`` [B]."""
    B, L = round.rows, round.length
    row = torch.arange(B, device=draft.device)
    position = torch.arange(L + 1, device=draft.device)
    path = torch.cat([round.drafts[row, draft], extra[:, None]], dim=-1)
    tokens = torch.where(position < accepted[:, None], path, -1)
    tokens[row, accepted] = extra
    return Emission(tokens, accepted + 1, torch.where(accepted > 0, draft, -1))
