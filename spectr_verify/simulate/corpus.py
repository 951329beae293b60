"""Where simulated texts begin: prompts of real models, recorded laws, or synthetic pairs, all decoded by one loop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from spectr_verify.decoding import ModelPair, Source, TextReader
from spectr_verify.decoding.models import UNLIMITED
from spectr_verify.errors import InputError
from toy_models import TableModel, ToyPair, pair_to_json
from toy_models.synthetic import SyntheticPair

START = 0
"""The first token of every text over tables, on which no law depends: a text needs something to go on from."""

SYNTHETIC_PROMPTS = 20
"""How many prompts a synthetic pair has."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where texts begin.

    Attributes:
        source: the models.
        prompt: token ids.
        tables: the laws of the texts, where they are small enough to be written down.
    """

    source: Source
    prompt: list[int]
    tables: ToyPair | None = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """A set of prompts.

    Attributes:
        name: of the set.
        starts: one a prompt.
        identity: tells it from all others, of its name too: kind of source, models, laws and prompts.
        source: what reports say of it: its kind, the models and the prompts.
        timed: whether the time of its models means anything; laws that stand in for models cost nothing real.
    """

    name: str
    starts: tuple[Start, ...]
    identity: str
    source: dict[str, Any] = field(default_factory=dict)
    timed: bool = False

    @property
    def written_down(self) -> bool:
        """Whether the laws of all its texts are: it is a set of pairs of tables."""
        return all(start.tables is not None for start in self.starts)


class LawReader:
    """Reads texts for a law that depends on their last tokens; there is nothing to cache but the texts themselves."""

    def __init__(self, logits: Callable[[Tensor], Tensor], window: int, rows: int) -> None:
        """``logits`` takes the last ``window`` tokens of N texts, int64 [N, window] with -1 to the left, to [N, V]."""
        self._logits, self._window = logits, window
        self._tokens = torch.zeros(rows, 0, dtype=torch.int64)

    @property
    def length(self) -> Tensor:
        """See ``TextReader``."""
        return (self._tokens >= 0).sum(dim=1)

    def read(self, tokens: Tensor, last: int = 1) -> Tensor:
        """See ``TextReader``."""
        every = torch.cat([self._tokens, tokens], dim=1)
        holes_first = (every >= 0).int().argsort(dim=1, stable=True)
        self._tokens = every.gather(1, holes_first)
        padded = torch.nn.functional.pad(self._tokens, (self._window, 0), value=-1)
        contexts = padded.unfold(1, self._window, 1)[:, -last:]
        logits: Tensor = self._logits(contexts.flatten(0, 1)).unflatten(0, contexts.shape[:2])
        return logits

    def keep(self, rows: Tensor, length: Tensor) -> None:
        """See ``TextReader``."""
        size = int(length.max()) if len(length) else 0
        number = torch.arange(size) - (size - length)[:, None]
        place = (number + (self._tokens.shape[1] - self.length[rows])[:, None]).clamp(min=0)
        self._tokens = torch.where(number >= 0, self._tokens[rows].gather(1, place), -1)


@dataclass(frozen=True, eq=False)
class LawPair:
    """Two functions from the last tokens of texts to logits, as a source of texts; on the CPU, without an end.

    Attributes:
        vocab: V.
        names: what reports call the target and the draft.
        window: how many tokens the functions see.
        target, draft: int64 [N, window], with -1 to the left of a shorter text, to logits [N, V].
    """

    vocab: int
    names: tuple[str, str]
    window: int
    target: Callable[[Tensor], Tensor]
    draft: Callable[[Tensor], Tensor]
    limit: int = UNLIMITED
    ends: tuple[int, ...] = ()

    @property
    def device(self) -> torch.device:
        """See ``Source``."""
        return torch.device("cpu")

    def readers(self, rows: int) -> tuple[TextReader, TextReader]:
        """See ``Source``."""
        return LawReader(self.target, self.window, rows), LawReader(self.draft, self.window, rows)


def model_corpus(pair: ModelPair, name: str, prompts: Sequence[str]) -> Corpus:
    """Prompts of a pair of models.

    Raises:
        ModelError: a prompt is empty.
    """
    encoded = pair.encode(tuple(prompts))
    identity = _digest("models", *pair.names, str(pair.device), *_models(pair), json.dumps([encoded, list(pair.ends)]))
    source = {
        "kind": "models",
        "target": pair.names[0],
        "draft": pair.names[1],
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "device": str(pair.device),
        "prompts": list(prompts),
    }
    return Corpus(name, tuple(Start(pair, prompt) for prompt in encoded), identity, source, timed=True)


def table_corpus(name: str, pairs: Sequence[ToyPair]) -> Corpus:
    """Pairs of tables, each of which stands for a prompt; longer texts continue them as Markov chains."""
    starts = []
    for pair in pairs:
        names = (f"target of {pair.name}", f"draft of {pair.name}")
        laws = LawPair(pair.vocab, names, pair.target.depth, _of_table(pair.target), _of_table(pair.draft))
        starts.append(Start(laws, [START], pair))
    written = [pair_to_json(pair) for pair in pairs]
    source = {"kind": "tables", "pairs": [pair.name for pair in pairs]}
    return Corpus(name, tuple(starts), _digest("tables", json.dumps(written)), source)


def synthetic_corpus(pair: SyntheticPair) -> Corpus:
    """Prompts of a synthetic pair."""
    laws = LawPair(pair.vocab, ("synthetic target", "synthetic draft"), pair.order, pair.target, pair.draft)
    starts = tuple(Start(laws, prompt) for prompt in pair.contexts(SYNTHETIC_PROMPTS).tolist())
    source = {"kind": "synthetic", **{name: getattr(pair, name) for name in ("vocab", "overlap", "seed", "order")}}
    return Corpus(f"overlap {pair.overlap:g}", starts, _digest("synthetic", repr(pair)), source)


def _of_table(model: TableModel) -> Callable[[Tensor], Tensor]:
    """A table as a function from the last ``depth`` tokens of texts, ``START`` in front, to logits."""
    laws = torch.cat([torch.tensor(level) for level in model.levels]).log()
    begins = torch.tensor([sum(model.vocab**level for level in range(depth)) for depth in range(model.depth)])
    values = model.vocab ** torch.arange(model.depth).flip(0)  # of the tokens of a prefix, as digits of its row

    def logits(contexts: Tensor) -> Tensor:
        level = (contexts >= 0).sum(dim=1) - 1
        counts = torch.arange(model.depth).flip(0) < level[:, None]
        return laws[begins[level] + torch.where(counts, contexts * values, 0).sum(dim=1)]

    return logits


def check_corpora(corpora: Sequence[Corpus], tokens: int, length: int) -> None:
    """Refuse sets of one name, and texts of N tokens that no draft fits into or that no model reads with one.

    The loop would cut the drafts of such texts short, and rounds of shorter drafts accept less.
    """
    names = [corpus.name for corpus in corpora]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{name!r} is asked for more than once; name every set once")
    for corpus in corpora:
        if tokens < length and not corpus.written_down:
            raise InputError(
                f"a text of {tokens} tokens is shorter than a draft of {length}; ask for longer texts or shorter drafts"
            )
        for number, start in enumerate(corpus.starts):
            read = len(start.prompt) + tokens + length - 1
            if read > start.source.limit:
                raise InputError(
                    f"{corpus.name}: prompt {number} has {len(start.prompt)} tokens, which with {tokens} new ones and "
                    f"a draft of {length} is more than the {start.source.limit} that the models read; ask for less"
                )


def _models(pair: ModelPair) -> list[str]:
    """What tells two models of one name apart: how they are built, and all their numbers."""
    found = []
    for model in (pair.target, pair.draft):
        found.append(json.dumps(model.config.to_dict(), sort_keys=True, default=str))
        for name, numbers in (*model.named_parameters(), *model.named_buffers()):
            bytes_of = numbers.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            found.append(f"{name} {numbers.dtype} {list(numbers.shape)} {hashlib.sha256(bytes_of).hexdigest()}")
    return found


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
