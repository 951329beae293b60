"""Which rule accepts most, where: by vocabulary, L, K, overlap and temperature.

    python benchmarks/best_rule.py [--tried] [--toys | --plot docs/best_rule.svg] [--only TEXT] [--texts 40] [--seed 0]

Texts that the target wrote, cut into pieces of 12 tokens; a round may start before each. All rules but k-seq have
closed forms along such a text, given both models' laws at each of its places: no draft is drawn, and they are compared
on the same texts. k-seq decodes, at some L, on the shipped pair. In the place of the tables ``--toys`` prints means
over the built-in suite of the share of both optima, by exact laws; ``--tried`` is of other ways of sharing out scores;
``--plot`` draws. ``--only`` takes the texts whose name it is part of.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectr_verify.audit.instance import Instance, builtin_suite
from spectr_verify.bounds.along_laws import ALONG_LAWS, AcceptsOfLaws, verified
from spectr_verify.bounds.along_text import block_race
from spectr_verify.decoding import Filters, ModelPair, Source, decode, load_pair
from spectr_verify.exact import round_law
from spectr_verify.report.figures import figure_of, saved
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules._blending import Blend, Filling, blend
from spectr_verify.rules._ironing import Density, Share, share_out, winner_law
from spectr_verify.rules._path import on_paths, ratio
from spectr_verify.rules._winner import tournament_of_scores
from spectr_verify.simulate import synthetic_corpus
from toy_models import ToyPair
from toy_models.prompts import prompts
from toy_models.synthetic import SyntheticPair

LONGEST = 12
LENGTHS, DRAFTS, PLOTTED = (2, 4, 8, 12), (3, 7), (1, 2, 4, 8, 12)
TOYS, TRIED_TOYS = ((1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 3)), ((2, 2), (3, 2), (2, 3), (3, 3))
DECODED, DECODED_LENGTHS = ("k-seq",), (4, 12)
RACE, BEST = "block-race", "blended-tournament-block"


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of texts that the target wrote.

    Attributes:
        tokens: int64 [N, 12].
        draft_probs, target_probs: float64 [N, 12, V], both models' laws of each token.
        text: int64 [N], which text a piece is of.
    """

    tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    text: Tensor

    @property
    def overlap(self) -> float:
        """The mean of the sum of min(p, q)."""
        return float(torch.minimum(self.draft_probs, self.target_probs).sum(dim=-1).mean())

    def accepted(self, rule: str, drafts: int, length: int) -> Tensor:
        """What a round of K drafts of L tokens before each piece accepts in the mean, the text coming out: [N]."""
        return self.along(race if rule == RACE else ALONG_LAWS[rule], drafts, length)

    def along(self, accepts: AcceptsOfLaws, drafts: int, length: int) -> Tensor:
        """The same of anything that has such a form."""
        tokens, p, q = (part[:, :length] for part in (self.tokens, self.draft_probs, self.target_probs))
        return accepts(tokens, p, q, drafts).sum(dim=1)

    def mean(self, values: Tensor) -> tuple[float, float]:
        """Mean over texts and its standard error."""
        texts = int(self.text.max()) + 1
        means = torch.zeros(texts, dtype=torch.float64).index_add_(0, self.text, values) / torch.bincount(self.text)
        return float(means.mean()), float(means.std()) / texts**0.5


