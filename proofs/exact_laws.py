"""The acceptance rules stated a second time, in fractions: laws are exact, and no code is shared with the package.

    python proofs/exact_laws.py RULE FILE [--drafts K] [--length L]

runs a rule on the pairs of a JSON file (fractions as strings; K and L as ``drafts`` and ``length``, or 2) and says
whether the next L + 1 tokens follow the target exactly, each emission completed with the target that later rounds use.

A rule is a function of the models and of one tuple of drafts, and gives the law of the emission, a dictionary from
texts to probabilities. The statements are those of the pages in this folder, written down as directly as can be, with
no thought of speed. ``typical`` is missing: its threshold is an exponential, and it is lossy by design.
"""

import argparse
import json
import re
import sys
import traceback
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import prod, sqrt

ZERO, ONE = Fraction(0), Fraction(1)
PRECISION = 2**45
"""k-seq's s is the smallest valid multiple of one part in so many; ironed scores are cut as finely."""
PIECES = 16
"""Pieces of the scores that blended tournaments start from."""
LARGEST = Fraction(10**12)
"""Ratios q/p beyond this, or below one part in so many, are filled as if they were equal."""
TUPLES = 1_000_000
"""Tuples of drafts that are gone through at most."""
SHOWN = 60
"""Fractions of more characters are not written out."""


@dataclass(frozen=True, eq=False)
class Models:
    """Next-token laws p and q after every text of up to L tokens, and K.

    P and Q of a text are products of them; r(v) = min(P(v)/Q(v), 1), and rho(v) is the smallest r on the way to v.
    """

    p: dict
    q: dict
    length: int
    drafts: int

    @property
    def vocab(self):
        return len(self.q[()])

    def P(self, text):  # noqa: N802
        return along(self.p, text)

    def Q(self, text):  # noqa: N802
        return along(self.q, text)

    def r(self, text):
        return min(self.P(text) / self.Q(text), ONE) if self.Q(text) else ONE

    def rho(self, text):
        return min(self.r(text[:end]) for end in range(len(text) + 1))


def along(laws, text, start=0):
    """Probability of the tokens of a text from ``start`` on, given those before."""
    return prod((laws[text[:place]][text[place]] for place in range(start, len(text))), start=ONE)


def positive(value):
    return max(value, ZERO)


def normalised(weights, otherwise):
    """Weights divided by their sum; another law where there are none."""
    total = sum(weights)
    return [weight / total for weight in weights] if total else list(otherwise)


def extended(text, law, mass=ONE):
    """The emissions that go on with one token from ``law``."""
    return {(*text, token): mass * chance for token, chance in enumerate(law) if mass * chance}


def mixed(parts):
    """The mixture of laws: pairs of a weight and a law."""
    total = defaultdict(Fraction)
    for weight, law in parts:
        for outcome, chance in law.items():
            total[outcome] += weight * chance
    return dict(total)


# ---------------------------------------------------------------- rules of one draft


def autoregressive(m, drafts):
    return extended((), m.q[()])


def token(m, drafts):
    """Accept with min(1, q/p) in turn; at the first rejection correct from (q - p)+."""
    x, reached, law = drafts[0], ONE, {}
    for i in range(m.length):
        p, q = m.p[x[:i]], m.q[x[:i]]
        accept = min(q[x[i]] / p[x[i]], ONE)
        law |= extended(
            x[:i], normalised([positive(b - a) for a, b in zip(p, q, strict=True)], q), reached * (1 - accept)
        )
        reached *= accept
    return law | extended(x, m.q[x], reached)


def stop_at_last_success(m, x, success, weights):
    """The longest prefix whose own coin succeeds, then a token from the weights there, or from q after the whole."""
    law, later = {}, ONE
    for i in range(m.length, -1, -1):
        q = m.q[x[:i]]
        law |= extended(x[:i], q if i == m.length else normalised(weights[i], q), success[i] * later)
        later *= 1 - success[i]
    return law


