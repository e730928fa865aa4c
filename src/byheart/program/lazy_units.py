"""Units that are made on access: a wide block knows how many it has, so a layout is sized without making them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import overload

from byheart.program.blocks import Unit


class Units(Sequence[Unit]):
    """A sequence of units that are made on access."""

    @abstractmethod
    def unit(self, at: int) -> Unit:
        """The unit of this number, which is not negative."""

    @overload
    def __getitem__(self, at: int) -> Unit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Unit]: ...
    def __getitem__(self, at: int | slice) -> Unit | Sequence[Unit]:
        chosen = range(len(self))[at]
        return self.unit(chosen) if isinstance(chosen, int) else [self.unit(number) for number in chosen]


class LazyUnits(Units):
    """A number of units of one kind."""

    def __init__(self, n_units: int, make: Callable[[int], Unit]) -> None:
        self._n_units, self._make = n_units, make

    def __len__(self) -> int:
        return self._n_units

    def unit(self, at: int) -> Unit:
        return self._make(at)


class Joined(Units):
    """Several sequences of units, one after the other."""

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
