"""Decoding of real text with a target and a draft model, and any acceptance rule between them."""

from spectr_verify.decoding.filters import Filters
from spectr_verify.decoding.loop import BONUS, CORRECTION, Seconds, SeenRound, Texts, decode
from spectr_verify.decoding.models import DTYPES, ModelPair, load_pair
from spectr_verify.decoding.source import ModelError, Source, TextReader

__all__ = [
    "BONUS",
    "CORRECTION",
    "DTYPES",
    "Filters",
    "ModelError",
    "ModelPair",
    "Seconds",
    "SeenRound",
    "Source",
    "TextReader",
    "Texts",
    "decode",
    "load_pair",
]
