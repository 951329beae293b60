"""All worlds of a rule: weights, cutting into pieces, memory, and the rules that have no exact law."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from spectr_verify.chance import Chance, ChanceError, Fork
from spectr_verify.exact import Limits
from spectr_verify.exact.worlds import worlds
from spectr_verify.rounds import Emission, EmissionError, Round, check_round
from spectr_verify.rules import RULES, Rule
from spectr_verify.rules.block_race import block_race
from spectr_verify.rules.token import token as token_verification

Verify = Callable[[Round, Chance], Emission]
Law = dict[tuple[int, tuple[int, ...], int], float]


def make_round(seed: int = 0, B: int = 6, K: int = 2, L: int = 2, V: int = 3) -> Round:
    generator = np.random.default_rng(seed)
    p, q = generator.random((B, K, L, V)) + 0.05, generator.random((B, K, L + 1, V)) + 0.05
    p, q = p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)
    round = Round(torch.from_numpy(generator.integers(V, size=(B, K, L))), torch.from_numpy(p), torch.from_numpy(q))
    check_round(round)
    return round


def rows_of(round: Round) -> Callable[[Tensor], Round]:
    return lambda row: Round(round.drafts[row], round.draft_probs[row], round.target_probs[row])


def law_of(verify: Verify, round: Round, chunk: int = 10_000, name: str = "mine") -> Law:
    """Probability of each emission of each row."""
    law: Law = defaultdict(float)
    for batch in worlds(Rule(name, verify), rows_of(round), round.rows, chunk, Limits()):
        emissions = zip(batch.emission.tokens.tolist(), batch.emission.draft.tolist(), strict=True)
        for row, weight, (tokens, draft) in zip(batch.row.tolist(), batch.weight.tolist(), emissions, strict=True):
            law[row, tuple(tokens), draft] += weight
    return dict(law)


def one_token(tokens: Tensor, L: int) -> Emission:
    """Nothing accepted, one token emitted."""
    B = len(tokens)
    rest = torch.full((B, L), -1)
    return Emission(torch.cat([tokens[:, None], rest], dim=1), torch.ones(B, dtype=torch.int64), torch.full((B,), -1))


def from_target(round: Round, chance: Chance) -> Emission:
    """The simplest rule: one token from the target."""
    return one_token(chance.categorical(round.target_probs[:, 0, 0]), round.length)


# --- weights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RULES))
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(2, 3))
@settings(max_examples=10)
def test_the_weights_of_each_row_sum_to_one(name: str, seed: int, B: int, K: int, L: int, V: int) -> None:
    rule = RULES[name]
    round = make_round(seed, B, K if rule.max_drafts is None else 1, L, V)
    total = torch.zeros(B, dtype=torch.float64)
    for batch in worlds(rule, rows_of(round), B, 10_000, Limits()):
        assert (batch.weight > 0).all()
        total.index_add_(0, batch.row, batch.weight)
    torch.testing.assert_close(total, torch.ones(B, dtype=torch.float64), rtol=0, atol=1e-13)


@given(st.integers(0, 1000))
def test_one_choice_has_the_law_of_its_weights(seed: int) -> None:
    round = make_round(seed)
    law = law_of(from_target, round)
    assert len(law) == 6 * 3
    for (row, (token, *rest), draft), weight in law.items():
        assert (rest, draft) == ([-1, -1], -1)
        assert weight == pytest.approx(float(round.target_probs[row, 0, 0, token]), abs=1e-15)


def test_choices_multiply_and_equal_emissions_add_up() -> None:
    def larger_of_two(round: Round, chance: Chance) -> Emission:
        q = round.target_probs[:, 0, 0]
        return one_token(torch.maximum(chance.categorical(q), chance.categorical(q)), round.length)

    round = make_round()
    for (row, (token, *_rest), _draft), weight in law_of(larger_of_two, round).items():
        cumulative = round.target_probs[row, 0, 0].cumsum(dim=0).tolist()
        below = cumulative[token - 1] if token else 0.0
        assert weight == pytest.approx(cumulative[token] ** 2 - below**2, abs=1e-15)


def test_outcomes_of_weight_zero_make_no_world() -> None:
    def second(round: Round, chance: Chance) -> Emission:
        weights = torch.zeros(round.rows, 3)
        weights[:, 1] = 1
        return one_token(chance.categorical(weights), round.length)

    assert law_of(second, make_round()) == {(row, (1, -1, -1), -1): 1.0 for row in range(6)}


def test_a_rule_without_choices_has_one_world_a_row() -> None:
    def likeliest(round: Round, chance: Chance) -> Emission:
        return one_token(round.target_probs[:, 0, 0].argmax(dim=-1), round.length)

    assert sorted(row for row, _, _ in law_of(likeliest, make_round())) == list(range(6))


def test_scores_one_rounding_step_apart_lose_no_weight() -> None:
    """Intervals as narrow as numbers allow once had no probability at all."""

    def race(round: Round, chance: Chance) -> Emission:
        high = torch.ones(round.rows, 2, dtype=torch.float64)
        return one_token(chance.smallest_uniform(high - 2**-53, high), round.length)

    law = law_of(race, make_round())
    assert set(law.values()) == {0.5}
    assert len(law) == 12


# --- pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RULES))
def test_the_law_does_not_depend_on_the_size_of_the_pieces(name: str) -> None:
    rule = RULES[name]
    round = make_round(K=2 if rule.max_drafts is None else 1, B=4)
    whole = law_of(rule.verify, round)
    for chunk in (1, 3, 7, 50):
        pieces = law_of(rule.verify, round, chunk)
        assert pieces.keys() == whole.keys()
        assert max(abs(pieces[key] - whole[key]) for key in whole) <= 1e-15


@pytest.mark.parametrize("chunk", [1, 2, 5, 64, 1000])
def test_the_rule_never_gets_more_rows_than_allowed(chunk: int) -> None:
    seen: list[int] = []

    def spy(round: Round, chance: Chance) -> Emission:
        seen.append(round.rows)
        return block_race(round, chance)

    built: list[int] = []

    def build(row: Tensor) -> Round:
        built.append(len(row))
        return rows_of(round)(row)

    round = make_round()
    finished = [len(batch.row) for batch in worlds(Rule("spy", spy), build, 6, chunk, Limits())]
    assert max(seen) <= chunk
    assert max(built) <= chunk
    assert max(finished) <= chunk
    assert max(seen) == chunk or chunk == 1000


def test_choices_cost_one_run_each_and_the_check_one_more_in_parts() -> None:
    seen: list[int] = []

    def spy(round: Round, chance: Chance) -> Emission:
        seen.append(round.rows)
        q = round.target_probs[:, 0, 0]
        return one_token(chance.categorical(q + chance.categorical(q)[:, None]), round.length)

    law_of(spy, make_round())
    assert seen == [6, 6 * 3, 6 * 9, 1, 4, 16, 6 * 9 - 21]


def test_only_the_first_finished_piece_is_run_again() -> None:
    seen: list[int] = []

    def spy(round: Round, chance: Chance) -> Emission:
        seen.append(round.rows)
        return from_target(round, chance)

    law_of(spy, make_round(), chunk=9)
    assert seen == [6, 9, 1, 4, 4, 9]


def test_only_unfinished_pieces_wait_in_memory() -> None:
    """Depth first: with pieces of one row, no more worlds wait than one row's choices have outcomes."""
    order: list[int] = []
    for batch in worlds(RULES["block-race"], rows_of(make_round()), 6, 1, Limits()):
        order.extend(batch.row.tolist())
    changes = sum(a != b for a, b in pairwise(order))
    assert changes == 5