def block(m, drafts):
    """h = A / (A + 1 - W), A the sum of (W q - p)+, and W = min(1, W q/p) from token to token."""
    x, W, success, weights = drafts[0], ONE, [], []
    for i in range(m.length):
        p, q = m.p[x[:i]], m.q[x[:i]]
        weights.append([positive(W * b - a) for a, b in zip(p, q, strict=True)])
        success.append(sum(weights[i]) / (sum(weights[i]) + 1 - W) if W < 1 else ONE)
        W = min(ONE, W * q[x[i]] / p[x[i]])
    return stop_at_last_success(m, x, [*success, W], weights)


def greedy_block(m, drafts):
    """h = (m(v) - sum of m(vc)) / (P(v) - sum of m(vc)) with m = min(P, Q); correct from (Q - P)+."""
    x, success, weights = drafts[0], [ONE], []
    for i in range(m.length):
        weights.append([positive(m.Q((*x[:i], c)) - m.P((*x[:i], c))) for c in range(m.vocab)])
    for i in range(1, m.length + 1):
        below = sum(least(m, (*x[:i], c)) for c in range(m.vocab)) if i < m.length else ZERO
        rest = m.P(x[:i]) - below
        success.append((least(m, x[:i]) - below) / rest if rest else ONE)
    return stop_at_last_success(m, x, success, weights)


def least(m, text):
    return min(m.P(text), m.Q(text))


# ---------------------------------------------------------------- rules of several drafts, token by token


def recursive_rejection(m, drafts, prefix=()):
    """Drafts in turn with min(1, q'/p); a rejection replaces q' by (q' - p)+."""
    at = len(prefix)
    if at == m.length:
        return extended(prefix, m.q[prefix])
    p, rest, reached, parts = m.p[prefix], list(m.q[prefix]), ONE, []
    for x in drafts:
        accept = min(rest[x[at]] / p[x[at]], ONE)
        onward = [y for y in drafts if y[at] == x[at]]
        if accept and reached:
            parts.append((reached * accept, recursive_rejection(m, onward, x[: at + 1])))
        reached *= 1 - accept
        rest = normalised([positive(b - a) for a, b in zip(p, rest, strict=True)], rest)
    return mixed([*parts, (reached, extended(prefix, rest))])


def k_seq(m, drafts, prefix=()):
    """Drafts in turn with min(1, q/(s p)); correct from q - min(p, q/s) (1 - (1 - beta)^k) / beta."""
    at = len(prefix)
    if at == m.length:
        return extended(prefix, m.q[prefix])
    p, q, k = m.p[prefix], m.q[prefix], len(drafts)
    s = smallest_scale(p, q, k)
    capped = [min(a, b / s) for a, b in zip(p, q, strict=True)]
    beta, reached, parts = sum(capped), ONE, []
    for x in drafts:
        accept = min(q[x[at]] / (s * p[x[at]]), ONE)
        if accept and reached:
            onward = [y for y in drafts if y[at] == x[at]]
            parts.append((reached * accept, k_seq(m, onward, x[: at + 1])))
        reached *= 1 - accept
    gain = (1 - (1 - beta) ** k) / beta if beta else ZERO
    left = [b - a * gain for a, b in zip(capped, q, strict=True)]
    assert min(left) >= 0  # what validity of s means
    return mixed([*parts, (reached, extended(prefix, normalised(left, q)))])


@cache
def smallest_scale(p, q, k):
    """The smallest valid s of [1, k] up to the precision, from above: 1 - (1 - beta)^k <= s beta."""

    def valid(s):
        beta = sum(min(a, b / s) for a, b in zip(p, q, strict=True))
        return 1 - (1 - beta) ** k <= s * beta

    low, high = PRECISION - 1, k * PRECISION
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if valid(Fraction(middle, PRECISION)) else (middle, high)
    return Fraction(high, PRECISION)


def exact_match(m, drafts):
    """One token after another from the target, as long as a draft shows the same."""

    def written(prefix):
        if len(prefix) <= m.length and any(x[: len(prefix)] == prefix for x in drafts):
            return mixed((chance, written((*prefix, c))) for c, chance in enumerate(m.q[prefix]) if chance)
        return {prefix: ONE}

    return written(())


# ---------------------------------------------------------------- SpecTr-GBV


