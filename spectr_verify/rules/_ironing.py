"""Scores for a tournament among drafts, and how the children of a node share out the node's scores.

Every draft gets a score, the largest wins, and the score of a random draft is uniform on [0, 1] over all. A node of the
tree of texts owns part of every score: the density of the score of a draft that runs through it. A node is counted in
its own units here: t in [0, 1] is the share of its drafts below some score, T(t) the share of its wins that these get.
T is convex, since higher scores win more often, and for the root it is t^K.

The children are sorted by q/p, low to high. R sums the wins that verification can use, and the peak is where T - R is
largest: no sharing gives the children before it less than T, so what they win beyond R is lost, and nothing else needs
to be. W sums the wins that the children want: before the peak none less than it can use, after it none more, and all as
alike as that allows. The flattest W leaves each child the most of the range of scores, so that deeper levels can use K
drafts still. Whatever the children want, and however they share, the rule stays lossless. The derivation is on the page
``proofs/ironed_tournament.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from spectr_verify.rounds import Round
from spectr_verify.rules._path import any_of, ratio

_STEPS, _TOLERANCE = 64, 1e-15
"""Most Newton steps to a cut (where they are slowest, each halves what is left), and the step that is the last."""

_TIED_BITS = 8
"""Ratios q/p that differ in so many of their last bits only are equal, or in log2 V of them: float64 has 52."""

PATH_ENTRIES = 1 << 20
"""Probabilities of one level that are worked on at once."""

_CLOSE = 1e-14
"""Shares of a node's drafts or wins that differ by less are equal."""


