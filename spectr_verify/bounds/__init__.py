"""How much any lossless rule can accept: closed forms, and optima with certified gaps."""

from spectr_verify.bounds.closed_form import (
    block,
    block_race,
    claimed_bound,
    closed_forms,
    greedy_block,
    level_bound,
    relaxed_bound,
    token,
)
from spectr_verify.bounds.optimum import stateful_optimum, stateless_optimum
from spectr_verify.bounds.result import BoundError, BoundResult, BoundSizeError
from spectr_verify.bounds.solve import MAX_VARIABLES, TOLERANCE
from spectr_verify.bounds.summary import Bounds, bounds
from spectr_verify.bounds.transport import stateful_transport, stateless_transport

__all__ = [
    "MAX_VARIABLES",
    "TOLERANCE",
    "BoundError",
    "BoundResult",
    "BoundSizeError",
    "Bounds",
    "block",
    "block_race",
    "bounds",
    "claimed_bound",
    "closed_forms",
    "greedy_block",
    "level_bound",
    "relaxed_bound",
    "stateful_optimum",
    "stateful_transport",
    "stateless_optimum",
    "stateless_transport",
    "token",
]
