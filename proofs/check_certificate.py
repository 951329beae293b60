"""Check certificates of optima, with nothing but Python's own fractions: python proofs/check_certificate.py FILE..

A certificate says that ``value`` is the most draft tokens that a lossless rule of its class can accept in the mean, in
a round of K independent drafts of L tokens. By proofs/selection.md that is the optimum of a linear program:

    maximise the sum of a(v) over all texts v of 1 to L tokens, where
        f(S, x) >= 0 shares out w(S), the probability that the drafts show exactly the texts S, among its members x,
        0 <= a(v) <= t(v), the sum of f(S, x) over all x that begin with v,
        stateful: a(v) <= Q(v);  stateless: a(vc) <= q(c|v) a(v), with a = 1 for the empty text.
    Its dual: minimise the sum of w(S) lambda(S) + the sum of Q(v) z(v) (stateless: over single tokens v), where
        lambda(S) >= y summed along x, for every x in S,  y >= 0,  z >= 0,
        y(v) + z(v) >= 1;  stateless: y(v) + z(v) - the sum over c of q(c|v) z(vc) >= 1.

The program is built anew from the laws. Points of both that are allowed and have one value show that it is the optimum.
"""

import json
import sys
from fractions import Fraction
from itertools import combinations, product
from math import prod


class Rejected(ValueError):  # noqa: N818 - the verdict on a certificate
    """The certificate does not prove what it says; the message tells why."""


def require(holds: bool, message: str) -> None:
    """Reject unless ``holds``."""
    if not holds:
        raise Rejected(message)


def number(written: object, where: str) -> Fraction:
    """A fraction in a string; a float would be rounded, and an exponent may take all memory."""
    require(isinstance(written, str) and set(written) <= set("-0123456789/"), f"{where}: {written!r} is not a fraction")
    return Fraction(written)


def law_tables(levels: list, length: int, role: str) -> dict:
    """The law after every prefix shorter than ``length``."""
    vocab, laws = len(levels[0][0]), {}
    for depth in range(length):
        for prefix, law in zip(product(range(vocab), repeat=depth), levels[depth], strict=True):
            laws[prefix] = [number(entry, f"{role} after {prefix}") for entry in law]
            is_law = len(law) == vocab and min(laws[prefix]) >= 0 and sum(laws[prefix]) == 1
            require(is_law, f"{role} after {prefix}: not a law of {vocab} tokens")
    return laws


def probability(laws: dict, text: tuple) -> Fraction:
    """P(text) or Q(text): the product of next-token probabilities."""
    return prod((laws[text[:place]][token] for place, token in enumerate(text)), start=Fraction(1))


def set_weights(draft: dict, drafts: int) -> dict:
    """w(S) of every set that the draws can show, by inclusion and exclusion."""
    possible = sorted(text for text, chance in draft.items() if chance > 0)
    weights = {}
    for size in range(1, min(drafts, len(possible)) + 1):
        for shown in combinations(possible, size):
            parts = [part for count in range(size + 1) for part in combinations(shown, count)]
            weights[shown] = sum((-1) ** (size - len(part)) * sum(draft[x] for x in part) ** drafts for part in parts)
    return weights


def by_node(written: dict, nodes: list, where: str) -> dict:
    """One number, not negative, for every node and for nothing else."""
    names = {",".join(map(str, node)): node for node in nodes}
    require(written.keys() == names.keys(), f"{where}: does not have every text of 1 to L tokens and no other")
    values = {names[name]: number(entry, f"{where} of {name}") for name, entry in written.items()}
    require(min(values.values()) >= 0, f"{where}: a negative number")
    return values