def spectr_gbv(m, drafts, *, released):
    """Scan the drafts; every sub-block longer than the record has a coin of its own, and the longest success counts."""
    states = {((), frozenset()): ONE}  # the record, and the sub-blocks that were rejected
    for x in drafts:
        states = mixed((mass, _scanned(m, x, *state, released)) for state, mass in states.items())
    parts = []
    for (record, _), mass in states.items():
        q = m.q[record]
        onward = q if len(record) == m.length else normalised(_correction(m, record, released), q)
        parts.append((mass, extended(record, onward)))
    return mixed(parts)


def _scanned(m, x, record, rejected, released):
    """The law of the record and of the rejected sub-blocks after one more draft."""
    law, later = {}, ONE
    for size in range(m.length, len(record), -1):
        known = x[:size] in rejected and not (released and size == m.length)
        success = ZERO if known else _acceptance(m, x[:size])
        longer = {x[:end] for end in range(size + 1, m.length + 1)}
        if success and later:
            law[x[:size], rejected | longer] = later * success
        later *= 1 - success
    if later:
        law[record, rejected | {x[:end] for end in range(len(record) + 1, m.length + 1)}] = later
    return law


def _acceptance(m, text):
    """h(v) = (C(v) - sum C(vc)) / (s(v) - sum C(vc)); C(v)/s(v) for a full block."""
    below = sum(claimed(m, (*text, c)) for c in range(m.vocab)) if len(text) < m.length else ZERO
    shown = 1 - (1 - m.P(text)) ** m.drafts
    top, bottom = positive(claimed(m, text) - below), shown - below
    return min(top / bottom, ONE) if top else ZERO


def claimed(m, text):
    """C(v) = Q(v) (1 - (1 - r(v))^K)."""
    return m.Q(text) * (1 - (1 - m.r(text)) ** m.drafts)


def _correction(m, text, released):
    children = [(*text, c) for c in range(m.vocab)]
    if released:
        return [m.q[text][child[-1]] * (1 - m.r(child) ** m.drafts) for child in children]
    return [m.q[text][child[-1]] * (1 - m.r(child)) ** m.drafts for child in children]


def spectr_gbv_published(m, drafts):
    return spectr_gbv(m, drafts, released=False)


def spectr_gbv_released(m, drafts):
    return spectr_gbv(m, drafts, released=True)


# ---------------------------------------------------------------- selection, then verification


def block_race(m, drafts):
    """Block verification of every draft; what has the smallest score on (rho(u), rho(v)] is emitted."""
    parts = []
    for outcome in product(*(block(m, [x]).items() for x in drafts)):
        texts, masses = zip(*outcome, strict=True)
        low = [m.rho(text) if len(text) <= m.length else ZERO for text in texts]
        law = smallest_of(low, [m.rho(text[:-1]) for text in texts])
        parts += [(prod(masses, start=chance), {text: ONE}) for text, chance in zip(texts, law, strict=True)]
    return mixed(parts)


def smallest_of(low, high):
    """Probability of each of K independent uniforms on (low, high] to be the smallest, cell by cell."""
    law = [ZERO] * len(low)
    for begin, end in pairwise(sorted({*low, *high})):
        at_ends = [
            [min(max((b - x) / (b - a), ZERO), ONE) for x in (begin, end)] for a, b in zip(low, high, strict=True)
        ]
        for k, (a, b) in enumerate(zip(low, high, strict=True)):
            if a <= begin and end <= b:
                law[k] += (end - begin) / (b - a) * mean_product(at_ends[:k] + at_ends[k + 1 :])
    return law


def mean_product(lines):
    """The mean of a product of linear functions, given by their values at both ends of an interval."""
    product = [ONE]  # as a polynomial in the share of the way
    for first, last in lines:
        product = [first * c + (last - first) * d for c, d in zip([*product, ZERO], [ZERO, *product], strict=True)]
    return sum(c / (power + 1) for power, c in enumerate(product))


def tournament_block(m, drafts):
    return block(with_winner(m), [winner_of(m, drafts)])


def tournament_greedy_block(m, drafts):
    return greedy_block(with_winner(m), [winner_of(m, drafts)])


