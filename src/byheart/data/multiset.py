"""Finite multisets (KS25 Appendix A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from byheart.theorems import realises

Element = TypeVar("Element", bound=Hashable)


@realises("KS25-D A.1")
@dataclass(frozen=True)
class Multiset(Generic[Element]):
    """A finite multiset, stored as a count for each element. Equal multisets compare equal and have equal hashes.

    `items` are pairs (element, multiplicity), each multiplicity at least 1. Create a multiset with `Multiset.of`.
    """

    items: frozenset[tuple[Element, int]]

    @classmethod
    def of(cls, elements: Iterable[Element]) -> Multiset[Element]:
        """Make the multiset of these elements, counting repeats."""
        return cls(frozenset(Counter(elements).items()))

    def __getitem__(self, element: Element) -> int:
        """Return how often an element occurs."""
        return next((count for other, count in self.items if other == element), 0)

    @property
    @realises("KS25-D A.2")
    def support(self) -> frozenset[Element]:
        """The set of elements that occur."""
        return frozenset(element for element, _ in self.items)

    def __len__(self) -> int:
        """Return the cardinality: the sum of multiplicities (KS25 eq. 14)."""
        return sum(count for _, count in self.items)

    @realises("KS25-D B.1")
    def restrict(self, to: Set[Element]) -> Multiset[Element]:
        """Return the multiset of those elements that lie in `to`, with their multiplicities (KS25 eq. 15)."""
        return Multiset(frozenset((element, count) for element, count in self.items if element in to))
