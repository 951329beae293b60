"""A small pair of real language models, trained on Python's standard library and shipped with the package.

Both are in the format of Hugging Face (``AutoModelForCausalLM.from_pretrained``, ``AutoTokenizer.from_pretrained``)
and share one vocabulary. ``MODEL_CARD.md`` beside them has their sizes and what was measured;
``python -m toy_models.trained.train`` trains them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["TrainedPair", "trained_pair"]


class TrainedPair(NamedTuple):
    """The folders of two models: the large one that is right by definition, and the small one that drafts for it."""

    target: Path
    draft: Path


def trained_pair(folder: Path | None = None) -> TrainedPair:
    """The folders of the pair in ``folder``, the one shipped with the package where none is named.

    Raises:
        FileNotFoundError: a file of either model is missing.
    """
    folder = Path(__file__).parent if folder is None else folder
    pair = TrainedPair(folder / "target", folder / "draft")
    for model in pair:
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            if not (model / name).is_file():
                raise FileNotFoundError(
                    f"the trained pair has no {model / name}: install the package again, or train a pair with "
                    "python -m toy_models.trained.train"
                )
    return pair