# --- rules that write where they should not -----------------------------------------------------------------------


def test_a_rule_that_writes_into_its_round_harms_only_itself() -> None:
    def vandal(round: Round, chance: Chance) -> Emission:
        emission = token_verification(round, chance)
        round.drafts.zero_()
        round.draft_probs.fill_(float("nan"))
        round.target_probs.zero_()
        return emission

    round = make_round(K=1)
    assert law_of(vandal, round) == law_of(token_verification, round)


def test_an_emission_is_judged_by_the_drafts_that_were_given() -> None:
    def forger(round: Round, chance: Chance) -> Emission:
        round.drafts[:] = 2
        tokens = torch.full((round.rows, 3), 2)
        return Emission(tokens, torch.full((round.rows,), 3), torch.zeros(round.rows, dtype=torch.int64))

    with pytest.raises(EmissionError, match="not a prefix of the draft"):
        law_of(forger, make_round())


def test_a_rule_may_write_into_answers_and_weights() -> None:
    def scribbler(round: Round, chance: Chance) -> Emission:
        q = round.target_probs[:, 0, 0].clone()
        first = chance.categorical(q)
        q.fill_(7.0)
        kept = first.clone()
        first.fill_(99)
        chance.categorical(q)
        return one_token(kept, round.length)

    assert law_of(scribbler, make_round()) == pytest.approx(law_of(from_target, make_round()), abs=1e-15)


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_a_rule_may_use_its_output_again(chunk: int) -> None:
    buffer = torch.zeros(1000, 3, dtype=torch.int64)

    def thrifty(round: Round, chance: Chance) -> Emission:
        right = from_target(round, chance)
        buffer[: round.rows] = right.tokens
        return Emission(buffer[: round.rows], right.length, right.draft)

    assert law_of(thrifty, make_round(), chunk) == law_of(from_target, make_round(), chunk)


