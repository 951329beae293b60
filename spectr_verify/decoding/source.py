"""What texts are decoded with: a pair of models, or anything else that reads text and tells what may follow."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from spectr_verify.errors import InputError


class ModelError(InputError):
    """Models that cannot be decoded with: the message names the model and what is wrong."""


class TextReader(Protocol):
    """One model and what it has read of R texts."""

    @property
    def length(self) -> Tensor:
        """How many tokens of each text are read: int64 [R]."""
        ...

    def read(self, tokens: Tensor, last: int = 1) -> Tensor:
        """Read on, tokens int64 [R, m] with -1 to the left; logits [R, last, V] after each of the last tokens."""
        ...

    def keep(self, rows: Tensor, length: Tensor) -> None:
        """Go on with the texts that ``rows`` int64 [S] names, each cut to its first ``length`` int64 [S] tokens."""
        ...


class Source(Protocol):
    """A target and a draft over one vocabulary.

    Attributes:
        vocab: V.
        names: what reports call the target and the draft.
        device: where they compute.
        limit: the longest text that both can read, in tokens.
        ends: the tokens that end a text.
    """

    @property
    def vocab(self) -> int: ...  # noqa: D102 - see the class

    @property
    def names(self) -> tuple[str, str]: ...  # noqa: D102

    @property
    def device(self) -> torch.device: ...  # noqa: D102

    @property
    def limit(self) -> int: ...  # noqa: D102

    @property
    def ends(self) -> tuple[int, ...]: ...  # noqa: D102

    def readers(self, rows: int) -> tuple[TextReader, TextReader]:
        """Readers of the target and of the draft, which have read nothing yet of ``rows`` texts."""
        ...