def order(m, text):
    """The tokens after a text by q/p, low to high; ties by token, those that are never drafted last."""
    p, q = m.p[text], m.q[text]
    return sorted(range(m.vocab), key=lambda c: (p[c] == 0, q[c] / p[c] if p[c] else 0, c))


def winner_of(m, drafts):
    return max(drafts, key=lambda x: [order(m, x[:i]).index(x[i]) for i in range(m.length)])


def with_winner(m):
    """The models with the winner's law in the draft's place: (b + P)^K - b^K, b the probability of all that loses."""
    laws = {}

    def visit(text, below):
        if len(text) == m.length:
            return
        reached, masses, lower = m.P(text), [ZERO] * m.vocab, below
        for c in order(m, text):
            upper = lower + reached * m.p[text][c]
            masses[c] = upper**m.drafts - lower**m.drafts
            visit((*text, c), lower)
            lower = upper
        laws[text] = tuple(normalised(masses, m.p[text]))

    visit((), ZERO)
    return Models(laws, m.q, m.length, m.drafts)


# ---------------------------------------------------------------- ironed tournaments


def ironed_tournament_block(m, drafts):
    return of_the_winner(block, m, drafts, capped=True)


def ironed_tournament_greedy_block(m, drafts):
    return of_the_winner(greedy_block, m, drafts, capped=False)


def of_the_winner(verify, m, drafts, *, capped):
    """Verify the draft of the largest score as if it alone had been drawn, from the winner's law."""
    winner, scores = ironed(m, capped)
    law = largest_of([scores[x] for x in drafts])
    return mixed((chance, verify(winner, [x])) for x, chance in zip(drafts, law, strict=True))


def optimal_token(m, drafts, prefix=()):
    """The active drafts' next tokens have scores; the largest is accepted with min(1, q / winner's law)."""
    at = len(prefix)
    if at == m.length:
        return extended(prefix, m.q[prefix])
    here = next_token_alone(m, prefix, len(drafts))
    winner, scores = ironed(here, capped=True)
    won, q, parts = winner.p[()], m.q[prefix], []
    for x, chance in zip(drafts, largest_of([scores[x[at : at + 1]] for x in drafts]), strict=True):
        accept = min(q[x[at]] / won[x[at]], ONE)
        if chance and accept:
            onward = [y for y in drafts if y[at] == x[at]]
            parts.append((chance * accept, optimal_token(m, onward, x[: at + 1])))
    rest = [positive(b - a) for a, b in zip(won, q, strict=True)]
    rejected = 1 - sum(mass for mass, _ in parts)
    return mixed([*parts, (rejected, extended(prefix, normalised(rest, q)))])


@cache
def next_token_alone(m, prefix, drafts):
    return Models({(): m.p[prefix]}, {(): m.q[prefix]}, 1, drafts)


@cache
def ironed(m, capped):
    """A tournament in which every node irons its scores; see ``scored``."""
    return scored(m, [(ZERO, ONE, ONE)], shared_out, capped)


def scored(m, scores, share, capped):
    """The models with the winner's law in the draft's place, and the scores of every text, from those of all drafts.

    Scores are pieces (low, high, mass): a draft through the text has a score in a piece with the probability mass, and
    evenly there. Of all drafts' scores together each is uniform on [0, 1].
    """
    laws, scores = {}, {(): scores}

    def visit(text, weight):
        if len(text) == m.length or text not in scores:
            laws[text] = m.p.get(text)
            return
        shared = share(m, text, scores[text], weight)
        rate = {c: win_rate(part, m.drafts) for c, part in shared.items()}
        whole = win_rate(scores[text], m.drafts)
        laws[text] = tuple(m.p[text][c] * rate.get(c, ZERO) / whole for c in range(m.vocab))
        for c in range(m.vocab):
            won = laws[text][c]
            if won:
                scores[*text, c] = shared[c]
            onward = weight * m.q[text][c] / won if won else ZERO
            visit((*text, c), min(onward, ONE) if capped else onward)

    visit((), ONE)
    every = {text: laws.get(text) or m.p[text] for text in m.p}
    return Models(every, m.q, m.length, m.drafts), scores


