"""The decoding loop: drafts, one target call that scores all of them, the rule, and the caches rolled back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spectr_verify.chance import ChanceError, Sampled
from spectr_verify.decoding.filters import Filters
from spectr_verify.decoding.modified import ModifiedTargets
from spectr_verify.decoding.source import Source, TextReader
from spectr_verify.errors import InputError, said
from spectr_verify.rounds import Emission, EmissionError, Round, check_emission
from spectr_verify.rules import RULES, Rule

CORRECTION = -1
"""The source of a token that the rule put where it stopped accepting."""

BONUS = -2
"""The source of a token that follows a whole accepted draft."""

MOST_ENTRIES = 1 << 33
"""How many numbers the laws of one round may have."""

NOTHING = -1
"""What stands where there is no token and no round."""


@dataclass
class Seconds:
    """Time spent in the draft model, in the target, and in the rule and its modified target."""

    draft: float = 0.0
    target: float = 0.0
    verify: float = 0.0

    @contextmanager
    def spent(self, part: str, device: torch.device) -> Iterator[None]:
        """Add the time of the block to ``part``."""
        started = _now(device)
        yield
        setattr(self, part, getattr(self, part) + _now(device) - started)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts that were decoded together.

    Attributes:
        prompts: token ids of each prompt.
        tokens: int64 [B, N], what follows each prompt; -1 after an end of text.
        source: int64 [B, N], where each token came from: the number of a draft, ``CORRECTION`` or ``BONUS``.
        target_probs: float64 [B, N], the probability of each token under the plain target's law, as its call in that
            round gave it; 1 where there is no token.
        starts: int64 [B, R], where each round started, counted in new tokens; -1 where there was none.
        accepted: int64 [B, R], how many draft tokens each round accepted, beyond the end of the text too.
        drafted: int64 [R], L of each round.
    """

    prompts: list[list[int]]
    tokens: Tensor
    source: Tensor
    target_probs: Tensor
    starts: Tensor
    accepted: Tensor
    drafted: Tensor

    @property
    def lengths(self) -> Tensor:
        """How many tokens each text has: int64 [B]."""
        return (self.tokens >= 0).sum(dim=1)

    @property
    def rounds(self) -> int:
        """How many rounds there were in all texts together."""
        return int((self.starts >= 0).sum())


@dataclass(frozen=True, eq=False)
class SeenRound:
    """What a round was about, along the A emissions that came of it.

    Attributes:
        texts: int64 [A], which texts.
        place: int64 [A, L+1], where each token stands among the new ones of its text.
        written: bool [A, L+1], which tokens became part of the text.
        tokens: int64 [A, L+1], the emissions.
        target_probs, draft_probs: [A, L+1, V], both models' laws of each token, the target's unmodified.
    """

    texts: Tensor
    place: Tensor
    written: Tensor
    tokens: Tensor
    target_probs: Tensor
    draft_probs: Tensor


@dataclass(eq=False)
class _Batch:
    """Texts that are being written.

    Attributes:
        text: int64 [B, S], prompt and new tokens of each text; only the first ``size`` [B] of a row count.
        begin: int64 [B], length of the prompt.
        active: int64 [A], the texts that are not finished. Readers hold these alone, in this order.
    """

    text: Tensor
    begin: Tensor
    size: Tensor
    active: Tensor
    source: Tensor
    target_probs: Tensor
    starts: list[Tensor] = field(default_factory=list)
    accepted: list[Tensor] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)

    def unread(self, read: Tensor) -> Tensor:
        """What a reader that read ``read`` [A] tokens has not: int64 [A, m], -1 to the left."""
        size = self.size[self.active]
        m = int((size - read).max())
        place = size[:, None] - m + torch.arange(m, device=size.device)
        tokens = self.text[self.active].gather(1, place.clamp(min=0))
        return torch.where(place >= read[:, None], tokens, NOTHING)


