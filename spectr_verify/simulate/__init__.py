"""How many tokens a round, and how much faster: decoded and counted, or estimated from text of the target."""

from spectr_verify.simulate.compare import Behind, Difference, behind_best, differences
from spectr_verify.simulate.corpus import Corpus, model_corpus, synthetic_corpus, table_corpus
from spectr_verify.simulate.ledger import LedgerError
from spectr_verify.simulate.logs import LogError, TokenLogs, read_logs, target_logs, write_logs
from spectr_verify.simulate.plan import Axes, Cell, Settings
from spectr_verify.simulate.result import to_json
from spectr_verify.simulate.speed import TimeModel, costs, modelled_speed_up
from spectr_verify.simulate.sweep import Sweep, sweep
from spectr_verify.simulate.tally import Outcome, Ratio, Tally
from spectr_verify.simulate.what_if import RULES, Estimates, what_if

__all__ = [
    "RULES",
    "Axes",
    "Behind",
    "Cell",
    "Corpus",
    "Difference",
    "Estimates",
    "LedgerError",
    "LogError",
    "Outcome",
    "Ratio",
    "Settings",
    "Sweep",
    "Tally",
    "TimeModel",
    "TokenLogs",
    "behind_best",
    "costs",
    "differences",
    "model_corpus",
    "modelled_speed_up",
    "read_logs",
    "sweep",
    "synthetic_corpus",
    "table_corpus",
    "target_logs",
    "to_json",
    "what_if",
    "write_logs",
]
