"""The register of the gallery."""

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
from spectr_verify.audit.gallery.fault import Fault

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