def decode(
    pair: Source,
    rule: Rule,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    drafts: int = 1,
    length: int = 4,
    filters: Filters | None = None,
    generator: torch.Generator,
    stops: bool = True,
    seconds: Seconds | None = None,
    watch: Callable[[SeenRound], None] | None = None,
) -> Texts:
    """Decode one text after each prompt, all at once.

    Drafts are sampled from the very laws that the rule is told, and where two drafts share their first tokens the rule
    is told one law. Near the end of what the models can read the drafts of all texts are shorter.

    Args:
        pair: the models.
        rule: any acceptance rule; a stateful one gets its modified targets.
        prompts: token ids of each.
        tokens: N, how many tokens each text goes on for; those of a last round beyond N are dropped.
        drafts: K; a rule with ``max_drafts`` gets the first ones.
        length: L.
        filters: of both models' laws; by default none, at temperature 1.
        generator: draws everything, on the device of the models.
        stops: whether a text ends after a token that ends texts.
        seconds: where the time is added up.
        watch: called with the laws of every round; the draft model then makes one step more a round, for its law after
            a whole draft.

    Raises:
        InputError: a prompt is empty or longer than the models read, N is smaller than L, a model gives logits that are
            no numbers, or the rule breaks its contract; the message says which.
    """
    check_texts(pair, prompts, tokens, drafts, length)
    loop = _Loop(pair, rule, rule.used_drafts(drafts), filters or Filters(), generator, seconds or Seconds(), watch)
    return loop.run(prompts, tokens, length, pair.ends if stops else ())


class _Loop:
    def __init__(
        self,
        pair: Source,
        rule: Rule,
        drafts: int,
        filters: Filters,
        generator: torch.Generator,
        seconds: Seconds,
        watch: Callable[[SeenRound], None] | None,
    ) -> None:
        self.pair, self.rule, self.K, self.filters, self.seconds = pair, rule, drafts, filters, seconds
        self.watch = watch
        self.chance = Sampled(generator)

    def run(self, prompts: Sequence[Sequence[int]], tokens: int, length: int, ends: tuple[int, ...]) -> Texts:
        batch, device = _started(prompts, tokens, length, self.pair.device), self.pair.device
        B = len(prompts)
        self.target, self.draft = self.pair.readers(B)
        modified = ModifiedTargets(self.rule) if self.rule.modified_target is not None else None
        with self.seconds.spent("target", device):
            self._read_prompts(batch)
        while len(batch.active):
            L = min(length, self.pair.limit - int(batch.size[batch.active].max()))
            with self.seconds.spent("draft", device):
                drafted, every_p = self._drafts(batch, L)
                p = every_p[:, :, :L]
            with self.seconds.spent("target", device):
                plain = self._score(batch, drafted)
            with self.seconds.spent("verify", device):
                q = plain if modified is None else modified.target(drafted, p, plain)
            emission = self._verify(Round(drafted, p, q))
            along = emission.draft.clamp(min=0)
            with self.seconds.spent("verify", device):
                if modified is not None:
                    modified.advance(along, emission.tokens, emission.length, p, self.K)
            written = _written(batch, emission, tokens, ends)
            if self.watch is not None:
                self.watch(_seen(batch, emission, along, written, plain, every_p))
            left = _write(batch, emission, along, written, plain, tokens, ends, L)
            with self.seconds.spent("draft", device):
                self._roll_back(self.draft, batch, along, left, emission, every_p.shape[2] - 1)
            with self.seconds.spent("target", device):
                self._roll_back(self.target, batch, along, left, emission, L)
            if modified is not None:
                modified.keep(left)
            batch.active = batch.active[left]
        return _finished(batch, prompts, tokens)

    def _read_prompts(self, batch: _Batch) -> None:
        """Let the target read all but the last token of each prompt, which every call for drafts begins with."""
        unread = batch.unread(self.target.length)[:, :-1]
        if unread.shape[1]:
            self.target.read(unread)

    def _drafts(self, batch: _Batch, length: int) -> tuple[Tensor, Tensor]:
        """K drafts of every active text, int64 [A, K, L], and the laws that they are sampled from, [A, K, L, V].

        Where the loop is watched, the laws after the whole drafts too: [A, K, L+1, V].
        """
        A, K = len(batch.active), self.K
        logits = self.draft.read(batch.unread(self.draft.length))
        law = self.filters.law_of_model(logits, self.pair.names[1])[:, None, 0].expand(-1, K, -1)
        every = torch.arange(A, device=law.device).repeat_interleave(K)
        self.draft.keep(every, self.draft.length[every])
        laws, tokens = [law], [self._drawn(law)]
        for _ in range(length - 1 if self.watch is None else length):
            logits = self.draft.read(tokens[-1].reshape(A * K, 1))
            laws.append(self.filters.law_of_model(logits, self.pair.names[1])[:, 0].unflatten(0, (A, K)))
            laws[-1] = _shared(laws[-1], torch.stack(tokens, dim=2))
            if len(tokens) < length:
                tokens.append(self._drawn(laws[-1]))
        return torch.stack(tokens, dim=2), torch.stack(laws, dim=2)

    def _score(self, batch: _Batch, drafts: Tensor) -> Tensor:
        """The plain target's laws along every draft: [A, K, L+1, V], in one call."""
        A, K, L = drafts.shape
        every = torch.arange(A, device=drafts.device).repeat_interleave(K)
        last = batch.unread(self.target.length)[every]
        self.target.keep(every, self.target.length[every])
        logits = self.target.read(torch.cat([last, drafts.reshape(A * K, L)], dim=1), last=L + 1)
        laws = self.filters.law_of_model(logits, self.pair.names[0]).unflatten(0, (A, K))
        return torch.stack([_shared(laws[:, :, i], drafts[:, :, :i]) for i in range(L + 1)], dim=2)

    def _drawn(self, law: Tensor) -> Tensor:
        """A token from each of the laws [A, K, V]: int64 [A, K]."""
        drawn: Tensor = self.chance.categorical(law.reshape(-1, law.shape[-1])).unflatten(0, law.shape[:2])
        return drawn

    def _verify(self, round: Round) -> Emission:
        what = f"rule {self.rule.name!r}"
        given = round
        if RULES.get(self.rule.name) is not self.rule:  # what anybody's rule writes must not reach what it is judged by
            given = Round(round.drafts.clone(), round.draft_probs.clone(), round.target_probs.clone())
        try:
            with self.seconds.spent("verify", self.pair.device):
                emission = self.rule.verify(given, self.chance)
        except ChanceError as error:
            raise ChanceError(f"{what}: {error}") from error
        except (KeyboardInterrupt, InputError):
            raise
        except BaseException as error:  # the rule is anybody's code
            raise InputError(f"{what} raised {said(error)}") from error
        try:
            return check_emission(round, emission)
        except EmissionError as error:
            raise EmissionError(f"{what}: {error}") from error

    def _roll_back(
        self, reader: TextReader, batch: _Batch, along: Tensor, left: Tensor, emission: Emission, drafted: int
    ) -> None:
        """Keep what was accepted of the draft that won, in the texts that are not finished.

        ``drafted``: how many tokens of a draft the reader has read.
        """
        accepted = emission.length[left] - 1
        before = reader.length.unflatten(0, (-1, self.K))[:, 0] - drafted
        reader.keep(left * self.K + along[left], before[left] + accepted.clamp(max=drafted))


