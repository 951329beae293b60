"""Laws in the place of models: the loop reads them as it reads a model."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from spectr_verify.decoding import decode
from spectr_verify.errors import InputError
from spectr_verify.rules import RULES
from spectr_verify.simulate import synthetic_corpus, table_corpus
from spectr_verify.simulate.corpus import START, Corpus, LawReader, Start, check_corpora
from toy_models import family_pairs, recorded_pairs
from toy_models.synthetic import SyntheticPair

PAIR = family_pairs(0, 3, 2)[0]


@pytest.mark.parametrize("model", ["target", "draft"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_table_is_read_as_its_own_laws(model: str, depth: int) -> None:
    """After the start of a text, within the table, and beyond it, where the table goes on as a Markov chain."""
    pair = family_pairs(0, 3, depth - 1)[0] if depth > 1 else PAIR
    table = getattr(pair, model)
    source = table_corpus("it", [pair]).starts[0].source
    reader = source.readers(1)[["target", "draft"].index(model)]
    text = [2, 0, 1, 1, 2, 0, 2]
    laws = reader.read(torch.tensor([[START, *text]]), last=len(text) + 1)[0].softmax(-1)
    for count, law in enumerate(laws):
        torch.testing.assert_close(law, torch.tensor(table.law(text[:count])), rtol=1e-12, atol=1e-15)


def text_of(contexts: torch.Tensor) -> torch.Tensor:
    """Logits that tell the context: its tokens, read as a number."""
    digits = (contexts + 1) * 10 ** torch.arange(contexts.shape[1]).flip(0)
    return digits.sum(dim=1, keepdim=True).double()


@hypothesis.given(data=st.data())
def test_a_reader_knows_the_text_whatever_was_read_and_cut_before(data: st.DataObject) -> None:
    texts: list[list[int]] = [[], [], []]
    reader = LawReader(text_of, 4, 3)
    for _ in range(data.draw(st.integers(1, 4))):
        new = [data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=3)) for _ in texts]
        width = max(map(len, new))
        last = data.draw(st.integers(1, min(map(len, new))))
        found = reader.read(torch.tensor([[-1] * (width - len(part)) + part for part in new]), last=last)
        texts = [text + part for text, part in zip(texts, new, strict=True)]
        for text, row in zip(texts, found[..., 0].tolist(), strict=True):
            ends = [len(text) - last + 1 + number for number in range(last)]
            windows = [([-1] * 4 + text[:end])[-4:] for end in ends]
            assert row == [float("".join(str(token + 1) for token in window)) for window in windows]
        assert reader.length.tolist() == [len(text) for text in texts]
        rows = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=4))
        cuts = [data.draw(st.integers(0, len(texts[row]))) for row in rows]
        reader.keep(torch.tensor(rows), torch.tensor(cuts))
        texts = [texts[row][:cut] for row, cut in zip(rows, cuts, strict=True)]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_decodes_from_tables_and_from_synthetic_laws(name: str) -> None:
    for corpus in (table_corpus("recorded", recorded_pairs()[:2]), synthetic_corpus(SyntheticPair(20, 0.5))):
        for start in corpus.starts[:2]:
            texts = decode(
                start.source,
                RULES[name],
                [start.prompt] * 5,
                tokens=6,
                drafts=2,
                length=3,
                generator=torch.Generator().manual_seed(0),
            )
            assert texts.lengths.tolist() == [6] * 5
            assert ((texts.target_probs > 0) | (not RULES[name].lossless)).all(), (
                "no lossless rule writes the impossible"
            )


def test_sets_are_told_apart_by_what_is_in_them() -> None:
    pairs = recorded_pairs()
    identities = {
        table_corpus("it", pairs).identity,
        table_corpus("it", pairs[:3]).identity,
        synthetic_corpus(SyntheticPair(20, 0.5)).identity,
        synthetic_corpus(SyntheticPair(20, 0.5, seed=1)).identity,
        synthetic_corpus(SyntheticPair(21, 0.5)).identity,
    }
    assert len(identities) == 5
    assert table_corpus("it", recorded_pairs()).identity == table_corpus("it", pairs).identity


def test_prompts_too_long_for_the_drafts_are_refused() -> None:
    short = Corpus("short", (Start(_Limited(), [0, 1, 2]),), "")
    check_corpora([short], 5, 3)
    with pytest.raises(
        InputError, match="short: prompt 0 has 3 tokens, which with 5 new ones and a draft of 4 is more"
    ):
        check_corpora([short], 5, 4)
    with pytest.raises(InputError, match="'short' is asked for more than once"):
        check_corpora([short, short], 5, 3)


class _Limited:
    limit = 10