def shared_out(m, text, scores, weight):
    """The scores of the tokens that can be drafted after a text, from the scores of the text."""
    p, q, K = m.p[text], m.q[text], m.drafts
    tokens = [c for c in order(m, text) if p[c]]
    t = [sum((p[c] for c in tokens[:j]), ZERO) for j in range(len(tokens) + 1)]
    least = [wins_below(scores, x, K) for x in t]
    most = K * scores[-1][1] ** (K - 1) / win_rate(scores, K)
    caps = [min(weight * q[c], most * p[c]) for c in tokens]
    caps = [sum(caps[:j], ZERO) for j in range(len(tokens) + 1)]
    gap = [a - b for a, b in zip(least, caps, strict=True)]
    peak, most = gap.index(max(gap)), max(gap)
    used = [a + most for a in caps]
    mu, low = min(((used[j] / t[j], j) for j in range(1, peak + 1)), default=(ZERO, 0))
    nu, high = max((((1 - used[j]) / (1 - t[j]), j) for j in range(peak, len(tokens))), default=(ZERO, len(tokens)))
    wanted = [mu * x if j < low else 1 - nu * (1 - x) if j > high else used[j] for j, x in enumerate(t)]
    free = [j for j in range(len(t)) if wanted[j] == least[j]]
    parts = {}
    for first, last in pairwise(free):
        parts |= spread(scores, p, tokens, t, wanted, first, last, K)
    return parts


def blended_tournament_block(m, drafts):
    winner, scores = blended(m)
    law = largest_of([scores[x] for x in drafts])
    return mixed((chance, block(winner, [x])) for x, chance in zip(drafts, law, strict=True))


@cache
def blended(m):
    """A tournament in which every node irons some of its scores and fills the others."""
    ends = [Fraction((i / PIECES) ** (2 / (m.drafts + 1))) for i in range(PIECES + 1)]
    return scored(m, [(low, high, high - low) for low, high in pairwise(ends)], blend, capped=True)


def blend(m, text, scores, weight):
    """Of each child's scores the part fidelity^(levels left) is ironed, and the others filled; the part is rounded."""
    fidelity = sum(sqrt(p * q) for p, q in zip(m.p[text], m.q[text], strict=True)) ** 2
    part = Fraction(round(min(fidelity, 1.0) ** (m.length - 1 - len(text)) * PRECISION), PRECISION)
    poured = poured_out(m, text, scores)
    return {
        c: merged([(part, pieces), (1 - part, poured[c])]) for c, pieces in shared_out(m, text, scores, weight).items()
    }


def poured_out(m, text, scores):
    """From the highest score down all tokens get on as the target has them, each until its drafts are used up."""
    p, ratio = m.p[text], {}
    for c, mass in enumerate(p):
        if mass:
            ratio[c] = min(max(m.q[text][c] / mass, 1 / LARGEST), LARGEST)
    above, begun, parts = ZERO, dict.fromkeys(ratio, ZERO), {c: [] for c in ratio}
    for low, high, share in reversed(scores):
        above += share
        level = level_of(above, p, ratio)
        for c, rate in ratio.items():
            done = min(rate * level, ONE)
            if done > begun[c]:
                parts[c].insert(0, (low, high, done - begun[c]))
            begun[c] = done
    return parts


def level_of(above, p, ratio):
    """The level at which the tokens min(p, level * ratio * p) sum to a share of all drafts."""
    used, going = ZERO, sum(rate * p[c] for c, rate in ratio.items())
    for c in sorted(ratio, key=lambda c: -ratio[c]):
        if above - used <= going / ratio[c]:
            return (above - used) / going
        used, going = used + p[c], going - ratio[c] * p[c]
    raise AssertionError("a share of all drafts is at most one")


def merged(parts):
    """The mixture of scores: pairs of a weight and pieces."""
    ends = sorted({end for _, pieces in parts for piece in pieces for end in piece[:2]})
    below = [sum(weight * chance_below(pieces, end) for weight, pieces in parts) for end in ends]
    cells = zip(pairwise(ends), pairwise(below), strict=True)
    return [(*cell, after - before) for cell, (before, after) in cells if after > before]


