"""How a stateful rule is given: a ``Rule`` object with the target that it hands on to the next rounds.

    spectr-verify audit examples/stateful_rule.py:GREEDY       # lossless
    spectr-verify audit examples/stateful_rule.py:FORGETFUL    # biased, though its first token is right

Greedy block verification accepts more than block verification and owes the difference to the next rounds: at the
positions that were drafted and not accepted they must take (Q - P)+, normalised, for the target's law.
"""

from torch import Tensor

from spectr_verify.rules import Rule
from spectr_verify.rules.greedy_block import greedy_block, modified_target


def plain_target(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Hands nothing on: the next rounds start from the plain target."""
    return target_probs


GREEDY = Rule("greedy", greedy_block, kind="stateful", modified_target=modified_target, max_drafts=1)
FORGETFUL = Rule("forgetful", greedy_block, kind="stateful", modified_target=plain_target, max_drafts=1)
