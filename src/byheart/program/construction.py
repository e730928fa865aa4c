"""The two results of compiling: a plan, whose size is known, and a construction, which holds the network and the assumptions that
were checked.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from byheart.bounds.bound import Bound, Theorem
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces
from byheart.data.shape import DataRecord
from byheart.errors import AssumptionViolated, InexactWeights
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size, size_of_network
from byheart.network.transformer.architecture import Precision, Transformer
from byheart.network.transformer.float_exactness import float_exactness
from byheart.process.progress import Progress, report
from byheart.program.blocks import Program
from byheart.program.count import count
from byheart.program.emit import emit
from byheart.records.json_record import plain

_FIRST_LOOK = 32


class Plan(ABC):
    """The choices that a construction makes for one data set before it builds the network.

    `size` is exactly the size of the network that `emit` builds. A data set that the construction cannot handle is rejected
    when the plan is made.
    """

    @property
    @abstractmethod
    def size(self) -> Size:
        """The size of the network, before it is built."""

    @abstractmethod
    def emit(self, progress: Progress | None = None) -> Construction:
        """Build the network."""


@dataclass(frozen=True, eq=False)
class Construction(Plan):
    """A network compiled from data, with the assumptions that were checked and the choices that were made.

    It is also a `Plan`, because some methods build the network already when they plan it. `emit` then returns the construction
    itself.
    """

    memoriser: Memoriser
    method: str
    theorem: str
    assumptions: tuple[Assumption, ...]
    theorem_size: TheoremSize | None = None
    notes: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def size(self) -> Size:
        return size_of_network(self.memoriser.network)

    def emit(self, progress: Progress | None = None) -> Construction:
        if progress is not None:
            progress(1, 1)
        return self

    def claims(self) -> dict[str, Any]:
        """Return the claims that the construction makes about itself. A certificate repeats them without checking them."""
        promised, sizes = self.theorem_size, ("width", "depth", "parameters", "weight_bits")
        return {
            "method": self.method,
            "theorem": self.theorem,
            "assumptions": self.assumptions,
            "theorem_size": promised and {name: int(getattr(promised, name)) for name in sizes},
        }

    def record(self, data: Dataset | DatasetPieces, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of the model: what the construction says about itself, the data on which it was built, and the choices
        that were made.

        It has no time stamps, so equal calls save equal bytes.
        """
        record = {
            **self.claims(),
            "assumptions": [asdict(each) for each in self.assumptions],
            "dataset": DataRecord.of(data).to_json(),
            "notes": self.notes,
            **choice,
            **({} if data.source is None else {"reading": data.source.to_json()}),
        }
        return {name: plain(value) for name, value in record.items()}

    def target(self) -> dict[str, Any]:
        """Return the rule by which to verify the model, if the construction minimises the total loss gap; otherwise an empty
        dictionary.

        The gap is the loss minus the entropy of the data. With this rule, the certificate also states whether the gap is small
        enough.
        """
        aims_at_gap = "allowed_divergence" in self.notes and self.notes["allowed_divergence"] is None
        return {} if not aims_at_gap else {"rule": "total-gap", "allowed_gap": self.notes["allowed_gap"]}


@dataclass(frozen=True, eq=False)
class ProgramPlan(Plan):
    """A program for one data set, with the assumptions that were checked and the choices that were made.

    network  the network, if it was already built to check the program; None otherwise
    """

    program: Program
    data: Dataset
    method: str
    theorem: str
    assumptions: tuple[Assumption, ...]
    theorem_size: TheoremSize | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    precision: Precision = "exact"
    network: Transformer | None = None

    @cached_property
    def size(self) -> Size:
        return count(self.program, self.precision)

    def emit(self, progress: Progress | None = None) -> Construction:
        network = emit(self.program, self.precision) if self.network is None else self.network
        if progress is not None:
            progress(1, 1)
        claims = (self.method, self.theorem, self.assumptions, self.theorem_size, self.notes)
        return Construction(Memoriser.of(network, self.data), *claims)

    def in_floats(self, precision: Precision, progress: Progress | None = None) -> ProgramPlan:
        """Return this plan in float precision.

        First check that this precision represents every weight exactly, and that every sum on these data is exact in any order
        of summation.

        Raises `AssumptionViolated` if some number does not fit. The fact `reason` of the error says where the number is
        and why it does not fit.
        """
        try:
            network = emit(self.program, precision)
            encoded = Memoriser.of(network, self.data).encode(self.data.inputs)
            # if a number does not fit, the first few samples usually show it
            found = float_exactness(network, encoded[:_FIRST_LOOK])
            found = float_exactness(network, encoded, progress) if found.holds else found
            reason = found.reason
        except InexactWeights as error:
            found, reason = None, str(error).removesuffix(".")
        if found is None or not found.holds:
            raise AssumptionViolated(
                f"{self.method} cannot use {precision} weights for these data: {reason}.\n"
                "  Compile with precision exact, or round the inputs to a coarser grid.",
                method=self.method,
                precision=precision,
                reason=reason,
            )
        notes = {**self.notes, "mantissa_bits_needed": found.bits_needed}
        return replace(self, precision=precision, network=network, notes=notes)


def size_of_bound(bound: Bound, width: int, depth: int) -> TheoremSize:
    """Convert a bound on the number of parameters into a `TheoremSize`."""
    assert isinstance(bound.value, int)
    theorem = Theorem(bound.name, bound.statement, bound.source)
    return TheoremSize(theorem, width, depth, bound.value, 0, bound.assumptions)


def report_attempts(progress: Progress | None) -> Callable[[], None]:
    """Return a function to call before each attempt of a search.

    The returned function reports progress, although the number of attempts is unknown.
    """
    numbers = itertools.count(1)

    def begin() -> None:
        number = next(numbers)
        report(progress, number, number + 1)

    return begin