@dataclass(frozen=True, eq=False)
class Density:
    """The law of the score of a draft that runs through a node: uniform on each of n pieces, side by side.

    Attributes:
        ends: float64 [N, n+1], the ends of the pieces, from low to high, within [0, 1].
        shares: float64 [N, n+1], P(score below each end): 0 first, 1 last.
        drafts: float64 [N, 1], K of the tournament.
        whole: whether it is the root's, uniform on [0, 1].
    """

    ends: Tensor
    shares: Tensor
    drafts: Tensor
    whole: bool = False

    @classmethod
    def of_root(cls, drafts: Tensor) -> Density:
        """Uniform on [0, 1], ``drafts`` [N]."""
        whole = torch.tensor([0.0, 1.0], dtype=torch.float64, device=drafts.device).expand(len(drafts), 2)
        return cls(whole, whole, drafts.to(torch.float64)[:, None], whole=True)

    @classmethod
    def of(cls, ends: Tensor, shares: Tensor, drafts: Tensor) -> Density:
        """From shares that are off by rounding, without the scores below and above all drafts."""
        shares = shares.cummax(dim=1).values.clamp(0.0, 1.0)
        shares[:, 0], shares[:, -1] = 0.0, 1.0
        low = torch.where(shares <= 0, ends, 0.0).amax(dim=1, keepdim=True)
        high = torch.where(shares >= 1, ends, 1.0).amin(dim=1, keepdim=True)
        return cls(ends.clamp(low, high), shares, drafts)

    def score(self, t: Tensor) -> Tensor:
        """The score that the share t of the node's drafts lies below: [N, m] to [N, m]."""
        return self._located(t)[3]

    def slope(self, t: Tensor) -> Tensor:
        """T'(t): [N, m] to [N, m]."""
        if self.whole:
            return self.drafts * t ** (self.drafts - 1)
        return self.drafts * self._relative(self.score(t)) ** (self.drafts - 1) / self._wins[:, -1:]

    def wins(self, t: Tensor) -> Tensor:
        """T(t), the share of the node's wins that go to the share t of its drafts with the lowest scores: [N, m]."""
        if self.whole:
            return t**self.drafts
        piece, start, low, score = self._located(t)
        below = self._wins
        inside = (t - start).clamp(min=0.0) * self._mean_slope(self._relative(low), self._relative(score))
        return (below.gather(1, piece) + inside) / below[:, -1:]

    def parts(self, spread: Stretches) -> Density:
        """The densities of m children, each spread evenly over two neighbouring stretches of the node's drafts.

        Returns:
            N m rows of n + 1 pieces.
        """
        node = self.repeated(spread.cuts.shape[1])
        cuts = spread.cuts.flatten(0, 1)
        # A node may have no drafts on some piece: ends stand where they stood, and only cuts are looked for. Pieces may
        # be too narrow for float64: equal ends stay in their order.
        ends, order = torch.cat([node.ends[:, 1:-1], node.score(cuts)], dim=1).sort(dim=1, stable=True)
        t = torch.cat([node.shares[:, 1:-1], cuts], dim=1).gather(1, order)
        return Density.of(ends, spread.below(t), node.drafts)

    def cut(self, ends: Tensor) -> Density:
        """The root's, with more ends of pieces: float64 [n+1] from 0 to 1."""
        every = ends.expand(len(self.drafts), -1)
        return replace(self, ends=every, shares=every)

    def slopes(self) -> Tensor:
        """The mean of T' on each piece: [N, n]."""
        ends = self._relative(self.ends)
        return self._mean_slope(ends[:, :-1], ends[:, 1:]) / self._wins[:, -1:]

    def interpolated(self, values: Tensor, t: Tensor) -> Tensor:
        """Between ``values`` [N, n+1] at the ends of the pieces, evenly on each piece: at shares t [N, m] to [N, m]."""
        piece, start, _, _ = self._located(t)
        before, after = values.gather(1, piece), values.gather(1, piece + 1)
        part = ratio((t - start).clamp(min=0.0), self.shares.gather(1, piece + 1) - start)
        return before + part.clamp(max=1.0) * (after - before)

    def repeated(self, times: int) -> Density:
        """Every row ``times`` times."""
        ends, shares, drafts = (part.repeat_interleave(times, dim=0) for part in (self.ends, self.shares, self.drafts))
        return Density(ends, shares, drafts)

    def _located(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Piece, its share and score at the lower end, and the score at t."""
        piece = torch.searchsorted(self.shares[:, 1:-1].contiguous(), t.contiguous(), right=True)
        start, low = self.shares.gather(1, piece), self.ends.gather(1, piece)
        mass, width = self.shares.gather(1, piece + 1) - start, self.ends.gather(1, piece + 1) - low
        return piece, start, low, low + ratio(t - start, mass).clamp(0.0, 1.0) * width

    def _relative(self, score: Tensor) -> Tensor:
        """In units of the highest score: powers of small ones would underflow, and T does not depend on the unit."""
        highest = self.ends[:, -1:]
        return score / highest.masked_fill(highest <= 0, 1.0)

    @cached_property
    def _wins(self) -> Tensor:
        """Wins below each end, in units of their own: [N, n+1]."""
        ends = self._relative(self.ends)
        inside = self.shares.diff(dim=1) * self._mean_slope(ends[:, :-1], ends[:, 1:])
        return torch.cat([torch.zeros_like(ends[:, :1]), inside.cumsum(dim=1)], dim=1)

    def _mean_slope(self, low: Tensor, high: Tensor) -> Tensor:
        """(high^K - low^K) / (high - low), without cancellation."""
        top = high.clamp(min=torch.finfo(torch.float64).tiny)
        gap = ((high - low) / top).clamp(0.0, 1.0)
        tiny = gap < 1e-200
        return torch.where(tiny, self.drafts, any_of(gap, self.drafts) / gap.masked_fill(tiny, 1.0)) * top ** (
            self.drafts - 1
        )


@dataclass(frozen=True, eq=False)
class Stretches:
    """Where m children of each of N nodes are: evenly over two neighbouring stretches of the node's drafts.

    Attributes:
        cuts: float64 [N, m, 3], where the stretches begin, meet and end, as shares t; one of them may be empty.
        upper: float64 [N, m], the part of the child's drafts in the upper stretch.
    """

    cuts: Tensor
    upper: Tensor

    def below(self, t: Tensor) -> Tensor:
        """The part of each child's drafts below some shares t of its node's: [N m, n] to [N m, n]."""
        low, middle, high = self.cuts.flatten(0, 1).split(1, dim=1)
        in_upper = self.upper.flatten()[:, None]
        in_lower = ratio((t.clamp(max=middle) - low).clamp(min=0.0), middle - low) * (1 - in_upper)
        return in_lower + ratio(t.clamp(middle, high) - middle, high - middle) * in_upper


@dataclass(frozen=True, eq=False)
class Sharing:
    """What the children of a node want, in the order of q/p.

    Vertex j of a curve stands after the first j children in this order: [N, V+1].

    Attributes:
        density: the node's.
        place: int64 [N, V], where each token stands in the order.
        mass: [N, V], p of each child, in the order.
        wins: [N, V], the share of the node's wins that each child wants, in the order.
        t: vertices' shares of the drafts.
        wanted: W at the vertices.
        free: bool, where W = T: no child needs scores from both sides of such a vertex.
    """

    density: Density
    place: Tensor
    mass: Tensor
    wins: Tensor
    t: Tensor
    wanted: Tensor
    free: Tensor

    @property
    def law(self) -> Tensor:
        """Law of the winner's next token: [N, V], by token."""
        return self.wins.gather(1, self.place)

    def law_of(self, tokens: Tensor) -> Tensor:
        """The same of some tokens: int64 [N, m] to [N, m]."""
        return self.wins.gather(1, self.place.gather(1, tokens))

    def slope(self, edge: Tensor) -> Tensor:
        """How many wins a draft the children at some places of the order want: int64 [N, m] to [N, m]."""
        mass = self.mass.gather(1, edge)
        return torch.where(mass > 0, self.wins.gather(1, edge) / mass, torch.inf)

    def children(self, tokens: Tensor) -> Density:
        """The scores of some children, ``tokens`` int64 [N, m]: N m rows, those of one node together."""
        return self.density.parts(self.stretches(tokens))

    def stretches(self, tokens: Tensor) -> Stretches:
        """Where some children are, ``tokens`` int64 [N, m].

        Between two free vertices a line is drawn from cut to cut: chords of T, each tangent to W from below, so that
        a child whose slope lies between those of two neighbouring chords is spread over their two stretches, and all
        children together fill the stretches exactly.
        """
        edge = self.place.gather(1, tokens)
        first, last = self._block(edge)
        top = self.t.gather(1, last)
        low = middle = since = self.t.gather(1, first)
        high, rise, touched = self._chord(middle, first, last)
        before = rise
        while bool((ahead := (touched <= edge) & (top - high > _CLOSE)).any()):
            far, steeper, further = self._chord(high, first, last)
            low, middle = torch.where(ahead, middle, low), torch.where(ahead, high, middle)
            before, rise = torch.where(ahead, rise, before), torch.where(ahead, steeper, rise)
            since = torch.where(ahead, self.t.gather(1, touched), since)
            high, touched = torch.where(ahead, far, high), torch.where(ahead, further, touched)
        above = (self.slope(edge) - before).clamp(min=0.0)
        upper = torch.where(low == middle, 1.0, ratio(above, rise - before).clamp(0.0, 1.0))
        # The children from the vertex that the lower chord touches to the one of the upper chord fill the lower stretch
        # up, and of the upper one so much: where slopes are rounded no child gets more of either than there is.
        mass, until = self.mass.gather(1, edge), self.t.gather(1, touched)
        most, least = ratio(until - middle, mass), 1 - ratio(middle - since, mass)
        upper = torch.where((low < middle) & (edge < touched), upper.clamp(least, torch.maximum(least, most)), upper)
        return Stretches(torch.stack([low, middle, high], dim=-1), upper)

    def _block(self, edge: Tensor) -> tuple[Tensor, Tensor]:
        """The last free vertex before an edge and the first one after it: int64 [N, m] each."""
        free = self.free.flatten().nonzero()[:, 0]
        row_start = torch.arange(len(edge), device=edge.device)[:, None] * self.free.shape[1]
        after = torch.searchsorted(free, row_start + edge, right=True)
        return free[after - 1] - row_start, free[after] - row_start

    def _chord(self, start: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The chord of T that starts at a cut and is tangent to W: where it ends, its slope, the vertex it touches."""
        wins = self.density.wins(start)
        touched = self._tangent(start, wins, first, last)
        at = self.t.gather(1, touched)
        rise = ratio(self.wanted.gather(1, touched) - wins, at - start)
        top = self.t.gather(1, last)
        end = self._crossing(start, wins, rise, at, top)
        return torch.where(touched == last, top, end), rise, touched

    def _tangent(self, start: Tensor, wins: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """The vertex after ``start`` to which the line from there is flattest: bisection, as W is convex."""
        vocab = self.mass.shape[1]

        def falling(vertex: Tensor) -> Tensor:
            run, rise = self.t.gather(1, vertex) - start, self.wanted.gather(1, vertex) - wins
            return (run <= 0) | (self.slope(vertex.clamp(max=vocab - 1)) * run < rise)

        return _first_after(falling, torch.minimum(first + 1, last), last, vocab)

    def _crossing(self, start: Tensor, wins: Tensor, rise: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Where T meets the line again, between ``low`` and ``high``: Newton from above, T being convex."""
        at = high
        for _ in range(_STEPS):
            over = self.density.wins(at) - wins - rise * (at - start)
            step = ratio(over.clamp(min=0.0), (self.density.slope(at) - rise).clamp(min=0.0))
            at, last = torch.maximum(at - step, low), at
            if bool((last - at <= _TOLERANCE).all()):
                break
        return at


class Shared(Protocol):
    """The scores of nodes, shared out among their children."""

    @property
    def law(self) -> Tensor:
        """Law of the winner's next token: float64 [N, V]."""

    def law_of(self, tokens: Tensor) -> Tensor:
        """The same of some tokens: int64 [N, m] to [N, m]."""

    def children(self, tokens: Tensor) -> Density:
        """The scores of some children, ``tokens`` int64 [N, m]: N m rows, those of one node together."""


Share = Callable[[Density, Tensor, Tensor, Tensor, int], Shared]
"""Shares out scores: see ``share_out``; the last argument is how many levels are left after the children."""


def share_out(density: Density, p: Tensor, q: Tensor, weight: Tensor, left: int = 0) -> Sharing:
    """What the children of a node want.

    Args:
        density: the node's scores, N rows.
        p, q: float64 [N, V], next-token laws.
        weight: float64 [N], the weight w of block verification at the node: a child can use the wins w q.
        left: how many levels are left after this one, which is the only one that is looked at.
    """
    order = _ascending(torch.where(p > 0, q / p, torch.inf))
    place = torch.empty_like(order).scatter_(1, order, torch.arange(p.shape[1], device=p.device).expand_as(order))
    mass = p.gather(1, order)
    mass /= mass.sum(dim=1, keepdim=True)
    start = torch.zeros_like(weight)[:, None]
    # No child wins more than T'(1) a draft. What is beyond that is of no use, and would only be rounded.
    steepest = density.slope(torch.ones_like(start))
    useful = torch.minimum(weight[:, None] * q.gather(1, order), mass * steepest)
    t = torch.cat([start, mass.cumsum(dim=1)], dim=1)
    t /= t[:, -1:].clone()
    least = density.wins(t)
    wins, peak = _ironed(t, mass, useful, least, steepest)
    wanted = torch.cat([start, wins.cumsum(dim=1)], dim=1)
    # Where only rounding holds them apart, a chord would squeeze through between them.
    free = wanted - least <= _CLOSE
    free[:, -1] = True
    return Sharing(density, place, mass, wins, t, wanted, free.scatter_(1, peak, True))


def _ironed(t: Tensor, mass: Tensor, useful: Tensor, least: Tensor, steepest: Tensor) -> tuple[Tensor, Tensor]:
    """The wins that the children want, [N, V], and the peak, int64 [N, 1].

    Before the peak they are max(useful, mu p), after it min(useful, nu p).
    """
    caps = torch.cat([torch.zeros_like(t[:, :1]), useful.cumsum(dim=1)], dim=1)
    most, peak = (least - caps).max(dim=1, keepdim=True)
    vocab = mass.shape[1]
    # Not as products, which underflow where a token has the least probability there is.
    rises = torch.where(mass > 0, useful / mass, torch.inf)

    def before(vertex: Tensor) -> Tensor:
        """Whether the line from the start goes on over the edge after a vertex: useful wins a draft are fewer."""
        used = caps.gather(1, vertex) + most
        return rises.gather(1, vertex) * t.gather(1, vertex) < used

    def after(vertex: Tensor) -> Tensor:
        """Whether the line to the end begins later: useful wins a draft are fewer than on a line from here."""
        left, above = 1 - most - caps.gather(1, vertex), 1 - t.gather(1, vertex)
        return left > rises.gather(1, vertex) * above

    low = _first_after(before, torch.zeros_like(peak), peak, vocab)
    high = _first_after(after, peak.clamp(max=vocab - 1), torch.full_like(peak, vocab - 1), vocab)
    mu = ratio(caps.gather(1, low) + most, t.gather(1, low))
    nu = ratio((1 - most - caps.gather(1, high)).clamp(min=0.0), 1 - t.gather(1, high))
    edge = torch.arange(vocab, device=t.device)
    up_to, onward = edge < low, edge >= torch.maximum(high, peak)
    wins = torch.where(onward, torch.minimum(nu, steepest) * mass, useful)
    return torch.where(up_to, torch.minimum(mu, steepest) * mass, wins), peak


def _first_after(ahead: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, size: int) -> Tensor:
    """The first place from ``low`` on that is not ahead of what is sought, ``high`` if all are: int64 [N, m].

    Args:
        ahead: of places [N, m], true up to what is sought; asked below ``high`` only.
        low, high: int64 [N, m], at most ``size`` apart.
    """
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        inside = middle < high
        further = inside & ahead(torch.where(inside, middle, 0))
        low, high = torch.where(further, middle + 1, low), torch.where(further, high, middle)
    return low


def _ascending(values: Tensor) -> Tensor:
    """Order of the rows, low to high, ties by place: int64 [N, V].

    One sort of whole numbers: floats that are not negative sort as their bits do, and the last bits give way to the
    place. Values that differ by rounding alone are then ties too. On a CPU numpy sorts faster than torch.
    """
    bits = max((values.shape[1] - 1).bit_length(), _TIED_BITS)
    keys = values.contiguous().view(torch.int64) >> bits << bits
    keys |= torch.arange(values.shape[1], device=values.device)
    ordered = torch.from_numpy(np.sort(keys.numpy(), axis=1)) if keys.is_cpu else keys.sort(dim=1).values
    return ordered & ((1 << bits) - 1)


def descend(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int, *, capped: bool, share: Share = share_out
) -> Iterator[tuple[Shared, Density]]:
    """Walk along paths from the root: how each node shares out its scores, and those of the path's next token.

    Args:
        tokens: int64 [N, n]; draft_probs, target_probs: [N, n, V].
        drafts: K.
        capped: whether the running weight is capped at 1, for block verification, or not, for greedy block.
        share: how nodes share out their scores.
    """
    density = Density.of_root(torch.full((len(tokens),), drafts, device=tokens.device))
    weight = torch.ones(len(tokens), dtype=torch.float64, device=tokens.device)
    for i in range(tokens.shape[1]):
        p, q, token = draft_probs[:, i].to(torch.float64), target_probs[:, i].to(torch.float64), tokens[:, i : i + 1]
        sharing = share(density, p, q, weight, tokens.shape[1] - 1 - i)
        density = sharing.children(token)
        yield sharing, density
        weight = ratio(weight * q.gather(1, token)[:, 0], sharing.law_of(token)[:, 0])
        weight = weight.clamp(max=1.0) if capped else weight


def win_chances(round: Round, share: Share, *, capped: bool) -> Tensor:
    """Probability that each draft has the largest score, given the drafts: float64 [B, K]; see ``descend``."""
    scores = []
    for tokens, p, q in _some_paths(round):
        for _, density in descend(tokens, p, q, round.num_drafts, capped=capped, share=share):
            reached = density
        scores.append(reached)
    return largest_score_law(
        *(
            torch.cat([getattr(each, part) for each in scores]).unflatten(0, round.drafts.shape[:2])
            for part in ("ends", "shares")
        )
    )


def _some_paths(round: Round) -> Iterator[tuple[Tensor, ...]]:
    """The drafts of all rows and their laws, a few at a time, that what is made of them stays in the cache."""
    B, K, _, vocab = round.draft_probs.shape
    size = max(1, PATH_ENTRIES // vocab) if round.drafts.device.type == "cpu" else B * K
    for first in range(0, B * K, size):
        path = torch.arange(first, min(first + size, B * K), device=round.drafts.device)
        row, draft = path // K, path % K
        yield round.drafts[row, draft], round.draft_probs[row, draft], round.target_probs[row, draft, :-1]


def winner_law(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int, *, capped: bool, share: Share = share_out
) -> Tensor:
    """Next-token laws of the winner along paths: float64 [N, n, V]; see ``descend``."""
    walk = descend(tokens, draft_probs, target_probs, drafts, capped=capped, share=share)
    return torch.stack([sharing.law for sharing, _ in walk], dim=1)


def largest_score_law(ends: Tensor, shares: Tensor) -> Tensor:
    """Exact probabilities that each of K independent scores is the largest: float64 [B, K].

    The ends of all pieces cut the line into segments on which every distribution function is linear, so their products
    are polynomials of degree K - 1, which Gauss-Legendre quadrature integrates exactly.

    Args:
        ends, shares: [B, K, n+1], the law of each score as in ``Density``; shares of 1 throughout leave a score out.
    """
    at = ends.flatten(1).sort(dim=1).values
    below = _distribution(ends, shares, at)  # [B, K, segments + 1]
    begin, share = below[..., :-1], below.diff(dim=-1)
    law = torch.zeros_like(share[..., 0])
    nodes, masses = np.polynomial.legendre.leggauss((law.shape[1] + 1) // 2)
    for node, mass in zip((1 + nodes) / 2, masses / 2, strict=True):
        law += mass * (share * _product_of_others(begin + node * share)).sum(dim=-1)
    total = law.sum(dim=1, keepdim=True)
    # Pieces too narrow for float64 have a width of zero; drafts get there with a probability as small.
    return torch.where(total > 0, law / total.masked_fill(total <= 0, 1.0), 1 / law.shape[1])


def _distribution(ends: Tensor, shares: Tensor, at: Tensor) -> Tensor:
    """P(score <= at): ends and shares [B, K, n+1], at [B, m] to [B, K, m]."""
    at = at[:, None].expand(-1, ends.shape[1], -1).contiguous()
    piece = torch.searchsorted(ends[..., 1:-1].contiguous(), at, right=True)
    low, start = ends.gather(-1, piece), shares.gather(-1, piece)
    width, mass = ends.gather(-1, piece + 1) - low, shares.gather(-1, piece + 1) - start
    inside = torch.where(width > 0, (at - low) / width.masked_fill(width <= 0, 1.0), (at >= low).to(at.dtype))
    return start + inside.clamp(0.0, 1.0) * mass


def _product_of_others(factors: Tensor) -> Tensor:
    """Product over the second axis without the factor itself, without dividing."""
    ones = torch.ones_like(factors[:, :1])
    before = torch.cat([ones, factors[:, :-1]], dim=1).cumprod(dim=1)
    after = torch.cat([factors[:, 1:], ones], dim=1).flip(1).cumprod(dim=1).flip(1)
    return before * after
