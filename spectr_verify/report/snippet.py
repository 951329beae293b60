"""A biased verdict on replayed code as a plain Python file that shows the same by drawing texts."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING

from toy_models import TableModel

if TYPE_CHECKING:  # these bring torch, and listing the rules must not wait for it
    from spectr_verify.audit import Verdict, WrongText
    from spectr_verify.replay import Verifier

TEXTS = 5_000
"""How many texts the file draws at least."""

MOST_TEXTS = 200_000
"""How many at most: a bias that is too small to see in them is said to be."""

EXTREME_TEXTS = 1_000
"""How many where uniforms are at an extreme value now and then."""


LOGITS_FUNCTION = """\
def logits(laws):  # log-probabilities, to each law another constant added
    return laws.log() + 1.5 + (laws * torch.arange(V)).sum(dim=-1, keepdim=True).cos()


"""


def snippet(verdict: Verdict, verifier: Verifier, wrong: WrongText | None) -> str | None:
    """The file: it imports the function, calls it on the counterexample again and again, and counts the wrong text.

    Where the fault shows at an extreme uniform only, the generators are made to return that value now and then.
    ``None`` where the fault is an error at an extreme uniform, or shows only in a later round of a function that is
    handed its drafts.
    """
    edge = verdict.edge
    if edge is not None and edge.tokens:
        text, by_laws = edge.tokens[: edge.position + 1], "by the target 0"
    elif wrong is not None:
        text, by_laws = wrong.tokens, f"exactly {wrong.produced:.6g}, by the target {wrong.target:.6g}"
    else:
        text, by_laws = (), ""
    late = verifier.calls == "probabilities" and len(text) > verdict.instance.length + 1
    if late or (edge is not None and not edge.tokens):
        return None
    if verifier.calls == "probabilities":
        body = _probabilities(verdict, verifier)
    else:
        body = _step(verdict, verifier, len(text))
    enough = TEXTS if wrong is None or not wrong.produced - wrong.target else _enough(wrong)
    drawn = _draw_texts(min(enough, MOST_TEXTS) if edge is None else EXTREME_TEXTS)
    if enough > MOST_TEXTS:
        by_laws += f"; it takes about {enough:.0e} texts to see that"
    parts = [
        "" if edge is None else _extreme(edge.edge) + "\n",
        _imports(verifier),
        f"L, K, V = {verdict.instance.length}, {verdict.instance.drafts}, {verdict.instance.pair.vocab}",
        f"temperature = {verifier.temperature!r}" if verifier.calls == "step" else "",
        body,
        drawn,
        _count(text, by_laws) if text else _mean(verdict),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _enough(wrong: WrongText) -> int:
    """How many texts show the wrong probability at five standard deviations."""
    gap, p = wrong.produced - wrong.target, wrong.produced
    return max(TEXTS, int(25 * max(p * (1 - p), wrong.target * (1 - wrong.target)) / gap**2))


def _imports(verifier: Verifier) -> str:
    source, _, attribute = verifier.name.rpartition(":")
    head, dot, inner = attribute.partition(".")
    if source.endswith(".py"):
        source = str(Path(source).resolve())
        return f'import runpy\n\nimport torch\n\nverify = runpy.run_path({source!r})["{head}"]{dot}{inner}'
    named = f"import {head}\n\nverify = {attribute}" if dot else f"import {head} as verify\n"
    return f"import torch\n\nfrom {source} {named}"


def _probabilities(verdict: Verdict, verifier: Verifier) -> str:
    from spectr_verify.replay.probabilities import INPUTS, LOGITS

    pair = verdict.instance.pair
    arguments = verifier.arguments
    positional = [] if arguments.use(*INPUTS, *LOGITS) else list(INPUTS)
    call = ", ".join([*positional, *(f"{name}={expression}" for name, expression in arguments.expressions.items())])
    logs = {
        "draft_logits": "logits(draft_probs)",
        "target_logits": "logits(target_probs)",
        "draft_logprobs": "draft_probs.log()",
        "target_logprobs": "target_probs.log()",
    }
    used = "".join(f"    {name} = {value}\n" for name, value in logs.items() if arguments.use(name))
    squeeze = "" if verdict.instance.drafts > 1 else "[0]"
    return dedent(
        """\
        # Next-token laws after every text of 0, 1, .. tokens, in lexicographic order.
        draft = {draft}
        target = {target}


        def law(model, text):
            row = 0
            for token in text:
                row = row * V + token
            return torch.tensor(model[len(text)][row], dtype=torch.{dtype})


        {logits}def draw(model, text):
            return text + [int(torch.multinomial(law(model, text), 1))]


        def along(model, texts, positions):
            return torch.stack([torch.stack([law(model, text[:i]) for i in range(positions)]) for text in texts])


        def one_text():
            drafts = []
            for _ in range(K):
                drafts.append([])
                for _ in range(L):
                    drafts[-1] = draw(draft, drafts[-1])
            draft_tokens = torch.tensor(drafts){squeeze}
            draft_probs = along(draft, drafts, L){squeeze}
            target_probs = along(target, drafts, L + 1){squeeze}
        {logs}    result = verify({call})
            result = result[0] if isinstance(result, tuple) else result
            text = [token for token in torch.as_tensor(result).flatten().tolist() if token >= 0]
            accepted.append(len(text) - 1)
            while len(text) <= L:
                text = draw(target, text)
            return text

        """
    ).format(
        draft=_levels(pair.draft, verdict.instance.length),
        target=_levels(pair.target, verdict.instance.length + 1),
        dtype=str(verdict.dtype).removeprefix("torch."),
        squeeze=squeeze,
        logs=used,
        logits=LOGITS_FUNCTION if "logits(" in used else "",
        call=call,
    )


def _step(verdict: Verdict, verifier: Verifier, tokens: int) -> str:
    pair = verdict.instance.pair
    extra = "".join(f", {name}={expression}" for name, expression in verifier.arguments.expressions.items())
    return dedent(
        """\
        # Toy language models with the laws of the counterexample, called as Hugging Face ones.
        from spectr_verify.replay import toy_lm
        from spectr_verify.replay.step import tempered
        from toy_models import TableModel

        dtype = torch.{dtype}
        draft = TableModel.parse({draft})
        target = TableModel.parse({target})
        models = toy_lm(draft, dtype=dtype), toy_lm(target, dtype=dtype)


        def one_text():
            result = verify(*models, torch.tensor([[0]]){extra})  # 0 is the start-of-text token
            ids = result[0] if isinstance(result, tuple) else result
            text = torch.as_tensor(ids).flatten().tolist()[1:]
            accepted.append(len(text) - 1)
            while len(text) < {tokens}:
        {more}
            return text

        """
    ).format(
        dtype=str(verdict.dtype).removeprefix("torch."),
        draft=pair.draft.to_json(),
        target=pair.target.to_json(),
        extra=extra,
        tokens=tokens,
        more=indent(_more(verdict, extra), " " * 8),
    )


def _more(verdict: Verdict, extra: str) -> str:
    """One more call where later rounds are wrong; else the target goes on by itself."""
    if verdict.text is None or verdict.round.tv_round > verdict.tolerance:
        return "text.append(int(torch.multinomial(torch.tensor(tempered(target, temperature).law(text)), 1)))"
    return dedent(
        f"""\
        result = verify(*models, torch.tensor([[0, *text]]){extra})
        ids = result[0] if isinstance(result, tuple) else result
        text = torch.as_tensor(ids).flatten().tolist()[1:]"""
    )


def _levels(model: TableModel, depth: int) -> str:
    rows = [[", ".join(map(str, row)) for row in level] for level in model.to_json()[:depth]]
    levels = ["[" + ", ".join(f"[{row}]" for row in level) + "]" for level in rows]
    return "[\n    " + ",\n    ".join(levels) + ",\n]"


def _extreme(value: float) -> str:
    """Comes before the import of the function, which may keep the generators by name."""
    return dedent(
        f"""\
        import random

        import numpy as np
        import torch

        extreme = {value!r}  # generators draw it about once in 2^24 times (float32); here once in four
        coins = np.random.default_rng(0)


        def now_and_then(draw):
            def drawn(*size, **form):
                numbers = draw(*size, **form)
                if isinstance(numbers, float):
                    return extreme if coins.random() < 0.25 else numbers
                chosen = coins.random(tuple(numbers.shape)) < 0.25
                numbers[torch.from_numpy(chosen) if isinstance(numbers, torch.Tensor) else chosen] = extreme
                return numbers

            return drawn


        for owner, names in (
            (torch, ["rand", "rand_like"]),
            (torch.Tensor, ["uniform_"]),
            (random, ["random"]),
            (np.random, ["rand", "random", "random_sample"]),
        ):
            for name in names:
                setattr(owner, name, now_and_then(getattr(owner, name)))
        """
    )


def _draw_texts(count: int) -> str:
    return dedent(
        f"""\
        torch.manual_seed(0)
        accepted = []
        texts = [one_text() for _ in range({count})]"""
    )


def _count(text: tuple[int, ...], by_laws: str) -> str:
    return dedent(
        f"""\
        share = sum(text[:{len(text)}] == {list(text)} for text in texts) / len(texts)
        print(f"{{share:.4f}} of the texts begin with {list(text)}; {by_laws}")"""
    )


def _mean(verdict: Verdict) -> str:
    exactly = f"{verdict.round.expected_accepted:.6g}"
    return f'print(f"it accepts {{sum(accepted) / len(accepted):.4f}} tokens a round; exactly {exactly}")'