# --- rules that have no exact law ---------------------------------------------------------------------------------


def shifted(round: Round, chance: Chance, shift: Tensor) -> Emission:
    """Sound but for a shift of the token, int64 [B]."""
    return one_token((chance.categorical(round.target_probs[:, 0, 0]) + shift) % 3, round.length)


def reweighted(round: Round, chance: Chance, more: Tensor) -> Emission:
    """Sound but for what is added to the weights."""
    return one_token(chance.categorical(round.target_probs[:, 0, 0] + more), round.length)


GLOBAL: dict[str, Verify] = {
    "torch.rand": lambda r, c: shifted(r, c, (torch.rand(r.rows) < 0.5).long()),
    "torch.multinomial": lambda r, c: one_token(torch.multinomial(r.target_probs[:, 0, 0], 1)[:, 0], r.length),
    "torch.bernoulli": lambda r, c: shifted(r, c, torch.bernoulli(torch.full((r.rows,), 0.5)).long()),
    "torch, unused": lambda r, c: shifted(r, c, 0 * torch.randint(2, (r.rows,))),
    "torch, seeded": lambda r, c: shifted(r, c, 0 * torch.randint(2, (r.rows,), generator=torch.manual_seed(0))),
    "numpy": lambda r, c: shifted(r, c, torch.from_numpy(np.random.randint(2, size=r.rows))),  # noqa: NPY002
    "numpy, weights": lambda r, c: reweighted(r, c, torch.tensor(np.random.rand())),  # noqa: NPY002
    "random": lambda r, c: shifted(r, c, torch.tensor(random.randrange(2))),
    "random, before the choice": lambda r, c: shifted(r, c, torch.tensor(int(random.random() < 2))),
}


@pytest.mark.parametrize("way", list(GLOBAL))
def test_a_rule_that_draws_from_a_global_generator_is_refused(way: str) -> None:
    with pytest.raises(EmissionError, match=r"rule 'mine' drew random numbers by itself.*through the Chance"):
        law_of(GLOBAL[way], make_round())


def test_generators_of_the_user_are_left_alone() -> None:
    torch.manual_seed(5)
    random.seed(5)
    before = torch.get_rng_state(), random.getstate()
    law_of(block_race, make_round())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def calls() -> Callable[[], int]:
    counter = Counter[str]()

    def count() -> int:
        counter["calls"] += 1
        return counter["calls"]

    return count


CALLS = calls()
OWN = torch.Generator().manual_seed(3)

