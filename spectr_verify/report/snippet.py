"""A biased verdict on replayed code as a plain Python file that shows the same by drawing texts."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

from toy_models import TableModel

if TYPE_CHECKING:  # these bring torch, and listing the rules must not wait for it
    from spectr_verify.audit import Verdict, WrongText
    from spectr_verify.replay import Verifier

TEXTS = 5_000
"""How many texts the file draws."""

EXTREME_TEXTS = 200
"""How many where every uniform is at an extreme value."""


def snippet(verdict: Verdict, verifier: Verifier, wrong: WrongText | None) -> str | None:
    """The file: it imports the function, calls it on the counterexample again and again, and counts the wrong text.

    Where the fault shows at an extreme uniform only, torch.rand is made to return that value. ``None`` where the fault
    is an error at an extreme uniform, or shows only in a later round of a function that is handed its drafts.
    """
    edge = verdict.edge
    if edge is not None and edge.tokens:
        text, produced, due = edge.tokens[: edge.position + 1], "more than 0", "0"
    elif wrong is not None:
        text, produced, due = wrong.tokens, f"{wrong.produced:.6g}", f"{wrong.target:.6g}"
    else:
        text, produced, due = (), "", ""
    late = verifier.calls == "probabilities" and len(text) > verdict.instance.length + 1
    if late or (edge is not None and not edge.tokens):
        return None
    if verifier.calls == "probabilities":
        body = _probabilities(verdict, verifier)
    else:
        body = _step(verdict, verifier, len(text))
    drawn = _draw_texts(TEXTS if edge is None else EXTREME_TEXTS)
    parts = [
        _imports(verifier),
        f"L, K, V = {verdict.instance.length}, {verdict.instance.drafts}, {verdict.instance.pair.vocab}",
        f"temperature = {verifier.temperature!r}" if verifier.calls == "step" else "",
        body,
        _extreme(edge.edge) if edge is not None else "",
        drawn,
        _count(text, produced, due) if text else _mean(verdict),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _imports(verifier: Verifier) -> str:
    source, _, attribute = verifier.name.rpartition(":")
    head, dot, inner = attribute.partition(".")
    if source.endswith(".py"):
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
        "draft_logits": "draft_probs.log()",
        "target_logits": "target_probs.log()",
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


        def draw(model, text):
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
    return dedent(
        f"""\
        extreme = {value!r}  # what torch draws about once in 2^24 times


        def rand(*size, generator=None, **form):
            return torch.full(size if not size or isinstance(size[0], int) else size[0], extreme, **form)


        torch.rand = rand
        torch.rand_like = lambda like, **form: torch.full_like(like, extreme, **form)
        torch.Tensor.uniform_ = lambda tensor, low=0.0, high=1.0, **_: tensor.fill_(low + (high - low) * extreme)
        """
    )


def _draw_texts(count: int) -> str:
    return dedent(
        f"""\
        torch.manual_seed(0)
        accepted = []
        texts = [one_text() for _ in range({count})]"""
    )


def _count(text: tuple[int, ...], produced: str, due: str) -> str:
    return dedent(
        f"""\
        share = sum(text[:{len(text)}] == {list(text)} for text in texts) / len(texts)
        print(f"{{share:.4f}} of the texts begin with {list(text)}; exactly {produced}, by the target {due}")"""
    )


def _mean(verdict: Verdict) -> str:
    exactly = f"{verdict.round.expected_accepted:.6g}"
    return f'print(f"it accepts {{sum(accepted) / len(accepted):.4f}} tokens a round; exactly {exactly}")'