def race(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """The block race along texts, which needs the probabilities of their tokens alone."""
    p, q = on_paths(tokens, draft_probs, target_probs)
    return block_race(p.log(), q.log(), drafts)


def pieces(source: Source, starts: list[list[int]], filters: Filters, seed: int, each: int = 4) -> Pieces:
    """``each`` pieces of one text after every prompt."""
    laws: list[tuple[Tensor, ...]] = []

    def watch(seen: Any) -> None:
        laws.append((seen.tokens[:, 0], seen.draft_probs[:, 0], seen.target_probs[:, 0]))

    decode(
        source,
        RULES["autoregressive"],
        starts,
        tokens=each * LONGEST,
        length=1,
        filters=filters,
        generator=torch.Generator().manual_seed(seed),
        stops=False,
        watch=watch,
    )
    tokens, p, q = (
        torch.stack(part, dim=1).unflatten(1, (each, LONGEST)).flatten(0, 1) for part in zip(*laws, strict=True)
    )
    p, q = (law.double() / law.double().sum(dim=-1, keepdim=True) for law in (p, q))
    return Pieces(tokens, p, q, torch.arange(len(starts)).repeat_interleave(each))


def decoded(
    source: Source, starts: list[list[int]], filters: Filters, rule: str, drafts: int, length: int
) -> tuple[float, float]:
    """Accepted tokens a round and their standard error over texts, by decoding."""
    texts = decode(
        source,
        RULES[rule],
        starts,
        tokens=2 * LONGEST,
        drafts=drafts,
        length=length,
        filters=filters,
        generator=torch.Generator().manual_seed(length),
        stops=False,
    )
    rounds = texts.starts >= 0
    means = (texts.accepted * rounds).sum(dim=1) / rounds.sum(dim=1)
    weights = rounds.sum(dim=1) / rounds.sum(dim=1).double().mean()
    mean = float((means * weights).mean())
    return mean, float((weights * (means - mean)).std()) / len(starts) ** 0.5


Made = tuple[Source, list[list[int]], Filters]


def sources() -> dict[str, Callable[[], Made]]:
    """Where the texts come from: by name what makes models, prompts and filters."""
    real = load_pair()
    found: dict[str, Callable[[], Made]] = {}
    for temperature in (1.0, 0.5):
        found[f"shipped pair, V = {real.vocab}, temperature {temperature:g}"] = partial(shipped, real, temperature)
    for vocab, overlap in ((1_000, 0.9), (1_000, 0.7), (1_000, 0.5), (50, 0.7)):
        found[f"synthetic, V = {vocab}, overlap {overlap:g}"] = partial(synthetic, vocab, overlap)
    return found


def shipped(pair: ModelPair, temperature: float) -> Made:
    """The shipped pair, its code prompts and the filters."""
    return pair, pair.encode(prompts("code")), Filters(temperature)


def synthetic(vocab: int, overlap: float) -> Made:
    """Models, prompts and filters of a synthetic pair."""
    corpus = synthetic_corpus(SyntheticPair(vocab, overlap))
    return corpus.starts[0].source, [start.prompt for start in corpus.starts], Filters()


def table(found: Pieces, by_decoding: Callable[[str, int, int], tuple[float, float]] | None) -> Iterator[str]:
    """Tokens a round, one line for each K and L; the largest closed form is bold."""
    names = (*DECODED, *ALONG_LAWS, RACE)
    yield "| K | L | " + " | ".join(names) + " | blended - race |"
    yield "|---|---|" + "---|" * (len(names) + 1)
    for K in DRAFTS:
        for L in LENGTHS:
            values = {name: found.accepted(name, K, L) for name in (*ALONG_LAWS, RACE)}
            means = {name: found.mean(value)[0] for name, value in values.items()}
            best, cells = max(means.values()), [""] * len(DECODED)
            if by_decoding and L in DECODED_LENGTHS:
                cells = [
                    f"{1 + mean:.2f} ± {error:.2f}" for mean, error in (by_decoding(name, K, L) for name in DECODED)
                ]
            cells += [f"**{1 + mean:.3f}**" if mean == best else f"{1 + mean:.3f}" for mean in means.values()]
            ahead, error = found.mean(values[BEST] - values[RACE])
            yield f"| {K} | {L} | " + " | ".join(cells) + f" | {ahead:+.3f} ± {error:.3f} |"


def every_text(pair: ToyPair, length: int) -> tuple[Pieces, Tensor]:
    """All texts of L tokens that the target can write, and its probability of each."""
    tokens = torch.cartesian_prod(*[torch.arange(pair.vocab)] * length).view(-1, length)
    row = torch.zeros(len(tokens), dtype=torch.int64)
    laws: list[list[Tensor]] = [[], []]
    for i in range(length):
        for found, model in zip(laws, (pair.draft, pair.target), strict=True):
            found.append(torch.tensor(model.levels[i])[row])
        row = row * pair.vocab + tokens[:, i]
    p, q = (torch.stack(each, dim=1) for each in laws)
    weight = q.gather(-1, tokens[..., None])[..., 0].prod(dim=1)
    some = weight > 0
    return Pieces(tokens[some], p[some], q[some], torch.arange(int(some.sum()))), weight[some]


def toys() -> Iterator[str]:
    """Shares of the optima on the built-in suite, mean and lowest, a line for each L and K; k-seq at small ones."""
    names = (*DECODED, *ALONG_LAWS, RACE)
    yield "| L | K | optimum | " + " | ".join(names) + " |"
    yield "|---|---|---|" + "---|" * len(names)
    for L, K in TOYS:
        suite = suite_of(L, K)
        reached: dict[str, list[float]] = {}
        if L * K <= 4:
            reached |= {
                name: [round_law(RULES[name], i.pair, L, K).expected_accepted for i in suite] for name in DECODED
            }
        texts = [every_text(instance.pair, L) for instance in suite]
        for name in (*ALONG_LAWS, RACE):
            reached[name] = [float((weight * found.accepted(name, K, L)).sum()) for found, weight in texts]
        for kind in ("stateless", "stateful"):
            optima = np.array([instance.optimum(kind).value for instance in suite])
            shares = (np.array(reached[name]) / optima if name in reached else np.array([]) for name in names)
            cells = (f"{share.mean():.2%} ({share.min():.1%})" if len(share) else "" for share in shares)
            yield f"| {L} | {K} | {kind} | " + " | ".join(cells) + " |"


def suite_of(length: int, drafts: int) -> list[Instance]:
    """The pairs of the built-in suite whose stateless optimum is known, and more than nothing."""
    suite = [instance for instance in builtin_suite(length=length, drafts=drafts) if instance.stateless]
    return [instance for instance in suite if instance.stateless.value > 1e-6]


def other_part(part: Callable[[Tensor, int], Tensor | float]) -> Share:
    """Blended scores of which another part is ironed: of F [N, 1] and the levels left."""

    def share(density: Density, p: Tensor, q: Tensor, weight: Tensor, left: int) -> Blend:
        fidelity = (p * q).sqrt().sum(dim=1, keepdim=True).clamp(max=1.0) ** 2
        return replace(blend(density, p, q, weight, left), ironed=torch.zeros_like(fidelity) + part(fidelity, left))

    return share


def favouring(power: float, *, blended: bool = False) -> Share:
    """Filled scores, tokens getting on with q (q/p)^power: those that the target likes better than the draft first.

    Or blended ones, of which that is the filled part.
    """

    def share(density: Density, p: Tensor, q: Tensor, weight: Tensor, left: int) -> Blend:
        found = blend(density, p, q, weight, left)
        rate = torch.where(p > 0, q * (q / p) ** power, 0.0)
        filling = Filling.of(found.sharing, p, rate)
        filled = p * filling.wins()
        ironed = found.ironed if blended else torch.zeros_like(found.ironed)
        return Blend(found.sharing, filling, ironed, filled / filled.sum(dim=1, keepdim=True))

    return share


def law_after_the_race(tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, drafts: int) -> Tensor:
    """Next-token laws of the draft that wins the block race: [N, n, V].

    In units of P(v), v is won with Q(v) (1 - (1 - rho(v))^K) by drafts accepted up to v, and with (P - Q rho) C
    by those that were left before, C being how often such a draft wins.
    """
    weight = least = torch.ones_like(draft_probs[:, 0, :1])  # Q/P and rho of the node
    rate, laws = torch.zeros_like(weight), []
    for i in range(tokens.shape[1]):
        p, q, token = draft_probs[:, i], target_probs[:, i], tokens[:, i : i + 1]
        rho = torch.minimum(least, ratio(p, weight * q))
        on = weight * q
        left = (on * (least - rho)).sum(dim=1, keepdim=True)
        won = (on * ((1 - rho) ** drafts - (1 - least) ** drafts)).sum(dim=1, keepdim=True)
        rest = (1 - (on * rho).sum(dim=1, keepdim=True)).clamp(min=1e-300)
        rate = (won + (rest - left).clamp(min=0.0) * rate) / rest
        law = on * (1 - (1 - rho) ** drafts) + (p - on * rho).clamp(min=0.0) * rate
        laws.append(ratio(law, law.sum(dim=1, keepdim=True)))
        weight, least = ratio(weight * q, p).gather(1, token), rho.gather(1, token)
    return torch.stack(laws, dim=1)


TRIED: dict[str, Share] = {
    "ironed": share_out,
    "filled": other_part(lambda fidelity, left: 0.0),
    "filled, favouring (q/p)^0.1": favouring(0.1),
    "filled, favouring (q/p)^0.4": favouring(0.4),
    "ironed on the last 4 levels, else filled": other_part(lambda fidelity, left: float(left < 4)),
    "half ironed": other_part(lambda fidelity, left: 0.5),
    "2/(2 + l) ironed": other_part(lambda fidelity, left: 2 / (2 + left)),
    "F^(l/2) ironed": other_part(lambda fidelity, left: fidelity ** (left / 2)),
    "F^l ironed (the rule)": blend,
    "F^l ironed, the rest favouring (q/p)^0.1": favouring(0.1, blended=True),
    "F^(2 l) ironed": other_part(lambda fidelity, left: fidelity ** (2 * left)),
}
"""Ways of sharing out scores, with l levels left and fidelity F."""


def tried(found: Pieces) -> Iterator[str]:
    """Tokens a round, one line for each way."""
    cells = [(K, L) for K in DRAFTS for L in (4, 8, 12)]
    yield "| | " + " | ".join(f"K = {K}, L = {L}" for K, L in cells) + " |"
    yield "|---|" + "---|" * len(cells)
    for name, accepts in ways().items():
        values = (found.along(accepts, K, L) for K, L in cells)
        yield f"| {name} | " + " | ".join(f"{1 + found.mean(value)[0]:.3f}" for value in values) + " |"


def ways() -> dict[str, AcceptsOfLaws]:
    """What is tried, beside the race and block verification of its winner, by what is accepted along texts."""
    laws = {name: partial(winner_law, share=share, capped=True) for name, share in TRIED.items()}
    after = {"race, then block verification of its winner": law_after_the_race}
    return {"block race": race} | {name: verified(law) for name, law in (after | laws).items()}


def tried_on_toys() -> Iterator[str]:
    """Is it lossless, by exact law, and what does it reach of the stateless optimum? One line for each way."""
    suites = {(L, K): [(i, *every_text(i.pair, L)) for i in suite_of(L, K)] for L, K in TRIED_TOYS}
    yield "| | largest error, L = 2, K = 2 | " + " | ".join(f"L = {L}, K = {K}" for L, K in suites) + " |"
    yield "|---|---|" + "---|" * len(suites)
    for name, accepts in ways().items():
        error = ""
        if name in TRIED:
            rule = Rule(name, partial(tournament_of_scores, share=TRIED[name], capped=True))
            error = f"{max(round_law(rule, i.pair, 2, 2).tv_round for i, _, _ in suites[2, 2]):.1e}"
        shares = (
            np.mean([float((w * t.along(accepts, K, L)).sum()) / i.stateless.value for i, t, w in suite])
            for (L, K), suite in suites.items()
        )
        yield f"| {name} | {error} | " + " | ".join(f"{share:.2%}" for share in shares) + " |"


def plot(found: dict[str, Pieces], file: Path) -> None:
    """Tokens a round beyond the block race's, by L."""
    figure = figure_of(2.6 * len(found), 5)
    axes = figure.subplots(len(DRAFTS), len(found), sharex=True, squeeze=False)
    for row, K in zip(axes, DRAFTS, strict=True):
        for axis, (name, texts) in zip(row, found.items(), strict=True):
            race = [texts.accepted(RACE, K, L) for L in PLOTTED]
            for rule, colour in (("ironed-tournament-block", "tab:orange"), (BEST, "tab:blue")):
                ahead = [texts.mean(texts.accepted(rule, K, L) - base) for L, base in zip(PLOTTED, race, strict=True)]
                mean, error = np.array(ahead).T
                axis.plot(PLOTTED, mean, color=colour, label=rule)
                axis.fill_between(PLOTTED, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
            axis.axhline(0, color="black", linewidth=0.8)
            axis.set_title(name.replace(", ", "\n", 1) + f", K = {K}", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("L")
    for row in axes:
        row[0].set_ylabel("tokens a round\nbeyond the block race", fontsize=8)
    axes[0][0].legend(fontsize=7)
    saved(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(description="Which rule accepts most, by vocabulary, L, K, overlap, temperature.")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--toys", action="store_true", help="shares of both optima on the built-in suite instead")
    parser.add_argument("--tried", action="store_true", help="other ways of sharing out scores instead of rules")
    instead.add_argument("--plot", type=Path, metavar="FILE", help="draw a plot instead of printing tables")
    parser.add_argument("--only", metavar="TEXT", help="take the texts whose name this is part of; all by default")
    parser.add_argument("--texts", type=int, default=40, help="texts of each name, of four pieces each (40)")
    parser.add_argument("--seed", type=int, default=0, help="draws the texts (0)")
    asked = parser.parse_args()
    if asked.toys:
        if asked.only is not None:
            parser.error("--only chooses among texts, and --toys has none: leave one of them out")
        for line in tried_on_toys() if asked.tried else toys():
            print(line, flush=True)
        return
    if asked.plot and asked.tried:
        parser.error("--plot draws the rules, and --tried lists other ways: leave one of them out")
    if asked.texts < 2:
        parser.error(f"--texts is {asked.texts}; a standard error needs two")
    every = sources()
    taken = {name: make for name, make in every.items() if asked.only is None or asked.only in name}
    if not taken:
        parser.error(f"--only {asked.only!r} is part of no name; the names are: {'; '.join(every)}")
    drawn = {}
    for name, make in taken.items():
        source, prompted, filters = make()
        starts = [prompted[number % len(prompted)] for number in range(asked.texts)]
        found = pieces(source, starts, filters, asked.seed)
        if asked.plot:
            drawn[name] = found
            continue
        print(f"{name}: overlap {found.overlap:.2f}, tokens a round\n", flush=True)
        by_decoding = partial(decoded, source, starts[:20], filters) if name.startswith("shipped") else None
        for line in tried(found) if asked.tried else table(found, by_decoding):
            print(line, flush=True)
        print()
    if asked.plot:
        plot(drawn, asked.plot)


if __name__ == "__main__":
    main()
