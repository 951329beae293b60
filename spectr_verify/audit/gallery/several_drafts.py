"""Faults of rules for K drafts: slips in ``controls.recursive_rejection``, ``k_seq`` and ``block_verification``."""

from __future__ import annotations

import torch
from torch import Tensor

from spectr_verify.audit.gallery.controls import block_verification, token_by_token
from spectr_verify.audit.gallery.fault import Fault, planted
from spectr_verify.audit.gallery.pieces import joined, left_over, level_by_level, on_path, sample
from spectr_verify.rules import RULES


def refused(q: Tensor, p: Tensor) -> Tensor:
    """(q - p)+ normalised: what is owed after a rejection."""
    rest = left_over(q, p)
    return rest / rest.sum()


def longest_of_the_blocks(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Both drafts are verified by themselves and the longer result is taken."""
    emitted = [block_verification(*draft) for draft in zip(draft_tokens, draft_probs, target_probs, strict=True)]
    return max(emitted, key=len)


def likeliest_draft_verified(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The draft that the target likes best is picked and then verified as if it were a random one."""
    likelihoods = [float(on_path(q[:-1], x).prod()) for q, x in zip(target_probs, draft_tokens, strict=True)]
    best = likelihoods.index(max(likelihoods))
    return token_by_token(draft_tokens[best], draft_probs[best], target_probs[best])


def residual_not_updated(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The second draft is tested against the target's law instead of what the first rejection left of it."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        for k, x in enumerate(tokens):
            if torch.rand(()) * p[x] < q[x]:
                return k, q
        return None, refused(q, p)

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def duplicate_tried_again(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A second draft that repeats the rejected token is tested with the ratio of the first test again."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        tested: dict[int, Tensor] = {}
        for k, x in enumerate(tokens):
            ratio = tested.setdefault(x, q[x] / p[x])  # of the first test: zero by now, were it computed again
            if torch.rand(()) < ratio:
                return k, q
            q = refused(q, p)
        return None, q

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def duplicate_skipped(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """A second draft that repeats the rejected token is passed over without updating the residual."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        for k, x in enumerate(tokens):
            if x in tokens[:k]:
                continue  # it would be rejected, but its rejection is not booked either
            if torch.rand(()) * p[x] < q[x]:
                return k, q
            q = refused(q, p)
        return None, q

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def one_uniform_for_all_drafts(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The uniform that rejected the first draft also judges the second."""

    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        coin = torch.rand(())
        for k, x in enumerate(tokens):
            if coin * p[x] < q[x]:
                return k, q
            q = refused(q, p)
        return None, q

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def k_seq_unscaled(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """Each of the two drafts is accepted with min(1, q/p), which leaves too little to correct with."""
    return _k_seq(draft_tokens, draft_probs, target_probs, scale=1.0)


def k_seq_without_the_factor(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """The correction subtracts what one draft accepts instead of what both together do."""
    return _k_seq(draft_tokens, draft_probs, target_probs, with_factor=False)


def _k_seq(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    *,
    scale: float | None = None,
    with_factor: bool = True,
) -> Tensor:
    def offer(p: Tensor, q: Tensor, tokens: list[int]) -> tuple[int | None, Tensor]:
        n = len(tokens)
        s = n if scale is None else scale
        for k, x in enumerate(tokens):
            if torch.rand(()) < q[x] / (s * p[x]):
                return k, q
        capped = torch.minimum(p, q / s)
        beta = capped.sum()
        gain = (1 - (1 - beta) ** n) / beta.clamp(min=1e-30) if with_factor else 1.0
        return None, left_over(q, capped * gain)

    return level_by_level(draft_tokens, draft_probs, target_probs, offer)


def next_draft_read_off_the_path(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """After a rejection the next draft is read from the same position on, though its earlier tokens differ."""
    accepted, owed = 0, target_probs[0, 0]
    for tokens, p, q in zip(draft_tokens, draft_probs, target_probs, strict=True):
        while accepted < len(tokens):
            x = int(tokens[accepted])
            if torch.rand(()) * p[accepted, x] >= owed[x]:
                owed = refused(owed, p[accepted])
                break
            accepted += 1
            owed = q[accepted]
        else:
            return joined(tokens, sample(owed))
    return joined(draft_tokens[-1, :accepted], sample(owed))


FAULTS = (
    planted(longest_of_the_blocks, drafts=2),
    planted(likeliest_draft_verified, drafts=2),
    planted(residual_not_updated, drafts=2),
    planted(duplicate_tried_again, drafts=2),
    planted(duplicate_skipped, drafts=2),
    planted(one_uniform_for_all_drafts, drafts=2),
    planted(k_seq_unscaled, drafts=2),
    planted(k_seq_without_the_factor, drafts=2),
    planted(next_draft_read_off_the_path, drafts=2, length=2),
    Fault(
        "spectr-gbv-published",
        "SpecTr-GBV divides by the probability that some draft shows a prefix, as if tests could not pre-empt others.",
        "round",
        RULES["spectr-gbv-published"],
        drafts=2,
    ),
    Fault(
        "spectr-gbv-released",
        "The released SpecTr-GBV corrects from q(1 - r^K) where its paper has q(1 - r)^K.",
        "round",
        RULES["spectr-gbv-released"],
        drafts=2,
    ),
)