def primal_value(primal: dict, weights: dict, target: dict, nodes: list, kind: str) -> Fraction:
    """The value of the primal point, if it is allowed."""
    winner, left = dict.fromkeys(nodes, Fraction(0)), dict(weights)
    for entry in primal["kernel"]:
        shown = tuple(tuple(map(int, text.split(","))) for text in entry["drafts"])
        masses = [number(mass, f"kernel of {shown}") for mass in entry["mass"]]
        shared = shown in left and min(masses) >= 0 and sum(masses) == left.pop(shown)
        require(shared, f"kernel: {shown} is no set of drafts, stands there twice, or is not shared out")
        for text, mass in zip(shown, masses, strict=True):
            for end in range(1, len(text) + 1):
                winner[text[:end]] += mass
    require(not left, f"kernel: {len(left)} sets are missing")
    accepted = by_node(primal["accepted"], nodes, "accepted")
    for node, mass in accepted.items():
        before = accepted[node[:-1]] if kind == "stateless" and node[:-1] else probability(target, node[:-1])
        most = min(winner[node], before * target[node[:-1]][node[-1]])
        require(mass <= most, f"accepted: {node} has more than the winner or the class allows")
    return sum(accepted.values())


def dual_value(dual: dict, weights: dict, target: dict, nodes: list, kind: str, length: int) -> Fraction:
    """The value of the dual point, if it is allowed."""
    price, cap = by_node(dual["cover"], nodes, "cover"), by_node(dual["cap"], nodes, "cap")
    value = 0
    for (shown, weight), written in zip(weights.items(), dual["sets"], strict=True):
        multiplier = number(written, f"multiplier of {shown}")
        dearest = max(sum(price[text[:end]] for end in range(1, length + 1)) for text in shown)
        require(multiplier >= dearest, f"dual: the multiplier of {shown} is below the prices along a member")
        value += weight * multiplier
    for node in nodes:
        worth = price[node] + cap[node]
        if kind == "stateless" and len(node) < length:
            worth -= sum(chance * cap[(*node, token)] for token, chance in enumerate(target[node]))
        require(worth >= 1, f"dual: {node} is priced below what it earns")
        if kind == "stateful" or len(node) == 1:
            value += probability(target, node) * cap[node]
    return value


def check(certificate: dict) -> Fraction:
    """The optimum that a certificate proves; ``Rejected`` if it proves nothing."""
    require(certificate["schema"] == "spectr-verify/certificate/1", "not a certificate of a kind known here")
    kind, length, drafts, pair = (certificate[key] for key in ("class", "length", "drafts", "pair"))
    require(kind in ("stateless", "stateful"), f"there is no class {kind!r}")
    require(type(length) is type(drafts) is int and 1 <= drafts <= 1000 and length >= 1, "L or K is out of range")
    draft, target = (law_tables(pair[role], length, role) for role in ("draft", "target"))
    require((vocab := len(draft[()])) == len(target[()]), "draft and target have different vocabularies")
    nodes = [node for size in range(1, length + 1) for node in product(range(vocab), repeat=size)]
    weights = set_weights({node: probability(draft, node) for node in nodes if len(node) == length}, drafts)
    reached = primal_value(certificate["primal"], weights, target, nodes, kind)
    bounded = dual_value(certificate["dual"], weights, target, nodes, kind, length)
    stated = number(certificate["value"], "value")
    require(reached == bounded == stated, f"the primal reaches {reached}, the dual {bounded}, and {stated} is stated")
    return reached


def main(paths: list) -> int:
    """Check files of one certificate, or of several in "rows"; 0 if all of them hold."""
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            for certificate in (rows := [document] if "value" in document else document["rows"]):
                value, what = check(certificate), "{class} optimum, L = {length}, K = {drafts}".format(**certificate)
                print(f"{path}: {certificate['pair'].get('name')!a}: {what}: {value} = {float(value):.12f}, proved")
            require(len(rows) > 0, "there is no certificate in it")
        except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            print(f"{path}: REJECTED: {type(error).__name__}: {error}")  # whatever is malformed proves nothing
            return 1
    return 0 if paths else print(__doc__) or 2


if __name__ == "__main__":
    sys.exit(sys.set_int_max_str_digits(0) or main(sys.argv[1:]))  # skewed laws have long fractions
