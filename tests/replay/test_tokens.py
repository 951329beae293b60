"""What functions return, read as tokens: every form that is read, every form that is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spectr_verify.replay.tokens import emitted_tokens
from spectr_verify.rounds import EmissionError

FORMS: list[Any] = [
    torch.tensor([1, 0]),
    torch.tensor([1, 0], dtype=torch.int32),
    torch.tensor([[1, 0]]),
    torch.tensor([[[1, 0, -1]]]),
    [1, 0],
    [[1, 0]],
    (1, 0),
    np.array([1, 0]),
    np.array([[1, 0, -1]], dtype=np.uint8) if np.uint8(255) == -1 else np.array([[1, 0, -1]]),
    [torch.tensor(1), torch.tensor(0)],
    [np.int64(1), 0, -1],
    (torch.tensor([1, 0]), 1),
    ([1, 0], torch.tensor([0.5])),
    (np.array([1, 0, -100]), None),
]


@pytest.mark.parametrize("result", FORMS, ids=repr)
def test_tokens_are_read(result: Any) -> None:
    assert emitted_tokens(result, "verify", 2, 2) == (1, 0)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (None, "verify returned None; it must return tokens"),
        (torch.tensor([0.5]), "returned a tensor of torch.float32"),
        (torch.tensor([True]), "returned a tensor of torch.bool"),
        (torch.tensor([0.5], dtype=torch.bfloat16), "returned a tensor of torch.bfloat16"),
        ((torch.tensor([0.5]), 1), "a tuple that begins with a tensor of torch.float32"),
        (np.array([0.5]), "returned an array of float64"),
        ([0, 0.5], r"returned list \(\[0, 0.5\]\)"),
        ("10", "returned str"),
        ({"tokens": [1]}, "returned dict"),
        ([[1], [0, 1]], "returned list"),
        (torch.zeros(2, 3, dtype=torch.int64), r"shape \[2, 3\]; there is one request"),
        (torch.tensor(1), r"shape \[\]"),
        ([], "returned no token"),
        ((), "returned"),
        (torch.tensor([-1, -1]), "returned no token"),
        ([1, 0, 1], r"returned 3 tokens, \[1, 0, 1\]; a round emits at most 2"),
        ([2], r"returned the tokens \[2\]; all must be in the vocabulary 0..1"),
        ([-1, 1], "behind the last one, negative numbers are padding"),
    ],
)
def test_what_is_no_emission_is_refused(result: Any, says: str) -> None:
    with pytest.raises(EmissionError, match=says):
        emitted_tokens(result, "verify", 2, 2)
