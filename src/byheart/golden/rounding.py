"""Bound how far rounding can change a decision (the choice of one token), for any correct engine with any order of summation.

A decision depends on the gap g, which is the logit of the right token minus the logit of another token (a rival). Every step i of
the forward pass gets an error variable, which is 0 in the reference engine and at most e_i in another engine. To first order, g
changes by the sum over i of (dg/d error_i) * error_i. One backward pass computes all derivatives, so errors need not be bounded by
norms, and none is counted twice.

There are two kinds of error:

- *rounding* of sums, products, stored values, cos and sin. These errors differ from place to place and have either sign,
  so the squares of their effects are added: sigma^2 = sum (dg/d error_i * e_i)^2 / 3. For a sum of n products w_j x_j in any order,
  e = 2^-24 * sqrt(n * sum (w_j x_j)^2) (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, Theorem 2.4 with lambda = 1). The reason
  is that a partial sum of terms of either sign is about as large as the root of the sum of their squares;
- *approximation* of exp, rsqrt and silu, and of the frequencies of RoPE. These errors can have the same sign everywhere,
  so the absolute values of their effects are added.

A rounding error of at most c is modelled as uniform, with variance c^2 / 3. A weighted sum of such errors is
sub-Gaussian with the summed variance. The bound is LAMBDA * sigma plus the sum of absolute values. The probability
that a correct engine exceeds it is below 2 exp(-LAMBDA^2 / 2), which is 5e-11 per decision for LAMBDA = 7. In
`selection`, a case holds for a number type only if, in every decision, the `N_RIVALS` closest rivals trail by at least the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from byheart.golden.reference import ReferenceEngine
from byheart.golden.shape import EMBEDDING, FINAL_NORM, HEAD, Shape
from byheart.records.vocabulary import NumberType

LAMBDA = 7.0
U32, U16, UB16 = 2.0**-24, 2.0**-11, 2.0**-8  # half a unit in the last place of 1
FUNCTION = 4 * U32  # the relative error that engines may make in exp, rsqrt and silu in float32


@dataclass(frozen=True)
class Roundoff:
    """Two relative rounding errors, each half a unit in the last place.

    stored     the error of numbers that one step passes to the next
    attention  the error of queries, keys, values and attention weights
    """

    stored: float
    attention: float


ROUNDOFF: dict[NumberType, Roundoff] = {
    "float32": Roundoff(U32, U32),
    "float16": Roundoff(U32, U16),
    "bfloat16": Roundoff(UB16, UB16),
}


class RoundingEngine(ReferenceEngine):
    """The reference engine with an error variable, whose value is zero, added at every step. The derivative of a result by this
    variable tells how much an error at this step changes the result.
    """

    def __init__(self, shape: Shape, weights: dict[str, Tensor], number_type: NumberType) -> None:
        super().__init__(shape, weights)
        self.unit = ROUNDOFF[number_type]
        self.errors: list[tuple[Tensor, Tensor, bool]] = []
        self.tokens = torch.zeros(0, dtype=torch.long)

    def _err(self, z: Tensor, size: Tensor, *, is_biased: bool = False) -> Tensor:
        """Return `z` plus an error variable, whose value is 0. It represents an error of at most `size` in another engine.

        Use `is_biased` if the errors of all entries may have the same sign.
        """
        error = torch.zeros_like(z, requires_grad=True)
        self.errors.append((error, size.detach().abs(), is_biased))
        return z + error

    def _stored(self, z: Tensor, n_roundings: int = 1) -> Tensor:
        return self._err(z, z * (self.unit.stored * n_roundings**0.5))

    def linear(self, x: Tensor, name: str) -> Tensor:
        w = self.weight(f"{name}.weight").detach()
        with torch.no_grad():
            sums = ((x * x) @ (w * w).T).sqrt() * (U32 * x.shape[-1] ** 0.5)
        return self._stored(self._err(super().linear(x, name), sums))

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon(name))
        scale = self._err(scale, scale * FUNCTION, is_biased=True)
        return self._stored(x * scale * self.weight(f"{name}.weight"), 2)

    def angles(self, positions: Tensor) -> Tensor:
        frequencies = self.frequencies().expand(len(positions), 1, 1, -1)
        # some engines compute each pair's frequency from the previous one by multiplication
        n_steps = 4 + torch.arange(frequencies.shape[-1])
        frequencies = self._err(frequencies, frequencies * n_steps * U32, is_biased=True)
        angles = positions[:, None, :, None].to(torch.float64) * frequencies
        return self._err(angles, angles * U32)

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        terms = ((first * cos) ** 2 + (second * sin) ** 2).sqrt()
        other = ((second * cos) ** 2 + (first * sin) ** 2).sqrt()
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
        # cos and sin, their products and the sum are each rounded; keys are rounded again in the cache
        turned = self._err(turned, torch.cat([terms, other], -1) * (self.unit.stored * 2))
        return self._err(turned, turned * self.unit.attention)

    def values(self, x: Tensor, at: str) -> Tensor:
        values = super().values(x, at)
        return self._err(values, values * self.unit.attention)

    def scores(self, queries: Tensor, keys: Tensor, layer: int) -> Tensor:
        scores = super().scores(queries, keys, layer)
        with torch.no_grad():
            sums = ((queries**2) @ (keys**2).transpose(-1, -2)).sqrt() * self.scale(layer)
        return self._stored(self._err(scores, sums * (U32 * queries.shape[-1] ** 0.5)), 2)

    def softmax(self, scores: Tensor, visible: Tensor) -> Tensor:
        shares = super().softmax(scores, visible)
        shares = self._err(shares, shares * FUNCTION, is_biased=True)
        return self._err(shares, shares * self.unit.attention)

    def mix(self, shares: Tensor, values: Tensor) -> Tensor:
        mixed = super().mix(shares, values)
        with torch.no_grad():
            sums = ((shares**2) @ (values**2)).sqrt() * shares.shape[-1] ** 0.5
        unit = U16 if self.unit.attention == U16 else U32  # the flash attention of llama.cpp sums in float16
        return self._stored(self._err(mixed, sums * unit))

    def gate(self, x: Tensor, up: Tensor) -> Tensor:
        active = self.activation(x)
        active = self._stored(self._err(active, active * FUNCTION, is_biased=True))
        return self._stored(active * up)

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        return self._stored(x + change)

    def head(self, x: Tensor) -> Tensor:
        """Return the logits of only the tokens in `self.tokens`, with shape `(rows, new tokens, tokens)`. No other logits are
        needed.
        """
        normed = self.norm(x, FINAL_NORM)[:, :, None]
        rows = self.weight(f"{EMBEDDING if self.shape.is_tied else HEAD}.weight")[self.tokens]
        products = rows * normed
        sums = products.detach().square().sum(-1).sqrt() * (U32 * x.shape[-1] ** 0.5)
        return self._stored(self._err(products.sum(-1), sums))


N_RIVALS = 2


def bounds(
    shape: Shape,
    weights: dict[str, Tensor],
    rows: Sequence[Sequence[int]],
    n_new: int,
    number_type: NumberType,
) -> tuple[Tensor, Tensor]:
    """Return two tensors of shape `(rows, n_new)`: a gap for each token of the answers, and a bound on the rounding error of each
    gap.

    All rows have equal length. The last `n_new` tokens of a row are the right answer to the tokens before them.

    A gap is the logit of the right token minus the logit of a rival token. There are `N_RIVALS` rivals: the other tokens with the
    largest logits. The result is for the rival whose ratio of gap to bound is smallest.
    """
    ids = torch.tensor([list(row) for row in rows])
    valid = torch.ones_like(ids[:, :-1], dtype=torch.bool)
    answer = ids[:, -n_new:, None]
    plain = ReferenceEngine(shape, weights)
    with torch.no_grad():
        logits = plain.forward(ids[:, :-1], valid, plain.empty_cache(len(rows)), n_last=n_new)
        rivals = logits.scatter(2, answer, -torch.inf).topk(N_RIVALS).indices
    engine = RoundingEngine(shape, weights, number_type)
    engine.tokens = torch.cat([answer, rivals], 2)
    logits = engine.forward(ids[:, :-1], valid, engine.empty_cache(len(rows)), n_last=n_new)
    gaps, limits = [], []
    for step in range(n_new):
        per_rival = [
            _bound(engine, logits[:, step, 0] - logits[:, step, 1 + rival]) for rival in range(N_RIVALS)
        ]
        gap, limit = torch.stack([g for g, _ in per_rival]), torch.stack([b for _, b in per_rival])
        worst = (gap / limit).argmin(0, keepdim=True)
        gaps.append(gap.gather(0, worst)[0])
        limits.append(limit.gather(0, worst)[0])
    return torch.stack(gaps, 1), torch.stack(limits, 1)


def sum_bounds(
    shape: Shape, weights: dict[str, Tensor], prompt: Sequence[int], signs: Tensor, number_type: NumberType
) -> tuple[list[float], list[float]]:
    """Return signed sums of the logits after a prompt, and their error bounds.

    Each row of `signs` gives one sum, for which every logit is multiplied by its sign (1 or -1) in this row.
    """
    ids = torch.tensor([list(prompt)])
    engine = RoundingEngine(shape, weights, number_type)
    engine.tokens = torch.arange(shape.vocab)[None, None]
    logits = engine.forward(ids, torch.ones_like(ids, dtype=torch.bool), engine.empty_cache(1), n_last=1)[0]
    pairs = [_bound(engine, (row * logits).sum(1)) for row in signs]
    return [float(total) for total, _ in pairs], [float(bound) for _, bound in pairs]


def _bound(engine: RoundingEngine, gap: Tensor) -> tuple[Tensor, Tensor]:
    errors = [error for error, _, _ in engine.errors]
    slopes = torch.autograd.grad(gap.sum(), errors, retain_graph=True, allow_unused=True)
    squares, biased = torch.zeros(len(gap), dtype=torch.float64), torch.zeros(len(gap), dtype=torch.float64)
    for slope, (_, size, is_biased) in zip(slopes, engine.errors, strict=True):
        if slope is None:
            continue
        effect = (slope * size).flatten(1)
        if is_biased:
            biased += effect.abs().sum(1)
        else:
            squares += (effect**2).sum(1) / 3
    return gap.detach(), LAMBDA * squares.sqrt() + biased
