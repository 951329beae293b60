"""The package ``transformers``: its assisted generation whole, and the acceptance rule inside it.

``generate`` computes in float32 whatever the models' format, so its laws are right to about 1e-7 and no better.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from spectr_verify.errors import InputError

try:
    from transformers import GenerationConfig
    from transformers.generation import utils
    from transformers.utils import logging
except ImportError as error:
    raise ImportError(
        f"spectr_verify.adapters.transformers needs the package transformers, which cannot be imported ({error}); "
        'install it: pip install -c constraints.txt ".[transformers]"'
    ) from error


def generate(
    draft_model: Any,
    target_model: Any,
    input_ids: Tensor,
    *,
    num_assistant_tokens: int,
    max_new_tokens: int | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """``target_model.generate(input_ids, assistant_model=draft_model)``, sampled, to be called as a *step*.

    Every round drafts the same number of tokens, fewer only at the end, and rounds follow until there are enough new
    tokens. No token ends the text, and nothing but the temperature changes a law.

    Args:
        draft_model, target_model: causal language models of ``transformers``. The draft model's
            ``generation_config`` is replaced, as that is where the package looks for the length of the drafts.
        input_ids: int64 [1, n].
        num_assistant_tokens: L, tokens a draft.
        max_new_tokens: how many tokens to add; L + 1 unless told, which is one round where the draft is accepted.
        temperature: of both models; 0 takes the likeliest token instead of sampling.

    Returns:
        int64 [1, n + max_new_tokens].
    """
    config = _config(num_assistant_tokens, max_new_tokens or num_assistant_tokens + 1, temperature)
    draft_model.generation_config = config
    with _without_warnings():
        longer: Tensor = target_model.generate(
            input_ids,
            attention_mask=torch.ones_like(input_ids),
            generation_config=config,
            assistant_model=draft_model,
        )
    return longer


def speculative_sampling(draft_tokens: Tensor, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
    """``transformers.generation.utils._speculative_sampling``, to be called with *probabilities*.

    Args:
        draft_tokens: int64 [L], one draft.
        draft_probs: [L, V], the law that each of its tokens was drawn from.
        target_probs: [L+1, V].

    Returns:
        int64 [n], the accepted prefix and one more token.

    Raises:
        InputError: there is more than one draft; the package knows of one.
    """
    if draft_tokens.ndim != 1:
        raise InputError(
            f"transformers verifies one draft a round; draft_tokens has shape {list(draft_tokens.shape)}, not [L]: "
            "audit it with --drafts 1"
        )
    valid_tokens, _ = utils._speculative_sampling(
        draft_tokens[None], draft_probs.log()[None], len(draft_tokens), target_probs.log()[None], **_older_arguments()
    )
    tokens: Tensor = valid_tokens[0]
    return tokens


@lru_cache
def _config(num_assistant_tokens: int, max_new_tokens: int, temperature: float) -> GenerationConfig:
    """Everything that could end a text or a draft early, or change a law, is off; building it takes long."""
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {}
    return GenerationConfig(
        num_assistant_tokens=num_assistant_tokens,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
        max_new_tokens=max_new_tokens,
        **sampling,
    )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """The package's own call of the draft model makes it warn, some versions in every round."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@lru_cache
def _older_arguments() -> dict[str, bool]:
    """Older versions also ask whether the draft ended the text."""
    asks = "is_done_candidate" in inspect.signature(utils._speculative_sampling).parameters
    return {"is_done_candidate": False} if asks else {}
