"""Toy target/draft pairs: tables, families, recorded laws, JSON files.

Hypothesis strategies stand in ``toy_models.strategies``, imported only by those who test with Hypothesis.
"""

from toy_models.families import FAMILIES, family_pairs
from toy_models.files import pair_to_json, parse_pairs, read_pairs, write_pairs
from toy_models.recorded import recorded_pairs
from toy_models.tables import SUM_TOLERANCE, TableError, TableModel, ToyPair

__all__ = [
    "FAMILIES",
    "SUM_TOLERANCE",
    "TableError",
    "TableModel",
    "ToyPair",
    "family_pairs",
    "pair_to_json",
    "parse_pairs",
    "read_pairs",
    "recorded_pairs",
    "write_pairs",
]
