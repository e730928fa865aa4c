"""Find capacity by bisection: the smallest model that memorises a data set, or the largest data set that a model memorises.

A search assumes that passing is monotone: if a model passes, then larger models also pass, and the same model passes with fewer
samples. If the capacity lies within the searched range, a search ends with a bracket: two adjacent values, one of which passed and
one of which failed. Searches of many settings and seeds run in parallel, so that each round trains only a few stacks (groups of
models that train together).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from byheart.measure.fits import mean_interval

Goal = Literal["smallest", "largest"]
Judge = Callable[[Sequence[tuple[int, int]]], Sequence[bool]]  # (search, value) pairs -> whether each passed


@dataclass(frozen=True)
class Bracket:
    """The result of one search for a capacity: `passes`, a value that passed, and `fails`, the adjacent value that failed.

    If no value passed, `passes` is None and `fails` is the end of the searched range at which passing is hardest. If this end
    passed, `passes` is this end and `fails` is None, even if the other end failed. `n_runs` counts the values that were tried.
    """

    passes: int | None
    fails: int | None
    n_runs: int

    @property
    def is_closed(self) -> bool:
        """True if the search found both a value that passed and a value that failed."""
        return self.passes is not None and self.fails is not None


@dataclass(frozen=True)
class CapacityEstimate:
    """The capacity found at one point of the grid, combined over its seeds.

    `brackets` holds the search result of each seed. If a search did not find both a value that passes and a value that fails, its
    seed is left out and counted in `n_open`. `estimate` is the mean of `Bracket.passes` over the seeds that are left, or None if
    there are none. `interval` is the 95% interval of this mean, or None if fewer than two seeds are left.
    """

    goal: Goal
    brackets: tuple[Bracket, ...]
    estimate: float | None
    interval: tuple[float, float] | None
    n_open: int


def bisect(n_searches: int, low: int, high: int, goal: Goal, judge: Judge) -> list[Bracket]:
    """Run `n_searches` searches at once between `low` and `high`. Each search takes at most 2 + ⌈log2(high - low)⌉ runs.

    `judge` takes pairs of a search number and a value, and returns for each pair whether the model passed. In the first round, it
    is called with `low` and `high` for every search. In each later round, it is called with one value for every unfinished search.
    """
    easy, hard = (high, low) if goal == "smallest" else (low, high)
    asked = [(search, value) for search in range(n_searches) for value in (easy, hard)]
    verdicts = dict(zip(asked, judge(asked), strict=True))
    passes = [hard if verdicts[s, hard] else easy if verdicts[s, easy] else None for s in range(n_searches)]
    fails = [None if verdicts[s, hard] else hard for s in range(n_searches)]
    counts = [2] * n_searches
    while True:
        asked = []
        for search, (good, bad) in enumerate(zip(passes, fails, strict=True)):
            if good is not None and bad is not None and abs(good - bad) > 1:
                asked.append((search, (good + bad) // 2))
        if not asked:
            return [Bracket(*ends) for ends in zip(passes, fails, counts, strict=True)]
        for (search, value), passed in zip(asked, judge(asked), strict=True):
            counts[search] += 1
            (passes if passed else fails)[search] = value


def capacity_of(brackets: Sequence[Bracket], goal: Goal) -> CapacityEstimate:
    """Combine the brackets (search results) of several seeds at one point of the grid into one estimate."""
    values = [bracket.passes for bracket in brackets if bracket.is_closed and bracket.passes is not None]
    estimate = statistics.fmean(values) if values else None
    interval = mean_interval(values) if len(values) > 1 else None
    return CapacityEstimate(goal, tuple(brackets), estimate, interval, len(brackets) - len(values))
