"""Speed-up over autoregressive decoding by the time model, costs given or measured."""

from __future__ import annotations

from dataclasses import dataclass

from spectr_verify.errors import InputError
from spectr_verify.simulate.plan import Cell
from spectr_verify.simulate.sweep import Sweep
from spectr_verify.simulate.tally import Outcome

CALLED = {
    "draft": "the cost of a draft step (--draft-cost)",
    "further": "what a further draft costs (--further-cost)",
    "verification": "the overhead of a round (--overhead)",
}
"""What people call the costs."""


LARGEST = 1e12
"""No cost is larger: products of costs stay numbers."""


@dataclass(frozen=True)
class TimeModel:
    """Costs in units of one target call on one round.

    Attributes:
        draft: one step of the draft model for one draft.
        further: what each further draft of a batch adds, as a share of ``draft``.
        verification: everything else in a round.

    Raises:
        InputError: a cost is no number from 0 on.
    """

    draft: float = 0.05
    further: float = 0.0
    verification: float = 0.0

    def __post_init__(self) -> None:
        for name, cost in vars(self).items():
            if not 0 <= cost <= LARGEST:
                raise InputError(f"{CALLED[name]} is {cost}; it must be a number from 0 to {LARGEST:.0e}")

    def seconds(self, drafts: int, length: int) -> float:
        """The time of a round, in target calls."""
        return length * self.draft * (1 + self.further * (drafts - 1)) + 1 + self.verification


def costs(found: Sweep, cell: Cell, given: TimeModel | None) -> TimeModel:
    """The costs of a finished cell: those given, or those measured in it, or usual ones where no time means anything.

    Measured ones are of its K drafts together.
    """
    if given is not None:
        return given
    return _measured(found.outcomes[cell]) if found.timed[cell.corpus] else TimeModel()


def round_time(found: Sweep, cell: Cell, given: TimeModel | None) -> float:
    """The time of a round of a finished cell in the model, in target calls."""
    return costs(found, cell, given).seconds(cell.drafts, cell.length)


def modelled_speed_up(found: Sweep, cell: Cell, given: TimeModel | None) -> float:
    """Block efficiency over the time of a round in the model."""
    return found.outcomes[cell].block_efficiency.value / round_time(found, cell, given)


def _measured(outcome: Outcome) -> TimeModel:
    """What a draft step and everything but drafts and target took, in the time of the target alone for a token."""
    total = outcome.total
    call, length = total.alone / total.longest, len(total.accepted) - 1
    return TimeModel(total.draft / (total.calls * length) / call, 0.0, total.verify / total.calls / call)
