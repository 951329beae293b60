"""A target and a draft model that share a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from spectr_verify.decoding.reader import Reader, check_reading
from spectr_verify.decoding.source import ModelError, TextReader
from spectr_verify.errors import said
from toy_models.trained import trained_pair

DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "bfloat16", "float16")}
"""Number formats that models can run in."""

UNLIMITED = 1 << 30
"""The limit of models that state none."""

SMOLLM2 = "smollm2"
"""The name of the pair that the extra of this name brings."""


@dataclass(frozen=True, eq=False)
class ModelPair:
    """A target and a draft model in the form of Hugging Face's ``PreTrainedModel``, and their tokenizer.

    Attributes:
        target, draft: causal language models with a cache, in evaluation mode, on one device.
        tokenizer: of both.
        vocab: V, the tokens that both know; what else their embeddings hold is padding, and has no probability.
        names: what reports call the target and the draft.
    """

    target: Any
    draft: Any
    tokenizer: Any
    vocab: int
    names: tuple[str, str]

    @property
    def device(self) -> torch.device:
        """Where both are."""
        return torch.device(self.target.device)

    @property
    def limit(self) -> int:
        """The longest text that both can read, in tokens."""
        return min(_limit(model.config.get_text_config()) for model in (self.target, self.draft))

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        end = self.target.config.eos_token_id
        ends = end if isinstance(end, list | tuple) else [end]
        return tuple(int(token) for token in ends if token is not None and token < self.vocab)

    def readers(self, rows: int) -> tuple[TextReader, TextReader]:
        """Readers of the target and of the draft, which have read nothing yet of ``rows`` texts.

        Raises:
            ModelError: a model takes no cache.
        """
        target, draft = (
            Reader(model, self.vocab, rows, name)
            for model, name in zip((self.target, self.draft), self.names, strict=True)
        )
        return target, draft

    def encode(self, prompts: list[str] | tuple[str, ...]) -> list[list[int]]:
        """Token ids of each prompt, after the start of text where the tokenizer has one and does not write it itself.

        Raises:
            ModelError: a prompt is empty.
        """
        start = self.tokenizer.bos_token_id
        found = []
        for number, prompt in enumerate(prompts):
            ids = [int(token) for token in self.tokenizer(prompt)["input_ids"]]
            if not prompt or not ids:
                raise ModelError(f"prompt {number} is empty; a text needs something to go on from")
            found.append(ids if start is None or ids[0] == start else [int(start), *ids])
        return found

    def pieces(self, tokens: list[int]) -> list[str]:
        """What each token adds to the text; together they are the text, though a character may need several tokens."""
        texts = [self.tokenizer.decode(tokens[:end]) for end in range(len(tokens) + 1)]
        shown = [text.rstrip("\ufffd") for text in texts[:-1]] + [texts[-1]]
        return [after[len(before) :] for before, after in pairwise(shown)]


def load_pair(
    target: str | None = None, draft: str | None = None, *, dtype: str = "float32", device: str = "cpu"
) -> ModelPair:
    """Load a pair of models.

    Args:
        target, draft: folders or names that Hugging Face's ``from_pretrained`` takes; ``None`` for both is the pair
            that is shipped with the package, and "smollm2" for the target alone the pair of the extra of this name.
        dtype: number format of both, one of ``DTYPES``.
        device: where both go, as torch names it.

    Raises:
        ModelError: a model cannot be loaded, they have no common vocabulary, or there is no such device.
    """
    if dtype not in DTYPES:
        raise ModelError(f"the number format is {dtype!r}; it must be one of {', '.join(DTYPES)}")
    place = _device(device)
    _transformers()
    if target == SMOLLM2 and draft is None:
        from spectr_verify.adapters.smollm2 import smollm2_pair

        large, small, tokenizer = smollm2_pair(DTYPES[dtype])
        return pair_of(large.to(place), small.to(place), tokenizer, names=(SMOLLM2, f"{SMOLLM2}-draft"))
    if (target is None) != (draft is None):
        missing = "draft" if draft is None else "target"
        raise ModelError(f"the {missing} model is not named; name both models, or neither for the pair shipped with us")
    shipped = trained_pair()
    folders = (str(shipped.target), str(shipped.draft)) if target is None or draft is None else (target, draft)
    for folder in folders:
        _check_there(folder)
    tokenizer = _tokenizer(folders[0])
    _check_same_vocabulary(tokenizer, _tokenizer(folders[1]), folders)
    large, small = (_model(folder, dtype, place) for folder in folders)
    names = ("trained target", "trained draft") if target is None else folders
    pair = pair_of(large, small, tokenizer, names=names)
    for model, name in zip((large, small), names, strict=True):
        check_reading(model, pair.vocab, pair.limit, name)
    return pair


def pair_of(target: Any, draft: Any, tokenizer: Any, *, names: tuple[str, str] = ("target", "draft")) -> ModelPair:
    """A pair from models that are loaded already.

    Args:
        target, draft: models that answer as Hugging Face's causal language models do.
        tokenizer: of both; its length is the number of tokens that they share.
        names: what reports call them.

    Raises:
        ModelError: an embedding is smaller than the vocabulary, a model is no causal language model, or they are on
            different devices.
    """
    vocab = len(tokenizer)
    for model, name in zip((target, draft), names, strict=True):
        if getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(f"{name} is an encoder-decoder model; a target and a draft are causal language models")
        size = model.config.get_text_config().vocab_size
        if size < vocab:
            raise ModelError(f"{name} has {size:,} tokens and the tokenizer {vocab:,}; it cannot say all of them")
        model.eval()
    if target.device != draft.device:
        raise ModelError(f"{names[0]} is on {target.device} and {names[1]} on {draft.device}; they must be together")
    return ModelPair(target, draft, tokenizer, vocab, names)


def _limit(config: Any) -> int:
    """Positions of a model; the original ones where the positions of longer texts are computed otherwise.

    A cache would hold keys of the short kind when a text grows long.
    """
    found = [getattr(config, "max_position_embeddings", None)]
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) in ("longrope", "dynamic"):
        found += [
            rope.get("original_max_position_embeddings"),
            getattr(config, "original_max_position_embeddings", None),
        ]
    return min((int(each) for each in found if each is not None and each > 0), default=UNLIMITED)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # which torch's "meta", a device without numbers, cannot do
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise ModelError(f"there is no device {name!r} here: {said(error).splitlines()[0]}") from error
    return device


def _check_there(name: str) -> None:
    """Refuse a mistyped folder at once, where ``from_pretrained`` would look for it on the network."""
    path = Path(name)
    means_a_folder = (
        name.startswith((".", "/", "~")) or len(path.parts) > 2 or (len(path.parts) > 1 and path.parent.is_dir())
    )
    if means_a_folder and not path.is_dir():
        raise ModelError(f"there is no folder {name}; a model is a folder, or a name ORG/MODEL of Hugging Face")


def _model(folder: str, dtype: str, device: torch.device) -> Any:
    transformers = _transformers()
    from safetensors import SafetensorError

    try:
        model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[dtype], output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:  # from_pretrained raises them all
        raise ModelError(f"no model can be loaded from {folder}: {said(error)}") from error
    if loaded["missing_keys"]:
        missing = sorted(loaded["missing_keys"])
        raise ModelError(f"{folder} has no weights for {missing[0]} ({len(missing)} in all); they would be random")
    return model.to(device)


def _tokenizer(folder: str) -> Any:
    try:
        return _transformers().AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, RuntimeError, KeyError) as error:  # from_pretrained raises all of these
        where = folder if Path(folder).is_dir() else f"{folder}, which is no folder here and was asked of Hugging Face"
        raise ModelError(f"no tokenizer can be loaded from {where}: {said(error)}") from error


def _check_same_vocabulary(target: Any, draft: Any, names: tuple[str, str]) -> None:
    ours, theirs = target.get_vocab(), draft.get_vocab()
    different = [token for token in {**ours, **theirs} if ours.get(token) != theirs.get(token)]
    if different:
        token = min(different, key=lambda each: (min(ours.get(each, len(ours)), theirs.get(each, len(theirs))), each))
        one, other = (f"the number {words[token]}" if token in words else "no number" for words in (ours, theirs))
        raise ModelError(
            f"{names[0]} and {names[1]} have different vocabularies (tokens that differ: {len(different):,}): "
            f"{token!r} has {one} in the one and {other} in the other; a draft model must share the target's tokenizer"
        )


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ModelError(
            f"real models need the package transformers, which cannot be imported ({said(error)}); install it: "
            'pip install -c constraints.txt ".[transformers]" in the folder of spectr-verify'
        ) from error
    transformers.utils.logging.disable_progress_bar()
    return transformers
