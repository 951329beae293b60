"""Arguments as they are typed: read, evaluated, refused."""

from __future__ import annotations

import pytest
import torch

from spectr_verify.replay.arguments import ArgumentError, Arguments, check_call


def test_expressions_are_evaluated_over_the_names() -> None:
    arguments = Arguments.parse(
        ["gamma=L", "temperature=0.7", "sizes = torch.tensor([L, K])", "mode='fast'", "eq=L==2"]
    )
    found = arguments.values({"L": 2, "K": 3, "torch": torch})
    assert found["sizes"].tolist() == [2, 3]
    assert {name: value for name, value in found.items() if name != "sizes"} == {
        "gamma": 2,
        "temperature": 0.7,
        "mode": "fast",
        "eq": True,
    }


def test_comprehensions_see_the_names_too() -> None:
    arguments = Arguments({"rows": "[draft_tokens[i] for i in range(L)]", "f": "lambda: K"})
    assert arguments.use("draft_tokens")
    assert arguments.use("K")
    found = arguments.values({"draft_tokens": [5, 6], "L": 2, "K": 3})
    assert found["rows"] == [5, 6]
    assert found["f"]() == 3


def test_what_the_expressions_use_is_known() -> None:
    arguments = Arguments({"laws": "draft_probs[None]", "gamma": "L + 1"})
    assert arguments.use("draft_probs")
    assert arguments.use("K", "L")
    assert not arguments.use("K", "target_probs")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["gamma"], "'gamma' has no value"),
        (["gamma="], "has no value"),
        (["gam ma=1"], "is not a name"),
        (["gamma=1", "gamma=2"], "given twice"),
        (["gamma=1 +"], "is not a Python expression: SyntaxError"),
        (["gamma=x = 1"], "is not a Python expression"),
        (["gamma=\0"], "is not a Python expression"),
    ],
)
def test_unreadable_options_are_refused(options: list[str], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Arguments.parse(options)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("fast", r"mode=fast fails: NameError.*it may use L, K \(a text is written in quotes\)"),
        ("1 / 0", "mode=1 / 0 fails: ZeroDivisionError"),
        ("L[3]", "mode=L.3. fails: TypeError"),
    ],
)
def test_a_failing_expression_is_refused(expression: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Arguments({"mode": expression}).values({"L": 1, "K": 1})


def test_a_call_that_the_signature_does_not_take_is_refused() -> None:
    def verify(draft_tokens: object, gamma: object) -> None: ...

    check_call(verify, "verify", ["draft_tokens"], {"gamma": "L"})
    with pytest.raises(ArgumentError, match=r"verify\(.*gamma.*cannot be called as \(draft_tokens\).*'gamma'.*--arg"):
        check_call(verify, "verify", ["draft_tokens"], {})
    with pytest.raises(ArgumentError, match=r"cannot be called as \(draft_tokens, gamma=.., beta=..\)"):
        check_call(verify, "verify", ["draft_tokens"], {"gamma": "L", "beta": "1"})


def test_a_function_that_does_not_tell_its_signature_is_called_as_it_is() -> None:
    check_call(type, "type", ["a", "b"], {"c": "1"})
