"""Compute how constructions grow with the number of samples: built and estimated sizes, and where their curves cross."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import exp, log

from byheart.construct.registry import Method, get, names
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.data.shape import DataShape
from byheart.errors import ByheartError
from byheart.pipeline import compile
from byheart.process.progress import Progress
from byheart.records.json_record import JsonRecord

LARGEST = 10**12
LEVELS = 1 << 12
"""Coordinates of random vectors are whole numbers below this limit, so that constructions in floats can memorise them too."""

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
"""The numbers of samples to build for, as long as building is fast enough."""


def random_data(shape: DataShape, seed: int) -> Dataset:
    """Return random sequences of this shape with random labels."""
    if shape.vocab is None:
        sizes = (shape.n_samples, shape.seq_len, shape.dim or 1, shape.n_classes)
        return grid_vectors(*sizes, levels=LEVELS, seed=seed, task=shape.task)
    sizes = (shape.n_samples, shape.seq_len, shape.vocab, shape.n_classes)
    return random_tokens(*sizes, seed=seed, task=shape.task, ordered=shape.ordered)


@dataclass(frozen=True)
class GrowthCurve:
    """The sizes of one construction, as points (number of samples, number of parameters including zeros).

    built       the sizes of models that were built and verified
    planned     estimated sizes
    ended       why nothing larger was built: an error occurred, the last size took too long, or no larger size was tried
    is_refused  whether an error ended the building: the construction refused the data, or memory ran out
    """

    method: str
    precision: str
    built: tuple[tuple[int, int], ...]
    planned: tuple[tuple[int, int], ...]
    ended: str
    is_refused: bool = False

    @property
    def points(self) -> tuple[tuple[int, int], ...]:
        """The points of all built models, followed by the estimated points beyond the largest of them."""
        last = self.built[-1][0] if self.built else 0
        return (*self.built, *(point for point in self.planned if point[0] > last))

    def at(self, n_samples: float) -> float | None:
        """Return the size at a number of samples, interpolated linearly on a log-log scale.

        Return None outside the range of `points`, and if there is only one point.
        """
        for (n_low, low), (n_high, high) in pairwise(self.points):
            if n_low <= n_samples <= n_high:
                share = log(n_samples / n_low) / log(n_high / n_low)
                return exp(log(low) + share * log(high / low))
        return None


@dataclass(frozen=True)
class Crossover:
    """A number of samples at which two constructions have the same size. Before it, `larger` is the smaller one. Beyond it,
    `larger` is the larger one, unless the two curves only touch.

    on_envelope  whether no other construction is smaller at this point
    """

    n_samples: float
    parameters: float
    smaller: str
    larger: str
    on_envelope: bool


@dataclass(frozen=True)
class Growth(JsonRecord):
    """One panel of a figure: the sizes of constructions for data of one `shape`. The x axis is the number of samples.

    refused  (construction, reason) for each construction that could not be built even for the smallest number of samples
    """

    shape: DataShape
    curves: tuple[GrowthCurve, ...]
    crossovers: tuple[Crossover, ...]
    refused: tuple[tuple[str, str], ...] = ()


def growth(
    shape: DataShape,
    methods: Sequence[str] | None = None,
    *,
    sizes: Sequence[int] | None = None,
    largest: int = LARGEST,
    seconds: float = 20.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Growth:
    """Build constructions for random data of this shape, with increasing numbers of samples.

    Sizes for larger numbers of samples, up to `largest`, are estimated. The number of samples in `shape` is not used.

    methods: names of the constructions to build (default: all). Those that do not support the task of `shape` are left out.
    sizes: numbers of samples to build for (default: `SIZES`). A construction is not built for more samples once it
        has refused the data, or once building and verifying took more than `seconds`.
    """
    tried = []
    for name in names() if methods is None else methods:
        method = get(name)
        if shape.task in method.tasks:
            tried.append(_curve(method, shape, sizes or SIZES, largest, seconds, seed, progress))
    curves = [curve for curve in tried if curve.built]
    refused = tuple((curve.method, curve.ended) for curve in tried if not curve.built)
    return Growth(shape, tuple(curves), crossovers(curves), refused)


def _curve(
    method: Method,
    shape: DataShape,
    sizes: Sequence[int],
    largest: int,
    seconds: float,
    seed: int,
    progress: Progress | None,
) -> GrowthCurve:
    points: list[tuple[int, int]] = []
    ended, is_refused = "no larger size was tried", False
    for done, n_samples in enumerate(sizes):
        if progress is not None:
            progress(done, len(sizes), f"figure: {method.name}")
        start = time.perf_counter()
        try:
            model = compile(
                random_data(replace(shape, n_samples=n_samples), seed), method=method.name, seed=seed
            )
        except (ByheartError, MemoryError) as refusal:
            ended, is_refused = f"N = {n_samples:,}: {str(refusal) or type(refusal).__name__}", True
            break
        points.append((n_samples, model.size.parameters_dense))
        took = time.perf_counter() - start
        if took > seconds:
            ended = f"N = {n_samples:,} took {took:.0f} s"
            break
    planned = _estimates(method, shape, largest) if points else ()
    return GrowthCurve(method.name, method.precisions[0], tuple(points), planned, ended, is_refused)


def _estimates(method: Method, shape: DataShape, largest: int) -> tuple[tuple[int, int], ...]:
    """Return (number of samples, estimated parameters) for 10, 100, 1000, ... samples.

    The list ends at `largest` samples, or before the first number of samples that the construction does not accept.
    """
    points = []
    n_samples = 10
    while n_samples <= largest:
        try:
            points.append((n_samples, method.estimate(replace(shape, n_samples=n_samples)).parameters_dense))
        except ByheartError:  # the construction does not accept data of this size
            break
        n_samples *= 10
    return tuple(points)


def crossovers(curves: Sequence[GrowthCurve]) -> tuple[Crossover, ...]:
    """Return the points where any two of the curves cross or touch, interpolated linearly on a log-log scale."""
    found = []
    for left, right in combinations(curves, 2):
        places = sorted({n for curve in (left, right) for n, _ in curve.points})
        pairs = [(n, left.at(n), right.at(n)) for n in places]
        both = [(n, a, b) for n, a, b in pairs if a is not None and b is not None]
        for (before, a, b), (after, a_next, b_next) in pairwise(both):
            low, high = log(a / b), log(a_next / b_next)
            if low * high < 0 or (low != 0 and high == 0):
                share = low / (low - high)
                n_samples = exp(log(before) + share * log(after / before))
                parameters = exp(log(a) + share * log(a_next / a))
                smaller, larger = (right, left) if high > low else (left, right)
                others = (curve.at(n_samples) for curve in curves if curve not in (left, right))
                is_smallest = all(size is None or size >= parameters for size in others)
                found.append(Crossover(n_samples, parameters, smaller.method, larger.method, is_smallest))
    return tuple(sorted(found, key=lambda crossover: crossover.n_samples))
