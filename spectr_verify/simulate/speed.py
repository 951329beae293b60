"""Speed-up over autoregressive decoding by the time model (theory.md, section 6), costs given or measured."""

from __future__ import annotations

from spectr_verify.simulate.sweep import Cell, Sweep
from spectr_verify.simulate.tally import Outcome
from spectr_verify.simulate.what_if import TimeModel


def costs(found: Sweep, cell: Cell, given: TimeModel | None) -> TimeModel:
    """The costs of a finished cell: those given, or those measured in it, or usual ones where no time means anything.

    Measured ones are of its K drafts together.
    """
    if given is not None:
        return given
    return _measured(found.outcomes[cell]) if found.timed[cell.corpus] else TimeModel()


def modelled_speed_up(found: Sweep, cell: Cell, given: TimeModel | None) -> float:
    """Block efficiency over the time of a round in the model, in calls of the target."""
    return found.outcomes[cell].block_efficiency.value / costs(found, cell, given).seconds(cell.drafts, cell.length)


def _measured(outcome: Outcome) -> TimeModel:
    """What a draft step and everything but drafts and target took, in the time of the target alone for a token."""
    total = outcome.total
    call, length = total.alone / total.longest, len(total.accepted) - 1
    return TimeModel(total.draft / (total.calls * length) / call, 0.0, total.verify / total.calls / call)
