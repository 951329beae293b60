"""Optima as exact fractions, with certificates that a reader can check without this package."""

from spectr_verify.bounds.rational.certificate import SCHEMA, Certificate, certify
from spectr_verify.bounds.rational.program import MAX_FLOWS

__all__ = ["MAX_FLOWS", "SCHEMA", "Certificate", "certify"]
