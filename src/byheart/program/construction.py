"""What a construction decides and what it returns: a plan whose size is known, and a network with what was assumed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from byheart.assumption import Assumption
from byheart.bounds.bound import Bound, Theorem
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.network.memory import Memory, Progress
from byheart.network.size import Size, size_of_network


class Plan(ABC):
    """Everything decided for one data set, and nothing emitted yet.

    `size` is exactly the size of the network that `emit` builds. Data that the construction does not take were refused
    when the plan was made.
    """

    @property
    @abstractmethod
    def size(self) -> Size:
        """The size of the network, before it is there."""

    @abstractmethod
    def emit(self, progress: Progress | None = None) -> Construction:
        """Build the network."""


@dataclass(frozen=True, eq=False)
class Construction(Plan):
    """Data compiled to weights, with what was assumed and what was chosen on the way.

    Where deciding is the whole work it is the plan too: the network is there already.
    """

    memory: Memory
    method: str
    theorem: str
    assumptions: tuple[Assumption, ...]
    theorem_size: TheoremSize | None = None
    notes: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def size(self) -> Size:
        return size_of_network(self.memory.network)

    def emit(self, progress: Progress | None = None) -> Construction:
        if progress is not None:
            progress(1, 1)
        return self


def size_of_bound(bound: Bound, width: int, depth: int) -> TheoremSize:
    """A bound on the parameters as the size that a theorem promises."""
    assert isinstance(bound.value, int)
    theorem = Theorem(bound.name, bound.statement, bound.source)
    return TheoremSize(theorem, width, depth, bound.value, 0, bound.assumptions)


def report_attempts(progress: Progress | None) -> Callable[[], None]:
    """To be called before each attempt of a search: tells that one more is under way, how many come being unknown."""
    numbers = count(1)

    def begin() -> None:
        number = next(numbers)
        if progress is not None:
            progress(number, number + 1)

    return begin
