"""The old name of `WeightCount`."""

from byheart.program.count import WeightCount as Tally

__all__ = ["Tally"]
