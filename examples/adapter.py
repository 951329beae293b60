"""An engine's verifier with a signature of its own, and the adapter with which it is audited.

    spectr-verify audit examples/adapter.py:adapted --calls probabilities

The engine packs the drafts of all requests one behind the other, tells the requests apart by cumulative lengths, wants
the bonus tokens sampled beforehand, and answers with a padded array. The adapter is all that an audit needs.
"""

import torch
from torch import Tensor


def adapted(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """One request of L drafted tokens, as a batch of one."""
    bonus = torch.multinomial(target_probs[-1:], 1)
    lengths = torch.tensor([len(draft_tokens)])
    return rejection_sample(draft_tokens, lengths.cumsum(0), draft_probs, target_probs[:-1], bonus)


def rejection_sample(tokens: Tensor, ends: Tensor, p: Tensor, q: Tensor, bonus: Tensor) -> Tensor:
    """The engine's: tokens [N], laws [N, V] of all requests, their ends [B] there, bonus [B, 1]; to [B, longest + 1].

    Every position draws its correction, needed or not: an exponential race, as a fast kernel would do it.
    """
    position = torch.arange(len(tokens))
    accepted = torch.rand(len(tokens), dtype=torch.float64) * p[position, tokens] < q[position, tokens]
    clock = torch.empty_like(p).exponential_()
    corrections = ((q - p).clamp(min=0) / clock).argmax(dim=-1)
    starts = torch.cat([torch.zeros(1, dtype=ends.dtype), ends[:-1]])
    out = torch.full((len(ends), int((ends - starts).max()) + 1), -1)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        for place in range(start, end):
            out[row, place - start] = tokens[place] if accepted[place] else corrections[place]
            if not accepted[place]:
                break
        else:
            out[row, end - start] = bonus[row, 0]
    return out
