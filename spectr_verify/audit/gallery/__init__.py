"""The gallery: acceptance code with one planted fault each, and the same code without.

An audit that has never found anything proves nothing, so this is what it is tried on: every fault must be caught,
and no control flagged. Most are slips that serving engines have really made; where one was reported, the record has
the link.
"""

from spectr_verify.audit.gallery.fault import Calls, Fault
from spectr_verify.audit.gallery.register import CONTROLS, FAULTS
from spectr_verify.audit.gallery.run import GalleryRow, judge_record, run_gallery

__all__ = ["CONTROLS", "FAULTS", "Calls", "Fault", "GalleryRow", "judge_record", "run_gallery"]
