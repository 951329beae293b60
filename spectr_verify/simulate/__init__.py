"""How many tokens a round, and how much faster: estimated from text of the target."""

from spectr_verify.simulate.logs import LogError, TokenLogs, read_logs, target_logs, write_logs
from spectr_verify.simulate.what_if import RULES, Estimates, TimeModel, what_if

__all__ = [
    "RULES",
    "Estimates",
    "LogError",
    "TimeModel",
    "TokenLogs",
    "read_logs",
    "target_logs",
    "what_if",
    "write_logs",
]
