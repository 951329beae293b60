"""Exact optima: what ships is proved, whatever basis they start from they end right, and tampering is seen."""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import os
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectr_verify.bounds import BoundError, BoundSizeError, stateful_optimum, stateless_optimum
from spectr_verify.bounds.closed_form import block, greedy_block, level_bound
from spectr_verify.bounds.rational import certify
from spectr_verify.bounds.rational.factor import Factors, SingularError
from spectr_verify.bounds.rational.program import Layout, Tree, selection_program
from spectr_verify.bounds.rational.simplex import Program, float_basis, solve
from spectr_verify.cli import main
from spectr_verify.errors import InputError
from spectr_verify.report.certificates import file_name, write_certificates
from toy_models import TableError, TableModel, ToyPair, read_pairs, recorded_pairs
from toy_models.strategies import pairs

ROOT = Path(__file__).parent.parent.parent
CHECKER = ROOT / "proofs" / "check_certificate.py"
SHIPPED = sorted((ROOT / "proofs" / "certificates").glob("*.json"))
GOLDEN = ROOT / "tests" / "data" / "golden.json"
KINDS = ("stateless", "stateful")
SMALL = pairs(max_vocab=3, max_length=2, max_drafts=3) | pairs(max_vocab=2, max_length=3, max_drafts=2)

CHECKING = runpy.run_path(str(CHECKER))
check: Callable[[dict[str, Any]], Fraction] = CHECKING["check"]
MAIN: Callable[[list[str]], int] = CHECKING["main"]

REJECTIONS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the checker's ``main`` takes for a rejection."""


def written(pair: ToyPair, kind: str) -> dict[str, Any]:
    """A certificate as it is read from a file."""
    found = certify(pair, pair.length, pair.drafts, kind)
    return json.loads(json.dumps(found.to_json()))


def test_the_checker_is_short_and_imports_nothing_but_the_standard_library() -> None:
    source = CHECKER.read_text()
    assert len(source.splitlines()) < 150
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert names == {"fractions", "itertools", "json", "math", "sys"}


def test_a_certificate_ships_for_both_optima_of_every_golden_pair() -> None:
    shipped = [json.loads(path.read_text()) for path in SHIPPED]
    assert len(shipped) == 28
    for pair in read_pairs(GOLDEN):
        models = [pair.draft.to_json(), pair.target.to_json()]
        kinds = [found["class"] for found in shipped if [found["pair"]["draft"], found["pair"]["target"]] == models]
        assert sorted(kinds) == sorted(KINDS)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_certificates_are_proved_and_agree_with_golden_values_and_float_optima(path: Path) -> None:
    certificate = json.loads(path.read_text())
    value = check(certificate)
    pair = read_pairs(json.dumps(certificate["pair"]))[0]
    models = (pair.draft.fractions, pair.target.fractions)
    instances = json.loads(GOLDEN.read_text())["instances"]
    number = next(i for i, p in enumerate(read_pairs(GOLDEN)) if (p.draft.fractions, p.target.fractions) == models)
    kind = certificate["class"]
    assert float(value) == pytest.approx(instances[number]["expected"][f"optimum_{kind}"], abs=1e-9)
    optimum = {"stateless": stateless_optimum, "stateful": stateful_optimum}[kind](pair, pair.length, pair.drafts)
    assert float(value) == pytest.approx(optimum.value, abs=1e-12)
    assert float(value) == pytest.approx(optimum.upper, abs=1e-12)
    assert certify(pair, pair.length, pair.drafts, kind).value == value


def test_the_checker_runs_alone_and_its_status_is_its_verdict(tmp_path: Path) -> None:
    def status(*paths: Path) -> int:
        # -I: neither this environment's packages in PYTHONPATH nor the working folder can be imported from.
        return subprocess.run([sys.executable, "-I", "-S", CHECKER, *paths], capture_output=True, timeout=60).returncode

    assert status(*SHIPPED) == 0
    assert status() == 2
    for name, content in (("empty", '{"rows": []}'), ("list", "[]"), ("no", "{"), ("other", GOLDEN.read_text())):
        (tmp_path / name).write_text(content)
        assert status(SHIPPED[0], tmp_path / name) == 1, name
    assert status(tmp_path / "missing") == 1
    tampered = json.loads(SHIPPED[0].read_text()) | {"value": "1/3"}
    (tmp_path / "tampered").write_text(json.dumps(tampered))
    assert status(tmp_path / "tampered") == 1


