"""Choose texts so that every token id matters for some answer.

Every weight of a layer affects every decision (choice of a token), but a row of the output head affects only decisions that its
token wins or nearly wins. For each token id, this module therefore searches for close decisions in which the id is the right token
or the closest rival. It searches for several such decisions per id, because a change of one weight may increase the lead of the
right token in one decision and remove it in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from byheart.golden.shape import N_SPECIAL

N_TIMES = 4
"""How many close decisions (see `CLOSE`) to find for each token id."""

N_TRIES = 4
"""The maximum number of rounds in a stage. The first stage chooses texts until each token id has one close decision, the second
until it has two, and so on up to `N_TIMES`. A round chooses texts and drops those whose answers rounding could change. The next
round chooses other texts in place of the dropped ones.
"""

MOST_ROUNDS = N_TIMES * N_TRIES

CLOSE = 0.05
"""A decision (the choice of one token) is close if the logit of the right token leads by less than this. For comparison, logits
have a standard deviation of about 2.6.
"""


@dataclass(frozen=True)
class Candidates:
    """Texts of equal length, each a prompt and its answer, with two values for each token of the answer.

    `rivals` holds the token with the second-largest logit. `gaps` holds the distance of this logit from the largest.
    """

    ids: Tensor
    gaps: Tensor
    rivals: Tensor

    def row(self, at: int) -> list[int]:
        return [int(token) for token in self.ids[at]]

    def close_tokens(self, at: int) -> list[int]:
        """Return the tokens in the answer of text `at` that lead by less than `CLOSE`, and the closest rival of each."""
        is_close = self.gaps[at] < CLOSE
        answer = self.ids[at, -self.gaps.shape[1] :]
        return [int(token) for token in torch.cat([answer[is_close], self.rivals[at][is_close]])]


Holds = Callable[[list[list[int]]], list[bool]]
"""A function that returns, for each text, whether rounding cannot change its answer."""


def covering_rows(
    blocks: Sequence[Candidates], vocab: int, kept: Sequence[Sequence[int]], holds: Holds
) -> list[list[int]]:
    """Choose texts of `blocks` to add to those in `kept`, and return them. Texts are left out if `holds` finds that rounding could
    change their answers.

    A close decision is the choice of a token with a small lead. As far as possible, each token id except the special ones is the
    right token or the closest rival in `N_TIMES` close decisions. Texts with the closest decisions are tried first.
    """
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
        # choose texts as if all were safe, drop those that are not, and search the rest again
        for _ in range(N_TRIES):
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
