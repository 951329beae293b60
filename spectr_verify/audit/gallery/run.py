"""The audit of the whole gallery: each fault up to its first counterexample, each control to the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spectr_verify.audit.gallery.fault import Fault
from spectr_verify.audit.gallery.register import CONTROLS, FAULTS
from spectr_verify.audit.instance import Instance
from spectr_verify.audit.progress import Progress
from spectr_verify.audit.search import audit
from spectr_verify.audit.verdict import Subject, Verdict, judge
from spectr_verify.errors import InputError
from spectr_verify.replay import Verifier, verifier
from spectr_verify.rules import Rule
from toy_models import TableModel, ToyPair, family_pairs

SEARCHED = 30
"""How many pairs are drawn for each function."""

NARROW = ToyPair(
    "narrow",
    TableModel.parse([[["2/3", "1/3"]], [["1/2", "1/2"], ["1/4", "3/4"]], [["1/2", "1/2"]] * 4]),
    TableModel.parse(
        [
            [["1/3", "2/3"]],
            [["4/5", "1/5"], ["3/5", "2/5"]],
            [["1/4", "3/4"], ["2/3", "1/3"], ["3/5", "2/5"], ["1/5", "4/5"]],
        ]
    ),
)
"""Two tokens, everything possible."""

FILTERED = ToyPair(
    "filtered",
    TableModel.parse([[["1/2", "1/2", "0"]], [["1/3", "2/3", "0"]] * 3]),
    TableModel.parse([[["0", "1", "0"]], [["3/4", "1/4", "0"]] * 3]),
)
"""As filters leave laws: token 2 is impossible under both models, and the target forbids what the draft may write."""

WIDE = ToyPair(
    "wide",
    TableModel.parse(
        [
            [["2/5", "1/2", "1/10"]],
            [["9/10", "1/20", "1/20"], ["1/6", "1/2", "1/3"], ["1/4", "1/4", "1/2"]],
            [["1/3", "1/3", "1/3"]] * 9,
        ]
    ),
    TableModel.parse(
        [
            [["1/10", "11/20", "7/20"]],
            [["1/10", "1/2", "2/5"], ["1/2", "1/3", "1/6"], ["2/3", "1/4", "1/12"]],
            [["1/2", "1/3", "1/6"], ["1/6", "1/2", "1/3"], ["1/3", "1/6", "1/2"]] * 3,
        ]
    ),
)
"""Three tokens: a residual keeps two of them, and keeps them at a small running weight too."""


@dataclass(frozen=True)
class GalleryRow:
    """What an audit made of one function of the gallery.

    Attributes:
        fault: the function's record.
        planted: whether it is a planted fault; else it is a control.
        counterexample: the first biased verdict, ``None`` if there was none.
        refusal: why there is no verdict, "" if there is one.
        seconds: time that it took.
        paths: runs of replayed code.
    """

    fault: Fault
    planted: bool
    counterexample: Verdict | None
    refusal: str
    seconds: float
    paths: int

    @property
    def caught(self) -> bool:
        """Whether a bias was found."""
        return self.counterexample is not None

    @property
    def right(self) -> bool:
        """Whether it was judged, and rightly."""
        return self.caught == self.planted and not self.refusal

    @property
    def word(self) -> str:
        """The verdict in a word."""
        if self.refusal:
            return "refused"
        if self.planted:
            return "caught" if self.caught else "missed"
        return "flagged" if self.caught else "cleared"

    @property
    def stage(self) -> str | None:
        """Where the bias shows first, as in "first token"."""
        return None if self.counterexample is None else self.counterexample.stage.name.lower().replace("_", " ")

    @property
    def evidence(self) -> str:
        """Where and how the bias was seen, or why there is no verdict; "" for what was cleared."""
        if self.counterexample is None:
            return self.refusal
        at = self.counterexample.instance
        return f"{at.pair.name}, V = {at.pair.vocab}, L = {at.length}: {self.counterexample.reasons[0]}"

    def to_json(self) -> dict[str, Any]:
        """One row of the schema ``spectr-verify/gallery/1``."""
        return {
            "name": self.fault.name,
            "says": self.fault.says,
            "calls": self.fault.calls,
            "link": self.fault.link,
            "planted": self.planted,
            "verdict": self.word,
            "right": self.right,
            "stage": self.stage,
            "evidence": self.evidence,
            "seconds": self.seconds,
            "paths": self.paths,
        }


def run_gallery(*, progress: Progress = lambda _: None, seed: int = 0, quick: bool = False) -> list[GalleryRow]:
    """Audit every fault, up to its first counterexample, and every control, on ``SEARCHED`` drawn pairs and the suite.

    Args:
        progress: called with a line before every function.
        seed: draws the pairs.
        quick: judge each on six small pairs instead.
    """
    records = [(fault, True) for fault in FAULTS] + [(control, False) for control in CONTROLS]
    rows = []
    for number, (record, planted) in enumerate(records):
        progress(f"{number + 1} of {len(records)}: {record.name}")
        rows.append(judge_record(record, planted=planted, seed=seed, quick=quick))
    return rows


def judge_record(record: Fault, *, planted: bool, seed: int = 0, quick: bool = False) -> GalleryRow:
    """Judge one function of the gallery; ``planted`` tells what is expected, the rest is as for ``run_gallery``."""
    started, subject = time.monotonic(), _subject(record)
    found, refusal = None, ""
    try:
        if quick:
            verdicts = (_judge(subject, where) for where in _instances(record, seed))
            found = next((verdict for verdict in verdicts if not verdict.lossless), None)
        else:
            report = audit(
                subject, length=record.length, drafts=record.drafts, seed=seed, max_examples=SEARCHED, shrink=False
            )
            found, refusal = report.counterexample, report.stopped or ""
    except InputError as error:
        refusal = str(error)
    paths = subject.budget.used if isinstance(subject, Verifier) else 0
    return GalleryRow(record, planted, found, refusal, time.monotonic() - started, paths)


def _subject(record: Fault) -> Subject:
    if isinstance(record.function, Rule):
        return record.function
    return verifier(
        record.function,
        record.calls,
        name=record.name,
        arguments=record.arguments,
        temperature=record.temperature,
    )


def _instances(record: Fault, seed: int) -> Iterator[Instance]:
    """Small ones first. Several drafts of two positions over three tokens are left out: they take thousands of runs."""
    drawn = family_pairs(seed, 3, 1)[0]
    sizes = [(NARROW, 1), (NARROW, 2), (FILTERED, 1), (WIDE, 1), (drawn, 1), (WIDE, 2)]
    for pair, length in sizes:
        if record.length in (None, length) and not (record.drafts > 1 and length > 1 and pair.vocab > 2):
            yield Instance(pair, length, record.drafts)


def _judge(subject: Subject, where: Instance) -> Verdict:
    """One round, with extreme uniforms too; of a stateful rule as many tokens as show that its targets nest."""
    stateful = subject.kind == "stateful"
    return judge(subject, where, tokens=where.length + 2 if stateful else None, edges=True)
