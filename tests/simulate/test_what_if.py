"""Efficiency from text of the target: closed forms on all texts of a small pair, and real decoding."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spectr_verify.bounds import closed_form
from spectr_verify.bounds.along_laws import ALONG_LAWS
from spectr_verify.decoding import Filters, ModelPair, decode, load_pair
from spectr_verify.errors import InputError
from spectr_verify.exact import round_law
from spectr_verify.rules import RULES
from spectr_verify.simulate import TimeModel, TokenLogs, read_logs, table_corpus, target_logs, what_if, write_logs
from spectr_verify.simulate.pieces import FEWEST, MOST_SHARED, Pieces, affordable, chosen_pieces
from spectr_verify.simulate.plain import continuations
from spectr_verify.simulate.what_if import FIRST_ROUNDS, ONE_DRAFT
from spectr_verify.simulate.what_if import RULES as ESTIMATED
from toy_models import TableModel, ToyPair, family_pairs
from toy_models.prompts import prompts

FORMS = {
    "token": closed_form.token,
    "block": closed_form.block,
    "greedy-block": closed_form.greedy_block,
    "block-race": closed_form.block_race,
    "relaxed bound": closed_form.relaxed_bound,
}

PAIR = ToyPair(
    "quarters",
    TableModel.parse([[["1/8", "7/8"]], [["1/2", "1/2"], ["0", "1"]], [["1/2", "1/2"]] * 4]),
    TableModel.parse([[["3/4", "1/4"]], [["1/4", "3/4"], ["1/2", "1/2"]], [["1/2", "1/2"]] * 4]),
)
"""Joint probabilities of two target tokens are multiples of 1/16."""


def every_text(length: int, times: int) -> TokenLogs:
    """Every text as often among ``times`` texts as the target writes it."""
    rows = []
    for text in itertools.product(range(2), repeat=length):
        laws = [(PAIR.draft.law(text[:i])[token], PAIR.target.law(text[:i])[token]) for i, token in enumerate(text)]
        rows += [laws] * round(times * float(np.prod([q for _, q in laws])))
    assert len(rows) == times
    with np.errstate(divide="ignore"):
        draft, target = np.log(np.array(rows, dtype=np.float64).reshape(-1, 2)).T
    return TokenLogs(draft, target, np.full(times, length))


@pytest.mark.parametrize("length", [1, 2])
def test_it_is_the_closed_form_on_all_texts(length: int) -> None:
    found = what_if(every_text(length, 16), drafts=3, length=length)
    for r, name in enumerate(found.rules):
        for k, n in itertools.product(range(3), range(length)):
            several = name in ("block-race", "relaxed bound")
            arguments = (PAIR, n + 1, k + 1) if several else (PAIR, n + 1)
            assert found.efficiency[r, k, n] == pytest.approx(1 + FORMS[name](*arguments), abs=1e-12), (name, k, n)
    assert (set(found.places), set(found.texts), found.tokens) == ({16}, {16}, 16 * length)


def laws_of(model: TableModel, tokens: torch.Tensor) -> torch.Tensor:
    """The laws of each token of some texts, [n, L, V]."""
    return torch.tensor([[list(map(float, model.law(text[:i]))) for i in range(len(text))] for text in tokens.tolist()])


def every_piece(length: int, times: int) -> Pieces:
    """The pieces of ``every_text``, each a text of its own."""
    rows = []
    for text in itertools.product(range(2), repeat=length):
        weight = np.prod([float(PAIR.target.law(text[:i])[token]) for i, token in enumerate(text)])
        rows += [text] * round(times * weight)
    tokens = torch.tensor(rows)
    return Pieces(tokens, laws_of(PAIR.draft, tokens), laws_of(PAIR.target, tokens), torch.arange(times))


@pytest.mark.parametrize("order", [1, -1])
def test_with_whole_laws_it_is_what_the_rules_accept_in_exact_laws(order: int) -> None:
    """For all K and L at once, and whichever way the pieces stand."""
    pieces = Pieces(*(part[torch.arange(16).mul(order) % 16] for part in vars(every_piece(2, 16)).values()))
    found = what_if(replace(every_text(2, 16), pieces=pieces), drafts=2, length=2)
    assert found.rules == (*ESTIMATED, *ALONG_LAWS)
    for name, k, n in itertools.product(ALONG_LAWS, (1, 2), (1, 2)):
        r = found.rules.index(name)
        expected = 1 + round_law(RULES[name], PAIR, n, k).expected_accepted
        assert found.efficiency[r, k - 1, n - 1] == pytest.approx(expected, abs=1e-12), (name, k, n)
        assert (found.places[r], found.texts[r]) == (16, 16)
        assert found.bound[r, k - 1, n - 1] == pytest.approx(closed_form.relaxed_bound(PAIR, n, k), abs=1e-12)
        if k == 1:  # optimal-token is token verification there, and tournaments are block verification
            same = found.rules.index("token" if name == "optimal-token" else "block")
            assert found.error[r, 0, n - 1] == pytest.approx(found.error[same, 0, n - 1], abs=1e-12)


def test_shares_of_the_bound() -> None:
    found = what_if(every_text(2, 16), drafts=3, length=2)
    share = dict(zip(found.rules, found.of_bound, strict=True))
    for k, n in itertools.product(range(3), range(2)):
        bound = closed_form.relaxed_bound(PAIR, n + 1, k + 1)
        assert share["block-race"][k, n] == pytest.approx(closed_form.block_race(PAIR, n + 1, k + 1) / bound)
        assert share["token"][k, n] == pytest.approx(
            closed_form.token(PAIR, n + 1) / closed_form.relaxed_bound(PAIR, n + 1, 1)
        ), "a rule of a single draft has the bound of one"
    for name in ("greedy-block", "relaxed bound"):
        assert share[name] == pytest.approx(1, abs=1e-12)
    never = what_if(TokenLogs(np.full(2, -np.inf), np.full(2, -1.0), np.array([1, 1])), drafts=1, length=1)
    assert np.isnan(never.of_bound).all(), "of nothing there is no share"


def test_pieces_that_no_estimate_can_be_made_of_are_refused() -> None:
    logs = every_text(2, 16)
    short, alone = every_piece(1, 16), replace(every_piece(2, 16), text=torch.zeros(16, dtype=torch.int64))
    for pieces, message in ((short, "pieces have 1 tokens, and drafts 2"), (alone, "16 pieces with whole laws are in")):
        with pytest.raises(InputError, match=message):
            what_if(replace(logs, pieces=pieces), drafts=1, length=2)


def test_the_standard_error_is_that_of_a_bootstrap_over_texts() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(3, 9, size=200)
    level = np.repeat(generator.normal(0, 0.5, size=200), lengths)  # texts differ: their places are not independent
    target = -generator.exponential(1.0, size=lengths.sum())
    draft = np.minimum(target - level - generator.exponential(0.3, size=lengths.sum()), 0)
    logs = TokenLogs(draft, target, lengths)
    cuts = lengths.cumsum()[:-1]
    parts = list(zip(np.split(draft, cuts), np.split(target, cuts), strict=True))
    means = []
    for _ in range(300):
        chosen = generator.integers(0, 200, size=200)
        again = TokenLogs(*(np.concatenate([parts[i][side] for i in chosen]) for side in (0, 1)), lengths[chosen])
        means.append(what_if(again, drafts=1, length=3).efficiency[1, 0, 2])
    assert what_if(logs, drafts=1, length=3).error[1, 0, 2] == pytest.approx(np.std(means), rel=0.2)


def test_places_with_too_few_tokens_behind_them_are_left_out() -> None:
    logs = TokenLogs(np.full(9, -1.0), np.full(9, -1.0), np.array([2, 3, 4]))
    found = what_if(logs, drafts=1, length=3)
    assert (set(found.places), set(found.texts)) == ({3}, {2})
    with pytest.raises(InputError, match="no text has 5 tokens; the longest has 4"):
        what_if(logs, length=5)
    for name in ("drafts", "length"):
        with pytest.raises(InputError, match=f"{name} is 0"):
            what_if(logs, **{name: 0})


def test_one_text_has_no_standard_error() -> None:
    """Its places are not independent, however many they are."""
    logs = TokenLogs(np.full(9, -1.0), np.full(9, -1.0), np.array([7, 2]))
    assert set(what_if(logs, length=2).texts) == {2}
    with pytest.raises(InputError, match="only one text has 3 tokens"):
        what_if(logs, length=3)


def test_the_standard_error_of_two_texts_by_hand() -> None:
    """Texts of one place each, of which the draft writes one as the target does and the other never."""
    logs = TokenLogs(np.array([-1.0, -np.inf]), np.array([-1.0, -1.0]), np.array([1, 1]))
    found = what_if(logs, drafts=1, length=1)
    assert found.efficiency[:, 0, 0] == pytest.approx([1.5] * len(found.rules))
    assert found.error[:, 0, 0] == pytest.approx([np.std([0, 1], ddof=1) / np.sqrt(2)] * len(found.rules))


def test_efficiency_rises_with_drafts_and_length() -> None:
    generator = np.random.default_rng(1)
    target = -generator.exponential(1.0, size=600)
    draft = np.minimum(target + generator.normal(0, 0.5, size=600), 0)
    found = what_if(TokenLogs(draft, target, np.full(20, 30)), drafts=4, length=10)
    assert (np.diff(found.efficiency, axis=2) > 0).all()
    for r, name in enumerate(found.rules):
        assert (np.diff(found.efficiency[r], axis=0) > 0).all() == (name not in ONE_DRAFT)
        assert (np.diff(found.efficiency[r], axis=0) == 0).all() == (name in ONE_DRAFT)
        assert (found.efficiency[r] <= found.efficiency[-1] + 1e-12).all()


def test_rules_with_a_modified_target_are_marked() -> None:
    estimated = what_if(TokenLogs(np.full(2, -1.0), np.full(2, -1.0), np.array([1, 1])), length=1).rules
    assert set(FIRST_ROUNDS) == {name for name in estimated if name in RULES and RULES[name].kind == "stateful"}
    assert set(ONE_DRAFT) == {name for name in estimated if name in RULES and RULES[name].used_drafts(2) == 1}


def test_a_rule_of_one_draft_pays_for_one() -> None:
    logs = TokenLogs(np.full(20, -1.0), np.full(20, -0.9), np.array([10, 10]))
    found, time = what_if(logs, drafts=3, length=4), TimeModel(0.1, further=1.0)
    speed = found.speed_up(time)
    for r, name in enumerate(found.rules):
        costs = [time.seconds(1 if name in ONE_DRAFT else k, 4) for k in (1, 2, 3)]
        assert speed[r, :, 3] == pytest.approx(found.efficiency[r, :, 3] / costs)
    assert {drafts for name, drafts, _ in found.best(time) if name in ONE_DRAFT} == {1}


def test_the_time_model_by_hand_and_the_peak() -> None:
    assert TimeModel(0.1, 0.5, 0.2).seconds(3, 4) == pytest.approx(4 * 0.1 * 2 + 1 + 0.2)
    options = {"draft": "--draft-cost", "further": "--further-cost", "verification": "--overhead"}
    for name, cost in itertools.product(options, (-1, float("inf"), float("nan"))):
        with pytest.raises(InputError, match=rf"\({options[name]}\) is {cost}"):
            TimeModel(**{name: cost})
    logs = TokenLogs(np.full(80, -1.0), np.full(80, -0.9), np.array([40, 40]))  # every token is accepted with exp(-0.1)
    found, time = what_if(logs, drafts=1, length=30), TimeModel(0.1)
    token = found.efficiency[0, 0]
    assert token == pytest.approx((1 - np.exp(-0.1 * np.arange(2, 32))) / (1 - np.exp(-0.1)))
    speed = found.speed_up(time)[0, 0]
    peak = int(speed.argmax())
    assert 0 < peak < 29
    assert (np.diff(speed[: peak + 1]) > 0).all()
    assert (np.diff(speed[peak:]) < 0).all()
    assert found.best(time)[0] == ("token", 1, peak + 1)


@pytest.mark.parametrize("behind", [0, 2, 99])
def test_no_round_starts_behind_the_end_of_a_text(behind: int) -> None:
    """Over tokens 0 to 2, of which 2 ends a text: a place is where a text that is cut at its end has one."""
    start = table_corpus("it", [family_pairs(0, 3, 1)[0]]).starts[0]
    ending = replace(start.source, ends=(2,))
    asked = {"texts": 50, "tokens": 12, "seed": 3}
    whole, cut = (target_logs(source, [start.prompt], behind=behind, **asked) for source in (start.source, ending))
    generator = torch.Generator().manual_seed(3)
    tokens = continuations(
        start.source, [start.prompt] * 50, tokens=12, filters=Filters(), generator=generator
    ).tokens.tolist()
    ends = [row.index(2) + 1 if 2 in row else 12 for row in tokens]
    lengths = [min(end + behind, 12) for end in ends]
    assert cut.lengths.tolist() == lengths
    assert min(ends) < 12
    kept = np.concatenate([np.arange(12 * row, 12 * row + length) for row, length in enumerate(lengths)])
    assert (cut.log_draft == whole.log_draft[kept]).all()
    assert (cut.log_target == whole.log_target[kept]).all()


@pytest.mark.parametrize("most", [1000, 7])
def test_pieces_are_of_the_texts_and_begin_before_their_ends(most: int) -> None:
    """With the very laws that the texts have their probabilities of, and without any change to the texts."""
    start = table_corpus("it", [family_pairs(0, 3, 1)[1]]).starts[0]
    ending = replace(start.source, ends=(0,))
    asked = {"texts": 50, "tokens": 13, "behind": 2, "seed": 3, "batch": 20}
    plain = target_logs(ending, [start.prompt], **asked)
    logs = target_logs(ending, [start.prompt], piece=3, most=most, **asked)
    assert (logs.log_draft == plain.log_draft).all()
    assert (logs.lengths == plain.lengths).all()
    pieces, held = logs.pieces, [length // 3 for length in plain.lengths.tolist()]
    assert pieces is not None
    assert plain.pieces is None
    counts = pieces.text.bincount(minlength=50)
    assert counts.tolist() == held if most == 1000 else 0 < counts.sum() <= most < sum(held)
    assert max(held) == 4 > min(held) == 1, "some texts end early"
    begins = plain.lengths.cumsum() - plain.lengths
    ways = {number: [begins[number] + 3 * i + np.arange(3) for i in range(held[number])] for number in range(50)}
    for tokens, p, q, text in zip(*vars(pieces).values(), strict=True):
        along = [law.gather(-1, tokens[:, None])[:, 0].double().log().numpy() for law in (p, q)]
        assert any(
            (along[0] == plain.log_draft[place]).all() and (along[1] == plain.log_target[place]).all()
            for place in ways[int(text)]
        )
    for piece in (0, 14):
        with pytest.raises(InputError, match=f"a piece of {piece} tokens"):
            target_logs(ending, [start.prompt], piece=piece, most=1, **asked)


def test_some_pieces_are_chosen_one_as_likely_as_another() -> None:
    counts = sum(chosen_pieces(5, 3, most=4, seed=seed).int() for seed in range(600))
    assert int(counts.sum()) == 4 * 600
    assert (abs(counts - 160) < 5 * (600 * 4 / 15 * 11 / 15) ** 0.5).all()
    assert chosen_pieces(5, 3, most=99, seed=0).all()
    assert (chosen_pieces(5, 3, most=4, seed=1) == chosen_pieces(5, 3, most=4, seed=1)).all()


def test_fewer_pieces_are_affordable_of_larger_problems() -> None:
    for vocab, drafts, length in ((1_024, 3, 8), (1_024, 7, 12), (32_000, 2, 4)):
        assert affordable(vocab, drafts, length) * vocab * drafts * length**2 == pytest.approx(MOST_SHARED, rel=0.02)
    assert affordable(200_000, 7, 12) == FEWEST


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl"])
def test_saved_texts_that_end_say_the_same_of_shorter_drafts(name: str, tmp_path: Path) -> None:
    start = table_corpus("it", [family_pairs(0, 3, 1)[0]]).starts[0]
    ending = replace(start.source, ends=(2,))
    logs = target_logs(ending, [start.prompt], texts=50, tokens=12, behind=3, seed=3)
    write_logs(logs, tmp_path / name)
    for length in range(1, 5):
        here = target_logs(ending, [start.prompt], texts=50, tokens=12, behind=length - 1, seed=3)
        direct, again = (what_if(each, drafts=2, length=length) for each in (here, read_logs(tmp_path / name)))
        np.testing.assert_array_equal(direct.places, again.places)
        np.testing.assert_array_equal(direct.efficiency, again.efficiency)


TEXTS, TOKENS, LENGTH = 100, 12, 4


@pytest.fixture(scope="module")
def shipped() -> tuple[ModelPair, list[list[int]], TokenLogs]:
    """The shipped pair, a prompt for each text, and what the target wrote after them."""
    pair = load_pair()
    encoded = pair.encode(prompts("code"))
    asked = [encoded[number % len(encoded)] for number in range(TEXTS)]
    return pair, asked, target_logs(pair, asked, texts=TEXTS, tokens=TOKENS, behind=TOKENS, seed=1)


def beginnings(logs: TokenLogs) -> TokenLogs:
    """Of texts of ``TOKENS`` tokens the first ``LENGTH``, so that a round can start at the beginning alone."""
    draft, target = (values.reshape(-1, TOKENS)[:, :LENGTH].ravel() for values in (logs.log_draft, logs.log_target))
    return TokenLogs(draft, target, np.full(len(logs.lengths), LENGTH))


@pytest.mark.parametrize(("name", "drafts"), [("token", 1), ("block", 1), ("block-race", 3)])
def test_it_foretells_real_decoding(
    name: str, drafts: int, shipped: tuple[ModelPair, list[list[int]], TokenLogs]
) -> None:
    """First rounds, where both are means over the same places, and all rounds that the text goes on for.

    Later rounds begin where others end, which is not everywhere alike: docs/simulation.md has how much that makes,
    a fraction of the standard error of so few texts. The mean is a ratio of sums over texts, its standard error that
    of the sum over texts of (tokens - mean * rounds), which are independent.
    """
    pair, asked, logs = shipped
    generator = torch.Generator().manual_seed(2)
    decoded = decode(
        pair,
        RULES[name],
        asked,
        tokens=TOKENS,
        drafts=drafts,
        length=LENGTH,
        generator=generator,
        stops=False,
    )
    whole = (decoded.starts >= 0) & (decoded.starts + LENGTH <= TOKENS)
    for counted, texts in ((decoded.starts == 0, beginnings(logs)), (whole, logs)):
        found = what_if(texts, drafts=drafts, length=LENGTH)
        at = (found.rules.index(name), drafts - 1, LENGTH - 1)
        emitted = torch.where(counted, decoded.accepted + 1, 0).sum(dim=1).double()
        rounds = counted.sum(dim=1)
        mean = emitted.sum() / rounds.sum()
        error = (emitted - mean * rounds).square().sum().sqrt() / rounds.sum()
        assert abs(float(mean) - found.efficiency[at]) < 4 * np.hypot(found.error[at], float(error))
