"""Sums of all logits after a prompt. They check every row of a large output head. Comparing only the tokens that an engine chooses
could not do this.

A row of the output head affects a choice only if the token of this row wins or nearly wins. To check a vocabulary of 70,000 tokens
by choices alone, many thousands of prompts would be needed. A sum of all logits, each with a fixed sign, depends on every row.
Rounding to float32 changes such a sum by at most a known bound (`rounding.sum_bounds`), so a fault that changes a single logit by
more than twice this bound is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from byheart.golden.case import N_SUMS, Case
from byheart.golden.rounding import sum_bounds
from byheart.golden.shape import Shape
from byheart.golden.signatures import spread

N_SUMMED = 8
"""The maximum number of cases per checkpoint for which sums of logits are stored."""


def signs(vocab: int) -> Tensor:
    """Return the signs of the logits in each sum, `(sums, vocabulary)`.

    Each sign is 1 or -1, taken from a bit of a multiple of the token id plus 1.
    """
    ids = torch.arange(1, vocab + 1)[None]
    multipliers = torch.tensor([[2_654_435_761], [2_246_822_519]])[:N_SUMS]
    return 1.0 - 2.0 * ((ids * multipliers >> 31) & 1).double()


def with_logit_sums(shape: Shape, weights: dict[str, Tensor], found: Sequence[Case]) -> list[Case]:
    """Return all cases. Up to `N_SUMMED` of them are given sums of their logits."""
    chosen = {case.name for case in spread(found, N_SUMMED)}
    table = signs(shape.vocab)
    made = []
    for case in found:
        if case.name in chosen:
            sums, bounds = sum_bounds(shape, weights, case.prompt, table, "float32")
            case = replace(case, sums=tuple(sums), sum_bounds=tuple(bounds))
        made.append(case)
    return made


def wrong_sums(case: Case, logits: Sequence[float]) -> tuple[int, ...]:
    """Compute the signed sums of these logits. Return the indices of those that differ from the sums of the case by more than
    rounding can explain.
    """
    found = (signs(len(logits)) * torch.tensor(logits, dtype=torch.float64)).sum(1).tolist()
    triples = zip(found, case.sums, case.sum_bounds, strict=True)
    return tuple(at for at, (sum_, right, bound) in enumerate(triples) if not abs(sum_ - right) <= bound)