@pytest.mark.parametrize("kind", KINDS)
@given(pair=SMALL)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_drawn_pairs_get_certificates_that_the_checker_proves(kind: str, pair: ToyPair) -> None:
    value = check(written(pair, kind))
    optimum = {"stateless": stateless_optimum, "stateful": stateful_optimum}[kind](pair, pair.length, pair.drafts)
    assert float(value) == pytest.approx(optimum.value, abs=1e-9)
    if pair.drafts == 1:
        closed = {"stateless": block, "stateful": greedy_block}[kind](pair, pair.length)
        assert float(value) == pytest.approx(closed, abs=1e-12)
    if pair.length == 1:
        assert float(value) == pytest.approx(level_bound(pair, 1, pair.drafts), abs=1e-12)


@given(pair=SMALL)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_stateful_prices_are_zero_or_one(pair: ToyPair) -> None:
    """The stateful program is a flow through a tree, so its dual vertices are whole numbers."""
    found = certify(pair, pair.length, pair.drafts, "stateful")
    assert set(found.prices.values()) <= {0, 1}


Change = Callable[[dict[str, Any]], object]


def nudge(place: Callable[[dict[str, Any]], tuple[Any, Any]], by: str) -> Change:
    """Add a small fraction to one number."""

    def change(certificate: dict[str, Any]) -> None:
        container, key = place(certificate)
        container[key] = str(Fraction(container[key]) + Fraction(by))

    return change


def largest(values: Any) -> Any:
    """The key of the largest number in a list or an object."""
    keys = values.keys() if isinstance(values, dict) else range(len(values))
    return max(keys, key=lambda key: Fraction(values[key]))


def at_largest(*path: Any) -> Callable[[dict[str, Any]], tuple[Any, Any]]:
    def place(certificate: dict[str, Any]) -> tuple[Any, Any]:
        values: Any = certificate
        for key in path:
            values = values[key]
        return values, largest(values)

    return place


def moved_mass(certificate: dict[str, Any]) -> None:
    """The kernel gives a draft less than nothing."""
    mass = next(entry["mass"] for entry in certificate["primal"]["kernel"] if len(entry["mass"]) > 1)
    mass[0], mass[1] = str(Fraction(mass[0]) + 1), str(Fraction(mass[1]) - 1)


def another_kernel(certificate: dict[str, Any]) -> None:
    """Every set gives all its mass to the member that had least: allowed, but not what was accepted."""
    for entry in certificate["primal"]["kernel"]:
        total = sum(map(Fraction, entry["mass"]))
        least = min(range(len(entry["mass"])), key=lambda place: Fraction(entry["mass"][place]))
        entry["mass"] = [str(total if place == least else 0) for place in range(len(entry["mass"]))]


def change_law(role: str) -> Change:
    def change(certificate: dict[str, Any]) -> None:
        law = certificate["pair"][role][0][0]
        law[0], law[1] = str(Fraction(law[0]) + Fraction(1, 1000)), str(Fraction(law[1]) - Fraction(1, 1000))

    return change


def as_float(certificate: dict[str, Any]) -> None:
    certificate["value"] = float(Fraction(certificate["value"]))


def twice(certificate: dict[str, Any]) -> None:
    """One set of drafts is shared out twice, and another not at all."""
    kernel = certificate["primal"]["kernel"]
    kernel[1] = copy.deepcopy(kernel[0])


def set_to(*path: Any, value: Any) -> Change:
    def change(certificate: dict[str, Any]) -> None:
        inner: Any = certificate
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


def without(*path: Any) -> Change:
    def change(certificate: dict[str, Any]) -> None:
        inner: Any = certificate
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return change


def shuffled(certificate: dict[str, Any]) -> None:
    certificate["dual"]["sets"].reverse()