DEPENDENT: dict[str, Verify] = {
    "the mirrored row's draft": lambda r, c: shifted(r, c, r.drafts.flip(0)[:, 0, 0]),
    "the mirrored row's target": lambda r, c: one_token(
        c.categorical((r.target_probs + r.target_probs.flip(0))[:, 0, 0]), r.length
    ),
    "the neighbour's draft": lambda r, c: shifted(r, c, r.drafts.roll(1, 0)[:, 0, 0]),
    "the first row's draft": lambda r, c: shifted(r, c, r.drafts[:1, 0, 0]),
    "the place in the batch": lambda r, c: shifted(r, c, torch.arange(r.rows)),
    "the number of rows": lambda r, c: shifted(r, c, torch.tensor(r.rows)),
    "the number of rows, weights": lambda r, c: reweighted(r, c, torch.tensor(1 / r.rows)),
    "the batch's mean": lambda r, c: reweighted(r, c, r.target_probs[:, 0, 0].mean(dim=0, keepdim=True)),
    "the batch's largest": lambda r, c: reweighted(r, c, r.target_probs[:, 0, 0].amax(dim=0, keepdim=True)),
    "a softmax over rows": lambda r, c: one_token(c.categorical(r.target_probs[:, 0, 0].softmax(dim=0)), r.length),
    "an unseeded generator of its own": lambda r, c: shifted(
        r, c, torch.from_numpy(np.random.default_rng().integers(3, size=r.rows))
    ),
    "an unseeded generator of its own, weights": lambda r, c: reweighted(r, c, torch.tensor(random.Random().random())),
    "a seeded generator of its own": lambda r, c: shifted(r, c, torch.randint(3, (r.rows,), generator=OWN)),
    "a generator seeded anew": lambda r, c: shifted(
        r, c, torch.randint(3, (r.rows,), generator=torch.Generator().manual_seed(0))
    ),
    "how often it was called": lambda r, c: shifted(r, c, torch.tensor(CALLS())),
    "how often it was called, weights": lambda r, c: reweighted(r, c, torch.tensor(1 / CALLS())),
}


@pytest.mark.parametrize("chunk", [40, 10_000])
@pytest.mark.parametrize("way", list(DEPENDENT))
def test_rows_that_depend_on_more_than_themselves_are_refused(way: str, chunk: int) -> None:
    with pytest.raises(EmissionError, match=r"rule 'mine' gave .* ran again in another batch; rows must not depend"):
        law_of(DEPENDENT[way], make_round(B=64), chunk)


def test_weights_that_depend_on_other_rows_are_noticed_in_every_piece() -> None:
    """The first piece is sound by itself; a later one asks for other probabilities than when it forked."""

    def late(round: Round, chance: Chance) -> Emission:
        q = round.target_probs[:, 0, 0]
        first = chance.categorical(q)
        crowd = (round.drafts[:, 0, 0] == 2).double().mean()
        return one_token(chance.categorical(q + crowd) * 0 + first, round.length)

    round = make_round(B=40)
    round.drafts[:, 0, 0] = torch.where(
        torch.arange(40) < 20, 2, 0
    )  # the last pieces run first, and have none of these
    assert law_of(late, rows_of(round)(torch.arange(20, 40)))
    with pytest.raises(EmissionError, match="gave its choices other probabilities"):
        law_of(late, round, chunk=50)


def test_rounding_that_depends_on_the_batch_is_forgiven() -> None:
    def matrix_product(round: Round, chance: Chance) -> Emission:
        q = round.target_probs[:, 0, 0].float()
        noise = 1e-8 * round.rows
        return one_token(chance.categorical(q + noise), round.length)

    law_of(matrix_product, make_round())


def only_if_any_rejects(round: Round, chance: Chance) -> Emission:
    """A branch on the whole batch: the commonest way to ask for different numbers of choices."""
    first = chance.categorical(round.target_probs[:, 0, 0])
    if (round.drafts[:, 0, 0] == 0).any():
        first = chance.categorical(round.target_probs[:, 0, 1])
    return one_token(first, round.length)


def test_a_rule_that_asks_fewer_choices_of_some_rows_is_refused() -> None:
    round = make_round(B=8)
    round.drafts[:, 0, 0] = torch.tensor([0, 1, 1, 1, 1, 1, 1, 1])
    for chunk in (8, 10_000):
        with pytest.raises(EmissionError, match=r"asked for 1 random choices and for 2 before|other probabilities"):
            law_of(only_if_any_rejects, round, chunk)


