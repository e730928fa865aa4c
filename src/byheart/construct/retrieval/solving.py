"""Pass `solve`: table words whose sums carry every label.

Let y be the sum of the words a key touches and y_b its bit b; y_{-1} = 0. The reading circuit sees Gray bits: label bit i of
a key in plane p is y_b xor y_{b-1} with b = p·field_bits + i (see `reading`). Planes are solved from the lowest bit up. When
bit b is due, the bits below are settled, so the sum of the words so far gives y_{b-1} and the carry into bit b, and what is
left is linear over GF(2): the parity of bit b over the touched words is label_i xor y_{b-1} xor carry.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval import elimination
from byheart.construct.retrieval.addressing import Addresses
from byheart.construct.retrieval.layout import Layout

_THREADS = 2
_ALIVE_BYTES = 1 << 30  # factored planes kept at once


@dataclass(frozen=True, eq=False)
class Table:
    """Solved words, and the sums they give.

    words   (row, segment, channel) flattened: row-major with segments interleaved
    sums    y of every key
    """

    words: Int[np.ndarray, " n_columns"]
    sums: Int[np.ndarray, " n_keys"]


@dataclass(frozen=True)
class Dependent:
    """An equation depends on the others: this draw of the hash cannot hold the labels."""

    plane: int
    n_equations: int
    n_reduced: int


@dataclass(frozen=True, eq=False)
class _Plane:
    keys: np.ndarray
    rows: np.ndarray
    patterns: np.ndarray
    n_words: int


def solve(
    layout: Layout,
    where: Addresses,
    labels: Int[np.ndarray, " n_keys"],
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> Table | Dependent:
    """Fill the tables so that every key reads its label; or say which plane's equations are dependent.

    Bits no key needs are random, so that unknown inputs read random fields: reject bits rely on it.
    """
    words = np.zeros(layout.n_columns, dtype=np.int64)
    planes = _planes(layout, where)
    n_free = (layout.n_columns >> 6) + 1
    bytes_each = max((16 * len(plane.keys) * plane.n_words for plane in planes), default=0)
    ahead = max(1, min(_THREADS, _ALIVE_BYTES // max(1, bytes_each)))
    with ThreadPoolExecutor(ahead) as pool:

        def factored(plane: _Plane) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            found: tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray] = (
                elimination.factor(
                    plane.rows, plane.patterns, layout.n_channels, layout.n_columns, plane.n_words
                )
            )
            return found

        pending = [pool.submit(factored, plane) for plane in planes[:ahead]]
        for number, plane in enumerate(planes):
            n_reduced, *factors = pending[number].result()
            pending[number].cancel()
            if n_reduced < len(plane.keys):
                return Dependent(number, len(plane.keys), n_reduced)
            if number + ahead < layout.n_planes:
                pending.append(pool.submit(factored, planes[number + ahead]))
            for i in range(layout.field_bits):
                bit = number * layout.field_bits + i
                so_far = elimination.sums(plane.rows, plane.patterns, layout.n_channels, words)
                below = (so_far >> (bit - 1)) & 1 if bit else np.zeros_like(so_far)
                carry = (so_far >> bit) & 1
                parity = ((labels[plane.keys] >> i) & 1) ^ below ^ carry
                free = rng.integers(0, 2**64, size=n_free, dtype=np.uint64)
                words += elimination.solve(parity.astype(np.uint8), *factors, free).astype(np.int64) << bit
            if progress is not None:
                progress(number + 1, layout.n_planes)
    ids = _row_ids(layout, where.rows)
    return Table(words, elimination.sums(ids, where.patterns, layout.n_channels, words))


def _row_ids(
    layout: Layout, rows: Int[np.ndarray, "n_keys n_segments"]
) -> Int[np.ndarray, "n_keys n_segments"]:
    """Rows of all segments in one order that keeps neighbours together: row · n_segments + segment."""
    return np.ascontiguousarray(rows * layout.n_segments + np.arange(layout.n_segments))


def _planes(layout: Layout, where: Addresses) -> list[_Plane]:
    """The equations of each plane, sorted by their first row, and how many 64-bit words the widest spans."""
    ids = _row_ids(layout, where.rows)
    first = ids.min(axis=1)
    order = np.lexsort((first, where.planes))
    bounds = np.searchsorted(where.planes[order], np.arange(layout.n_planes + 1))
    planes = []
    for plane in range(layout.n_planes):
        keys = order[bounds[plane] : bounds[plane + 1]]
        rows = ids[keys]
        span = int((rows.max(axis=1) - rows.min(axis=1)).max(initial=0)) + 1
        planes.append(_Plane(keys, rows, where.patterns[keys], span * layout.n_channels // 64 + 2))
    return planes


def read_labels(
    layout: Layout, where: Addresses, sums: Int[np.ndarray, " n_keys"]
) -> Int[np.ndarray, " n_keys"]:
    """The labels that sums of words stand for: what the reading circuit makes of them."""
    gray = (sums << 1) ^ sums  # bit b holds y_b xor y_{b-1}
    return np.asarray((gray >> (where.planes * layout.field_bits)) & ((1 << layout.field_bits) - 1))
