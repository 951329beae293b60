"""Rules found by name, by module and by file, and what is said when there is none."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from textwrap import dedent

import pytest

from spectr_verify.errors import InputError
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES, Rule, RuleError
from spectr_verify.rules.load import load_rule
from toy_models import family_pairs

MINE = """
    from dataclasses import dataclass, replace
    from spectr_verify.rules import RULES, Rule
    from spectr_verify.rules.block_race import block_race
    from spectr_verify.rules.greedy_block import greedy_block, modified_target

    def race(round, chance):
        return block_race(round, chance)

    def _private(round, chance):
        return block_race(round, chance)

    stateful = Rule("mine", greedy_block, kind="stateful", modified_target=modified_target, max_drafts=1)

    @dataclass(frozen=True)
    class Family:
        drafts: int = 2

        def verify(self, round, chance):
            return block_race(round.first_drafts(self.drafts), chance)

        def __call__(self, round, chance):
            return self.verify(round, chance)

    class namespace:
        inner = Family()
        rule = stateful

    callable_object = Family(1)
    number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    # Without what other tests loaded: the order of tests must not matter.
    kept = {name: module for name, module in sys.modules.items() if not name.startswith("_spectr_verify_user_")}
    monkeypatch.setattr(sys, "modules", kept)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def law_of(rule: Rule) -> list[list[float]]:
    """What tells the rules apart: the law of their emissions."""
    return [law.round(12).tolist() for law in round_law(rule, family_pairs(0, 2, 2)[0], 2, 2).emissions]


def test_the_rules_used_here_differ() -> None:
    laws = [law_of(RULES[name]) for name in ("block", "block-race", "greedy-block", "typical")]
    assert all(one != other for one, other in combinations(laws, 2))


@pytest.mark.parametrize("name", list(RULES))
def test_a_registered_rule_is_found_by_its_name(name: str) -> None:
    assert load_rule(name) is RULES[name]


@pytest.mark.parametrize("spec", ["mine.py:race", "./mine.py:race", "mine:race", "{folder}/mine.py:race"])
def test_a_function_becomes_a_stateless_rule_of_any_number_of_drafts(folder: Path, spec: str) -> None:
    write(folder / "mine.py", MINE)
    spec = spec.format(folder=folder)
    rule = load_rule(spec)
    assert (rule.name, rule.kind, rule.max_drafts, rule.lossless) == (spec, "stateless", None, None)
    assert law_of(rule) == law_of(RULES["block-race"])


@pytest.mark.parametrize("spec", ["package.inside.mine:race", "package/inside/mine.py:race"])
def test_modules_in_packages_of_the_working_folder(folder: Path, spec: str) -> None:
    write(folder / "package/__init__.py", "")
    write(folder / "package/inside/__init__.py", "")
    write(folder / "package/inside/mine.py", MINE)
    assert law_of(load_rule(spec)) == law_of(RULES["block-race"])


def test_a_module_of_a_package_may_import_relatively(folder: Path) -> None:
    write(folder / "package/__init__.py", "")
    write(folder / "package/parts.py", "from spectr_verify.rules.block_race import block_race as part")
    write(folder / "package/mine.py", "from .parts import part as race")
    assert law_of(load_rule("package.mine:race")) == law_of(RULES["block-race"])


def test_an_installed_module_is_found() -> None:
    assert load_rule("spectr_verify.rules.block_race:block_race").name == "spectr_verify.rules.block_race:block_race"


def test_a_rule_object_is_taken_as_it_is(folder: Path) -> None:
    write(folder / "mine.py", MINE)
    rule = load_rule("mine.py:stateful")
    assert (rule.name, rule.kind, rule.max_drafts) == ("mine.py:stateful", "stateful", 1)
    assert law_of(rule) == law_of(RULES["greedy-block"])


@pytest.mark.parametrize("attribute", ["namespace.inner.verify", "namespace.inner", "callable_object", "_private"])
def test_anything_that_can_be_called_is_a_rule(folder: Path, attribute: str) -> None:
    write(folder / "mine.py", MINE)
    rule = load_rule(f"mine.py:{attribute}")
    expected = RULES["block"] if attribute == "callable_object" else RULES["block-race"]
    assert law_of(rule) == law_of(expected)