def test_a_rule_that_asks_fewer_choices_when_run_again_is_refused() -> None:
    count = calls()

    def forgetful(round: Round, chance: Chance) -> Emission:
        first = chance.categorical(round.target_probs[:, 0, 0])
        if count() < 4:
            chance.categorical(torch.ones(round.rows, 1))
        return one_token(first, round.length)

    with pytest.raises(
        EmissionError, match="rule 'mine' asked for 1 random choices and for 2 before, in the same worlds"
    ):
        law_of(forgetful, make_round())


def test_a_rule_that_asks_more_choices_when_run_again_is_refused() -> None:
    count = calls()

    def growing(round: Round, chance: Chance) -> Emission:
        for _again in range(1 + (count() > 2)):
            first = chance.categorical(round.target_probs[:, 0, 0])
        return one_token(first, round.length)

    with pytest.raises(EmissionError, match="rule 'mine' asked for more random choices when the same worlds ran again"):
        law_of(growing, make_round())


def test_a_rule_that_offers_fewer_outcomes_when_run_again_is_refused() -> None:
    count = calls()

    def shrinking(round: Round, chance: Chance) -> Emission:
        offered = 3 if count() == 1 else 2
        return one_token(chance.categorical(round.target_probs[:, 0, 0, :offered]), round.length)

    with pytest.raises(ChanceError, match="rule 'mine': choice number 0 is among 2 outcomes"):
        law_of(shrinking, make_round())


def until_heads(round: Round, chance: Chance) -> Emission:
    """Rejection sampling: right when sampled, and without end when enumerated."""
    running = torch.ones(round.rows, dtype=torch.bool)
    while running.any():
        heads = chance.categorical(torch.where(running[:, None], 0.5, torch.tensor([0.0, 1.0])))
        running &= heads == 0
    return from_target(round, chance)


def forever(round: Round, chance: Chance) -> Emission:
    while True:
        chance.categorical(torch.ones(round.rows, 1))


def widening(round: Round, chance: Chance) -> Emission:
    while True:
        chance.categorical(torch.ones(round.rows, 2))


