"""Units that are created when they are accessed. The size of a wide block is then known without creating its units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import overload

from byheart.program.blocks import Unit


class Units(Sequence[Unit]):
    """A sequence of units that are created when they are accessed."""

    @abstractmethod
    def unit(self, at: int) -> Unit:
        """Return the unit with this index, which must not be negative."""

    @overload
    def __getitem__(self, at: int) -> Unit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Unit]: ...
    def __getitem__(self, at: int | slice) -> Unit | Sequence[Unit]:
        chosen = range(len(self))[at]
        return self.unit(chosen) if isinstance(chosen, int) else [self.unit(number) for number in chosen]


class LazyUnits(Units):
    """`n_units` units, which the function `make` creates from their indices."""

    def __init__(self, n_units: int, make: Callable[[int], Unit]) -> None:
        self._n_units, self._make = n_units, make

    def __len__(self) -> int:
        return self._n_units

    def unit(self, at: int) -> Unit:
        return self._make(at)


class Joined(Units):
    """Several sequences of units, concatenated."""

    def __init__(self, *parts: Sequence[Unit]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def unit(self, at: int) -> Unit:
        for part in self._parts:
            if at < len(part):
                return part[at]
            at -= len(part)
        raise IndexError(at)
