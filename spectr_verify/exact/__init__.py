"""Exact laws: every random choice of a rule enumerated, and the text compared with the target's law."""

from spectr_verify.exact.law import (
    TOTAL_TOLERANCE,
    EnumerationError,
    RoundLaw,
    TextLaw,
    first_tokens,
    round_law,
    text_law,
    total_variation,
)
from spectr_verify.exact.limits import LimitError, Limits
from spectr_verify.exact.sampling import sample_round

__all__ = [
    "TOTAL_TOLERANCE",
    "EnumerationError",
    "LimitError",
    "Limits",
    "RoundLaw",
    "TextLaw",
    "first_tokens",
    "round_law",
    "sample_round",
    "text_law",
    "total_variation",
]
