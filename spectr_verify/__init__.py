"""Exact laws, bounds and audits of acceptance rules for speculative decoding."""

__version__ = "0.1.0"
