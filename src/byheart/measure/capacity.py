"""Find capacity by bisection: the smallest model that memorises a data set, or the largest data set that a model memorises.

A search assumes that passing is monotone: if a model passes, then larger models also pass, and the same model passes with fewer
samples. A search ends with a bracket: two adjacent values, one of which passed and one of which failed. Searches of many settings
and seeds run in parallel, so that each round trains only a few stacks.
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
    """The result of one search: `passes`, a value that passed, and `fails`, the adjacent value that failed.

    `passes` is None if no value passed, and `fails` is None if all of them passed. Then the answer is at or beyond an end of the
    range.
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
    """The result of one setting, combined over its seeds.

    `estimate` is the mean, over seeds, of the value in `Bracket.passes`. `interval` is the 95% interval of this mean, or None
    for fewer than two seeds. A seed is left out, and counted in `n_open`, if all of its values passed or none did.
    """

    goal: Goal
    brackets: tuple[Bracket, ...]
    estimate: float | None
    interval: tuple[float, float] | None
    n_open: int


def bisect(n_searches: int, low: int, high: int, goal: Goal, judge: Judge) -> list[Bracket]:
    """Run `n_searches` searches at once between `low` and `high`. Each takes at most 2 + ⌈log2(high - low)⌉ runs.

    The first round calls `judge` with `low` and `high` for every search. Each later round calls it with one value for every
    unfinished search.
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
    """Combine the brackets of several seeds of one setting."""
    values = [bracket.passes for bracket in brackets if bracket.is_closed and bracket.passes is not None]
    estimate = statistics.fmean(values) if values else None
    interval = mean_interval(values) if len(values) > 1 else None
    return CapacityEstimate(goal, tuple(brackets), estimate, interval, len(brackets) - len(values))
