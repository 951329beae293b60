"""Laws recorded from a pair of real language models, small enough to enumerate.

Next-token laws of SmolLM2-135M-Instruct (target, 30 layers) and of the same network cut after 28 layers (draft), after
six prompts at the temperatures 1.0 and 0.4. Every node of the tree keeps the three tokens of largest summed
probability; the fourth symbol is everything else, continued by its most likely token. So V = 4, and four levels
reach blocks of L = 3 tokens. The prompts and temperatures stand in ``data/recorded_pairs.json`` beside the laws.

Probabilities are rounded to seven decimals, the fourth being what the other three leave of 1. In one law (fact-T0.4,
target, level 2, row 8) that was -1e-07, a rounding error; the file has 0 there, and the law is divided by its sum.
"""

from __future__ import annotations

from importlib import resources

from toy_models.files import parse_pairs
from toy_models.tables import ToyPair

FILE = "recorded_pairs.json"


def recorded_pairs() -> list[ToyPair]:
    """The twelve recorded pairs, with ``length`` 3 and ``drafts`` left to the user. They have no exact fractions."""
    text = resources.files("toy_models").joinpath("data", FILE).read_text(encoding="utf-8")
    return parse_pairs(text, where=FILE, stem="recorded")
