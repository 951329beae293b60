"""A biased verdict on replayed code as a plain Python file that shows the same by drawing texts."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

from toy_models import TableModel

if TYPE_CHECKING:  # these bring torch, and listing the rules must not wait for it
    from spectr_verify.audit import Verdict, WrongText
    from spectr_verify.replay import Verifier

TEXTS = 20_000
"""How many texts the file draws."""


def snippet(verdict: Verdict, verifier: Verifier, wrong: WrongText | None) -> str:
    """The file: it imports the function, calls it on the counterexample again and again, and counts the wrong text.

    Where the fault shows at an extreme uniform only, torch.rand is made to return that value.
    """
    edge = verdict.edge
    if edge is not None and edge.tokens:
        text, produced, due = edge.tokens[: edge.position + 1], "more than 0", "0"
    elif wrong is not None:
        text, produced, due = wrong.tokens, f"{wrong.produced:.6g}", f"{wrong.target:.6g}"
    else:
        text, produced, due = (), "", ""
    body = _probabilities(verdict, verifier) if verifier.calls == "probabilities" else _step(verdict, verifier)
    parts = [
        _imports(verifier),
        f"L, K, V = {verdict.instance.length}, {verdict.instance.drafts}, {verdict.instance.pair.vocab}",
        f"temperature = {verifier.temperature!r}" if verifier.calls == "step" else "",
        body,
        _extreme(edge.edge) if edge is not None else "",
        _count(text, produced, due) if text else _mean(verdict),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _imports(verifier: Verifier) -> str:
    source, _, attribute = verifier.name.rpartition(":")
    if source.endswith(".py"):
        load = f'import runpy\n\nimport torch\n\nverify = runpy.run_path({source!r})["{attribute}"]'
        return load
    head, _, inner = attribute.partition(".")
    name = f"{head}.{inner}" if inner else head
    return f"import torch\n\nfrom {source} import {head}\n\nverify = {name}"


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


        def one_text():
            drafts = []
            for _ in range(K):
                drafts.append([])
                for _ in range(L):
                    drafts[-1] = draw(draft, drafts[-1])
            draft_tokens = torch.tensor(drafts){squeeze}
            draft_probs = torch.stack([torch.stack([law(draft, x[:i]) for i in range(L)]) for x in drafts]){squeeze}
            target_probs = torch.stack([torch.stack([law(target, x[:i]) for i in range(L + 1)]) for x in drafts]){squeeze}
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


def _step(verdict: Verdict, verifier: Verifier) -> str:
    pair = verdict.instance.pair
    extra = "".join(f", {name}={expression}" for name, expression in verifier.arguments.expressions.items())
    least = len(verdict.text.target) if verdict.text is not None else len(verdict.round.target)
    tokens = next(n for n in range(1, 64) if pair.vocab**n >= least)
    # One call writes the round; the text of several rounds needs as many calls as it takes.
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
    if verdict.text is not None and verdict.round.tv_round <= verdict.tolerance:
        return f"result = verify(*models, torch.tensor([[0, *text]]){extra})\nids = result[0] if isinstance(result, tuple) else result\ntext = torch.as_tensor(ids).flatten().tolist()[1:]"
    return "text.append(int(torch.multinomial(torch.tensor(tempered(target, temperature).law(text)), 1)))"


def _levels(model: TableModel, depth: int) -> str:
    rows = [[", ".join(map(str, row)) for row in level] for level in model.to_json()[:depth]]
    levels = ["[" + ", ".join(f"[{row}]" for row in level) + "]" for level in rows]
    return "[\n    " + ",\n    ".join(levels) + ",\n]"


def _extreme(value: float) -> str:
    return dedent(
        f"""\
        def rand(*size, **form):  # what torch.rand returns about once in 2^24 draws
            size = size[0] if size and not isinstance(size[0], int) else size
            form.pop("generator", None)
            return torch.full(size, {value!r}, **form)


        torch.rand = rand
        """
    )


def _count(text: tuple[int, ...], produced: str, due: str) -> str:
    return dedent(
        f"""\
        torch.manual_seed(0)
        accepted = []
        texts = [one_text() for _ in range({TEXTS})]
        share = sum(text[:{len(text)}] == {list(text)} for text in texts) / len(texts)
        print(f"{{share:.4f}} of the texts begin with {list(text)}; by the exact law {produced}, by the target {due}")"""
    )


def _mean(verdict: Verdict) -> str:
    return dedent(
        f"""\
        torch.manual_seed(0)
        accepted = []
        texts = [one_text() for _ in range({TEXTS})]
        print(f"it accepts {{sum(accepted) / len(accepted):.4f}} tokens a round; exactly {verdict.round.expected_accepted:.6g}")"""
    )
