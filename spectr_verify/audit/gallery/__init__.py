"""The gallery: acceptance code with one planted fault each, and the same code without.

An audit that has never found anything proves nothing, so this is what it is tried on: every fault must be caught,
and no control flagged. Most are slips that serving engines have really made; where one was reported, the record has
the link.
"""

from __future__ import annotations

from spectr_verify.audit.gallery import (
    acceptance,
    block,
    controls,
    correction,
    drafting,
    randomness,
    requests,
    several_drafts,
)
from spectr_verify.audit.gallery.fault import Calls, Fault
from spectr_verify.audit.gallery.run import GalleryRow, run_rows
from spectr_verify.audit.progress import Progress

FAULTS: tuple[Fault, ...] = (
    *drafting.FAULTS,
    *acceptance.FAULTS,
    *correction.FAULTS,
    *randomness.FAULTS,
    *block.FAULTS,
    *several_drafts.FAULTS,
    *requests.FAULTS,
)
"""The planted faults, file by file."""

CONTROLS: tuple[Fault, ...] = controls.CONTROLS
"""The same code without a fault: an audit must not flag it."""


def run_gallery(*, progress: Progress = lambda _: None, seed: int = 0) -> list[GalleryRow]:
    """Audit every fault, up to its first counterexample, and every control.

    Args:
        progress: called with a line before every function.
        seed: draws one of the pairs that they are judged on.
    """
    return run_rows(FAULTS, CONTROLS, progress, seed)


__all__ = ["CONTROLS", "FAULTS", "Calls", "Fault", "GalleryRow", "run_gallery"]
