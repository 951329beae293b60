"""Exact laws: enumerate what a rule does, compare with the target."""