def check_texts(pair: Source, prompts: Sequence[Sequence[int]], tokens: int, drafts: int, length: int) -> None:
    """Refuse texts that cannot be decoded, see ``decode``."""
    for name, count in (("tokens", tokens), ("drafts", drafts), ("length", length)):
        if count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1")
    if tokens < length:
        raise InputError(
            f"a text of {tokens} tokens is shorter than a draft of {length}; ask for longer texts or shorter drafts"
        )
    if not prompts:
        raise InputError("there is no prompt")
    entries = len(prompts) * drafts * (length + 1) * pair.vocab
    if entries > MOST_ENTRIES:
        raise InputError(
            f"{len(prompts):,} texts, {drafts:,} drafts of {length:,} tokens and a vocabulary of {pair.vocab:,} make "
            f"laws of {entries:.1e} numbers a round, more than {MOST_ENTRIES:.1e}; ask for fewer texts at once, or "
            "fewer drafts"
        )
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise InputError(f"prompt {number} is empty; a text needs something to go on from")
        if len(prompt) + tokens > pair.limit:
            raise InputError(
                f"prompt {number} has {len(prompt)} tokens, which with {tokens} new ones is more than the {pair.limit} "
                "that the models read"
            )
        if not all(0 <= token < pair.vocab for token in prompt):
            raise InputError(f"prompt {number} has a token outside the vocabulary 0..{pair.vocab - 1}")


