"""The pages of proofs/: what they name exists, and the numbers that they work out by hand are what the code gives."""

from __future__ import annotations

import ast
import json
import re
import runpy
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectr_verify.bounds.rational import certify
from spectr_verify.bounds.rational.program import Tree
from spectr_verify.bounds.rational.simplex import Program, float_basis, solve
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from toy_models import ToyPair, pair_to_json, read_pairs
from toy_models.strategies import pairs

ROOT = Path(__file__).parent.parent.parent
PROOFS = ROOT / "proofs"
PAGES = sorted(PROOFS.glob("*.md"))
THEOREMS = [page for page in PAGES if page.name != "README.md"]
EXACT = runpy.run_path(str(PROOFS / "exact_laws.py"))
law, Models = EXACT["law"], EXACT["Models"]
DEFINITIONS = "definitions that the statements use"
HALF = ["1/2", "1/2"]
SMALL = pairs(max_vocab=2, max_length=2, max_drafts=3) | pairs(max_vocab=3, max_length=1, max_drafts=3)

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def references(page: Path) -> Iterator[tuple[str, str | None]]:
    """Everything that a page names in backticks as ``path/to/file.ext`` or ``path/to/file.py::name``."""
    for path, name in re.findall(r"`((?:[\w.-]+/)+[\w.*-]+\.\w+)(?:::(\w+))?`", page.read_text()):
        yield path, name or None


def names_in(path: Path) -> set[str]:
    """What a Python module defines at its top, or what a Coq file defines and proves."""
    if path.suffix == ".v":
        return set(re.findall(r"^\s*(?:Theorem|Lemma|Definition|Fixpoint)\s+(\w+)", path.read_text(), re.MULTILINE))
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@by_name
def test_every_file_and_function_that_a_page_names_exists(page: Path) -> None:
    for path, name in references(page):
        assert list(ROOT.glob(path)), f"{page.name} names {path}, which does not exist"
        if name is not None:
            assert name in names_in(ROOT / path), f"{page.name} names {path}::{name}, which does not exist"


@by_name
def test_every_link_leads_to_a_page_and_every_test_of_a_map_exists(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PROOFS / target).exists(), f"{page.name} links to {target}"
    tests = set().union(*(names_in(path) for path in (ROOT / "tests").rglob("test_*.py")))
    for name in re.findall(r"`(test_\w+)`", text):
        assert name in tests, f"{page.name} names the test {name}"


@pytest.mark.parametrize("page", THEOREMS, ids=lambda page: page.stem)
def test_every_page_says_what_implements_it_what_tests_it_and_where_it_comes_from(page: Path) -> None:
    sections = re.findall(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)
    assert sections[-3:] == ["Code", "Tests", "Sources"]
    named = dict.fromkeys(path for path, name in references(page) if name)
    assert any(path.startswith("spectr_verify/") for path in named)
    assert any(path.startswith("tests/") for path in named)


@pytest.mark.parametrize("page", THEOREMS, ids=lambda page: page.stem)
def test_every_page_states_its_assumptions_before_its_first_proof(page: Path) -> None:
    statement, *_ = re.split(r"^(?:## |\*\*)Proof", page.read_text(), flags=re.MULTILINE)
    assert re.search(r"^\*\*Assumptions\.\*\* \w", statement, flags=re.MULTILINE)


def test_every_definition_that_a_statement_in_coq_rests_on_is_listed() -> None:
    read_whole = {"Laws.v", "Rules.v", "Uniform.v", "SpectrGbv.v"}
    bodies: dict[str, list[tuple[str, str]]] = {}
    words: set[str] = set()
    for file in (PROOFS / "coq").glob("*.v"):
        text = re.sub(r"\(\*.*?\*\)", "", file.read_text(), flags=re.S)
        for kind, name, body in re.findall(r"^ *(Definition|Fixpoint|Let) (\w+)(.*?)\.$", text, re.M | re.S):
            bodies.setdefault(name, []).append((file.name if kind != "Let" else "", body))
        for statement in re.findall(r"^ *(?:Theorem(.*?)Proof|Hypothesis(.*?))\.", text, re.M | re.S):
            words |= set(re.findall(r"\w+", " ".join(statement)))
    needed, seen = set(), set()
    while words:
        seen.add(word := words.pop())
        for file, body in bodies.get(word, []):
            needed |= {(file, word)} if file and file not in read_whole else set()
            words |= set(re.findall(r"\w+", body)) - seen
    rows = [re.findall(r"`([\w.]+)`", " ".join(row)) for row in table("coq/README.md", "file", DEFINITIONS)]
    listed = {(file, name) for file, *names in rows for name in names}
    assert listed - {("Means.v", "R_number"), ("Best.v", "rule")} == needed


