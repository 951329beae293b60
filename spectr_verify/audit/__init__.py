"""Verdicts on rules: one pair, a suite of pairs, a search for the smallest counterexample, a paper's claims."""

from spectr_verify.audit.claims import Finding, judge_claims
from spectr_verify.audit.comparison import compare
from spectr_verify.audit.instance import Instance, builtin_suite
from spectr_verify.audit.search import AuditReport, audit
from spectr_verify.audit.verdict import TOLERANCE, Verdict, WrongText, judge, wrong_text

__all__ = [
    "TOLERANCE",
    "AuditReport",
    "Finding",
    "Instance",
    "Verdict",
    "WrongText",
    "audit",
    "builtin_suite",
    "compare",
    "judge",
    "judge_claims",
    "wrong_text",
]
