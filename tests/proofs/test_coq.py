"""The machine-checked proofs: Coq accepts them, they assume what they say, and they speak of the rules as stated."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

PROOFS = Path(__file__).parent.parent.parent / "proofs"
FOLDER = PROOFS / "coq"
CHECK = FOLDER / "check.sh"
GOLDEN = PROOFS.parent / "tests" / "data" / "golden.json"
EXACT = runpy.run_path(str(PROOFS / "exact_laws.py"))

DEFINITIONS = ("Laws", "Rationals", "Rules", "SpectrGbv")
RULES = {
    "token": "emitted V L p (token V L p q)",
    "block": "emitted V L p (block V L p q)",
    "block-race": "emitted_from V L p K (block_race V L p q smallest)",
    "block-race by cells": "emitted_from V L p K (cell_race V L p q cells mark fair_smallest)",
    "spectr-gbv-published": "emitted_from V L p K (published V L K p q)",
    "spectr-gbv-released": "emitted_from V L p K (released V L K p q)",
}
"""Rules to the laws of their emissions, by the definitions that the theorems are about."""

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not on the path: install coq to check")

Text = tuple[int, ...]


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900, cwd=cwd)


@pytest.mark.slow
@needs_coq
def test_every_theorem_is_proved_and_assumes_no_more_than_real_analysis_does() -> None:
    before = sorted(FOLDER.iterdir())
    checked = run(CHECK)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    stated = re.findall(r"^ *Theorem +(\w+)", "".join(file.read_text() for file in FOLDER.glob("*.v")), re.MULTILINE)
    assert sorted(re.findall(r"^theorem \w+\.(\w+)$", checked.stdout, re.MULTILINE)) == sorted(stated)
    assert sorted(FOLDER.iterdir()) == before


def test_the_map_of_the_theorems_names_each_of_them_and_no_other() -> None:
    cells = "".join(re.findall(r"^\| ([^|]*)\|", (FOLDER / "README.md").read_text(), re.MULTILINE))
    told = re.findall(r"`(\w+\.(?!v`)\w+)`", cells)
    printed = re.findall(r"^(\w+\.\w+)$", (FOLDER / "statements.txt").read_text(), re.MULTILINE)
    theorems = [
        f"{file.stem}.{name}"
        for file in FOLDER.glob("*.v")
        for name in re.findall(r"^ *Theorem +(\w+)", file.read_text(), re.MULTILINE)
    ]
    assert sorted(printed) == sorted(theorems)
    assert sorted(told) == sorted(theorems)


FORGOTTEN = "every theorem is stated once, at the top level of its file, and kept"
UNPROVED = {
    "a headline that is given up": (
        "Theorem so : 1 = 2.\nProof. Abort.\nLemma so : 1 = 1.\nProof. reflexivity. Qed.",
        FORGOTTEN,
    ),
    "a headline that only succeeds": ("Succeed\nTheorem so : 1 = 2.\nDefinition so := 3.", FORGOTTEN),
    "a headline that fails": (
        "Fail\nTheorem so : no_such_thing.\nLemma so : 1 = 1.\nProof. reflexivity. Qed.",
        FORGOTTEN,
    ),
    "a headline within a module": (
        "Theorem so : 1 = 1.\nProof. reflexivity. Qed.\nModule M.\nContext (wrong : 1 = 2).\n"
        "Theorem so : 1 = 2.\nProof. exact wrong. Qed.\nEnd M.",
        FORGOTTEN,
    ),
    "an unfinished proof": ("Theorem wrong : 1 = 2.\nProof.\nAdmitted.", "leave something unproved"),
    "an axiom": ("Axiom wrong : 1 = 2.\nTheorem so : 1 = 2.\nProof. exact wrong. Qed.", "leave something unproved"),
    "a variable outside of any section": (
        "Context (wrong : 1 = 2).\nTheorem so : 1 = 2.\nProof. exact wrong. Qed.",
        "assumed without proof: Wrong.wrong",
    ),
    "an axiom of the library that is not listed": (
        "From Coq Require Import ProofIrrelevance.\n"
        "Theorem same (A : Prop) (a b : A) : a = b.\nProof. apply proof_irrelevance. Qed.",
        "assumed without proof: ProofIrrelevance.proof_irrelevance",
    ),
    "a wrong proof": ("Theorem wrong : 1 = 2.\nProof. reflexivity. Qed.", "Unable to unify"),
    "a headline of two lines": (
        "Theorem\n  so : 1 = 1.\nProof. reflexivity. Qed.",
        "each headline starts a line of its own",
    ),
    "two headlines that differ by a prime": (
        "Context (wrong : 1 = 2).\nTheorem so : 1 = 1.\nProof. reflexivity. Qed.\n"
        "Theorem so' : 1 = 2.\nProof. exact wrong. Qed.",
        "assumed without proof: Wrong.wrong",
    ),
    "a local headline": (
        "Local Theorem so : 1 = 1.\nProof. reflexivity. Qed.",
        "each headline starts a line of its own",
    ),
    "two headlines in a line": (
        "Theorem so : 1 = 1. Proof. reflexivity. Qed. Theorem too : 1 = 1. Proof. reflexivity. Qed.",
        "the word Theorem stands there more often",
    ),
    "a headline of another name": ("Corollary so : 1 = 1.\nProof. reflexivity. Qed.", "a headline is called Theorem"),
    "a file without a theorem": ("Lemma right : 1 = 1.\nProof. reflexivity. Qed.", "has no Theorem"),
}
"""Sources, and what is said of them."""


@needs_coq
@pytest.mark.parametrize(("source", "told"), UNPROVED.values(), ids=UNPROVED)
def test_what_is_not_proved_is_refused(source: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "Wrong.v").write_text(source)
    refused = run(CHECK, tmp_path)
    assert refused.returncode != 0
    assert told in refused.stderr


@needs_coq
def test_a_theorem_that_says_less_than_it_did_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Weak.v").write_text("Theorem so (n : nat) : n = n.\nProof. reflexivity. Qed.")
    (tmp_path / "statements.txt").write_text("Weak.so\n     : forall n : nat, n + 0 = n\n")
    refused = run(CHECK, tmp_path)
    assert refused.returncode != 0
    assert "do not say what statements.txt has" in refused.stderr
    assert "-     : forall n : nat, n + 0 = n\n+     : forall n : nat, n = n\n" in refused.stdout


@needs_coq
def test_a_file_with_a_name_of_the_library_is_refused(tmp_path: Path) -> None:
    """Its axiom would read as one of the library's."""
    source = "Context (classic : 1 = 2).\nTheorem so : 1 = 2.\nProof. exact classic. Qed."
    (tmp_path / "Classical_Prop.v").write_text(source)
    refused = run(CHECK, tmp_path)
    assert refused.returncode == 1
    assert "has the name of a file of Coq's library" in refused.stderr


