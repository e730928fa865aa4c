"""Weights to look at: all matrices, a part of one, one number with its bits, and those that hold a fact."""

from __future__ import annotations

import math
from typing import Any

from byheart.construct.retrieval.locate import locate
from byheart.model import Model
from byheart.network.exact.dyadic import SparseMatrix
from byheart.web import edits
from byheart.web.context import Context, Document, open_model

WINDOW = 64  # rows and columns of a matrix shown at a time
LARGEST = 1e308


def list_matrices(context: Context, model: str) -> Document:
    """Every weight matrix with its shape and how many of its entries are not zero."""
    found = [
        {"matrix": name, "shape": list(edits.shape_of(weights)), "n_nonzero": edits.n_nonzero(weights)}
        for name, weights in open_model(model).network.parameters()
    ]
    return {"schema": 1, "matrices": found}


def show_matrix(context: Context, model: str, matrix: str, row: int, column: int) -> Document:
    """The window of a matrix that holds one of its entries, as floats."""
    weights = edits.find_matrix(open_model(model).network, matrix)
    n_rows, n_columns = edits.shape_of(weights)
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
    """What `byheart inspect --fact --json` prints, with the value and the bits of each weight it names."""
    extra = [] if data is None else ["--data", data]
    document = context.command("inspect", "--json", *extra, f"--fact={text}", "--", model)
    opened = open_model(model)
    scales = _scales(opened, text)
    for cell in document["cells"]:
        matrix = f"layers.{cell['layer']}.{cell['matrix']}"
        row, column = cell["row"], cell["column"]
        if cell["matrix"] == "w2":  # the units of a table are the columns of its output weights
            row, column = column, row
        cell["weight"] = {"matrix": matrix, "row": row, "column": column}
        cell.update(_describe(opened, matrix, row, column))
        scale = scales[cell["layer"], cell["matrix"]]
        power = math.log2(scale) if scale > 0 else 0.5
        if power.is_integer():  # bit b of the word is worth 2^b / scale in the weight
            cell["label_powers"] = [bit - int(power) for bit in range(*document["bits"])]
    return document


def _window(at: int, size: int) -> int:
    return max(0, min(at, size - 1)) // WINDOW * WINDOW


def _describe(model: Model, matrix: str, row: int, column: int) -> Document:
    value = edits.value_at(edits.find_matrix(model.network, matrix), row, column)
    return {"value": edits.show(value), "number": _as_float(value), "binary": edits.bits_of(value)}


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(LARGEST, value)


def _scales(model: Model, text: str) -> dict[tuple[int, str], float]:
    """What makes a word of the weights of each table."""
    tokenizer = model.memoriser.tokenizer
    assert tokenizer is not None
    encoded = model.memoriser.encode(tokenizer.encode_all([text]))
    found = locate(model.memoriser, model.record.get("notes") or {}, encoded)
    segments = {layer: number for number, layer in enumerate(found.tables)}
    return {
        (cell.layer, cell.matrix): found.scales[0 if cell.matrix == "w1" else segments[cell.layer]]
        for cell in found.cells(0)
    }
