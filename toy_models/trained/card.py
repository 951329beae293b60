"""The model card: what was trained on what, and what was measured of it, as JSON and as a page that is made of it."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from toy_models.trained import trained_pair
from toy_models.trained.corpus import Corpus
from toy_models.trained.measure import measure, spread_windows
from toy_models.trained.training import Recipe, encode, sample

ROLES = ("target", "draft")
MEASURED_WINDOWS = 256
EXCERPT_CHARACTERS = 2000


def write_card(corpus: Corpus, recipe: Recipe, seconds: dict[str, float], folder: Path) -> None:
    """Measure the pair in ``folder`` and write ``card.json`` and ``MODEL_CARD.md`` beside it."""
    card = describe(corpus, recipe, seconds, folder)
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(page(card), encoding="utf-8")


def describe(corpus: Corpus, recipe: Recipe, seconds: dict[str, float], folder: Path) -> dict[str, Any]:
    """All that the card says. Everything but ``seconds`` is the same when the training is repeated."""
    target, draft = (AutoModelForCausalLM.from_pretrained(model) for model in trained_pair(folder))
    tokenizer = Tokenizer.from_file(str(folder / "target" / "tokenizer.json"))
    held_out = encode(tokenizer, corpus.held_out)
    real = spread_windows(held_out, MEASURED_WINDOWS, recipe.context)
    sampled = sample(target, real[::4, : recipe.prompt], recipe.context, torch.Generator().manual_seed(recipe.seed))
    excerpt = corpus.held_out[0][:EXCERPT_CHARACTERS]
    return {
        "recipe": asdict(recipe),
        "corpus": {
            "sha256": corpus.sha256,
            "training_files": len(corpus.training),
            "training_tokens": len(encode(tokenizer, corpus.training)),
            "held_out_files": len(corpus.held_out),
            "held_out_tokens": len(held_out),
            "held_out_characters_a_token": sum(map(len, corpus.held_out)) / len(held_out),
        },
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("torch", "tokenizers", "transformers")},
        "parameters": {"target": target.num_parameters(), "draft": draft.num_parameters()},
        "seconds": {part: round(spent) for part, spent in seconds.items()},
        "held_out": asdict(measure(target, draft, real)),
        "sampled": asdict(measure(target, draft, sampled, first=recipe.prompt)),
        "excerpt": {"text": excerpt, **asdict(measure(target, draft, encode(tokenizer, [excerpt])[None]))},
    }


def page(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    recipe, corpus, real, sampled = card["recipe"], card["corpus"], card["held_out"], card["sampled"]
    packages = ", ".join(f"{package} {version}" for package, version in card["versions"].items())
    peaks = " and ".join(str(recipe[role]["learning_rate"]) for role in ROLES)
    models = "\n".join(_model_row(card, role) for role in ROLES)
    return f"""# A target and its draft, trained on Python's standard library

Two small language models of the Llama architecture with one byte-level vocabulary of {recipe["vocabulary"]:,}
tokens, for experiments with speculative decoding on laws that were learned. They write text that looks like
Python, and are of no other use. Weights are stored in half precision and load in single precision. The training script
wrote this page and `card.json`.

| model | parameters | layers | width | steps | training took | perplexity of a token, held out |
|---|---|---|---|---|---|---|
{models}

| at temperature 1 | overlap Σ min(p, q) | positions |
|---|---|---|
| held-out tokens | {real["overlap"]:.4f} | {real["positions"]:,} |
| sampled by the target after {recipe["prompt"]} of them | {sampled["overlap"]:.4f} | {sampled["positions"]:,} |

Overlaps and perplexities are means over the positions of windows of {recipe["context"]} tokens. A window is read from
its first token on, as in training: longer texts can be read, but less well. A held-out token has
{corpus["held_out_characters_a_token"]:.2f} characters on average.

## How they were made

- **Text**: the standard library's sources without tests and tables. To train on: {corpus["training_files"]} files,
  {corpus["training_tokens"]:,} tokens. Held out, by the hash of their names: {corpus["held_out_files"]} files,
  {corpus["held_out_tokens"]:,} tokens. SHA-256 of all names and texts:
  `{corpus["sha256"]}`.
- **Target**: next-token loss on {recipe["rows"]} windows of {recipe["context"]} tokens a step.
- **Draft**: KL divergence from the target's whole law at every position, on as many windows, of which
  {recipe["sampled_rows"]} in {recipe["rows"]} is text that the target sampled (a pool of {recipe["pool"]} windows).
- AdamW, warm-up and cosine, peak learning rates {peaks}.
- Seed {recipe["seed"]}, one thread. Versions: {packages}.

To train it again:

```sh
pip install "spectr-verify[transformers]"
python -m toy_models.trained.train --seed {recipe["seed"]} \\
    --target-steps {recipe["target_steps"]} --draft-steps {recipe["draft_steps"]} --out trained-pair
```

With the same sources, versions and kind of processor the weights are the same to the last bit. Another version of
Python has other sources; another version of torch and another processor sum in another order. Each gives another pair.

The standard library is © Python Software Foundation and under the PSF License.
"""


def _model_row(card: dict[str, Any], role: str) -> str:
    recipe = card["recipe"]
    cells = (
        role,
        f"{card['parameters'][role]:,}",
        recipe[role]["layers"],
        recipe[role]["hidden"],
        f"{recipe[f'{role}_steps']:,}",
        f"{card['seconds'][role] / 60:.0f} min",
        f"{card['held_out'][f'{role}_perplexity']:.2f}",
    )
    return f"| {' | '.join(map(str, cells))} |"