@needs_coq
def test_what_is_proved_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "Right.v").write_text("Theorem right : 1 + 1 = 2. Proof. reflexivity. Qed.")
    accepted = run(CHECK, tmp_path)
    assert accepted.returncode == 0
    assert accepted.stdout.endswith("1 theorems, all proved; assumed: nothing\n")


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("definitions")
    for name in DEFINITIONS:
        shutil.copy(FOLDER / f"{name}.v", folder)
        compiled = run("coqc", "-Q", ".", "SpectrVerify", f"{name}.v", cwd=folder)
        assert compiled.returncode == 0, compiled.stderr
    return folder


def coq_list(entries: Any) -> str:
    return "[" + "; ".join(map(str, entries)) + "]"


def coq_text(text: Text) -> str:
    """A text as the definitions write it, newest token first."""
    return coq_list(f"{token}%nat" for token in reversed(text))


def coq_fraction(number: Fraction) -> str:
    return f"{number.numerator} # {number.denominator}"


def coq_fractions(numbers: Any) -> str:
    return coq_list(coq_fraction(Fraction(number)) for number in numbers)


def coq_model(name: str, laws: dict[Text, tuple[Fraction, ...]]) -> str:
    cases = " ".join(f"| {coq_text(text)} => nth c {coq_fractions(law)} 0" for text, law in laws.items())
    return f"Definition {name} : model Q := fun v c => match v with {cases} | _ => 0 end."


