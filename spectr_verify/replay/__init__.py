"""Exact laws of other people's torch code as it stands: its random calls are answered, path after path."""

from spectr_verify.replay.arguments import ArgumentError, Arguments
from spectr_verify.replay.edges import EdgeViolation, edge_violation
from spectr_verify.replay.laws import replayed_laws
from spectr_verify.replay.runner import Seen
from spectr_verify.replay.tape import Budget, BudgetError, ReplayError
from spectr_verify.replay.toy_lm import toy_lm
from spectr_verify.replay.verifier import Calls, Verifier, load_verifier, verifier

__all__ = [
    "ArgumentError",
    "Arguments",
    "Budget",
    "BudgetError",
    "Calls",
    "EdgeViolation",
    "ReplayError",
    "Seen",
    "Verifier",
    "edge_violation",
    "load_verifier",
    "replayed_laws",
    "toy_lm",
    "verifier",
]
