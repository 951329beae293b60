"""Toy target/draft pairs: tables, families, recorded laws, and hypothesis strategies."""

from toy_models.tables import SUM_TOLERANCE, TableError, TableModel, ToyPair

__all__ = ["SUM_TOLERANCE", "TableError", "TableModel", "ToyPair"]
