"""CapacityEstimate by bisection: the smallest model that memorises a data set, or the largest data set a model memorises.

A search assumes that passing is monotone: from some size on models pass, or up to some number of samples. It ends with
a bracket: a value seen to pass next to one seen to fail. Searches of many settings and seeds advance together, so each
round trains as few stacks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Goal = Literal["smallest", "largest"]
Judge = Callable[[Sequence[tuple[int, int]]], Sequence[bool]]  # (search, value) pairs -> whether each passed

# Student's t, two-sided 95%, for 1 to 30 degrees of freedom; beyond them the normal's 1.96 is within 2%.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Bracket:
    """The end of one search: `passes` and `fails` are adjacent, unless an end of the range settled it.

    `passes` is None if nothing in the range passed; `fails` is None if everything tried passed.
    """

    passes: int | None
    fails: int | None
    n_runs: int

    @property
    def is_closed(self) -> bool:
        """True if the answer lies inside the range."""
        return self.passes is not None and self.fails is not None


@dataclass(frozen=True)
class CapacityEstimate:
    """What the seeds of one setting say together.

    `estimate` is the mean of the values that passed, `interval` its 95% confidence interval by Student's t over seeds
    (None for one seed). Seeds whose search ran out of the range are counted in `n_open` and left out.
    """

    goal: Goal
    brackets: tuple[Bracket, ...]
    estimate: float | None
    interval: tuple[float, float] | None
    n_open: int


def bisect(n_searches: int, low: int, high: int, goal: Goal, judge: Judge) -> list[Bracket]:
    """Search `n_searches` times at once between `low` and `high`; at most 2 + log2(high - low) runs each, rounded up.

    Each round asks `judge` for one value of every search still open. The first round asks for both ends.
    """
    easy, hard = (high, low) if goal == "smallest" else (low, high)
    asked = [(search, value) for search in range(n_searches) for value in (easy, hard)]
    verdicts = dict(zip(asked, judge(asked), strict=True))
    passes: list[int | None] = []
    fails: list[int | None] = []
    counts = [2] * n_searches
    for search in range(n_searches):
        at_easy, at_hard = verdicts[search, easy], verdicts[search, hard]
        passes.append(hard if at_hard else easy if at_easy else None)
        fails.append(None if at_hard else hard)
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


def student_half_width(values: Sequence[float]) -> float:
    """Half the 95% confidence interval of the mean of two or more values."""
    freedom = len(values) - 1
    quantile = _T95[freedom - 1] if freedom <= len(_T95) else 1.96
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def capacity_of(brackets: Sequence[Bracket], goal: Goal) -> CapacityEstimate:
    """Gather the brackets of several seeds of one setting."""
    values = [bracket.passes for bracket in brackets if bracket.is_closed and bracket.passes is not None]
    estimate = statistics.fmean(values) if values else None
    interval = None
    if len(values) > 1:
        assert estimate is not None
        half = student_half_width(values)
        interval = (estimate - half, estimate + half)
    return CapacityEstimate(goal, tuple(brackets), estimate, interval, len(brackets) - len(values))