def test_an_attribute_of_an_attribute_may_be_a_rule_object(folder: Path) -> None:
    write(folder / "mine.py", MINE)
    assert load_rule("mine:namespace.rule").kind == "stateful"


@pytest.mark.parametrize("spec", ["one.py:rule", "package/one.py:rule", "package.one:rule"])
def test_a_file_may_import_what_lies_in_the_working_folder(folder: Path, spec: str) -> None:
    write(folder / "beside.py", "from spectr_verify.rules.block import block as rule")
    write(folder / "package/__init__.py", "")
    for path in ("one.py", "package/one.py"):
        write(folder / path, "from beside import rule")
    assert law_of(load_rule(spec)) == law_of(RULES["block"])


def test_a_file_may_import_what_lies_beside_it(folder: Path) -> None:
    write(folder / "far/away/parts_of_it.py", "from spectr_verify.rules.block import block as rule")
    write(folder / "far/away/one.py", "from parts_of_it import rule")
    assert law_of(load_rule("far/away/one.py:rule")) == law_of(RULES["block"])


def test_files_of_one_name_in_two_folders_are_two_modules(folder: Path) -> None:
    write(folder / "a/mine.py", "from spectr_verify.rules.block import block as rule\nclass Here: pass")
    write(folder / "b/mine.py", "from spectr_verify.rules.typical import typical as rule\nclass Here: pass")
    one, other = load_rule("a/mine.py:rule"), load_rule("b/mine.py:rule")
    assert law_of(one) == law_of(RULES["block"])
    assert law_of(other) == law_of(RULES["typical"])
    loaded = [module for name, module in sys.modules.items() if name.startswith("_spectr_verify_user_")]
    assert {Path(str(module.__file__)).parent.name for module in loaded} == {"a", "b"}


def test_a_file_is_no_module_of_the_same_name(folder: Path) -> None:
    write(folder / "json.py", "from spectr_verify.rules.block import block as rule")
    before = sys.modules["json"]
    assert load_rule("json.py:rule").kind == "stateless"
    assert sys.modules["json"] is before


def test_a_file_changed_since_is_read_again(folder: Path) -> None:
    write(folder / "mine.py", "from spectr_verify.rules.block import block as rule")
    assert law_of(load_rule("mine.py:rule")) == law_of(RULES["block"])
    write(folder / "mine.py", "from spectr_verify.rules.typical import typical as rule  # longer")
    assert law_of(load_rule("mine.py:rule")) == law_of(RULES["typical"])


@pytest.mark.parametrize("spec", ["mine.py:race", "mine:race", "missing.py:race", "broken:race"])
def test_the_search_path_is_left_as_it_was(folder: Path, spec: str) -> None:
    write(folder / "mine.py", MINE)
    write(folder / "broken.py", "1 / 0")
    before = sys.path.copy()
    with suppress(RuleError):
        load_rule(spec)
    assert sys.path == before


def test_paths_that_the_file_itself_adds_stay(folder: Path) -> None:
    write(folder / "mine.py", f"import sys; sys.path.insert(0, {str(folder / 'lib')!r})\n" + dedent(MINE))
    load_rule("mine.py:race")
    assert sys.path[0] == str(folder / "lib")


# --- refusals -----------------------------------------------------------------------------------------------------


def refusal(spec: str) -> str:
    with pytest.raises(RuleError) as refused:
        load_rule(spec)
    assert isinstance(refused.value, InputError)
    return str(refused.value)