def _started(prompts: Sequence[Sequence[int]], tokens: int, length: int, device: torch.device) -> _Batch:
    B = len(prompts)
    longest = max(len(prompt) for prompt in prompts)
    text = torch.full((B, longest + tokens + length), NOTHING, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        text[row, : len(prompt)] = torch.tensor(prompt)
    begin = torch.tensor([len(prompt) for prompt in prompts], device=device)
    source = torch.full((B, tokens), NOTHING, dtype=torch.int64, device=device)
    target_probs = torch.ones(B, tokens, dtype=torch.float64, device=device)
    return _Batch(text.to(device), begin, begin.clone(), torch.arange(B, device=device), source, target_probs)


def _shared(laws: Tensor, tokens: Tensor) -> Tensor:
    """The laws [A, K, V] after the tokens [A, K, i]; where drafts have the same tokens, the first one's law for all.

    A model computes rows of a batch with other roundings; the drafts of one text would then have more than one law.
    """
    K = tokens.shape[1]
    if K == 1:
        return laws
    same = (tokens[:, :, None] == tokens[:, None]).all(dim=-1)  # [A, K, K]
    first = same.int().argmax(dim=-1)
    return laws.gather(1, first[..., None].expand_as(laws))


def _places(batch: _Batch, emission: Emission) -> Tensor:
    """Where each token of the emissions would stand among the new ones of its text: int64 [A, L+1]."""
    start = batch.size[batch.active] - batch.begin[batch.active]
    return start[:, None] + torch.arange(emission.tokens.shape[1], device=start.device)


def _ends(emission: Emission, ends: tuple[int, ...]) -> Tensor:
    return torch.isin(emission.tokens, torch.tensor(ends, device=emission.tokens.device, dtype=torch.int64))


def _written(batch: _Batch, emission: Emission, tokens: int, ends: tuple[int, ...]) -> Tensor:
    """Which tokens of the emissions become part of their texts: bool [A, L+1]."""
    place, is_end = _places(batch, emission), _ends(emission, ends).int()
    emitted = torch.arange(place.shape[1], device=place.device) < emission.length[:, None]
    return emitted & (is_end.cumsum(dim=1) - is_end == 0) & (place < tokens)


def _seen(
    batch: _Batch, emission: Emission, along: Tensor, written: Tensor, plain: Tensor, draft_probs: Tensor
) -> SeenRound:
    row = torch.arange(len(along), device=along.device)
    place = _places(batch, emission)
    return SeenRound(batch.active, place, written, emission.tokens, plain[row, along], draft_probs[row, along])


def _write(
    batch: _Batch,
    emission: Emission,
    along: Tensor,
    written: Tensor,
    plain: Tensor,
    tokens: int,
    ends: tuple[int, ...],
    drafted: int,
) -> Tensor:
    """Write what was emitted, and tell which of the active texts are not finished: indices into them."""
    active = batch.active
    A, n = emission.tokens.shape
    position = torch.arange(n, device=active.device)
    row = torch.arange(A, device=active.device)
    place = _places(batch, emission)
    start = place[:, 0]
    accepted = emission.length[:, None] - 1
    extra = torch.where(accepted == drafted, BONUS, CORRECTION)
    source = torch.where(position < accepted, along[:, None], extra)
    probability = plain[row, along].gather(-1, emission.tokens.clamp(min=0)[..., None])[..., 0].to(torch.float64)
    texts = active[:, None].expand(-1, n)[written]
    batch.text[texts, (batch.begin[active][:, None] + place)[written]] = emission.tokens[written]
    batch.source[texts, place[written]] = source[written]
    batch.target_probs[texts, place[written]] = probability[written]
    count = written.sum(dim=1)
    batch.size[active] += count
    for record, value in ((batch.starts, start), (batch.accepted, emission.length - 1)):
        record.append(torch.full_like(batch.begin, NOTHING).index_copy(0, active, value))
    batch.drafted.append(drafted)
    return row[~(_ends(emission, ends) & written).any(dim=1) & (start + count < tokens)]


def _finished(batch: _Batch, prompts: Sequence[Sequence[int]], tokens: int) -> Texts:
    place = batch.begin[:, None] + torch.arange(tokens, device=batch.begin.device)
    new = batch.text.gather(1, place)
    written = place < batch.size[:, None]
    return Texts(
        [list(prompt) for prompt in prompts],
        torch.where(written, new, NOTHING),
        batch.source,
        batch.target_probs,
        torch.stack(batch.starts, dim=1),
        torch.stack(batch.accepted, dim=1),
        torch.tensor(batch.drafted),
    )
