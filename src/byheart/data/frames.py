"""Read columns of pandas and polars data frames and of pyarrow tables. Make pandas and polars columns from lists."""

from __future__ import annotations

from typing import Any

from byheart.data.options import USUAL_COLUMNS, require_two_columns
from byheart.errors import UsageError, did_you_mean

LIBRARIES = ("pandas", "polars", "pyarrow")


def is_frame(given: Any) -> bool:
    """Return whether `given` is a data frame or a pyarrow table. This imports none of the libraries."""
    return type(given).__module__.split(".")[0] in LIBRARIES and hasattr(given, "columns")


def is_column(given: Any) -> bool:
    """Return whether `given` is one column of a data frame or of a pyarrow table, such as a pandas Series."""
    is_known = type(given).__module__.split(".")[0] in LIBRARIES and not hasattr(given, "columns")
    return is_known and (hasattr(given, "to_list") or hasattr(given, "to_pylist"))


def question_column(frame: Any, input: str | None) -> Any:
    """Return the column of `frame` that holds the questions: the column named by `input` if it
    exists, else the column `key`, else the only column.
    """
    columns = list(getattr(frame, "column_names", frame.columns))
    names = [str(name) for name in columns]
    for name in (input, "key", names[0] if len(names) == 1 else None):
        if name is not None and names.count(name) == 1:
            return frame[columns[names.index(name)]]
    wanted = f"`{input}` (the column that the model was compiled from)" if input else "`key`"
    raise UsageError(
        f"the frame has no column {wanted} to take the questions from; its columns are "
        f"{', '.join(map(repr, names))}.\n"
        "  Choose one column: model.predict(frame[NAME]).",
        columns=names,
    )


def cells_or_none(column: Any) -> list[Any]:
    """Return the cells of a column as a list, with None for each missing cell."""
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    return [None if is_missing(cell) else cell for cell in cells]


def is_missing(cell: Any) -> bool:
    """Whether a cell is missing: None, or NaN, NaT or NA, which pandas uses for missing cells."""
    if cell is None or type(cell).__name__ == "NAType":  # a comparison with NA gives NA again
        return True
    return getattr(cell, "ndim", 0) == 0 and bool(cell != cell)


def column_like(column: Any, cells: list[Any], name: str | None) -> Any:
    """Return `cells` as a column of the same library as `column`. In pandas, the result has the index of `column`. For pyarrow, and
    for pandas columns without an index, such as `pandas.Index`, return the list `cells` unchanged.
    """
    library = type(column).__module__.split(".")[0]
    if library == "pandas" and hasattr(column, "index"):
        return type(column)(cells, index=column.index, name=name, dtype=object)
    return type(column)(name or "", cells) if library == "polars" else cells


def frame_columns(
    frame: Any, input: str | None, label: str | None
) -> tuple[tuple[str, str], list[Any], list[Any]]:
    """Return the names of two columns and their cells, with None for each missing cell.

    By default, these are the columns `key` and `value`, or the only two columns. If one of the only two is named, the other one
    is the default.
    """
    if not is_frame(frame):
        raise UsageError(
            f"expected a data frame ({', '.join(LIBRARIES)}), but the given value has type {type(frame).__name__}.",
            given_type=type(frame).__name__,
        )
    columns = list(getattr(frame, "column_names", frame.columns))  # column names in pandas need not be texts
    names = [str(name) for name in columns]
    usual = list(USUAL_COLUMNS)
    if len(names) == 2 and set(names) != set(USUAL_COLUMNS):
        usual = names[::-1] if input == names[1] or label == names[0] else names
    chosen = (input or usual[0], label or usual[1])
    for name in chosen:
        if name not in names:
            raise UsageError(
                f"the frame has no column `{name}`; its columns are {', '.join(map(repr, names))}."
                f"{did_you_mean(name, names)}\n  Name the columns with input=... and label=...",
                column=name,
            )
        if names.count(name) > 1:
            raise UsageError(
                f"the frame has {names.count(name)} columns `{name}`; rename all but one.", column=name
            )
    require_two_columns(*chosen)
    inputs, labels = (cells_or_none(frame[columns[names.index(name)]]) for name in chosen)
    return chosen, inputs, labels
