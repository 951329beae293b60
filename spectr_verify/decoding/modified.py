"""What a stateful rule's past rounds still ask of the target: their modified targets, nested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spectr_verify.errors import InputError, said
from spectr_verify.rules import Rule

if TYPE_CHECKING:
    from spectr_verify.rules import ModifiedTarget


@dataclass(frozen=True, eq=False)
class _Past:
    """One round of the past and the text since its start; texts of a batch are told apart by rows.

    Attributes:
        tokens: int64 [B, L], the text from the round's start; what is not written yet holds 0.
        draft_probs: [B, L, V], the draft model's laws along it.
        target_probs: [B, L, V], the laws along it that the round took for the target's.
        written: int64 [B], how many tokens of text there are since; from L on the round asks for nothing more.
        drafts: K of the round.
    """

    tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    written: Tensor
    drafts: int

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    def rows(self, index: Tensor) -> _Past:
        """The same for the texts that ``index`` names."""
        p, q = self.draft_probs[index], self.target_probs[index]
        return _Past(self.tokens[index], p, q, self.written[index], self.drafts)

    def and_then(self, tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens and laws along the text and n more positions, cut at L: [B, L] and [B, L, V]."""
        position = torch.arange(self.length, device=tokens.device) - self.written[:, None]
        new = (position >= 0) & (position < tokens.shape[1])
        source = position.clamp(0, tokens.shape[1] - 1)
        row = torch.arange(len(tokens), device=tokens.device)[:, None]
        return (
            torch.where(new, tokens[row, source], self.tokens),
            torch.where(new[..., None], draft_probs[row, source], self.draft_probs),
            torch.where(new[..., None], target_probs[row, source], self.target_probs),
        )


class ModifiedTargets:
    """The target of the next round of every text, as a stateful rule's rounds so far left it.

    A round at place s with drafts of L tokens asks for its modified target up to place s + L - 2, counted from 0. The
    rounds after it take what it asks for as their target, and ask for modifications of that.
    """

    def __init__(self, rule: Rule) -> None:
        """No round yet."""
        assert rule.modified_target is not None
        self._name, self._modified = rule.name, rule.modified_target
        self._past: list[_Past] = []
        self._seen: list[Tensor] = []
        self._target = torch.empty(0)

    def target(self, drafts: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        """The target of this round along its drafts.

        Args:
            drafts: int64 [B, K, L]; draft_probs: [B, K, L, V]; target_probs: [B, K, L+1, V], the plain target's laws.

        Returns:
            Laws [B, K, L+1, V].
        """
        B, K = drafts.shape[:2]
        flat, p, plain = drafts.flatten(0, 1), draft_probs.flatten(0, 1), target_probs.flatten(0, 1)
        every = torch.arange(B, device=drafts.device).repeat_interleave(K)
        self._seen, target = [], plain
        for past in self._past:  # the oldest first: each round's target is what those before it left
            self._seen.append(target.unflatten(0, (B, K)))
            target = self._left_by(past.rows(every), flat, p, target, plain)
        self._target = target.unflatten(0, (B, K))
        return self._target

    def _left_by(self, past: _Past, drafts: Tensor, draft_probs: Tensor, target: Tensor, plain: Tensor) -> Tensor:
        """The laws along the drafts that one past round asks for; the plain ones where it asks for nothing."""
        n = drafts.shape[1]
        along = past.and_then(drafts, draft_probs, target[:, :n])
        weights = _weights(self._modified, self._name, *along, past.drafts)
        total = weights.sum(dim=-1, keepdim=True, dtype=torch.float64)
        laws = torch.where(total > 0, weights / total.to(weights.dtype).masked_fill(total == 0, 1.0), along[2])
        place = torch.arange(n + 1, device=drafts.device) + past.written[:, None]
        row = torch.arange(len(drafts), device=drafts.device)[:, None]
        asked = laws[row, place.clamp(max=past.length - 1)].to(target.dtype)
        return torch.where((place < past.length)[..., None], asked, plain)

    def advance(self, draft: Tensor, tokens: Tensor, length: Tensor, draft_probs: Tensor, drafts: int) -> None:
        """A round was emitted.

        Args:
            draft: int64 [B], the draft along which the emission is; its laws hold for the token after the prefix too.
            tokens: int64 [B, L+1] and length: int64 [B], the emission.
            draft_probs: [B, K, L, V], as given to ``target``.
            drafts: K of the round.
        """
        row = torch.arange(len(draft), device=draft.device)
        p, written = draft_probs[row, draft], tokens[:, :-1].clamp(min=0)
        seen = [laws[row, draft, :-1] for laws in self._seen]
        grown = [
            _Past(*past.and_then(written, p, laws), written=past.written + length, drafts=past.drafts)
            for past, laws in zip(self._past, seen, strict=True)
        ]
        grown.append(_Past(written, p, self._target[row, draft, :-1], length, drafts))
        self._past = [past for past in grown if bool((past.written < past.length).any())]

    def keep(self, rows: Tensor) -> None:
        """Go on with the texts that ``rows`` names, int64 [S]."""
        self._past = [past.rows(rows) for past in self._past]


def _weights(
    modified: ModifiedTarget, name: str, tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int
) -> Tensor:
    try:
        # A copy, because the rule may write into it.
        weights = modified(tokens, draft_probs, target_probs.clone(), drafts)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the rule is anybody's code
        raise InputError(f"rule {name!r}: modified_target raised {said(error)}") from error
    if not isinstance(weights, Tensor) or weights.shape != target_probs.shape or not weights.is_floating_point():
        raise InputError(f"rule {name!r}: modified_target must return weights of shape {list(target_probs.shape)}")
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise InputError(f"rule {name!r}: modified_target must return finite weights, none negative")
    return weights