def spread(scores, p, tokens, t, wanted, first, last, K):
    """The tokens between two free vertices, each on the stretches of the two chords that its slope lies between."""
    cuts, touched, wins = [t[first]], [first], [wins_below(scores, t[first], K)]
    while touched[-1] < last:
        rises = {j: (wanted[j] - wins[-1]) / (t[j] - cuts[-1]) for j in range(first + 1, last + 1) if t[j] > cuts[-1]}
        if not rises:
            raise ValueError("these laws are too skewed for scores that are cut to one part in 2^45")
        touched.append(max(j for j in rises if rises[j] == min(rises.values())))
        end = touched[-1]
        cuts.append(t[last] if end == last else crossing(scores, cuts[-1], rises[end], t[end], t[last], K))
        wins.append(wins_below(scores, cuts[-1], K))
    chord = [(b - a) / (y - x) for a, b, x, y in zip(wins, wins[1:], cuts, cuts[1:], strict=False)]
    parts = {}
    for j, (begin, end) in enumerate(pairwise(touched)):
        low = cuts[max(j - 1, 0)]
        lower, middle, upper = (low, cuts[j], cuts[j + 1])
        slopes = {i: (wanted[i + 1] - wanted[i]) / p[tokens[i]] for i in range(begin, end)}
        above = {
            i: min(max((rise - chord[j - 1]) / (chord[j] - chord[j - 1]), ZERO), ONE) if j else ONE
            for i, rise in slopes.items()
        }
        above = filled(above, {i: p[tokens[i]] for i in above}, t[end] - middle) if j else above
        for i, share in above.items():
            stretches = [(lower, middle, 1 - share), (middle, upper, share)]
            parts[tokens[i]] = [piece for a, b, mass in stretches if mass for piece in between(scores, a, b, mass)]
    return parts


def filled(above, mass, wanted):
    """Upper shares that fill the upper stretch exactly, although the cut is rounded."""
    total = sum(mass.values())
    found = sum(mass[i] * share for i, share in above.items())
    if found >= wanted:
        return {i: share * wanted / found if found else ZERO for i, share in above.items()}
    return {i: 1 - (1 - share) * (total - wanted) / (total - found) for i, share in above.items()}


def crossing(scores, start, rise, low, high, K):
    """Where T meets the chord from ``start`` again, up to the precision."""
    first = wins_below(scores, start, K)
    begin, step = low, (high - low) / PRECISION
    below, above = 0, PRECISION
    while above - below > 1:
        middle = (below + above) // 2
        x = begin + middle * step
        over = wins_below(scores, x, K) - first > rise * (x - start)
        below, above = (below, middle) if over else (middle, above)
    return begin + above * step


def between(scores, begin, end, mass):
    """The pieces of the scores between two shares of the drafts, with this mass together."""
    found, below = [], ZERO
    for low, high, share in scores:
        a, b = max(begin, below), min(end, below + share)
        if a < b:
            ends = (low + (x - below) / share * (high - low) for x in (a, b))
            found.append((*ends, mass * (b - a) / (end - begin)))
        below += share
    return found


def win_rate(scores, K):
    """How often such a score is the largest of K, in units of an average score."""
    return sum(mass * sum(high**j * low ** (K - 1 - j) for j in range(K)) for low, high, mass in scores)


def wins_below(scores, t, K):
    """T(t): the share of the wins that go to the share t of the drafts with the lowest scores."""
    return t and win_rate(between(scores, ZERO, t, t), K) / win_rate(scores, K)


def largest_of(scores):
    """Probability of each of K independent scores to be the largest, cell by cell."""
    law = [ZERO] * len(scores)
    for cell in pairwise(sorted({end for score in scores for piece in score for end in piece[:2]})):
        at_ends = [[chance_below(score, x) for x in cell] for score in scores]
        for k, (first, last) in enumerate(at_ends):
            law[k] += (last - first) * mean_product(at_ends[:k] + at_ends[k + 1 :])
    return law