@pytest.mark.parametrize("verify", [until_heads, forever])
def test_a_rule_that_asks_without_end_is_refused(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectr_verify.exact.worlds.MAX_CHOICES", 20)
    with pytest.raises(EmissionError, match="rule 'mine' still asks for more after 21 random choices in one round"):
        law_of(verify, make_round())


def test_a_rule_whose_worlds_multiply_without_end_is_refused_before_they_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each choice leaves one piece of 64 worlds waiting: after d choices they have about 32 d^2 on record."""
    monkeypatch.setattr("spectr_verify.exact.worlds.MAX_RECORDED", 100_000)
    with pytest.raises(EmissionError, match="still asks for more after") as refusal:
        law_of(widening, make_round(), chunk=64)
    choices = int(str(refusal.value).split("after ")[1].split()[0])
    assert 32 * choices**2 == pytest.approx(100_000, rel=0.05)


def test_as_many_choices_as_are_allowed_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(round: Round, chance: Chance) -> Emission:
        for _again in range(19):
            chance.categorical(torch.ones(round.rows, 1))
        return from_target(round, chance)

    monkeypatch.setattr("spectr_verify.exact.worlds.MAX_CHOICES", 20)
    assert law_of(many, make_round()) == law_of(from_target, make_round())
    monkeypatch.setattr("spectr_verify.exact.worlds.MAX_CHOICES", 19)
    with pytest.raises(EmissionError, match="after 20 random choices"):
        law_of(many, make_round())


# --- rules that raise ---------------------------------------------------------------------------------------------


def raising(error: BaseException, choices: int) -> Verify:
    def verify(round: Round, chance: Chance) -> Emission:
        for _again in range(choices):
            chance.categorical(torch.ones(round.rows, 2))
        raise error

    return verify


@pytest.mark.parametrize("choices", [0, 2])
@pytest.mark.parametrize(
    "error", [kind("no") for kind in (ValueError, KeyError, AssertionError, RuntimeError, StopIteration, SystemExit)]
)
def test_whatever_a_rule_raises_is_a_refusal_that_names_it(error: BaseException, choices: int) -> None:
    with pytest.raises(EmissionError, match=f"rule 'mine' raised {type(error).__name__}: '?no'?") as refusal:
        law_of(raising(error, choices), make_round())
    assert refusal.value.__cause__ is error


class Unspeakable(Exception):  # noqa: N818 - anybody's code
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [Unspeakable(), Own("no"), GeneratorExit("no")])
def test_exceptions_of_any_kind_are_refusals(error: BaseException) -> None:
    with pytest.raises(EmissionError, match=f"rule 'mine' raised {type(error).__name__}"):
        law_of(raising(error, 1), make_round())


def test_a_rule_that_stops_itself_as_its_chance_would_is_refused() -> None:
    law = torch.full((6, 2), 0.5, dtype=torch.float64)
    with pytest.raises(EmissionError, match="rule 'mine' raised a Fork by itself"):
        law_of(raising(Fork(law), 0), make_round())


def test_weights_that_remember_how_they_were_made_are_only_numbers_here() -> None:
    def trained(round: Round, chance: Chance) -> Emission:
        scale = torch.tensor(2.0, requires_grad=True)
        return one_token(chance.categorical(round.target_probs[:, 0, 0] * scale), round.length)

    assert law_of(trained, make_round()) == pytest.approx(law_of(from_target, make_round()), abs=1e-15)


def test_an_interruption_by_the_user_is_none_of_the_rules_errors() -> None:
    with pytest.raises(KeyboardInterrupt):
        law_of(raising(KeyboardInterrupt(), 1), make_round())


def test_an_impossible_choice_names_the_rule_and_the_row() -> None:
    def impossible(round: Round, chance: Chance) -> Emission:
        weights = torch.ones(round.rows, 3)
        weights[4] = 0
        return one_token(chance.categorical(weights), round.length)

    with pytest.raises(ChanceError, match="rule 'mine': categorical, row 4: no positive entry"):
        law_of(impossible, make_round())


def test_a_choice_for_some_rows_only_names_the_rule() -> None:
    with pytest.raises(ChanceError, match="rule 'mine': a choice was asked for 3 rows of a round with 6"):
        law_of(lambda r, c: one_token(c.categorical(torch.ones(3, 2)), r.length), make_round())


@pytest.mark.parametrize(
    ("verify", "what"),
    [
        (lambda r, c: None, "must return an Emission; it returned NoneType"),
        (lambda r, c: from_target(r, c).tokens, "must return an Emission; it returned Tensor"),
        (lambda r, c: one_token(c.categorical(torch.ones(r.rows, 4)), r.length), "row .* vocabulary 0..2"),
        (lambda r, c: one_token(c.categorical(torch.ones(r.rows, 2)), 1), "Emission.tokens must be"),
    ],
)
def test_a_broken_contract_names_the_rule(verify: Verify, what: str) -> None:
    with pytest.raises(EmissionError, match=f"rule 'mine': .*{what}"):
        law_of(verify, make_round())


def swallowing(round: Round, chance: Chance) -> Emission:
    try:
        return from_target(round, chance)
    except BaseException:
        return one_token(round.target_probs[:, 0, 0].argmax(dim=-1), round.length)


def returning_from_finally(round: Round, chance: Chance) -> Emission:
    emission = one_token(round.target_probs[:, 0, 0].argmax(dim=-1), round.length)
    try:
        emission = from_target(round, chance)
    finally:
        return emission  # noqa: B012 - the fault


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("verify", [swallowing, returning_from_finally])
def test_a_rule_that_goes_on_after_it_was_stopped_is_refused(verify: Verify) -> None:
    with pytest.raises(EmissionError, match=r"rule 'mine' went on after the exception .* must not catch BaseException"):
        law_of(verify, make_round())


def test_a_rule_that_catches_exceptions_only_is_not_disturbed() -> None:
    def careful(round: Round, chance: Chance) -> Emission:
        try:
            return from_target(round, chance)
        except Exception:  # as careful rules do
            return one_token(round.target_probs[:, 0, 0].argmax(dim=-1), round.length)

    assert law_of(careful, make_round()) == law_of(from_target, make_round())
