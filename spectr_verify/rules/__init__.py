"""The register of acceptance rules. One rule a file; this page lists them and imports none until it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from spectr_verify.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from spectr_verify.chance import Chance
    from spectr_verify.rounds import Emission, Round

    Verify = Callable[[Round, Chance], Emission]
    ModifiedTarget = Callable[[Tensor, Tensor, Tensor, int], Tensor]

Kind = Literal["stateless", "stateful"]


class RuleError(InputError):
    """No such rule: the message lists what there is."""


@dataclass(frozen=True)
class Rule:
    """An acceptance rule and what is said about it.

    Attributes:
        name: the name in reports.
        verify: the rule itself, ``(round, chance) -> emission``.
        kind: "stateless" if every round starts from the plain target, "stateful" if a round hands a modified target on.
        modified_target: stateful rules only: ``(tokens [B, n], draft_probs [B, n, V], target_probs [B, n, V], K)``
            to the weights [B, n, V] of the next rounds' target along a text counted from the round's start. They
            hold for the L - tau - 1 positions after the emission; a row of zeros means the plain target.
        max_drafts: the most drafts that the rule can use, ``None`` for any number; it is given the first ones.
        lossless: whether it is proven lossless; ``None`` for a rule that nobody has judged yet.
        summary: one line.
        source: where it comes from.
    """

    name: str
    verify: Verify
    kind: Kind = "stateless"
    modified_target: ModifiedTarget | None = None
    max_drafts: int | None = None
    lossless: bool | None = None
    summary: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"rule {self.name!r}: the kind is {self.kind!r}; it must be 'stateless' or 'stateful'")
        if not isinstance(self.name, str):
            raise InputError(f"the name of a rule is {self.name!r}; it must be a text")
        if self.max_drafts is not None and not (isinstance(self.max_drafts, int) and self.max_drafts >= 1):
            raise InputError(
                f"rule {self.name!r}: max_drafts is {self.max_drafts}; it must be a whole number from 1 on, or None"
            )
        if not callable(self.verify):
            raise InputError(
                f"rule {self.name!r}: verify is {type(self.verify).__name__}; it must be a function of (round, chance)"
            )
        if (self.kind == "stateful") != (self.modified_target is not None):
            raise InputError(
                f"rule {self.name!r}: a stateful rule needs a modified_target and a stateless one must not have it"
            )

    def used_drafts(self, drafts: int) -> int:
        """How many of K drafts the rule is given: single-draft rules use the first alone."""
        return drafts if self.max_drafts is None else min(drafts, self.max_drafts)


def _late(module: str, function: str) -> Callable[..., Any]:
    """The function, imported at its first call: listing the rules must not import torch."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(f"spectr_verify.rules.{module}"), function)(*arguments)

    call.__name__ = function
    return call


_REGISTER = (
    Rule(
        "autoregressive",
        _late("autoregressive", "autoregressive"),
        lossless=True,
        summary="no speculation: one token from the target",
        source="baseline",
    ),
    Rule(
        "token",
        _late("token", "token"),
        max_drafts=1,
        lossless=True,
        summary="token after token with min(1, q/p)",
        source="Leviathan et al. 2023, 2211.17192; Chen et al. 2023, 2302.01318",
    ),
    Rule(
        "recursive-rejection",
        _late("recursive_rejection", "recursive_rejection"),
        lossless=True,
        summary="drafts in turn, the residual taken on after each rejection",
        source="Miao et al. 2023 (SpecInfer), 2305.09781",
    ),
    Rule(
        "k-seq",
        _late("k_seq", "k_seq"),
        lossless=True,
        summary="drafts in turn with min(1, q/(s p)), s as small as is valid",
        source="Sun et al. 2023 (SpecTr), 2310.15141",
    ),
    Rule(
        "block",
        _late("block", "block"),
        max_drafts=1,
        lossless=True,
        summary="block verification: the longest prefix whose own coin succeeds",
        source="Sun et al. 2024, 2403.10444",
    ),
    Rule(
        "greedy-block",
        _late("greedy_block", "greedy_block"),
        kind="stateful",
        modified_target=_late("greedy_block", "modified_target"),
        max_drafts=1,
        lossless=True,
        summary="greedy block verification: min(P, Q), later rounds pay it back",
        source="Sun et al. 2024, 2403.10444, appendix",
    ),
    Rule(
        "spectr-gbv-published",
        _late("spectr_gbv", "spectr_gbv_published"),
        kind="stateful",
        modified_target=_late("spectr_gbv", "modified_target"),
        lossless=False,
        summary="SpecTr-GBV as its paper describes it: biased for K >= 2",
        source="Lin et al. 2026, 2604.25925",
    ),
    Rule(
        "spectr-gbv-released",
        _late("spectr_gbv", "spectr_gbv_released"),
        lossless=False,
        summary="SpecTr-GBV as its authors' code does it: biased for every K",
        source="github.com/junemily/SpecTr-GBV, commit e399f44",
    ),
    Rule(
        "block-race",
        _late("block_race", "block_race"),
        lossless=True,
        summary="block verification of every draft, the smallest fair score wins",
        source="this project",
    ),
    Rule(
        "tournament-block",
        _late("tournament", "tournament_block"),
        lossless=True,
        summary="select a draft by the order of q/p, then block verification",
        source="after Thomas & Pal 2026, 2602.16961",
    ),
    Rule(
        "tournament-greedy-block",
        _late("tournament", "tournament_greedy_block"),
        kind="stateful",
        modified_target=_late("tournament", "modified_target"),
        lossless=True,
        summary="select a draft by the order of q/p, then greedy block verification",
        source="after Thomas & Pal 2026, 2602.16961",
    ),
    Rule(
        "ironed-tournament-block",
        _late("ironed_tournament", "ironed_tournament_block"),
        lossless=True,
        summary="select a draft by scores that verification can use, then block verification",
        source="this project",
    ),
    Rule(
        "ironed-tournament-greedy-block",
        _late("ironed_tournament", "ironed_tournament_greedy_block"),
        kind="stateful",
        modified_target=_late("ironed_tournament", "modified_target"),
        lossless=True,
        summary="select a draft by scores that verification can use, then greedy block verification",
        source="this project",
    ),
    Rule(
        "blended-tournament-block",
        _late("blended_tournament", "blended_tournament_block"),
        lossless=True,
        summary="scores ironed for the level or filled for those below, then block verification",
        source="this project",
    ),
    Rule(
        "optimal-token",
        _late("optimal_token", "optimal_token"),
        lossless=True,
        summary="the optimum of one position, token after token",
        source="this project",
    ),
    Rule(
        "exact-match",
        _late("exact_match", "exact_match"),
        lossless=True,
        summary="sample from the target, go on while a draft guessed it",
        source="folklore",
    ),
    Rule(
        "typical",
        _late("typical", "typical"),
        lossless=False,
        summary="accept what is likely enough under the target: lossy by design",
        source="Cai et al. 2024 (Medusa), 2401.10774",
    ),
)

RULES: dict[str, Rule] = {rule.name: rule for rule in _REGISTER}
"""The register: name to rule."""


__all__ = ["RULES", "Kind", "Rule", "RuleError"]