def chance_below(score, x):
    return sum(mass * min(max((x - low) / (high - low), ZERO), ONE) for low, high, mass in score)


# ---------------------------------------------------------------- what later rounds owe


def owed_by_greedy_block(m, text):
    return [positive(m.Q((*text, c)) - m.P((*text, c))) for c in range(m.vocab)]


def owed_by_tournament(m, text):
    return owed_by_greedy_block(with_winner(m), text)


def owed_by_ironed_tournament(m, text):
    return owed_by_greedy_block(ironed(m, False)[0], text)


def owed_as_published(m, text):
    return _correction(m, text, False)


RULES = {
    "autoregressive": autoregressive,
    "token": token,
    "recursive-rejection": recursive_rejection,
    "k-seq": k_seq,
    "block": block,
    "greedy-block": greedy_block,
    "spectr-gbv-published": spectr_gbv_published,
    "spectr-gbv-released": spectr_gbv_released,
    "block-race": block_race,
    "tournament-block": tournament_block,
    "tournament-greedy-block": tournament_greedy_block,
    "ironed-tournament-block": ironed_tournament_block,
    "ironed-tournament-greedy-block": ironed_tournament_greedy_block,
    "blended-tournament-block": blended_tournament_block,
    "optimal-token": optimal_token,
    "exact-match": exact_match,
}
OWED = {
    "greedy-block": owed_by_greedy_block,
    "spectr-gbv-published": owed_as_published,
    "tournament-greedy-block": owed_by_tournament,
    "ironed-tournament-greedy-block": owed_by_ironed_tournament,
}
SINGLE = ("token", "block", "greedy-block")


@dataclass(frozen=True, eq=False)
class Law:
    """Law of one round.

    Attributes:
        emissions: probability of every emission.
        completed: law of the next L + 1 tokens, emissions completed with the target that later rounds use.
        target: the target's law of the same texts.
    """

    emissions: dict
    completed: dict
    target: dict

    @property
    def lossless(self):
        return self.completed == self.target

    @property
    def accepted(self):
        """E[tau]."""
        return sum((len(text) - 1) * mass for text, mass in self.emissions.items())

    def begins(self, start):
        """Probability of the texts that begin with ``start``."""
        return sum(mass for text, mass in self.completed.items() if text[: len(start)] == start)

    @property
    def wrong_beginning(self):
        """The shortest beginning of a text that has another probability than the target's, and both probabilities."""
        beginnings = {text[:end] for text in self.target for end in range(len(text) + 1)}
        for start in sorted(beginnings, key=lambda text: (len(text), text)):
            due = sum(mass for text, mass in self.target.items() if text[: len(start)] == start)
            if self.begins(start) != due:
                return start, self.begins(start), due
        return None


def laws_of(levels, length):
    """A table of a pair's JSON as a dictionary from texts to laws."""
    vocab, laws = len(levels[0][0]), {}
    if len(levels) <= length:
        raise ValueError(
            f"blocks of {length} tokens need laws after up to {length} tokens; there are {len(levels)} levels"
        )
    for size in range(length + 1):
        for text, law in zip(product(range(vocab), repeat=size), levels[size], strict=True):
            laws[text] = tuple(map(fraction, law))
            if len(law) != vocab or sum(laws[text]) != 1 or min(laws[text]) < 0:
                raise ValueError(f"the law after {text} is {law}; it must have {vocab} entries and sum to exactly 1")
    return laws


def fraction(written):
    """What a string or a whole number says; exponents of more digits would take all memory."""
    if not re.fullmatch(r"[\d./]+([eE][-+]?\d{1,3})?", str(written)):
        raise ValueError(f"{written!r} is not a probability: write it as a fraction in a string")
    return Fraction(written)


