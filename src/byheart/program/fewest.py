"""Search for a number of heads or neurons that suffices although one less does not: find an interval whose lower end does not
suffice and whose upper end does, then bisect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Fit = TypeVar("Fit")


@dataclass(frozen=True, eq=False)
class FewestFound(Generic[Fit]):
    """The result of `find_fewest`. A fit is what was built or trained with a given size, such as a number of heads.

    size   the fit of this size reaches the goal, and the fit of one size less does not; size 0 counts as not reaching it
    tried  all fits that were made, by size, in the order in which they were made
    """

    size: int
    tried: Mapping[int, Fit]

    @property
    def fit(self) -> Fit:
        return self.tried[self.size]

    @property
    def narrower(self) -> Fit | None:
        """The fit of size `size` - 1, which does not reach the goal. None if `size` is 1, because no fit of size 0 is made."""
        return self.tried.get(self.size - 1)


def find_fewest(
    fit: Callable[[int], Fit], reaches: Callable[[Fit], bool], high: int, low: int = 0, *, most: int
) -> FewestFound[Fit] | None:
    """Find a size of at most `most` whose fit reaches the goal, while the fit of the next smaller size does not.

    `fit` makes the fit of a given size, and `reaches` decides whether a fit reaches the goal.

    `high` must not exceed `most`.

    The search starts with the interval (low, high], which is a guess. It moves this interval until the size `low` fails and the
    size `high` succeeds. Then it bisects the interval. Success and failure are always found by making a fit, never assumed, except
    that size 0 counts as a failure. If even the size `most` fails, the result is None.
    """
    tried: dict[int, Fit] = {}

    def is_enough(size: int) -> bool:
        if size and size not in tried:
            tried[size] = fit(size)
        return size > 0 and reaches(tried[size])

    while not is_enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while is_enough(low):
        low, high = low // 2, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return FewestFound(high, tried)
