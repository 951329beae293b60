"""Token verification as its users write it: a module by itself, and the text of a user's file."""

import torch


def verify(draft_tokens, draft_probs, target_probs, residual=True):
    L = len(draft_tokens)
    i = torch.arange(L)
    ratio = target_probs[i, draft_tokens] / draft_probs[i, draft_tokens]
    count = int((torch.rand(L) < ratio).long().cumprod(0).sum())
    law = target_probs[count]
    if residual and count < L:
        law = (law - draft_probs[count]).clamp(min=0)
    return torch.cat([draft_tokens[:count], torch.multinomial(law, 1)])