EPSILON = "1/1000000000000000000000"
TAMPERINGS: dict[str, Change] = {
    "value up by 1e-21": lambda c: c.update(value=str(Fraction(c["value"]) + Fraction(EPSILON))),
    "value down by 1e-21": lambda c: c.update(value=str(Fraction(c["value"]) - Fraction(EPSILON))),
    "value as a float": as_float,
    "value and primal up": lambda c: (
        nudge(at_largest("primal", "accepted"), EPSILON)(c),
        TAMPERINGS["value up by 1e-21"](c),
    ),
    "value and dual down": lambda c: (
        nudge(at_largest("dual", "sets"), f"-{EPSILON}")(c),
        TAMPERINGS["value down by 1e-21"](c),
    ),
    "accepted more": nudge(at_largest("primal", "accepted"), EPSILON),
    "accepted less": nudge(at_largest("primal", "accepted"), f"-{EPSILON}"),
    "set multiplier up": nudge(at_largest("dual", "sets"), EPSILON),
    "set multiplier down": nudge(at_largest("dual", "sets"), f"-{EPSILON}"),
    "set multipliers in another order": shuffled,
    "node multiplier up": nudge(at_largest("dual", "cover"), EPSILON),
    "node multiplier down": nudge(at_largest("dual", "cover"), f"-{EPSILON}"),
    "cap multiplier up": nudge(at_largest("dual", "cap"), EPSILON),
    "cap multiplier down": nudge(at_largest("dual", "cap"), f"-{EPSILON}"),
    "negative mass": moved_mass,
    "another kernel": another_kernel,
    "kernel entry twice": twice,
    "kernel entry missing": without("primal", "kernel", 0),
    "set multiplier missing": without("dual", "sets", 0),
    "node missing": without("primal", "accepted", "0"),
    "price missing": without("dual", "cover", "0"),
    "node outside": set_to("primal", "accepted", "9", value="0"),
    "draft law changed": change_law("draft"),
    "target law changed": change_law("target"),
    "law sums to 2": lambda c: c["pair"]["target"][0][0].__setitem__(0, "2"),
    "one draft more": lambda c: c.update(drafts=c["drafts"] + 1),
    "one draft less": lambda c: c.update(drafts=c["drafts"] - 1),
    "shorter": lambda c: c.update(length=c["length"] - 1),
    "a true length": set_to("length", value=True),
    "the other class": lambda c: c.update({"class": KINDS[1 - KINDS.index(c["class"])]}),
    "no class": set_to("class", value="both"),
    "another schema": set_to("schema", value="spectr-verify/certificate/2"),
    "no fraction": set_to("value", value="one"),
    "divided by zero": set_to("value", value="1/0"),
    "not an object": set_to("primal", value=[]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampered_certificates_are_rejected(name: str, kind: str) -> None:
    certificate = written(read_pairs(GOLDEN)[10], kind)  # two tokens, L = 3, K = 2: both optima differ
    honest = copy.deepcopy(certificate)
    TAMPERINGS[name](certificate)
    assert certificate != honest
    with pytest.raises(REJECTIONS):
        check(certificate)
    assert check(honest) == certify(read_pairs(GOLDEN)[10], 3, 2, kind).value


@given(data=st.data(), kind=st.sampled_from(KINDS))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_number_is_changed_no_other_value_is_proved(data: st.DataObject, kind: str) -> None:
    """A number may be changed without harm, as an unused slack; the value proved stays the optimum of the laws."""
    certificate = written(read_pairs(GOLDEN)[5], kind)
    value = Fraction(certificate["value"])
    places = list(_numbers({key: certificate[key] for key in ("primal", "dual")}))
    for container, key in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        change = data.draw(st.fractions(-1, 1, max_denominator=50) | st.sampled_from([Fraction(EPSILON)]))
        container[key] = str(Fraction(container[key]) + change)
    certificate["value"] = str(value + data.draw(st.sampled_from([0, Fraction(EPSILON), Fraction(-1, 7)])))
    with contextlib.suppress(ValueError):  # rejected
        assert check(certificate) == value


def _numbers(value: Any) -> Any:
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        if key == "drafts":
            continue
        if isinstance(entry, str):
            yield value, key
        else:
            yield from _numbers(entry)


@pytest.mark.parametrize("kind", KINDS)
@given(pair=SMALL, seed=st.integers(0, 2**16))
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_any_basis_ends_in_the_optimum(kind: str, pair: ToyPair, seed: int) -> None:
    """Random bases are singular, negative, or far from optimal; the exact steps lead from each to one value."""
    program = _program(pair, kind)
    best = solve(program, float_basis(program))
    count = len(program.columns) + program.rows
    for basis in (program.slacks(), random.Random(seed).sample(range(count), program.rows)):
        found = solve(program, basis)
        assert found.value == best.value
        assert program.proved_by(found.primal, found.dual)


def _program(pair: ToyPair, kind: str) -> Program:
    tree = Tree.of(pair.exact(), pair.length, pair.drafts)
    return selection_program(tree, Layout.of(tree), stateful=kind == "stateful")


def test_a_basis_that_is_optimal_in_floats_alone_is_mended() -> None:
    """Sets of drafts far rarer than the solver's tolerance: its basis is wrong there, and exact steps put it right."""
    rare = Fraction(1, 10**12)
    common = 1 - 7 * rare
    draft = [[[common, 2 * rare, 5 * rare]], [[common, 3 * rare, 4 * rare], [rare, common, 6 * rare], [1, 0, 0]]]
    target = [[[rare, 3 * rare, 1 - 4 * rare]], [[0, 1, 0], [rare, 2 * rare, 1 - 3 * rare], [rare, rare, 1 - 2 * rare]]]
    last = [[[1, 0, 0]] * 9]
    pair = ToyPair("rare", TableModel.parse(draft + last), TableModel.parse(target + last), drafts=3, length=2)
    for kind in KINDS:
        assert check(written(pair, kind)) == certify(pair, 2, 3, kind).value
        assert solve(_program(pair, kind), _program(pair, kind).slacks()).value == certify(pair, 2, 3, kind).value


@given(size=st.integers(1, 5), seed=st.integers(0, 2**16))
def test_sparse_systems_are_solved_exactly_or_found_singular(size: int, seed: int) -> None:
    draw = random.Random(seed)
    values = [Fraction(n, d) for n in (-3, -1, 1, 2) for d in (1, 7)]
    columns = [{r: draw.choice(values) for r in range(size) if draw.random() < 0.5} for _ in range(size)]
    right = {r: draw.choice(values) for r in range(size)}
    try:
        factors = Factors(columns)
    except SingularError:
        orders = permutations(range(size))  # Leibniz's formula
        assert sum(_sign(order) * prod(columns[c].get(r, 0) for c, r in enumerate(order)) for order in orders) == 0
        return
    x, y = factors.solve(right), factors.solve_transposed(right)
    for r in range(size):
        assert sum(columns[c].get(r, 0) * x[c] for c in range(size)) == right[r]
        assert sum(entry * y[row] for row, entry in columns[r].items()) == right[r]


def _sign(order: tuple[int, ...]) -> int:
    return (-1) ** sum(one > other for one, other in combinations(order, 2))


def test_recorded_laws_in_decimals_are_certified() -> None:
    pair = recorded_pairs()[0]
    found = certify(pair, 2, 2, "stateful")
    assert check(json.loads(json.dumps(found.to_json()))) == found.value
    assert found.pair.draft.fractions[0][0][0] == Fraction(repr(float(pair.draft.levels[0][0][0])))
    assert float(found.value) == pytest.approx(stateful_optimum(pair, 2, 2).value, abs=1e-12)


def test_decimals_that_are_no_law_are_refused_with_their_place() -> None:
    third = TableModel.parse([[[1 / 3, 2 / 3]], [[0.5, 0.5], [0.5, 0.5]]])
    half = TableModel.parse([[["1/2", "1/2"]], [["1/2", "1/2"]] * 2])
    with pytest.raises(TableError, match=r"'thirds': target: level 0, row 0: .*sum to .*fractions, \"1/3\""):
        certify(ToyPair("thirds", half, third), 1, 2, "stateful")


def test_programs_that_are_too_large_for_fractions_are_refused() -> None:
    even = TableModel.parse([[["1/2", "1/2"]] * 2**level for level in range(6)])
    with pytest.raises(BoundSizeError, match=r"'even' at L = 5, K = 5: 32 drafts .* take a smaller L or K"):
        certify(ToyPair("even", even, even), 5, 5, "stateless")


def test_a_program_without_bound_is_refused() -> None:
    with pytest.raises(BoundError, match="no largest value"):
        solve(Program([{0: Fraction(-1)}], [Fraction(1)], [Fraction(1)]), [1])


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["spectr-verify", "certify", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_command_writes_files_that_the_checker_proves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "two.json"
    source.write_text(json.dumps({"pairs": json.loads(GOLDEN.read_text())["instances"][4:6]}))
    folder, out = tmp_path / "certificates", tmp_path / "all.json"
    assert run_command(monkeypatch, str(source), "--out", str(folder), "--json", str(out)) == 0
    printed = capsys.readouterr().out
    assert "71549/41552" in printed
    assert "96/65" in printed
    names = ["two-0.stateful", "two-0.stateless", "two-1.stateful", "two-1.stateless"]
    assert sorted(path.stem for path in folder.iterdir()) == names
    rows = json.loads(out.read_text())
    assert rows["schema"] == "spectr-verify/certify/1"
    files = [json.loads((folder / f"two-{i}.{kind}.json").read_text()) for i in range(2) for kind in KINDS]
    assert rows["rows"] == files
    assert [check(row) for row in files] == [Fraction(row["value"]) for row in rows["rows"]]


def test_the_command_takes_one_class_and_refuses_what_it_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = json.dumps(json.loads(GOLDEN.read_text())["instances"][0])
    assert run_command(monkeypatch, pair, "--class", "stateful") == 0
    assert "stateless" not in capsys.readouterr().out
    assert run_command(monkeypatch, f"[{pair}, {pair}]", "--out", str(tmp_path)) == 0  # they are named by number
    named = json.dumps(json.loads(pair) | {"name": "same"})
    assert run_command(monkeypatch, f"[{named}, {named}]", "--out", str(tmp_path)) == 2
    assert "different names" in capsys.readouterr().err
    more = '{"draft": [[[0.3, 0.70000001]], [[1, 0], [1, 0]]], "target": [[[0.5, 0.5]], [[1, 0], [1, 0]]]}'
    assert run_command(monkeypatch, more) == 2
    assert "sum to 100000001/100000000, not to 1" in capsys.readouterr().err


def test_a_certificate_of_another_optimum_is_not_written_over(tmp_path: Path) -> None:
    """One of the same optimum may be written again."""
    pair = read_pairs(str(GOLDEN), exact=True)[0]
    found, other = (certify(pair, 1, drafts, "stateful") for drafts in (2, 3))
    for _ in range(2):
        write_certificates(tmp_path, [found])
    with pytest.raises(InputError, match="is there already, of another pair, L or K"):
        write_certificates(tmp_path, [other])
    assert json.loads((tmp_path / file_name(found.pair.name, found.kind)).read_text())["drafts"] == 2


def test_what_somebody_added_to_a_certificate_is_not_lost(tmp_path: Path) -> None:
    found = certify(read_pairs(str(GOLDEN), exact=True)[0], 1, 2, "stateful")
    path = tmp_path / file_name(found.pair.name, found.kind)
    for content in (json.dumps(found.to_json() | {"notes": "by hand"}), "[" * 100_000, ""):
        path.write_text(content)
        with pytest.raises(InputError, match="is there already"):
            write_certificates(tmp_path, [found])
        assert path.read_text() == content


@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_what_is_no_file_is_not_written_over(kind: str, tmp_path: Path) -> None:
    found = certify(read_pairs(str(GOLDEN), exact=True)[0], 1, 2, "stateful")
    path = tmp_path / file_name(found.pair.name, found.kind)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    with pytest.raises(InputError, match=r"is there already|cannot be written"):
        write_certificates(tmp_path, [found])


def test_a_pair_with_a_long_name_gets_a_file(tmp_path: Path) -> None:
    pair = replace(read_pairs(str(GOLDEN), exact=True)[0], name="long " * 100)
    write_certificates(tmp_path, [certify(pair, 1, 2, "stateful")])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_name_cannot_forge_a_line_of_the_checker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = certify(read_pairs(str(GOLDEN), exact=True)[0], 1, 2, "stateful").to_json()
    document["pair"]["name"] = "a: 9 = 9.0, proved\nother.json: V9: \ud800 \x1b[2K\r"
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(document))
    assert MAIN([str(path)]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("part", ["value", "cover", "drafts"])
def test_a_number_that_would_take_all_memory_is_rejected(
    part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = certify(read_pairs(str(GOLDEN), exact=True)[0], 1, 2, "stateful").to_json()
    if part == "cover":
        document["dual"]["cover"]["0"] = "1e-99999999"
    else:
        document[part] = "1e999999999" if part == "value" else 10**9
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(document))
    assert MAIN([str(path)]) == 1
    assert "REJECTED" in capsys.readouterr().out


def test_more_drafts_than_programs_take_are_refused_at_once() -> None:
    pair = read_pairs(str(GOLDEN), exact=True)[0]
    with pytest.raises(BoundSizeError, match="at most K = 1000"):
        certify(pair, 1, 10**9, "stateful")
    assert certify(pair, 1, 600, "stateful").value > 0.9
