"""A whole round of speculative decoding: the function drafts, scores and verifies by itself.

    spectr-verify audit examples/called_with_models.py:decode --calls step --arg gamma=L        # lossless
    spectr-verify audit examples/called_with_models.py:colder --calls step --arg gamma=L        # biased

``--arg`` passes what it needs besides the models and the ids: here the length of the drafts.
"""

import torch
from torch import Tensor, nn


def decode(draft_model: nn.Module, target_model: nn.Module, input_ids: Tensor, gamma: int) -> Tensor:
    """One round: ids [1, n] to longer ids. The models are called as Hugging Face ones are."""
    return _decode(draft_model, target_model, input_ids, gamma, draft_temperature=1.0)


def colder(draft_model: nn.Module, target_model: nn.Module, input_ids: Tensor, gamma: int) -> Tensor:
    """The same, but the drafts are sampled at another temperature than the one that the verifier is told."""
    return _decode(draft_model, target_model, input_ids, gamma, draft_temperature=0.7)


def _decode(
    draft_model: nn.Module, target_model: nn.Module, ids: Tensor, gamma: int, draft_temperature: float
) -> Tensor:
    start, declared = ids.shape[1], []
    for _ in range(gamma):
        logits = draft_model(ids).logits[0, -1]
        declared.append(logits.softmax(-1))
        ids = torch.cat([ids, torch.multinomial((logits / draft_temperature).softmax(-1), 1)[None]], dim=1)
    q = target_model(ids).logits[0, start - 1 :].softmax(-1)
    for i, p in enumerate(declared):
        token = ids[0, start + i]
        if torch.rand(()) * p[token] >= q[i, token]:
            correction = torch.multinomial((q[i] - p).clamp(min=0), 1)
            return torch.cat([ids[:, : start + i], correction[None]], dim=1)
    return torch.cat([ids, torch.multinomial(q[gamma], 1)[None]], dim=1)