def test_the_map_has_every_page() -> None:
    linked = set(re.findall(r"\]\((\w+\.md)\)", (PROOFS / "README.md").read_text()))
    assert linked == {page.name for page in THEOREMS}


def test_no_line_of_a_page_is_taken_for_a_quotation_or_a_heading() -> None:
    for page in PAGES:
        for line in page.read_text().splitlines():
            assert not re.match(r"\s{0,3}(>|=+\s*$)", line), f"{page.name}: {line}"


def table(page: str, *header: str) -> list[list[str]]:
    """The rows of the table with this header, cells as they are written."""
    lines = (PROOFS / page).read_text().splitlines()
    start = lines.index("| " + " | ".join(header) + " |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def last_fraction(cell: str) -> Fraction:
    """The number that a cell ends with."""
    return Fraction(cell.split("= ")[-1].replace(" ", ""))


def counterexamples() -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", (PROOFS / "spectr_gbv.md").read_text(), re.S)]


def models(pair: dict[str, Any], drafts: int | None = None) -> Any:
    length = pair["length"]
    tables = (EXACT["laws_of"](pair[role], length) for role in ("draft", "target"))
    return Models(*tables, length, drafts or pair["drafts"])


def test_the_counterexamples_of_spectr_gbv_are_what_the_code_gives() -> None:
    first, second = counterexamples()
    m = models(first)
    for row in table("spectr_gbv.md", "token", "P", "Q", "r", "C", "s", "h = C/s"):
        v = (int(row[0]),)
        claimed, shown = EXACT["claimed"](m, v), 1 - (1 - m.P(v)) ** 2
        assert [Fraction(cell) for cell in row[1:]] == [m.P(v), m.Q(v), m.r(v), claimed, shown, claimed / shown]
    *tuples, mean = table("spectr_gbv.md", "drafts", "token 0 is accepted, published", "released")
    for column, rule in ((1, "spectr_gbv_published"), (2, "spectr_gbv_released")):
        accepted = []
        for row in tuples:
            drafts = [(int(token),) for token in row[0].split(", ")]
            emitted = EXACT["RULES"][rule.replace("_", "-")](m, drafts)
            accepted.append(sum(mass for text, mass in emitted.items() if text[0] == 0))
            assert Fraction(row[column]) == accepted[-1], row
        found = law(rule.replace("_", "-"), first)
        assert Fraction(mean[column]) == sum(accepted) / 4 == found.begins((0,)) != m.Q((0,))
        floats = round_law(RULES[rule.replace("_", "-")], read_pairs(json.dumps(first))[0], 1, 2)
        assert floats.first_token[0] == pytest.approx(float(found.begins((0,))), abs=1e-12)
    released = law("spectr-gbv-released", second)
    assert released.begins((0,)) == 1
    assert released.begins((0, 0)) == Fraction(3, 4)
    assert law("spectr-gbv-published", second).begins((0, 0)) == Fraction(1, 2) == models(second).Q((0, 0))
    stated = " ".join((PROOFS / "spectr_gbv.md").read_text().split())
    for number in ("13/54 instead of 1/3", "49/162 instead of 1/3", "3/4 instead of 1/2"):
        assert number in stated


@pytest.mark.parametrize("K", range(2, 7))
def test_spectr_gbv_is_biased_for_more_drafts_by_what_its_page_says(K: int) -> None:
    pair, x = counterexamples()[0], Fraction(1, 2**K)
    h0, h1 = Fraction(1, 3) / (1 - x), Fraction(2, 3) * (1 - x**2) / (1 - x)
    assert law("spectr-gbv-published", pair, 1, K).begins((0,)) == Fraction(1, 3) - (Fraction(1, 2) - x) * h0 * h1
    a = (h0 + h1) / 2
    assert law("spectr-gbv-released", pair, 1, K).begins((0,)) == (1 - (1 - a) ** K) / (3 - 2 * x**2) < Fraction(1, 3)
    assert 1 - a == (1 - 2 * x + Fraction(2, 3) * x**2) / (2 * (1 - x)) > Fraction(1, 4)


def test_drafts_that_are_independent_given_the_target_agree_too_often() -> None:
    target, draft = [Fraction(1, 3), Fraction(2, 3)], [Fraction(1, 2)] * 2
    best = [min(q, p) for p, q in zip(draft, target, strict=True)]
    given_text = [[1, 0], [1 - best[1] / target[1], best[1] / target[1]]]  # law of a draft given Y = 0, Y = 1
    assert [sum(q * f[x] for q, f in zip(target, given_text, strict=True)) for x in (0, 1)] == draft
    both = [sum(q * f[x] ** 2 for q, f in zip(target, given_text, strict=True)) for x in (0, 1)]
    expected = [(both[0], draft[0] ** 2), (both[1], draft[1] ** 2), (sum(both), Fraction(1, 2))]
    rows = table("independence.md", "event", "given Y it has probability", "drafts of a round")
    assert [tuple(last_fraction(cell) for cell in row[1:]) for row in rows] == expected
    shown = 1 - (1 - draft[1]) ** 2  # what independent drafts show of token 1
    assert shown / target[1] == Fraction(9, 8) > 1 - (1 - draft[1] / target[1]) ** 2 == Fraction(15, 16)


def test_a_draft_may_be_the_target_where_the_other_has_another_law_given_it() -> None:
    """The page's coins: the joint law of (y, x1, x2) has two of the three properties, and lacks the third."""
    joint = {(y, x1, x2): Fraction(y == x1, 4) for y, x1, x2 in product((0, 1), repeat=3)}

    def chance(**fixed: int) -> Fraction:
        named = (dict(zip(("y", "x1", "x2"), outcome, strict=True)) | {"mass": mass} for outcome, mass in joint.items())
        return sum((one["mass"] for one in named if fixed.items() <= one.items()), Fraction(0))

    for y, a, b in product((0, 1), repeat=3):
        assert chance(x1=a) == chance(x2=b) == Fraction(1, 2)
        assert chance(x1=a, x2=b) == chance(x1=a) * chance(x2=b)
        assert chance(y=y, x1=a, x2=b) * chance(y=y) == chance(y=y, x1=a) * chance(y=y, x2=b)
        assert chance(y=y, x1=a) == (chance(y=y) if a == y else 0) != chance(y=y, x2=a)


def first_pair() -> ToyPair:
    return read_pairs(json.dumps(counterexamples()[0]))[0]


def test_the_claimed_bound_is_below_the_optimum_on_its_worked_example() -> None:
    m = models(counterexamples()[0])
    claimed = sum(EXACT["claimed"](m, (token,)) for token in (0, 1))
    assert claimed == Fraction(23, 24)
    values = []
    for name, cell in table("claimed_bound.md", "A", "Q(A) − P(A)²"):
        inside = [(int(token),) for token in re.findall(r"\d", name)]
        values.append(sum((m.Q(v) for v in inside), Fraction(0)) - sum((m.P(v) for v in inside), Fraction(0)) ** 2)
        assert last_fraction(cell) == values[-1]
    assert len(values) == 4
    for kind in ("stateless", "stateful"):
        assert certify(first_pair(), 1, 2, kind).value == 1 + min(values) == 1 > claimed
    assert "23/24" in (PROOFS / "claimed_bound.md").read_text()


@pytest.mark.parametrize("K", range(2, 7))
def test_the_claimed_bound_is_below_the_optimum_for_every_number_of_drafts(K: int) -> None:
    m = models(counterexamples()[0], K)
    claimed = sum(EXACT["claimed"](m, (token,)) for token in (0, 1))
    assert claimed == 1 - Fraction(2, 3) / 4**K
    for kind in ("stateless", "stateful"):
        assert certify(first_pair(), 1, K, kind).value == 1 > claimed


def test_the_optima_of_the_selection_page_are_those_of_the_certificates() -> None:
    for kind, value in table("selection.md", "class", "optimum"):
        certificate = json.loads((PROOFS / "certificates" / f"golden-10.{kind}.json").read_text())
        assert Fraction(value) == Fraction(certificate["value"])


@given(pair=SMALL)
@settings(max_examples=25)
def test_a_kernel_covers_the_claimed_mass_of_every_text(pair: ToyPair) -> None:
    """The flow of the page's proof: every d(v) = C(v) - sum of C(vc) is served by drafts that run through v."""
    m, tree = models(pair_to_json(pair)), Tree.of(pair, pair.length, pair.drafts)
    claimed = {v: EXACT["claimed"](m, v) for v in tree.nodes}
    children = {v: [claimed[(*v, c)] for c in range(pair.vocab)] if len(v) < pair.length else [] for v in tree.nodes}
    demand = {v: claimed[v] - sum(children[v]) for v in tree.nodes}
    assert min(demand.values()) >= 0
    rows = {place: number for number, place in enumerate([*tree.weights, *tree.nodes])}
    serves = [(S, v) for S in tree.weights for v in tree.nodes if any(x[: len(v)] == v for x in S)]
    columns = [{rows[S]: Fraction(1), rows[v]: Fraction(1)} for S, v in serves]
    flow = Program(columns, [Fraction(1)] * len(columns), [*tree.weights.values(), *demand.values()])
    assert solve(flow, float_basis(flow)).value == sum(demand.values())


@given(pair=pairs(max_vocab=2, max_length=2, max_drafts=3))
@settings(max_examples=15)
def test_the_stateful_optimum_is_the_least_over_sets_of_texts(pair: ToyPair) -> None:
    tree = Tree.of(pair, pair.length, pair.drafts)

    def value(inside: set[tuple[int, ...]]) -> Fraction:
        def prefixes(x: tuple[int, ...]) -> int:
            return sum(x[:end] in inside for end in range(1, pair.length + 1))

        outside = sum(tree.target[v] for v in tree.nodes if v not in inside)
        return outside + sum(w * max(map(prefixes, S)) for S, w in tree.weights.items())

    sets = (
        {v for v, kept in zip(tree.nodes, bits, strict=True) if kept}
        for bits in product((0, 1), repeat=len(tree.nodes))
    )
    assert certify(pair, pair.length, pair.drafts, "stateful").value == min(map(value, sets))


def test_a_tournament_of_two_equal_models_loses_a_quarter() -> None:
    pair = {"length": 1, "draft": [[HALF], [HALF] * 2], "target": [[HALF], [HALF] * 2]}
    ((_, _, *cells),) = table("tournament.md", "pair", "first law", "K = 1", "K = 2")
    for name in ("tournament-block", "tournament-greedy-block"):
        assert [law(name, pair, 1, K).accepted for K in (1, 2)] == [last_fraction(cell) for cell in cells]


@given(pair=SMALL)
@settings(max_examples=25)
def test_the_race_reaches_every_text_as_often_as_its_page_says(pair: ToyPair) -> None:
    m, found = models(pair_to_json(pair)), law("block-race", pair_to_json(pair))
    for size in range(1, pair.length + 1):
        for v in product(range(pair.vocab), repeat=size):
            reached = sum(mass for text, mass in found.emissions.items() if text[:size] == v and len(text) > size)
            assert reached == m.Q(v) * (1 - (1 - m.rho(v)) ** pair.drafts)


@given(one=pairs(max_vocab=2, max_length=2), seed=st.integers(0, 3))
@settings(max_examples=25)
def test_a_race_between_two_draft_models_is_lossless_and_reaches_what_its_page_says(one: ToyPair, seed: int) -> None:
    first, flat = models(pair_to_json(one), 1), (Fraction(seed + 1, 5), Fraction(4 - seed, 5))
    ms = [first, Models(dict.fromkeys(first.p, flat), first.q, first.length, 1)]
    texts = list(product(range(2), repeat=one.length))
    emissions: dict[tuple[int, ...], Fraction] = {}
    runs = [[(m.P(x) * h, m, u) for x in texts if m.P(x) for u, h in EXACT["block"](m, [x]).items()] for m in ms]
    for outcome in product(*runs):
        ends = [(m.rho(u) if len(u) <= one.length else Fraction(0), m.rho(u[:-1])) for _, m, u in outcome]
        smallest = EXACT["smallest_of"](*map(list, zip(*ends, strict=True)))
        for (_, _, u), chance in zip(outcome, smallest, strict=True):
            emissions[u] = emissions.get(u, Fraction(0)) + outcome[0][0] * outcome[1][0] * chance
    for y in product(range(2), repeat=one.length + 1):
        written = sum(h * EXACT["along"](first.q, y, len(u)) for u, h in emissions.items() if y[: len(u)] == u)
        assert written == first.Q(y)
    for v in (v for size in range(1, one.length + 1) for v in product(range(2), repeat=size)):
        reached = sum(h for u, h in emissions.items() if u[: len(v)] == v and len(u) > len(v))
        assert reached == first.Q(v) * sum(1 - (1 - m.rho(v)) ** 2 for m in ms) / 2


@given(pair=SMALL, above=st.fractions(0, 3, max_denominator=7))
@settings(max_examples=25)
def test_k_seq_is_lossless_for_every_scale_from_the_smallest_on(pair: ToyPair, above: Fraction) -> None:
    smallest = EXACT["smallest_scale"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(law.__globals__, "smallest_scale", lambda p, q, k: smallest(p, q, k) + above)
        wider = law("k-seq", pair_to_json(pair))
    assert wider.lossless
    if pair.length == 1:
        assert wider.accepted <= law("k-seq", pair_to_json(pair)).accepted


def test_a_scale_below_the_smallest_leaves_negative_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(law.__globals__, "smallest_scale", lambda p, q, k: Fraction(1))
    with pytest.raises(AssertionError):
        law("k-seq", counterexamples()[0])
