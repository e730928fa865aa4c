"""Store exact weights as six integer tensors, for any number of layers.

All matrices are stored one after the other, row by row (`NetworkSpec.shapes()` gives their order and shapes):

    row_counts   number of non-zero entries of every row
    columns      column of every entry, ascending within a row
    negative     1 where an entry is below zero, else 0
    exponents    power of two of every entry
    limb_counts  number of 64-bit limbs of every mantissa
    limbs        the mantissas, each with its least significant limb first

The value of an entry is ± mantissa · 2^exponent with an odd mantissa whose last limb is not zero, so that a network
has only one representation. When a network is saved, each tensor except the limbs gets the narrowest integer type that
can hold its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import Dyadic, SparseMatrix
from byheart.records.refusals import corrupt

FEW_BITS = 4096
"""Even the smallest network may have exponents from -FEW_BITS to FEW_BITS. `largest_exponent` gives the limit for others."""

UNSIGNED = ("U8", "U16", "U32")
SIGNED = ("I8", "I16", "I32")
DTYPES = {
    "row_counts": UNSIGNED,
    "columns": UNSIGNED,
    "negative": ("U8",),
    "exponents": SIGNED,
    "limb_counts": UNSIGNED,
    "limbs": ("U64",),
}


def largest_exponent(n_limbs: int) -> int:
    """Return the largest exponent, in absolute value, allowed for a network whose weights are stored in `n_limbs` 64-bit limbs.

    Without a limit, a few bytes in a file could expand to numbers with megabytes of zeros.

    The length of the numbers that a network computes grows with the exponents of its weights, so the running time grows
    with (number of weights) · (exponent). Compiled networks have much smaller exponents: for 1,000 random
    sequences of 3 tokens, those of every construction that accepts them were below a fortieth of this limit.
    """
    return max(FEW_BITS, n_limbs)


def encode_sparse(matrices: Iterable[SparseMatrix]) -> dict[str, np.ndarray]:
    """Return the six tensors that store these matrices, by name. The docstring of the module describes them."""
    row_counts: list[np.ndarray] = []
    columns: list[int] = []
    mantissas: list[int] = []
    exponents: list[int] = []
    for matrix in matrices:
        rows = np.fromiter((row for row, _ in matrix.entries), np.int64, len(matrix.entries))
        row_counts.append(np.bincount(rows, minlength=matrix.shape[0]))
        columns += [col for _, col in matrix.entries]
        mantissas += [value.mantissa for value in matrix.entries.values()]
        exponents += [value.exponent for value in matrix.entries.values()]
    limb_counts = [-(-mantissa.bit_length() // 64) for mantissa in mantissas]
    largest, allowed = max(map(abs, exponents), default=0), largest_exponent(sum(limb_counts))
    if largest > allowed:
        raise UsageError(
            f"this network cannot be saved: a weight has an exponent of absolute value {largest:,}; the file "
            f"format allows at most {allowed:,}.",
            exponent=largest,
        )
    limbs = b"".join(
        abs(mantissa).to_bytes(8 * count, "little")
        for mantissa, count in zip(mantissas, limb_counts, strict=True)
    )
    return {
        "row_counts": _narrowest(np.concatenate(row_counts), "u"),
        "columns": _narrowest(np.array(columns, np.int64), "u"),
        "negative": np.array([mantissa < 0 for mantissa in mantissas], np.uint8),
        "exponents": _narrowest(np.array(exponents, np.int64), "i"),
        "limb_counts": _narrowest(np.array(limb_counts, np.int64), "u"),
        "limbs": np.frombuffer(limbs, "<u8"),
    }


def _narrowest(values: np.ndarray, kind: str) -> np.ndarray:
    """Convert numbers to the narrowest integer type of one, two or four bytes that can hold them all.

    Four bytes suffice, because a matrix has at most 2^24 columns and exponents are limited.
    """
    for dtype in (np.dtype(f"<{kind}1"), np.dtype(f"<{kind}2")):
        narrow = values.astype(dtype)
        if np.array_equal(narrow, values):
            return narrow
    return values.astype(f"<{kind}4")


def decode_sparse(
    tensors: Mapping[str, np.ndarray], shapes: Sequence[tuple[int, int]], where: Path
) -> Iterator[SparseMatrix]:
    """Return the matrices of these shapes that the six tensors store.

    Raise `CorruptModel` unless the tensors are exactly those that `encode_sparse` makes of these matrices.

    Everything is checked before the first matrix is built.
    """
    wide = {name: tensors[name].astype(np.int64) for name in DTYPES if name != "limbs"}
    limbs = tensors["limbs"]
    for name in ("row_counts", "columns", "exponents", "limb_counts"):
        dtype = tensors[name].dtype
        if _narrowest(wide[name], dtype.kind).dtype.itemsize < dtype.itemsize:
            raise corrupt(
                where, f"{name} has {8 * dtype.itemsize} bits per number, more than its numbers need"
            )
    _check(wide, limbs, shapes, where)
    columns, negative = wide["columns"].tolist(), wide["negative"].tolist()
    exponents, limb_ends = wide["exponents"].tolist(), (8 * np.cumsum(wide["limb_counts"])).tolist()
    raw = limbs.tobytes()

    def value(entry: int) -> Dyadic:
        start = limb_ends[entry - 1] if entry else 0
        mantissa = int.from_bytes(raw[start : limb_ends[entry]], "little")
        return Dyadic(-mantissa if negative[entry] else mantissa, exponents[entry])

    first_row = first_entry = 0
    for shape in shapes:
        counts = wide["row_counts"][first_row : first_row + shape[0]]
        rows = np.repeat(np.arange(shape[0]), counts).tolist()
        entries = {(row, columns[first_entry + at]): value(first_entry + at) for at, row in enumerate(rows)}
        yield SparseMatrix(shape, entries)
        first_row += shape[0]
        first_entry += len(rows)


def _check(
    wide: Mapping[str, np.ndarray], limbs: np.ndarray, shapes: Sequence[tuple[int, int]], where: Path
) -> None:
    """Check that the six tensors of a file describe matrices of the given `shapes`. The caller has already checked the number of
    rows.
    """
    row_counts, columns, limb_counts = wide["row_counts"], wide["columns"], wide["limb_counts"]
    n_entries = len(columns)
    if int(row_counts.sum()) != n_entries:
        total = int(row_counts.sum())
        raise corrupt(where, f"row_counts adds up to {total:,} entries, but columns has {n_entries:,}")
    for name in ("negative", "exponents", "limb_counts"):
        if len(wide[name]) != n_entries:
            raise corrupt(where, f"{name} has {len(wide[name]):,} items, but there are {n_entries:,} entries")
    if int(limb_counts.sum()) != len(limbs):
        total = int(limb_counts.sum())
        raise corrupt(where, f"limb_counts adds up to {total:,} limbs, but limbs has {len(limbs):,}")

    def refuse(bad: np.ndarray, problem: str) -> None:
        if bad.any():
            raise corrupt(where, f"entry {int(np.argmax(bad)):,} {problem}")

    n_rows, n_columns = np.array(shapes, dtype=np.int64).T
    row_of_entry = np.repeat(np.arange(len(row_counts)), row_counts)
    widths = np.repeat(np.repeat(n_columns, n_rows), row_counts)
    refuse(columns >= widths, "has a column number beyond the last column of its matrix")
    falls = (row_of_entry[1:] == row_of_entry[:-1]) & (columns[1:] <= columns[:-1])
    refuse(
        np.insert(falls, 0, values=False),
        "has a column number that is not above that of the previous entry in its row",
    )
    refuse(wide["negative"] > 1, "has a sign that is neither 0 nor 1")
    allowed = largest_exponent(len(limbs))
    refuse(np.abs(wide["exponents"]) > allowed, f"has an exponent beyond ±{allowed:,}")
    refuse(limb_counts < 1, "has no limbs, so it is zero, but only non-zero entries may be stored")
    ends = np.cumsum(limb_counts)
    even = limbs[ends - limb_counts] & np.uint64(1) == 0
    refuse(even, "has an even mantissa, so it is not in lowest terms")
    refuse(limbs[ends - 1] == 0, "has a mantissa whose last limb is zero")
