"""Trains the pair: a vocabulary, a target on the text, a draft on the target's laws.

Everything random comes from the seed. The result is the same to the last bit for the same corpus, versions of torch and
tokenizers, kind of processor and number of threads; each of these changes it a little.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from toy_models.trained.corpus import Corpus

START = "<|endoftext|>"  # before every file; its id is 0
REPORTED = 100  # steps
SAMPLED_AT_ONCE = 32  # small caches are copied faster


@dataclass(frozen=True)
class Shape:
    """The size of one model of the Llama architecture, and the largest learning rate it is trained with."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    learning_rate: float


@dataclass(frozen=True)
class Recipe:
    """How a pair is trained. Batches have ``rows`` windows of ``context`` tokens.

    ``sampled_rows`` of a draft's batches are text that the target sampled itself, from a pool of ``pool`` windows whose
    first ``prompt`` tokens are of the corpus: the text that drafts are made for.
    """

    seed: int = 0
    target_steps: int = 3200
    draft_steps: int = 3200
    vocabulary: int = 1024
    context: int = 256
    rows: int = 4
    sampled_rows: int = 1
    pool: int = 192
    prompt: int = 64
    target: Shape = Shape(hidden=160, layers=5, heads=4, feed_forward=432, learning_rate=3e-3)
    draft: Shape = Shape(hidden=64, layers=2, heads=2, feed_forward=176, learning_rate=5e-3)


Batches = Callable[[], torch.Tensor]
Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]


def train(corpus: Corpus, recipe: Recipe, folder: Path) -> dict[str, float]:
    """Train a pair and write it to ``folder``/target and ``folder``/draft. Returns the seconds that each part took."""
    seconds: dict[str, float] = {}
    generator = torch.Generator().manual_seed(recipe.seed)
    with timed("vocabulary", seconds):
        tokenizer = learn_vocabulary(corpus.training, recipe.vocabulary)
        tokens = encode(tokenizer, corpus.training)
    with timed("target", seconds):
        save(train_target(tokens, recipe, generator), tokenizer, folder / "target")
    with timed("draft", seconds):
        target = AutoModelForCausalLM.from_pretrained(folder / "target")  # as it is shipped, rounded
        save(train_draft(target, tokens, recipe, generator), tokenizer, folder / "draft")
    return seconds


def train_target(tokens: torch.Tensor, recipe: Recipe, generator: torch.Generator) -> PreTrainedModel:
    """A model that predicts the text ``tokens`` [N]."""
    model = new_model(recipe.target, recipe, generator)
    batches = partial(windows, tokens, recipe.rows, recipe.context, generator)
    fit(model, batches, next_token_loss, recipe.target_steps, recipe.target.learning_rate, "target")
    return model


def train_draft(
    target: PreTrainedModel, tokens: torch.Tensor, recipe: Recipe, generator: torch.Generator
) -> PreTrainedModel:
    """A model whose laws are near those of ``target`` along the text ``tokens`` [N] and along its own text."""
    model = new_model(recipe.draft, recipe, generator)
    prompts = windows(tokens, recipe.pool, recipe.prompt, generator)
    pool = sample(target, prompts, recipe.context, generator)
    batches = partial(mixed, tokens, pool, recipe, generator)
    fit(model, batches, distillation_loss(target), recipe.draft_steps, recipe.draft.learning_rate, "draft")
    return model


@contextmanager
def timed(part: str, seconds: dict[str, float]) -> Iterator[None]:
    """Write the seconds that the inside takes to ``seconds``."""
    began = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - began


def learn_vocabulary(texts: Iterable[str], size: int) -> Tokenizer:
    """A byte-pair vocabulary over bytes, so that every text can be written with it and comes back as it was."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=[START], initial_alphabet=sorted(alphabet), show_progress=False
        ),
    )
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> torch.Tensor:
    """All texts in a row, int64 [N], a start token before each."""
    start = tokenizer.token_to_id(START)
    return torch.tensor([token for text in texts for token in (start, *tokenizer.encode(text).ids)])


def new_model(shape: Shape, recipe: Recipe, generator: torch.Generator) -> PreTrainedModel:
    """A model with random weights, which depend on ``generator`` alone."""
    config = LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=4 * recipe.context,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        architectures=["LlamaForCausalLM"],
    )
    with seeded(generator):
        return LlamaForCausalLM(config)


def windows(tokens: torch.Tensor, rows: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Stretches of ``tokens`` [N] at random places, int64 [rows, length]."""
    start = torch.randint(len(tokens) - length + 1, (rows, 1), generator=generator)
    return tokens[start + torch.arange(length)]


def mixed(tokens: torch.Tensor, pool: torch.Tensor, recipe: Recipe, generator: torch.Generator) -> torch.Tensor:
    """A draft's batch: text of the corpus, and text that the target sampled."""
    sampled = pool[torch.randint(len(pool), (recipe.sampled_rows,), generator=generator)]
    return torch.cat([windows(tokens, recipe.rows - recipe.sampled_rows, recipe.context, generator), sampled])


def sample(target: PreTrainedModel, prompts: torch.Tensor, length: int, generator: torch.Generator) -> torch.Tensor:
    """Continue ``prompts`` [N, n] at temperature 1 to int64 [N, length], over the ends of files too."""
    target.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
    with seeded(generator):
        texts = [
            target.generate(rows, attention_mask=torch.ones_like(rows), max_length=length)
            for rows in prompts.split(SAMPLED_AT_ONCE)
        ]
    return torch.cat(texts)


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Inside, torch's own generator, which transformers draws from, goes on from a number of ``generator``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


def next_token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Mean of -log q(next token), in nats a token."""
    logits = model(tokens, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def distillation_loss(target: nn.Module) -> Loss:
    """Mean of KL(target's law ‖ draft's law) over all positions, in nats."""

    def loss(draft: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            q = log_softmax(target(tokens, use_cache=False).logits, -1)
        p = log_softmax(draft(tokens, use_cache=False).logits, -1)
        return kl_div(p.flatten(0, 1), q.flatten(0, 1), reduction="batchmean", log_target=True)

    return loss


def fit(model: nn.Module, batches: Batches, loss: Loss, steps: int, learning_rate: float, name: str) -> None:
    """Minimise ``loss`` over ``batches`` with AdamW, a warm-up and a cosine; leaves the model ready for use."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_cosine(step, steps))
    began, recent = time.perf_counter(), 0.0
    for step in range(1, steps + 1):
        value = loss(model, batches())
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent += value.item()
        if step % REPORTED == 0:
            print(
                f"{name} step {step} of {steps}: loss {recent / REPORTED:.3f}, {time.perf_counter() - began:.0f} s",
                flush=True,
            )
            recent = 0.0
    model.eval()


def warm_cosine(step: int, steps: int) -> float:
    """The learning rate's share of its peak: up over the first twentieth of the steps, then down a cosine to 2%."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 0.02 + 0.98 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))) / 2


def save(model: PreTrainedModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a model with its vocabulary. Weights are stored in half precision and load in single precision."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    # The output layer is the embedding: stored once.
    weights = {name: value.half() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))
    # Written by hand: transformers would name a class that only its newer versions have.
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": START,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