def law(rule, pair, length=None, drafts=None):
    """The exact law of a rule on a pair (the dictionary that its JSON is)."""
    length, drafts = (
        pair[name] if asked is None else asked for name, asked in (("length", length), ("drafts", drafts))
    )
    if not (type(length) is type(drafts) is int and min(length, drafts) >= 1):
        raise ValueError(f"L is {length!r} and K is {drafts!r}; both must be whole numbers from 1 on")
    p, q = laws_of(pair["draft"], length), laws_of(pair["target"], length)
    if len(p[()]) != len(q[()]):
        raise ValueError(f"the draft has {len(p[()])} tokens and the target {len(q[()])}")
    m = Models(p, q, length, 1 if rule in SINGLE else drafts)
    texts = list(product(range(m.vocab), repeat=length))
    possible = [text for text in texts if m.P(text)]
    if m.drafts > 64 or len(possible) ** m.drafts > TUPLES:
        raise ValueError(
            f"{m.drafts} drafts out of {len(possible)} make more than {TUPLES:,} tuples; take a smaller K or L"
        )
    drawn = product(possible, repeat=m.drafts)
    emissions = mixed((prod((m.P(text) for text in x), start=ONE), checked(x, RULES[rule](m, x))) for x in drawn)
    onward = dict(m.q)
    for text in m.p if rule in OWED else ():
        if len(text) < length:
            onward[text] = normalised(OWED[rule](m, text), m.q[text])
    every = [(*text, c) for text in texts for c in range(m.vocab)]
    completed = {
        text: sum(emissions.get(text[:end], ZERO) * along(onward, text, end) for end in range(1, length + 2))
        for text in every
    }
    return Law(emissions, completed, {text: m.Q(text) for text in every})


def checked(drafts, emissions):
    """What a rule does with a tuple of drafts, if it is a law."""
    if sum(emissions.values()) != 1 or min(emissions.values()) < 0:
        raise ValueError(
            f"what the rule does with the drafts {drafts} is no law: cuts to one part in 2^45 are too coarse"
        )
    return emissions


def main(arguments):
    """Print the verdict on each pair; 0 if the rule is lossless on all of them, 1 if not, 2 if one has no verdict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rule", metavar="RULE", choices=RULES, help=", ".join(RULES))
    parser.add_argument("file", metavar="FILE", help="pairs, as JSON")
    parser.add_argument("--drafts", type=int, help="K, instead of what a pair states (2 where it states none)")
    parser.add_argument("--length", type=int, help="L, likewise")
    asked = parser.parse_args(arguments)
    try:
        with open(asked.file, encoding="utf-8") as file:
            document = json.load(file, parse_float=str)  # 0.1 is one tenth then
        pairs = document.get("pairs", document.get("instances", [document])) if isinstance(document, dict) else document
        if not isinstance(pairs, list) or not pairs:
            raise ValueError("there is no pair in it")
    except (OSError, RecursionError, ValueError) as error:
        print(f"{asked.file}: no verdict: {error}", file=sys.stderr)
        return 2
    ended = [judged(asked.rule, pair, number, asked.length, asked.drafts) for number, pair in enumerate(pairs)]
    return min((status for status in ended if status), default=0)


def judged(rule, pair, number, length, drafts):
    """Print the verdict on one pair, and tell its status."""
    try:
        length, drafts = (
            pair.get(n, 2) if asked is None else asked for n, asked in (("length", length), ("drafts", drafts))
        )
        found = law(rule, pair, length, drafts)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        print(f"pair {number}: no verdict: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    verdict = "lossless: the next L + 1 tokens have exactly the target's law"
    if not found.lossless:
        start, chance, due = found.wrong_beginning
        verdict = f"biased: a text begins with {start} with probability {chance}, and should with {due}"
    accepted = f"{found.accepted} = " if len(str(found.accepted)) <= SHOWN else ""
    print(f"pair {number}: {rule} is {verdict}; E[tau] = {accepted}{float(found.accepted):.9f}", flush=True)
    return 0 if found.lossless else 1


def status(arguments):
    """What ``main`` ends with, or 2 where it breaks down: 1 is the verdict "biased" and nothing else."""
    sys.set_int_max_str_digits(0)  # skewed laws have long fractions
    try:
        ended = main(arguments)
        sys.stdout.flush()
    except Exception:  # Python itself would end with 1, which is the verdict "biased"
        traceback.print_exc()
        return 2
    return ended


if __name__ == "__main__":
    sys.exit(status(sys.argv[1:]))
