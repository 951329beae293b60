"""The prompt sets: as many as stated, different from each other, and readable by what will read them."""

from __future__ import annotations

import ast
import subprocess
import sys
import unicodedata
from collections import Counter
from importlib import resources

import pytest

from toy_models import TableError
from toy_models.prompts import prompt_sets, prompts
from toy_models.trained import trained_pair

SIZES = {"code": 40, "arithmetic": 24, "multilingual": 24, "news": 24, "instructions": 24}
SCRIPTS = {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "CJK", "HIRAGANA", "HANGUL"}
ALL = [text for name in prompt_sets() for text in prompts(name)]


@pytest.fixture(scope="module")
def tokenizer() -> object:
    """The one shipped with the trained pair, on text alone: no model is loaded."""
    return pytest.importorskip("tokenizers").Tokenizer.from_file(str(trained_pair().target / "tokenizer.json"))


def test_every_file_is_a_set_of_the_size_stated() -> None:
    files = {path.name for path in resources.files("toy_models.prompts").iterdir() if path.name.endswith(".txt")}
    assert files == {f"{name}.txt" for name in prompt_sets()}
    assert {name: len(prompts(name)) for name in prompt_sets()} == SIZES


def test_code_is_first_because_it_is_what_the_trained_pair_knows() -> None:
    assert prompt_sets()[0] == "code"


def test_no_prompt_comes_twice() -> None:
    assert [text for text, count in Counter(ALL).items() if count > 1] == []


def test_no_prompt_begins_or_ends_with_whitespace_or_has_it_at_the_end_of_a_line() -> None:
    for text in ALL:
        assert text
        assert "\t" not in text
        assert [line for line in text.splitlines() if line != line.rstrip()] == []
        assert text == text.strip()


def test_no_separator_is_left_in_a_prompt() -> None:
    assert [text for text in ALL if "---" in text.splitlines()] == []


def test_text_is_composed_and_printable() -> None:
    for text in ALL:
        assert unicodedata.is_normalized("NFC", text)
        assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["Code", "", "../trained/card", "code.txt"])
def test_an_unknown_set_is_answered_with_the_names_there_are(name: str) -> None:
    with pytest.raises(TableError, match="take one of code, arithmetic, multilingual, news, instructions") as refused:
        prompts(name)
    assert repr(name) in str(refused.value)


# Code


def completed(prompt: str) -> ast.Module:
    """The prompt as a module, with ``pass`` for a block that is open at its end."""
    last = prompt.splitlines()[-1]
    indent = len(last) - len(last.lstrip())
    return ast.parse(prompt + "\n" + " " * (indent + 4) + "pass" if last.endswith(":") else prompt)


def functions(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("prompt", prompts("code"), ids=lambda prompt: prompt.partition("(")[0])
def test_code_parses_and_has_a_function_with_a_docstring(prompt: str) -> None:
    assert ast.get_docstring(functions(completed(prompt))[0])


def test_code_ends_in_docstrings_and_in_bodies_and_names_no_function_twice() -> None:
    outermost = [functions(completed(prompt))[0].name for prompt in prompts("code")]
    assert len(set(outermost)) == len(outermost)
    in_docstring = sum(prompt.endswith('"""') for prompt in prompts("code"))
    assert 10 <= in_docstring <= len(outermost) - 10


def test_code_is_ten_to_sixty_tokens_long(tokenizer: object) -> None:
    lengths = [len(tokenizer.encode(text).ids) for text in prompts("code")]
    assert min(lengths) >= 10
    assert max(lengths) <= 60


# Languages


def scripts(text: str) -> set[str]:
    """The first words of the letters' names, as LATIN."""
    return {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}


def test_multilingual_prompts_are_in_many_scripts() -> None:
    found = Counter(script for text in prompts("multilingual") for script in scripts(text))
    assert found.keys() == SCRIPTS
    assert sum("LATIN" not in scripts(text) for text in prompts("multilingual")) >= 10


def test_the_other_sets_are_in_plain_english() -> None:
    assert all(text.isascii() for name in prompt_sets() if name != "multilingual" for text in prompts(name))


# For the models


@pytest.mark.parametrize("name", prompt_sets())
def test_every_prompt_is_one_to_two_hundred_tokens_and_comes_back(tokenizer: object, name: str) -> None:
    for text in prompts(name):
        tokens = tokenizer.encode(text).ids
        assert 1 <= len(tokens) <= 200
        assert tokenizer.decode(tokens) == text


def test_prompts_are_read_without_importing_a_model() -> None:
    program = (
        "import sys; from toy_models.prompts import prompt_sets, prompts; "
        "print(*map(len, map(prompts, prompt_sets()))); "
        "print([m for m in ('torch', 'transformers', 'spectr_verify') if m in sys.modules])"
    )
    where = trained_pair().target.parent.parent.parent  # of the package that this process imported
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=where)
    assert done.stdout.splitlines() == [" ".join(map(str, SIZES.values())), "[]"]
