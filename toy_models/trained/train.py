"""``python -m toy_models.trained.train``: trains a pair, measures it, and writes both with their model card."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from toy_models.trained.corpus import standard_library

PACKAGES = {"torch", "tokenizers", "transformers", "safetensors"}


def main(arguments: list[str] | None = None) -> None:
    """Train with the options of the command line. Exits with a message where a package or the sources are missing."""
    try:
        import torch

        from toy_models.trained.card import write_card
        from toy_models.trained.training import Recipe, train
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        sys.exit(f'training needs the package {error.name}; install it: pip install "spectr-verify[transformers]"')

    preset = {field.name: field.default for field in fields(Recipe)}
    parser = argparse.ArgumentParser(prog="python -m toy_models.trained.train", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--out", type=Path, default=Path("trained-pair"), help="folder to write to (%(default)s)")
    for name in ("seed", "target_steps", "draft_steps"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=preset[name], help="default: %(default)s")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # sums depend on the number of threads
    try:
        corpus = standard_library()
    except FileNotFoundError as error:
        sys.exit(str(error))
    recipe = Recipe(seed=options.seed, target_steps=options.target_steps, draft_steps=options.draft_steps)
    write_card(corpus, recipe, train(corpus, recipe, options.out), options.out)
    print(f"written to {options.out}: target, draft, MODEL_CARD.md, card.json")


if __name__ == "__main__":
    main()
