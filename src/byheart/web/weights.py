"""Show weights: the list of matrices, a part of a matrix, one weight with its bits, and the weights that hold a fact."""

from __future__ import annotations

from typing import Any

from byheart.documents.facts import locate_facts
from byheart.inspect import changes
from byheart.model import Model
from byheart.network.exact.dyadic import SparseMatrix
from byheart.web.context import Context, Document, open_model

WINDOW = 64  # number of rows and columns of a matrix that are shown at a time
LARGEST = 1e308


def list_matrices(context: Context, model: str) -> Document:
    """List every weight matrix with its shape and its number of non-zero entries."""
    found = [
        {"matrix": name, "shape": list(changes.shape_of(weights)), "n_nonzero": changes.n_nonzero(weights)}
        for name, weights in open_model(model).network.parameters()
    ]
    return {"schema": 1, "matrices": found}


def show_matrix(context: Context, model: str, matrix: str, row: int, column: int) -> Document:
    """Return the block of a matrix that contains the entry at `row` and `column`, as floats.

    A block has at most `WINDOW` rows and `WINDOW` columns.
    """
    weights = changes.find_matrix(open_model(model).network, matrix)
    n_rows, n_columns = changes.shape_of(weights)
    top, left = _window(row, n_rows), _window(column, n_columns)
    bottom, right = min(n_rows, top + WINDOW), min(n_columns, left + WINDOW)
    if isinstance(weights, SparseMatrix):
        values = [[0.0] * (right - left) for _ in range(top, bottom)]
        for (at_row, at_column), value in weights.entries.items():
            if top <= at_row < bottom and left <= at_column < right:
                values[at_row - top][at_column - left] = _as_float(value.fraction)
    else:
        values = weights.reshape(n_rows, n_columns)[top:bottom, left:right].astype(float).tolist()
    shape = [n_rows, n_columns]
    return {"schema": 1, "matrix": matrix, "shape": shape, "row": top, "column": left, "values": values}


def show_weight(context: Context, model: str, matrix: str, row: int, column: int) -> Document:
    return {"schema": 1, "matrix": matrix, "row": row, "column": column} | _describe(
        open_model(model), matrix, row, column
    )


def show_fact(context: Context, model: str, text: str, data: str | None) -> Document:
    """Return the document of `byheart inspect --fact --json` for a fact, and the bits of each weight that it lists.

    If the data file `data` is given, `sharing` lists the other facts that share some of these weights, and `data` describes this
    file.
    """
    opened = open_model(model)
    located = locate_facts(opened, [text], data)
    (found,) = located.facts
    cells = [
        {"tensor": each.tensor, "layer": each.layer, "row": each.index[0], "column": each.index[1]}
        | {"label_powers": list(each.powers)}
        | _describe(opened, each.tensor, *each.index)
        for each in found.locations
        if each.index is not None
    ]
    sharing = None if data is None else list(found.sharing)
    compared = located.to_json()["data"]
    return {"schema": 1, **found.to_json(), "cells": cells, "sharing": sharing, "data": compared}


def _window(at: int, size: int) -> int:
    return max(0, min(at, size - 1)) // WINDOW * WINDOW


def _describe(model: Model, matrix: str, row: int, column: int) -> Document:
    value = changes.value_at(changes.find_matrix(model.network, matrix), row, column)
    return {"value": changes.show(value), "number": _as_float(value), "binary": changes.bits_of(value)}


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return LARGEST if value > 0 else -LARGEST
