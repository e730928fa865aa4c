"""Which texts to keep so that every token id decides some answer.

Every weight of a layer takes part in every decision, but a row of the head only in those that its token wins or nearly wins. So
for each id of the vocabulary close decisions are sought in which it is the right token or the closest rival: several, because a
change of one weight may widen the gap of one decision and close that of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from byheart.golden.shape import N_SPECIAL

N_TIMES = 4
"""Close decisions sought for each token id."""

CLOSE = 0.05
"""A close decision: the most that the right token may lead by. Logits have a spread of 2.5."""


@dataclass(frozen=True)
class Candidates:
    """Texts of one length, with the gap and closest rival of each decision in their answers."""

    ids: Tensor
    gaps: Tensor
    rivals: Tensor

    def row(self, at: int) -> list[int]:
        return [int(token) for token in self.ids[at]]

    def close_tokens(self, at: int) -> list[int]:
        """The right tokens and rivals of the close decisions of one text."""
        is_close = self.gaps[at] < CLOSE
        answer = self.ids[at, -self.gaps.shape[1] :]
        return [int(token) for token in torch.cat([answer[is_close], self.rivals[at][is_close]])]


Holds = Callable[[list[list[int]]], list[bool]]
"""Which of some texts rounding cannot change."""


def covering_rows(
    blocks: Sequence[Candidates], vocab: int, kept: Sequence[Sequence[int]], holds: Holds
) -> list[list[int]]:
    """Texts to add to `kept`, closest decisions first, until each id has `N_TIMES` of them or no text helps."""
    counts = [0] * vocab
    have = {tuple(row) for row in kept}
    order: list[tuple[float, int, int]] = []
    for number, block in enumerate(blocks):
        smallest = block.gaps.min(1).values
        for at in (smallest < CLOSE).nonzero().flatten().tolist():
            if tuple(block.row(at)) in have:
                _count(counts, block.close_tokens(at))
            else:
                order.append((float(smallest[at]), number, at))
    order.sort()
    found: list[list[int]] = []
    for wanted in range(1, N_TIMES + 1):
        # texts are chosen as if all held; those that do not are dropped, and the rest is searched again
        for _ in range(4):
            trial, chosen = list(counts), []
            for entry in order:
                tokens = blocks[entry[1]].close_tokens(entry[2])
                if any(trial[token] < wanted for token in tokens if token >= N_SPECIAL):
                    chosen.append(entry)
                    _count(trial, tokens)
            if not chosen:
                break
            judged = zip(chosen, holds([blocks[n].row(at) for _, n, at in chosen]), strict=True)
            for (gap, number, at), is_safe in judged:
                order.remove((gap, number, at))
                if is_safe:
                    found.append(blocks[number].row(at))
                    _count(counts, blocks[number].close_tokens(at))
    return found


def _count(counts: list[int], tokens: Sequence[int]) -> None:
    for token in tokens:
        counts[token] += 1
