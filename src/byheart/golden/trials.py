"""Estimate by random trials how much rounding can change a decision (the choice of one token), in checkpoints whose numbers are
mostly exact in bfloat16.

The analysis of `rounding` assigns an error to every step, even to steps that do not round. This module runs trial engines instead.
Whenever a trial engine stores a number, it picks at random one of the two neighbouring numbers of the number type. The nearer one
is more likely, and exact numbers do not change. The error of this random choice has twice the variance of rounding to nearest, so
the bound is `LAMBDA` (see `rounding`) times the root mean square of the observed errors, divided by the square root of 2. Some real
engines compute certain steps in float32, so each trial decides at random, for each of these steps, whether to round.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from byheart.golden.reference import ReferenceEngine
from byheart.golden.rounding import LAMBDA
from byheart.golden.shape import Shape
from byheart.process.progress import Progress, report
from byheart.records.vocabulary import NumberType

N_FIRST, N_TRIALS = 4, 24
HOPELESS = 0.7
"""Stop after `N_FIRST` of the `N_TRIALS` trials if every text has a margin (ratio of a gap to its error bound) below this
number."""

SIGNIFICANT_BITS: dict[NumberType, int] = {"float32": 24, "bfloat16": 8}


class TrialEngine(ReferenceEngine):
    """A reference engine that stores numbers with `n_bits` significant bits and rounds each of them up or down at random."""

    def __init__(self, shape: Shape, weights: dict[str, Tensor], n_bits: int, seed: int) -> None:
        super().__init__(shape, weights)
        self.whole = 2.0**n_bits
        self.random = torch.Generator().manual_seed(seed)

    def _stored(self, x: Tensor) -> Tensor:
        mantissa, exponent = torch.frexp(x)
        scaled = mantissa * self.whole
        low = scaled.floor()
        up = torch.rand(x.shape, generator=self.random, dtype=torch.float64) < scaled - low
        return torch.ldexp((low + up) / self.whole, exponent)

    def _perhaps_stored(self, x: Tensor) -> Tensor:
        return self._stored(x) if torch.rand((), generator=self.random) < 0.5 else x

    def linear(self, x: Tensor, name: str) -> Tensor:
        return self._stored(super().linear(x, name))

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon(name))
        return self._stored(self._perhaps_stored(x * scale) * self.weight(f"{name}.weight"))

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        cos, sin = self._perhaps_stored(angles.cos()), self._perhaps_stored(angles.sin())
        products = [self._perhaps_stored(a * b) for a, b in ((first, cos), (second, sin))]
        others = [self._perhaps_stored(a * b) for a, b in ((second, cos), (first, sin))]
        return self._stored(torch.cat([products[0] - products[1], others[0] + others[1]], -1))

    def scores(self, queries: Tensor, keys: Tensor, layer: int) -> Tensor:
        products = self._perhaps_stored(queries @ keys.transpose(-1, -2))
        return self._perhaps_stored(products * self.scale(layer))

    def softmax(self, scores: Tensor, visible: Tensor) -> Tensor:
        return self._perhaps_stored(super().softmax(scores, visible))

    def mix(self, shares: Tensor, values: Tensor) -> Tensor:
        return self._stored(super().mix(shares, values))

    def gate(self, x: Tensor, up: Tensor) -> Tensor:
        return self._stored(self._perhaps_stored(self.activation(x)) * up)

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        return self._stored(super().add(x, change))


@torch.no_grad()
def margins_by_trials(
    shape: Shape,
    weights: dict[str, Tensor],
    rows: Sequence[Sequence[int]],
    n_new: int,
    number_type: NumberType = "bfloat16",
    progress: Progress | None = None,
) -> Tensor:
    """Return, for each text, the smallest ratio of a gap to its error bound. A gap is the lead of a right token over another token.

    All texts have the same length and end in their answers. `number_type` is one of `SIGNIFICANT_BITS`.
    """
    ids = torch.tensor([list(row) for row in rows])
    texts, answer = ids[:, :-1], ids[:, -n_new:, None]
    valid = torch.ones_like(texts, dtype=torch.bool)

    def gaps(engine: ReferenceEngine) -> Tensor:
        """Return how much the logit of the right token exceeds that of each other token."""
        logits = engine.forward(texts, valid, engine.empty_cache(len(ids)), n_last=n_new)
        return (logits.gather(2, answer) - logits).scatter(2, answer, torch.inf)

    def margins(moved: Tensor) -> Tensor:
        bound = LAMBDA / 2**0.5 * moved.square().mean(0).sqrt()
        found = exact / bound.clamp(min=1e-30)
        return found.masked_fill(found.isnan(), torch.inf).flatten(1).min(1).values

    def moved(seeds: range) -> Tensor:
        found = []
        for seed in seeds:
            engine = TrialEngine(shape, weights, SIGNIFICANT_BITS[number_type], seed)
            found.append(gaps(engine) - exact)
            report(progress, seed + 1, N_TRIALS)
        return torch.stack(found)

    exact = gaps(ReferenceEngine(shape, weights))
    seen = moved(range(N_FIRST))
    first = margins(seen)
    if float(first.max()) < HOPELESS:
        return first
    return margins(torch.cat([seen, moved(range(N_FIRST, N_TRIALS))]))