@pytest.mark.parametrize("spec", ["", "blok", "mine.py", "package.mine", ":", "mine:", ":race", "mine.py:", "::"])
def test_a_name_of_nothing_lists_what_there_is(folder: Path, spec: str) -> None:
    write(folder / "mine.py", MINE)
    message = refusal(spec)
    assert f"no rule is called {spec!r}" in message
    assert all(name in message for name in RULES)
    assert "module:function or file.py:function" in message


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("missing.py:race", "there is no file"),
        ("folder.py:race", "there is no file"),
        ("missing:race", "No module named 'missing'"),
        ("missing.deeper:race", "No module named 'missing'"),
        ("..relative:race", "TypeError"),
        ("divides.py:race", "ZeroDivisionError: division by zero"),
        ("divides:race", "ZeroDivisionError: division by zero"),
        ("syntax.py:race", r"SyntaxError: .*\(syntax.py, line 2\)"),
        ("syntax:race", r"SyntaxError: .*\(syntax.py, line 2\)"),
        ("imports.py:race", "No module named 'nothing_of_that_name'"),
        ("leaves.py:race", "SystemExit: 0"),
        ("leaves:race", "SystemExit: 0"),
        ("binary.py:race", "import"),
        ("half_stateful.py:race", "a stateful rule needs a modified_target"),
    ],
)
def test_what_cannot_be_imported_is_named_with_the_cause(folder: Path, spec: str, what: str) -> None:
    (folder / "folder.py").mkdir()
    write(folder / "divides.py", "race = 1 / 0")
    write(folder / "syntax.py", "\ndef race(:")
    write(folder / "imports.py", "import nothing_of_that_name")
    write(folder / "leaves.py", "import sys; sys.exit(0)")
    write(folder / "half_stateful.py", "from spectr_verify.rules import Rule\nrace = Rule('r', print, kind='stateful')")
    (folder / "binary.py").write_bytes(b"\x00\xff\xfe")
    message = refusal(spec)
    source = spec.partition(":race")[0]
    assert message.startswith(f"{spec}: importing {source} failed: ")
    assert re.search(what, message)
    assert not [name for name in sys.modules if name.startswith("_spectr_verify_user_")]


@pytest.mark.parametrize("spec", ["mine.py:missing", "mine:missing", "mine:namespace.missing", "mine:race..name"])
def test_a_missing_attribute_is_named_with_what_there_is(folder: Path, spec: str) -> None:
    write(folder / "mine.py", MINE)
    source, _, attribute = spec.partition(":")
    message = refusal(spec)
    assert f"{source} has no {attribute!r}; it has " in message
    assert "race, " in message
    assert "stateful" in message
    assert "block_race" not in message  # imported from elsewhere


def test_an_empty_module_says_that_it_is_empty(folder: Path) -> None:
    write(folder / "mine.py", "")
    assert "no function of its own" in refusal("mine.py:race")


@pytest.mark.parametrize(
    ("attribute", "what"), [("number", "of type int"), ("Family", "of type type"), ("namespace", "of type type")]
)
def test_what_cannot_be_a_rule_is_refused(folder: Path, attribute: str, what: str) -> None:
    write(folder / "mine.py", MINE)
    message = refusal(f"mine.py:{attribute}")
    assert f"{attribute!r} is {what};" in message
    assert "function (round, chance) or a Rule" in message


def test_a_lookup_that_raises_is_a_refusal(folder: Path) -> None:
    write(folder / "mine.py", "def __getattr__(name):\n    raise RuntimeError('not today')")
    assert "RuntimeError: not today" in refusal("mine.py:race")


# --- rules that contradict themselves -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"kind": "stateful"}, "a stateful rule needs a modified_target"),
        ({"modified_target": print}, "a stateless one must not have it"),
        ({"kind": "Stateful", "modified_target": print}, "kind is 'Stateful'; it must be 'stateless' or 'stateful'"),
        ({"kind": None}, "the kind is None"),
        ({"max_drafts": 0}, "max_drafts is 0; it must be"),
        ({"max_drafts": -1}, "max_drafts is -1"),
        ({"max_drafts": 1.5}, "max_drafts is 1.5"),
        ({"verify": None}, "verify is NoneType; it must be a function"),
    ],
)  # fmt: skip
def test_a_rule_that_contradicts_itself_is_refused(fields: dict, what: str) -> None:
    with pytest.raises(InputError, match=f"rule 'mine': .*{what}"):
        Rule(**{"name": "mine", "verify": print, **fields})
