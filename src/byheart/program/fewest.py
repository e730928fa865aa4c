"""The fewest heads or neurons that suffice, by search: a guessed interval is widened where it is wrong, then halved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Fit = TypeVar("Fit")


@dataclass(frozen=True, eq=False)
class FewestFound(Generic[Fit]):
    """`size` reaches the goal, and one fewer does not; `tried` has the fit of each size, in the order they were made."""

    size: int
    tried: Mapping[int, Fit]

    @property
    def fit(self) -> Fit:
        return self.tried[self.size]

    @property
    def narrower(self) -> Fit | None:
        """The fit of one fewer; None for 0."""
        return self.tried.get(self.size - 1)


def find_fewest(
    fit: Callable[[int], Fit], reaches: Callable[[Fit], bool], high: int, low: int = 0, *, most: int
) -> FewestFound[Fit] | None:
    """The least size in (low, most] whose fit reaches its goal while one fewer does not; None if even `most` do not suffice.

    A guess (low, high] is widened where it is wrong, then halved. Both ends were fitted, not assumed.
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
