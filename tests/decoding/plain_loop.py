"""Speculative decoding written out for one text, without a cache and without a batch: what the loop must agree with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spectr_verify.chance import Sampled
from spectr_verify.decoding import Filters, ModelPair
from spectr_verify.rounds import Round
from spectr_verify.rules import Rule


@dataclass
class PastRound:
    start: int
    length: int
    drafts: int


class PlainLoop:
    def __init__(self, pair: ModelPair, rule: Rule, drafts: int, length: int, filters: Filters, seed: int) -> None:
        self.pair, self.rule, self.L, self.filters = pair, rule, length, filters
        self.K = rule.used_drafts(drafts)
        self.chance = Sampled(torch.Generator().manual_seed(seed))
        self.past: list[PastRound] = []
        self.known: dict[tuple[int, ...], Tensor] = {}

    def law(self, model: Any, text: list[int]) -> Tensor:
        """The law of the token after the whole text, which is read from its beginning."""
        key = (id(model), *text)
        if key not in self.known:
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([text])).logits[0, -1, : self.pair.vocab]
            self.known[key] = self.filters.law(logits)
        return self.known[key]

    def owed(self, text: list[int], rounds: int) -> Tensor:
        """The target's law after ``text`` as the first ``rounds`` past rounds left it."""
        if rounds == 0 or self.rule.modified_target is None:
            return self.law(self.pair.target, text)
        last = self.past[rounds - 1]
        place = len(text) - last.start
        if place >= last.length:
            return self.law(self.pair.target, text)
        prefixes = [text[: last.start + i] for i in range(last.length)]
        p = torch.stack([self.law(self.pair.draft, each) for each in prefixes[: place + 1]])
        q = torch.stack([self.owed(each, rounds - 1) for each in prefixes[: place + 1]])
        tokens = torch.tensor([*text[last.start :], 0])
        weights = self.rule.modified_target(tokens[None], p[None], q[None], last.drafts)[0, place]
        return weights / weights.sum() if weights.sum() > 0 else q[place]

    def write(self, prompt: list[int], tokens: int, ends: tuple[int, ...] = ()) -> tuple[list[int], list[int]]:
        """New tokens, and where each came from."""
        text, source = list(prompt), []
        while len(source) < tokens:
            L = min(self.L, self.pair.limit - len(text))
            drafts = [[] for _ in range(self.K)]
            laws = [[] for _ in range(self.K)]
            for _ in range(L):
                now = torch.stack([self.law(self.pair.draft, text + draft) for draft in drafts])
                for k, token in enumerate(self.chance.categorical(now).tolist()):
                    laws[k].append(now[k])
                    drafts[k].append(token)
            target = [[self.owed(text + draft[:i], len(self.past)) for i in range(L + 1)] for draft in drafts]
            stacked = [torch.stack([torch.stack(row) for row in part])[None] for part in (laws, target)]
            emission = self.rule.verify(Round(torch.tensor([drafts]), *stacked), self.chance)
            accepted, draft = int(emission.length[0]) - 1, int(emission.draft[0])
            self.past.append(PastRound(len(text), L, self.K))
            text += emission.tokens[0, : accepted + 1].tolist()
            source += [draft] * accepted + [-2 if accepted == L else -1]
            new = text[len(prompt) :]
            stop = next((i + 1 for i, token in enumerate(new) if token in ends), None)
            if stop is not None:
                return new[:stop][:tokens], source[:stop][:tokens]
        return text[len(prompt) :][:tokens], source[:tokens]
