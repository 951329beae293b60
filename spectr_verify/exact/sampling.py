"""Rounds of a toy pair as a decoder would meet them: drafts drawn, not enumerated."""

from __future__ import annotations

import numpy as np
import torch

from spectr_verify.exact.tables import round_builder
from spectr_verify.rounds import Round
from toy_models import ToyPair


def sample_round(
    pair: ToyPair,
    length: int,
    drafts: int,
    rows: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
) -> Round:
    """The first round of ``rows`` independent texts, to run a rule on with ``Sampled`` chance.

    Args:
        pair: the models.
        length, drafts: L and K.
        rows: B.
        generator: draws the drafts; on the CPU.
        dtype: number format of the laws.

    Raises:
        TableError: L or K is out of the pair's range.
    """
    pair.check_size(length, drafts)
    root = np.zeros(1, dtype=np.int64)
    law = torch.from_numpy(pair.draft.joint(length))
    drafted = torch.multinomial(law, rows * drafts, replacement=True, generator=generator).reshape(rows, drafts).numpy()
    draft, target = pair.draft.continuations(root, 0, length), pair.target.continuations(root, 0, length + 1)
    return round_builder(np.zeros(rows, dtype=np.int64), drafted, draft, target, dtype)(torch.arange(rows))