def coq_scores(m: Any, texts: list[Text]) -> str:
    """The grid of a race by cells, and which of K uniform numbers is the smallest, as a table in fractions."""
    ratio = {text: m.rho(text) for text in texts}
    marks = sorted({Fraction(0), *ratio.values()})
    ends = {(ratio.get((*text, c), Fraction(0)), high) for text, high in ratio.items() for c in range(m.vocab)}
    races = list(product(sorted((low, high) for low, high in ends if low < high), repeat=m.drafts))
    pairs = (coq_list(f"({coq_fraction(low)}, {coq_fraction(high)})" for low, high in race) for race in races)
    laws = (coq_fractions(EXACT["smallest_of"](*zip(*race, strict=True))) for race in races)
    return f"""
Definition cells := {len(marks) - 1}%nat.
Definition mark (j : nat) : Q := nth j {coq_fractions(marks)} 1.
Fixpoint same (l m : list (Q * Q)) : bool :=
  match l, m with
  | [], [] => true
  | (a, b) :: l', (c, d) :: m' => andb (andb (Qeq_bool a c) (Qeq_bool b d)) (same l' m')
  | _, _ => false
  end.
Definition table : list (list (Q * Q) * list Q) := {coq_list(map("({}, {})".format, pairs, laws))}.
Definition smallest (l : list (Q * Q)) : list Q :=
  match find (fun e => same l (fst e)) table with Some e => snd e | None => map (fun _ => 0) l end.
"""


def law_in_coq(rule: str, pair: dict[str, Any], emissions: dict[Text, Fraction]) -> str:
    """A file that Coq accepts if and only if the rule's emissions have exactly these probabilities."""
    L, K = pair["length"], pair["drafts"]
    m = EXACT["Models"](*(EXACT["laws_of"](pair[role], L) for role in ("draft", "target")), L, K)
    texts = [text for size in range(L + 1) for text in product(range(m.vocab), repeat=size)]
    every = [text for size in range(1, L + 2) for text in product(range(m.vocab), repeat=size)]
    return f"""
From Coq Require Import List QArith.
From SpectrVerify Require Import Laws Rationals Rules SpectrGbv.
Import ListNotations.
Open Scope Q_scope.
Definition V := {m.vocab}%nat. Definition L := {L}%nat. Definition K := {K}%nat.
{coq_model("p", m.p)}
{coq_model("q", m.q)}
{coq_scores(m, texts) if "race" in rule else ""}
Goal (let found := {RULES[rule]} in
  map (fun y => probability found (fun u => text_eqb y (snd u :: fst u))) {coq_list(map(coq_text, every))})
  = {coq_fractions(emissions.get(text, 0) for text in every)}.
Proof. vm_compute. reflexivity. Qed.
"""


def accepts(definitions: Path, source: str) -> bool:
    (definitions / "Law.v").write_text(source)
    return run("coqc", "-Q", ".", "SpectrVerify", "Law.v", cwd=definitions).returncode == 0


def golden(number: int, drafts: int) -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())["instances"][number] | {"drafts": drafts}


ONE_DRAFT = [(rule, number, 1) for rule in ("token", "block") for number in (0, 3, 4, 7, 10, 11)]
SEVERAL = [
    (rule, number, drafts)
    for rule in ("block-race", "block-race by cells", "spectr-gbv-published", "spectr-gbv-released")
    for number, drafts in ((0, 3), (1, 2), (4, 1), (5, 2), (11, 2))
]


@needs_coq
@pytest.mark.parametrize(("rule", "number", "drafts"), ONE_DRAFT + SEVERAL)
def test_the_rules_in_coq_have_exactly_the_laws_that_are_stated(
    rule: str, number: int, drafts: int, definitions: Path
) -> None:
    """The definitions, computed in Coq's rational numbers, against ``exact_laws.py``."""
    pair = golden(number, drafts)
    emissions = EXACT["law"](rule.removesuffix(" by cells"), pair).emissions
    assert accepts(definitions, law_in_coq(rule, pair, emissions))


@needs_coq
@pytest.mark.parametrize("rule", RULES)
def test_another_law_is_not_accepted(rule: str, definitions: Path) -> None:
    pair = golden(0, 1)
    emissions = EXACT["law"](rule.removesuffix(" by cells"), pair).emissions
    first, second = list(emissions)[:2]
    moved = emissions | {first: emissions[first] + Fraction(1, 10**9), second: emissions[second] - Fraction(1, 10**9)}
    assert accepts(definitions, law_in_coq(rule, pair, emissions))
    assert not accepts(definitions, law_in_coq(rule, pair, moved))
