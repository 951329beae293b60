"""The recorded pairs are laws, of the size stated, and those of the file."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np

from toy_models import recorded_pairs


def test_twelve_pairs_of_four_tokens_and_blocks_of_three() -> None:
    pairs = recorded_pairs()
    assert len({pair.name for pair in pairs}) == len(pairs) == 12
    assert {(pair.vocab, pair.length, pair.max_length, pair.drafts) for pair in pairs} == {(4, 3, 3, None)}


def test_every_row_is_a_law() -> None:
    for pair in recorded_pairs():
        for model in (pair.draft, pair.target):
            for level in model.levels:
                assert level.min() >= 0
                np.testing.assert_allclose(level.sum(axis=-1), 1, rtol=0, atol=1e-15)


def test_laws_are_the_recorded_numbers_to_their_seven_decimals() -> None:
    text = resources.files("toy_models").joinpath("data", "recorded_pairs.json").read_text(encoding="utf-8")
    for pair, written in zip(recorded_pairs(), json.loads(text)["pairs"], strict=True):
        assert pair.name == written["name"]
        for role, model in (("draft", pair.draft), ("target", pair.target)):
            for level, rows in zip(model.levels, written[role], strict=True):
                np.testing.assert_allclose(level, rows, rtol=0, atol=1.01e-7)


def test_draft_and_target_differ_in_every_pair() -> None:
    assert all(np.abs(pair.draft.joint(3) - pair.target.joint(3)).sum() > 0.01 for pair in recorded_pairs())
