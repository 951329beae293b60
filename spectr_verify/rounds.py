"""What an acceptance rule sees and what it returns, and the checks of both.

One *round*: the draft model wrote K drafts of L tokens, the target model scored every position of every draft
in one call. The rule answers with an *emission*: an accepted prefix of one draft and one more token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spectr_verify.errors import InputError

SUM_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-3}
"""How far from 1 a law may sum, for each number format that laws can have."""


class RoundError(InputError):
    """A round that no rule can be judged on: the message names the place and what to do."""


class EmissionError(InputError):
    """A rule broke its contract: the message names the row, what it returned and what it should return."""


@dataclass(frozen=True, eq=False)
class Round:
    """The drafts of one round and both models' laws along them. Rows are independent of each other.

    Drafts that share their first i tokens must carry the same laws at position i: the rules look a shared law up in any
    of them.

    Attributes:
        drafts: int64 [B, K, L]; each draft is a sample from the draft model.
        draft_probs: [B, K, L, V]; at i the draft model's law after the first i tokens of the draft.
        target_probs: [B, K, L+1, V]; at i the target's law after the first i tokens, the whole draft included.
    """

    drafts: Tensor
    draft_probs: Tensor
    target_probs: Tensor

    @property
    def rows(self) -> int:
        """B, the number of independent rows: worlds when enumerating, requests when decoding."""
        return self.drafts.shape[0]

    @property
    def num_drafts(self) -> int:
        """K, the number of drafts a row."""
        return self.drafts.shape[1]

    @property
    def length(self) -> int:
        """L, the number of tokens a draft."""
        return self.drafts.shape[2]

    @property
    def vocab(self) -> int:
        """V, the number of tokens in the vocabulary."""
        return self.target_probs.shape[3]

    def first_drafts(self, count: int) -> Round:
        """The same round with only the first ``count`` drafts."""
        return Round(self.drafts[:, :count], self.draft_probs[:, :count], self.target_probs[:, :count])

    def draft(self, index: Tensor) -> Round:
        """The round of one chosen draft a row: ``index`` int64 [B], the result has K = 1."""
        row = torch.arange(self.rows, device=index.device)
        return Round(
            self.drafts[row, index][:, None],
            self.draft_probs[row, index][:, None],
            self.target_probs[row, index][:, None],
        )


@dataclass(frozen=True, eq=False)
class Emission:
    """What a rule emits.

    Attributes:
        tokens: int64 [B, L+1]: the accepted prefix, one more token, then -1.
        length: int64 [B]: accepted length + 1.
        draft: int64 [B]: which draft the accepted prefix came from; where nothing was accepted -1, though the index
            of any draft passes.
    """

    tokens: Tensor
    length: Tensor
    draft: Tensor


def check_round(round: Round) -> None:
    """Check shapes, number formats, tokens and laws of a round.

    Raises:
        RoundError: names the first row, draft and position that is wrong.
    """
    drafts, p, q = round.drafts, round.draft_probs, round.target_probs
    for name, value in (("drafts", drafts), ("draft_probs", p), ("target_probs", q)):
        if not isinstance(value, Tensor):
            raise RoundError(f"{name} must be a tensor; it is {_describe(value)}")
    if drafts.ndim != 3 or drafts.dtype != torch.int64 or 0 in drafts.shape:
        raise RoundError(
            f"drafts must be int64 [B, K, L] with at least one row, draft and token; "
            f"they are {drafts.dtype} {list(drafts.shape)}"
        )
    B, K, L = drafts.shape
    V = q.shape[-1] if q.ndim else 0
    for name, laws, shape in (("draft_probs", p, (B, K, L, V)), ("target_probs", q, (B, K, L + 1, V))):
        if tuple(laws.shape) != shape:
            raise RoundError(f"{name} must have shape {list(shape)} to fit the others; it has {list(laws.shape)}")
        if laws.dtype not in SUM_TOLERANCE:
            raise RoundError(f"{name} holds {laws.dtype}; laws must be floating-point probabilities")
        _check_laws(name, laws)
    outside = (drafts < 0) | (drafts >= V)
    if outside.any():
        row, k, i = _first(outside)
        raise RoundError(f"row {row}, draft {k}, position {i}: token {drafts[row, k, i]} is outside 0..{V - 1}")
    impossible = p.gather(-1, drafts[..., None])[..., 0] <= 0
    if impossible.any():
        row, k, i = _first(impossible)
        raise RoundError(
            f"row {row}, draft {k}, position {i}: token {drafts[row, k, i]} has probability zero under draft_probs, "
            "so it cannot have been drafted; declare the very laws that the drafts were sampled from"
        )


def _check_laws(name: str, laws: Tensor) -> None:
    tolerance = SUM_TOLERANCE[laws.dtype]
    sums = laws.sum(dim=-1, dtype=torch.float64)
    faults = (
        (~torch.isfinite(laws).all(dim=-1), "has an entry that is not a finite number"),
        ((laws < 0).any(dim=-1), "has a negative probability"),
        ((sums - 1).abs() > tolerance, f"does not sum to 1 within {tolerance:g}, the tolerance for {laws.dtype}"),
    )
    for bad, fault in faults:
        if bad.any():
            row, k, i = _first(bad)
            law = laws[row, k, i]
            raise RoundError(
                f"{name}, row {row}, draft {k}, position {i}: the law {_short(law)} {fault} "
                f"(sum {float(sums[row, k, i]):.9g})"
            )


def check_emission(round: Round, emission: object) -> Emission:
    """Check that a rule kept its contract on a round, and return its emission.

    The accepted tokens must be a prefix of the draft it names, every token must be in the vocabulary, and nothing may
    stand behind the last token. A token that the target gives probability zero keeps the contract: it is a bias, for
    the law to show.

    Raises:
        EmissionError: names the first row where the contract is broken.
    """
    if not isinstance(emission, Emission):
        raise EmissionError(f"a rule must return an Emission; it returned {type(emission).__name__}")
    B, L, V = round.rows, round.length, round.vocab
    shapes = (
        ("tokens", emission.tokens, (B, L + 1)),
        ("length", emission.length, (B,)),
        ("draft", emission.draft, (B,)),
    )
    for name, value, shape in shapes:
        right_form = isinstance(value, Tensor) and tuple(value.shape) == shape and value.dtype == torch.int64
        if not right_form or value.device != round.drafts.device or value.layout != torch.strided:
            raise EmissionError(
                f"Emission.{name} must be an int64 tensor of shape {list(shape)}; it is {_describe(value)}"
            )
    tokens, accepted, draft = emission.tokens, emission.length - 1, emission.draft
    position = torch.arange(L + 1, device=tokens.device)
    bad_length = (accepted < 0) | (accepted > L)
    _refuse(bad_length, emission, f"the length must be 1 to {L + 1}: the accepted tokens and one more")
    emitted = position <= accepted[:, None]
    in_vocab = (tokens >= 0) & (tokens < V)
    _refuse((emitted & ~in_vocab).any(-1), emission, f"every emitted token must be in the vocabulary 0..{V - 1}")
    _refuse((~emitted & (tokens != -1)).any(-1), emission, "positions after the last emitted token must hold -1")
    no_draft = (draft < 0) & (accepted > 0) | (draft >= round.num_drafts) | (draft < -1)
    _refuse(no_draft, emission, f"an accepted prefix must name its draft, 0 to {round.num_drafts - 1} (-1 if none)")
    row, named = torch.arange(B, device=tokens.device), draft.clamp(min=0)
    matches = (round.drafts[row, named] == tokens[:, :L]) | (position[:L] >= accepted[:, None])
    _refuse(~matches.all(-1), emission, "the accepted tokens are not a prefix of the draft that it names")
    return emission


def _refuse(bad: Tensor, emission: Emission, rule: str) -> None:
    if bad.any():
        row = int(bad.int().argmax())
        raise EmissionError(
            f"row {row}: tokens {emission.tokens[row].tolist()}, length {int(emission.length[row])}, "
            f"draft {int(emission.draft[row])}: {rule}"
        )


def _first(bad: Tensor) -> list[int]:
    index: list[int] = bad.nonzero()[0].tolist()
    return index


def _short(law: Tensor) -> str:
    entries = [f"{value:.6g}" for value in law[:6].tolist()]
    return "[" + ", ".join(entries) + (", ..]" if law.numel() > 6 else "]")


def _describe(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
