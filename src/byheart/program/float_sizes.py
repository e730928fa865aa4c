"""Sizes of networks of floats: shapes follow from the data and a few choices, and what happens to be zero is counted."""

from __future__ import annotations

from dataclasses import replace

from byheart.network.families import Network
from byheart.network.size import FLOAT_BITS, Size, size_of_network
from byheart.program.construction import Statistics
from byheart.program.weight_count import Tally


def measured(statistics: Statistics, network: Network, **chosen: int) -> Statistics:
    """`statistics` with what building `network` settled: its precision, the counts `chosen`, and its non-zero weights."""
    counts = {**chosen, "weights": size_of_network(network).parameters_nonzero}
    numbers = {kind: Tally(count) for kind, count in counts.items()}
    return replace(statistics, precision=network.precision, numbers=numbers)


def count_of(statistics: Statistics, kind: str, default: int) -> int:
    """The count that building settled, or what it is by default."""
    found = (statistics.numbers or {}).get(kind)
    return default if found is None else found.count


def float_size(statistics: Statistics, dense: int, depth: int, width: int) -> Size:
    """A size in the precision of `statistics`; every weight counts as non-zero until it is known better."""
    word = FLOAT_BITS["float32" if statistics.precision == "float32" else "float64"]
    return Size(dense, count_of(statistics, "weights", dense), depth, width, word, word * dense)
