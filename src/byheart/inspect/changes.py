"""Replace some weights of a model, compare the weights of two models, and show the bits of a weight."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import Dyadic, SparseMatrix, Weights
from byheart.network.memoriser import Memoriser
from byheart.network.protocol import Network

MOST_BITS_SHOWN = 4096
MOST_EDITS = 64
LARGEST_EXPONENT = 1000
"""The largest power of ten in a value that a user gives. `1e99999999` has ten characters, but would take minutes to expand."""


def find_matrix(network: Network, name: str) -> Weights:
    weights = dict(network.parameters()).get(name)
    if weights is None:
        raise UsageError(f"this model has no weight matrix named {name!r}.", matrix=name)
    return weights


def shape_of(weights: Weights) -> tuple[int, int]:
    """Return (rows, columns). A vector counts as one column. All axes except the last are combined into rows."""
    shape = tuple(int(size) for size in weights.shape)
    if len(shape) == 1:
        return shape[0], 1
    return int(np.prod(shape[:-1])), shape[-1]


def n_nonzero(weights: Weights) -> int:
    """Return the number of non-zero entries."""
    return len(weights.entries) if isinstance(weights, SparseMatrix) else int(np.count_nonzero(weights))


def value_at(weights: Weights, row: int, column: int) -> Fraction:
    """Return the exact value of one weight."""
    n_rows, n_columns = shape_of(weights)
    if not (0 <= row < n_rows and 0 <= column < n_columns):
        raise UsageError(
            f"row {row}, column {column} is outside this matrix, whose shape is {n_rows} x {n_columns}. Rows "
            "and columns are counted from 0.",
            row=row,
            column=column,
            n_rows=n_rows,
            n_columns=n_columns,
        )
    if isinstance(weights, SparseMatrix):
        found = weights.entries.get((row, column))
        return Fraction(0) if found is None else found.fraction
    return Fraction(float(weights.reshape(n_rows, n_columns)[row, column]))


def bits_of(value: Fraction) -> dict[str, Any]:
    """Return the sign and the bits of a number whose denominator is a power of two.

    `powers` lists the exponents of its 1-bits, the highest first. If there are more than `MOST_BITS_SHOWN`, the rest is left out.
    `top` is the exponent of the highest 1-bit, or None for the number 0. `lowest` is the exponent of the last binary digit; for
    whole numbers, this exponent is 0.
    """
    mantissa, exponent = abs(value.numerator), -(value.denominator.bit_length() - 1)
    text = bin(mantissa)[2:] if mantissa else ""
    top = exponent + len(text) - 1
    powers = [top - at for at, bit in enumerate(text) if bit == "1"][:MOST_BITS_SHOWN]
    return {"negative": value < 0, "powers": powers, "top": top if mantissa else None, "lowest": exponent}


def flip(value: Fraction, power: int) -> Fraction:
    """Return the number with the bit of value 2^power flipped and the sign unchanged."""
    if not -(1 << 16) <= power <= 1 << 16:
        raise UsageError(
            f"the bit of value 2^{power} is out of range; its exponent must be within ±{1 << 16:,}.",
            power=power,
        )
    unit = Fraction(2) ** power
    is_set = (abs(value) / unit).__floor__() & 1
    size = abs(value) - unit if is_set else abs(value) + unit
    return -size if value < 0 else size


def change_weights(
    memoriser: Memoriser, edits: Sequence[Mapping[str, Any]]
) -> tuple[Memoriser, list[dict[str, Any]]]:
    """Change weights one after the other. Return the changed memoriser, and the old and new value of each weight.

    Each edit names `matrix`, `row` and `column`, and either a new `value` or the `power` of the bit to flip (see `flip`).
    """
    if len(edits) > MOST_EDITS:
        raise UsageError(
            f"{len(edits)} changes were given; at most {MOST_EDITS} are allowed at a time.",
            n_edits=len(edits),
        )
    network, done = memoriser.network, []
    for edit in edits:
        name, row, column = str(edit["matrix"]), int(edit["row"]), int(edit["column"])
        weights = find_matrix(network, name)
        before = value_at(weights, row, column)
        after = (
            flip(before, int(edit["power"])) if edit.get("power") is not None else _parse_value(edit["value"])
        )
        changed, kept = _with_value(weights, row, column, after)
        if kept == before:
            why = (
                "it already has this value"
                if after == before
                else f"in {network.precision}, the new value is rounded to the old one"
            )
            raise UsageError(
                f"{name}[{row}, {column}] would not change: {why}, {show(before)}.",
                name=name,
                row=row,
                column=column,
                precision=network.precision,
                before=before,
            )
        network = _replace(network, name, changed)
        done.append(_change(name, row, column, before, kept))
    return replace(memoriser, network=network), done


def show(value: Fraction) -> str:
    """Format a weight for display: whole numbers below 10^18 exactly, and others as the nearest float. A number that is too large
    for a float is rounded to a power of two.
    """
    if value.denominator == 1 and abs(value) < 10**18:
        return f"{value.numerator:,}"
    try:
        return repr(float(value))
    except OverflowError:
        power = abs(value.numerator).bit_length() - value.denominator.bit_length()
        power += abs(value) > 3 * Fraction(2) ** (power - 1)  # the next power of two is closer
        return f"about {'-' if value < 0 else ''}2^{power}"


def _parse_value(text: object) -> Fraction:
    written = str(text).replace(",", "").strip()
    exponent = re.search(r"[eE][-+]?(\d[\d_]*)$", written)
    if exponent is not None and int(exponent[1].replace("_", "")[:300]) > LARGEST_EXPONENT:
        raise UsageError(
            f"{written[:40]!r} is out of range; its exponent must be within ±{LARGEST_EXPONENT:,}.",
            value=written[:40],
        )
    try:
        value = Fraction(written)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{text!r} is not a number.", text=text) from None
    if value.denominator & (value.denominator - 1):
        value = Fraction(_to_float(value))  # the nearest number with a finite number of bits
    return value


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UsageError("the new value is too large for a float.") from None


def _with_value(weights: Weights, row: int, column: int, value: Fraction) -> tuple[Weights, Fraction]:
    """Replace one entry in a copy of the weights. Return the copy and the stored value, which may be rounded."""
    if isinstance(weights, SparseMatrix):
        entries = {**weights.entries, (row, column): Dyadic.of(value)}
        return SparseMatrix(weights.shape, entries), value
    copy = np.array(weights)
    flat = copy.reshape(shape_of(weights))
    flat[row, column] = _to_float(value)
    if not np.isfinite(flat[row, column]):
        raise UsageError("the new value is too large for the float type of this model.")
    return copy, Fraction(float(flat[row, column]))


def _replace(network: Network, name: str, weights: Weights) -> Network:
    """Return the network with one weight matrix replaced. A network of any family can be rebuilt from the list of its matrices."""
    kept = (weights if each == name else own for each, own in network.parameters())
    return network.spec.build(kept, network.files())


@dataclass(frozen=True, eq=False)
class WeightChanges:
    """The weights in which two networks differ.

    same_shape  whether both networks have tensors of the same names and shapes. If not, their weights are not compared:
                `indices` is empty and `n_changed` is None
    n_weights   number of weights of the first network
    indices     indices of the weights that differ, by tensor
    """

    same_shape: bool
    n_weights: int
    indices: Mapping[str, list[tuple[int, ...]]]
    _before: Mapping[str, Weights]
    _after: Mapping[str, Weights]

    @property
    def n_changed(self) -> int | None:
        """How many weights differ; None if the shapes differ."""
        return sum(map(len, self.indices.values())) if self.same_shape else None

    def listed(self, most: int) -> list[dict[str, Any]]:
        """Return the first `most` weights that differ, each as a dictionary with its matrix, row, column and both values."""
        places = ((name, at) for name, indices in self.indices.items() for at in indices)
        found = []
        for name, at in islice(places, most):
            row, column = (at[0], 0) if len(at) == 1 else _flat(self._before[name], at)
            before, after = (value_at(side[name], row, column) for side in (self._before, self._after))
            found.append(_change(name, row, column, before, after))
        return found


def compare_weights(left: Network, right: Network) -> WeightChanges:
    """Compare the weights of two networks, tensor by tensor."""
    mine, theirs = dict(left.parameters()), dict(right.parameters())
    n_weights = sum(int(np.prod(weights.shape)) for weights in mine.values())
    shapes = [{name: tuple(weights.shape) for name, weights in side.items()} for side in (mine, theirs)]
    if shapes[0] != shapes[1]:
        return WeightChanges(False, n_weights, {}, mine, theirs)
    found = {name: _different(weights, theirs[name]) for name, weights in mine.items()}
    return WeightChanges(True, n_weights, {name: at for name, at in found.items() if at}, mine, theirs)


def _flat(weights: Weights, at: tuple[int, ...]) -> tuple[int, int]:
    """Convert an index to row and column. All axes except the last are combined into rows."""
    return int(np.ravel_multi_index(at[:-1], weights.shape[:-1])), at[-1]


def _change(name: str, row: int, column: int, before: Fraction, after: Fraction) -> dict[str, Any]:
    return {"matrix": name, "row": row, "column": column, "before": show(before), "after": show(after)}


def _different(left: Weights, right: Weights) -> list[tuple[int, ...]]:
    if isinstance(left, SparseMatrix) and isinstance(right, SparseMatrix):
        keys = set(left.entries) | set(right.entries)
        mine, theirs = left.entries, right.entries
        return sorted(key for key in keys if bool(mine.get(key) != theirs.get(key)))
    assert not isinstance(left, SparseMatrix)
    assert not isinstance(right, SparseMatrix)
    return [tuple(at) for at in np.argwhere(left != right).tolist()]
