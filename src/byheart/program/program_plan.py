"""The plan of a construction that describes its network by a program: counted before it is emitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from byheart.assumption import Assumption
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, InexactWeights
from byheart.network.memory import Memory, Progress
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision, Transformer
from byheart.network.transformer.float_exactness import float_exactness
from byheart.program.blocks import Program
from byheart.program.construction import Construction, Plan
from byheart.program.count import count
from byheart.program.emit import emit

_FIRST_LOOK = 32


@dataclass(frozen=True, eq=False)
class ProgramPlan(Plan):
    """A program for one data set, with what was assumed and chosen on the way.

    network  what the program becomes, where it had to be emitted to be checked
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
        return Construction(
            memory=Memory.of(network, self.data),
            method=self.method,
            theorem=self.theorem,
            assumptions=self.assumptions,
            theorem_size=self.theorem_size,
            notes=self.notes,
        )

    def in_floats(self, precision: Precision) -> ProgramPlan:
        """The same in floats, where every weight and every sum on these data is exact, in any order of summation.

        Elsewhere `AssumptionViolated`, whose fact `reason` says what does not fit.
        """
        try:
            network = emit(self.program, precision)
            encoded = Memory.of(network, self.data).encode(self.data.inputs)
            found = float_exactness(network, encoded[:_FIRST_LOOK])  # what does not fit mostly fails here
            found = float_exactness(network, encoded) if found.holds else found
            reason = f"{found.where} needs {found.bits_needed:.0f} bits of mantissa, and it has {found.bits_available}"
        except InexactWeights as error:
            found, reason = None, str(error).removesuffix(".")
        if found is None or not found.holds:
            raise AssumptionViolated(
                f"{self.method} does not fit {precision} on these data: {reason}.\n"
                "  Compile with precision exact, or round the inputs to a coarser grid.",
                method=self.method,
                precision=precision,
                reason=reason,
            )
        notes = {**self.notes, "mantissa_bits_needed": found.bits_needed}
        return replace(self, precision=precision, network=network, notes=notes)
