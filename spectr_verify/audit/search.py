"""The audit of a rule: the built-in suite, then a search by Hypothesis for the smallest counterexample."""

from __future__ import annotations

import random
from dataclasses import dataclass

import hypothesis
import hypothesis.strategies as st
import torch

from spectr_verify.audit.diagnosis import diagnose
from spectr_verify.audit.instance import DRAFTS, LENGTH, Instance, builtin_suite
from spectr_verify.audit.progress import Progress
from spectr_verify.audit.verdict import Stage, Subject, Verdict, WrongText, judge, wrong_text
from spectr_verify.errors import InputError
from spectr_verify.exact import Limits
from spectr_verify.replay import BudgetError, Verifier
from toy_models import FAMILIES, ToyPair, strategies

EXAMPLES = {"round": 200, "probabilities": 100, "step": 40}
"""How many pairs Hypothesis draws by default, by how the function is called."""


LONGEST_SHOWN = 600
"""Most characters of a pair that a message shows."""


def calls(rule: Subject) -> str:
    """How the function under test is called."""
    return rule.calls if isinstance(rule, Verifier) else "round"


def small_pairs(length: int | None, drafts: int | None, *, replayed: bool = False) -> st.SearchStrategy[ToyPair]:
    """What Hypothesis draws from: small enough for hundreds of exact laws in seconds; L and K fixed if given.

    Some have three positions: what is carried along a draft may be wrong from the third on alone.

    Replayed code runs once a path, not once a batch of them, so its pairs are smaller.
    """

    def pairs(max_vocab: int, max_length: int, max_drafts: int) -> st.SearchStrategy[ToyPair]:
        return strategies.pairs(
            max_vocab=max_vocab,
            min_length=length or 1,
            max_length=length or max_length,
            min_drafts=drafts or 1,
            max_drafts=drafts or max_drafts,
        )

    if replayed:
        return pairs(2, 2, 1) | pairs(3, 1, 1)
    return pairs(3, 2, 2) | pairs(2, 2, 3) | pairs(4, 1, 2) | pairs(2, 3, 2)


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The outcome of an audit.

    Attributes:
        rule: what was audited.
        judged: how many different pairs a verdict was reached on.
        range: the sizes among them, in words.
        worst_error: largest total-variation error met.
        counterexample: a biased verdict, ``None`` if the rule was right everywhere.
        shrunk: whether that is the smallest one that Hypothesis could find.
        wrong: the text whose probability is wrong there.
        guess: the kind of fault, in one sentence, where it is one that is known.
        stopped: which bound ended the audit before its end, ``None`` if it came to its end.
        notes: what else was seen of replayed code.
        paths: how many runs of replayed code there were.
        tolerance: largest error that counted as rounding.
        seed: the seed of the search.
    """

    rule: Subject
    judged: int
    range: str
    worst_error: float
    counterexample: Verdict | None
    shrunk: bool
    wrong: WrongText | None
    guess: str | None
    stopped: str | None
    notes: tuple[str, ...]
    paths: int
    tolerance: float
    seed: int

    @property
    def lossless(self) -> bool:
        """Whether everything was judged and no fault was found."""
        return self.verdict == "lossless"

    @property
    def verdict(self) -> str:
        """ "lossless", "biased", or "undecided": no fault found before a bound was reached."""
        if self.counterexample is not None:
            return "biased"
        return "lossless" if self.stopped is None else "undecided"


class _Judge:
    """Judges instance after instance and remembers what it saw."""

    def __init__(
        self,
        rule: Subject,
        edges: bool,
        dtype: torch.dtype,
        tolerance: float | None,
        limits: Limits | None,
        progress: Progress,
    ) -> None:
        self.rule, self.edges, self.dtype, self.given, self.limits = rule, edges, dtype, tolerance, limits
        self.progress = progress
        self.stopped: str | None = None
        self.refusal: InputError | None = None
        self.tolerance = 0.0
        self.known: dict[tuple[str, int | None, bool], Verdict | None] = {}
        self.sizes: list[tuple[int, int, int]] = []
        self.worst_error = 0.0
        self.earliest: Verdict | None = None

    def __call__(self, where: Instance, tokens: int | None = None, *, edges: bool = False) -> Verdict | None:
        """Judge one round, and if asked the law of the first ``tokens`` tokens; ``None`` once a bound is reached."""
        # Hypothesis asks again about pairs that it drew, and must get the same answer, bound or no bound.
        asked = (where.as_json(), tokens, edges)
        if self.refusal is not None:
            raise self.refusal
        if asked not in self.known:
            self.known[asked] = self._judge(where, tokens, edges)
        return self.known[asked]

    def _judge(self, where: Instance, tokens: int | None, edges: bool) -> Verdict | None:
        if self.stopped is not None:
            return None
        try:
            verdict = judge(
                self.rule,
                where,
                tokens=tokens,
                edges=edges,
                dtype=self.dtype,
                tolerance=self.given,
                limits=self.limits,
            )
        except BudgetError as error:
            self.stopped = str(error)
            return None
        except InputError as error:  # no verdict: the pair is what it takes to see the same again
            self.refusal = type(error)(f"{error}\n  on the pair {_shown(where)}")
            raise self.refusal from error
        self.sizes.append((where.pair.vocab, where.length, where.drafts))
        self.worst_error = max(self.worst_error, verdict.worst_error)
        self.tolerance = max(self.tolerance, verdict.tolerance)
        if not verdict.lossless and (self.earliest is None or verdict.stage < self.earliest.stage):
            self.earliest = verdict
        return verdict

    @property
    def biased(self) -> list[Verdict]:
        """The biased verdicts."""
        return [verdict for verdict in self.known.values() if verdict is not None and not verdict.lossless]

    @property
    def judged(self) -> int:
        """How many different pairs a verdict was reached on."""
        return len({pair for (pair, _, _), verdict in self.known.items() if verdict is not None})

    @property
    def range(self) -> str:
        """The sizes of what was judged."""
        if not self.sizes:
            return "none"
        spans = [(min(sizes), max(sizes)) for sizes in zip(*self.sizes, strict=True)]
        names = zip("VLK", spans, strict=True)
        return ", ".join(f"{name} = {low}" if low == high else f"{name} {low} to {high}" for name, (low, high) in names)


def audit(
    rule: Subject,
    *,
    instances: list[Instance] | None = None,
    tokens: int | None = None,
    length: int | None = None,
    drafts: int | None = None,
    seed: int = 0,
    max_examples: int | None = None,
    edges: bool = True,
    shrink: bool = True,
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda _: None,
) -> AuditReport:
    """Look for a pair on which the rule is biased, and for the smallest such pair.

    ``max_examples`` pairs are drawn by Hypothesis, which shrinks a biased one: fewest tokens, shortest block, fewest
    drafts, smallest denominators. Then the built-in suite is judged. Every pair stands for its first round; for a
    stateful rule the drawn pairs also for L + 2 tokens of text, so that modified targets are used and nest. For code
    called "step" the drawn pairs of L = 1 stand for three tokens of text, and the suite is the families alone. Replayed
    code also gets the edge pass on the drawn pairs. It is given one draft unless ``drafts`` says otherwise.

    Args:
        rule: what to audit.
        instances: judge these and search no further, each over text that has a round after every context.
        tokens: with ``instances``: the length of that text instead.
        length, drafts: L and K of the drawn pairs and of the suite; by default 1 or 2 and 1 to 3, and 2 and 2.
        seed: of the search and of the families in the suite.
        max_examples: how many pairs Hypothesis draws; by default ``EXAMPLES``.
        edges: whether replayed code is also judged with uniforms at the extreme values of their generators.
        shrink: whether to look for the smallest counterexample; else the audit ends at the first one.
        dtype, tolerance, limits: as ``judge``.
        progress: called with a line before every step that takes a while.

    Raises:
        InputError: no verdict; the message names the pair.
    """
    replayed = isinstance(rule, Verifier)
    look = _Judge(rule, edges and replayed, dtype, tolerance, limits, progress)
    drafts = drafts or (1 if replayed else None)
    shrunk = None
    if instances is None:
        count = max_examples or EXAMPLES[calls(rule)]
        drawn = small_pairs(length, drafts, replayed=replayed)
        shrunk = (_search if shrink else _first)(look, drawn, seed, count)
    suite = instances if instances is not None else _suite(rule, seed, length, drafts)
    for number, where in enumerate(suite):
        if look.earliest is not None and not shrink:
            break
        progress(f"pair {number + 1} of {len(suite)}: {where.pair.name}")
        if instances is None:
            look(where)
        else:
            look(where, tokens or where.tokens_of_every_round, edges=look.edges)
    biased = shrunk or look.earliest
    return AuditReport(
        rule,
        judged=look.judged,
        range=look.range,
        worst_error=look.worst_error,
        counterexample=biased,
        shrunk=shrink and shrunk is not None and look.stopped is None,
        wrong=None if biased is None else wrong_text(biased),
        guess=diagnose(look.biased),
        stopped=look.stopped,
        notes=tuple(rule.seen.notes) if isinstance(rule, Verifier) else (),
        paths=rule.budget.used if isinstance(rule, Verifier) else 0,
        tolerance=look.tolerance,
        seed=seed,
    )


def _suite(rule: Subject, seed: int, length: int | None, drafts: int | None) -> list[Instance]:
    suite = builtin_suite(seed, length=length or LENGTH, drafts=drafts or DRAFTS)
    return suite[: len(FAMILIES)] if calls(rule) == "step" else suite


def _shown(where: Instance) -> str:
    """The pair as ``--pairs`` takes it, or its name where that would fill the screen."""
    text = where.as_json()
    sizes = f"{where.pair.name!r} (V = {where.pair.vocab}, L = {where.length}, K = {where.drafts})"
    return text if len(text) < LONGEST_SHOWN else sizes


def _search(look: _Judge, pairs: st.SearchStrategy[ToyPair], seed: int, max_examples: int) -> Verdict | None:
    """Draw pairs; if any was biased, let Hypothesis find the smallest that is wrong as early in the text.

    A wrong first token is the plainest fault, so it is looked for first; when none turns up, the search is run again
    for the earliest fault that did.
    """
    shrunk = hypothesis.Phase.generate, hypothesis.Phase.shrink
    smallest = _drawn(look, pairs, Stage.FIRST_TOKEN, seed, max_examples, shrunk)
    if smallest is None and look.earliest is not None:
        smallest = _drawn(look, pairs, look.earliest.stage, seed, max_examples, shrunk)
    return smallest


def _first(look: _Judge, pairs: st.SearchStrategy[ToyPair], seed: int, max_examples: int) -> Verdict | None:
    """Draw pairs up to the first biased one."""
    return _drawn(look, pairs, Stage.EDGE_COINS, seed, max_examples, (hypothesis.Phase.generate,))


def _drawn(
    look: _Judge,
    pairs: st.SearchStrategy[ToyPair],
    stage: Stage,
    seed: int,
    max_examples: int,
    phases: tuple[hypothesis.Phase, ...],
) -> Verdict | None:
    """A drawn pair whose law is wrong at ``stage`` or earlier."""
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def verdict(pair: ToyPair) -> Verdict | None:
        where = Instance.of(pair)
        several = look.rule.kind == "stateful" or (calls(look.rule) == "step" and where.length == 1)
        look.progress(f"searching: pair {look.judged + 1}")
        return look(where, where.length + 2 if several else None, edges=look.edges)

    def wrong(pair: ToyPair) -> bool:
        found = verdict(pair)
        return found is not None and found.stage <= stage

    try:
        found = hypothesis.find(pairs, wrong, settings=settings, random=random.Random(seed))
    except hypothesis.errors.NoSuchExample:
        return None
    return verdict(found)
