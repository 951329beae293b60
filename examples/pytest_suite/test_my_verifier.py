"""The properties that every correct verifier has, tested on this one in three lines."""

from my_engine import verify

from spectr_verify.testing import property_suite

TestVerify = property_suite(verify, calls="probabilities")
