"""Read a row of a run store. Everything in it is checked, because the file may come from anyone.

The package's other readers need msgspec. This module does not, because a machine used only for training may not have msgspec.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args

import numpy as np

from byheart.errors import ByheartError, DataError
from byheart.files.npz_archive import read_npz
from byheart.measure.records import Record, Status, key_of

COLUMNS: dict[str, type | tuple[type, ...]] = {
    "key": str,
    "config": str,
    "status": str,
    "steps": int,
    "measured": str,
    "n_parameters": int,
    "n_samples": (int, float),
    "seconds": (int, float),
    "device": str,
    "versions": str,
    "created": str,
    "curve": bytes,
}
DOCUMENTS = ("config", "measured", "versions")  # columns that hold JSON
COUNTS = ("steps", "n_parameters", "n_samples", "seconds")  # columns that hold numbers of at least 0
SHARES = ("accuracy", "accuracy_tail")  # metrics from 0 to 1
HIGHEST_SHARE = 1 + 1e-6  # counts of samples are rounded to float32, so a share may be slightly above 1
SECTIONS = ("sizes", "options", "data", "training")


def read_row(row: Sequence[Any]) -> Record:
    """Return the record in one row of the table `runs`. Raise `DataError`, naming the run and the field, if a value is invalid."""
    values = dict(zip(COLUMNS, row, strict=True))
    run = f"run {str(values['key'])[:12]}"
    for name, kind in COLUMNS.items():
        _require(isinstance(values[name], kind), run, name, values[name])
    _require(values["status"] in get_args(Status), run, "status", values["status"])
    for name in COUNTS:
        _require(_is_number(values[name]) and values[name] >= 0, run, name, values[name])
    config = _document(values["config"], run, "config")
    for name in ("family", "seed", *SECTIONS):
        kind = str if name == "family" else int if name == "seed" else dict
        _require(isinstance(config.get(name), kind), run, f"config.{name}", config.get(name))
    _require_key(values["key"], config, run)
    measured = _document(values["measured"], run, "measured")
    for name, value in measured.items():
        _require(value is None or _is_measured(name, value), run, f"measured.{name}", value)
    versions = _document(values["versions"], run, "versions")
    for name, value in versions.items():
        _require(isinstance(value, str), run, f"versions.{name}", value)
    curve_steps, curve = read_curve(values["curve"], f"{run}: its curve")
    numbers = {name: math.nan if value is None else float(value) for name, value in measured.items()}
    values |= {"config": config, "measured": numbers, "versions": versions}
    return Record(**values | {"curve_steps": curve_steps, "curve": curve})


def read_curve(packed: bytes, where: str = "a stored curve") -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Unpack a training curve that `records.pack_curve` packed. Return its steps, and the values of each metric at these steps."""
    try:
        arrays = read_npz(Path(where), content=io.BytesIO(packed))
        steps = arrays.pop("steps")
        if any(array.ndim != 1 or array.dtype.kind not in "iuf" for array in (steps, *arrays.values())):
            raise ValueError("its arrays are not one-dimensional arrays of numbers")
    except (ByheartError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib, tokenize and numpy raise many types of exceptions
        raise DataError(f"{where} cannot be read: {error or type(error).__name__}.", where=where) from error
    return steps, {name.removeprefix("curve_"): values for name, values in arrays.items()}


def _document(text: str, run: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{run}: {name} is not JSON: {error}.", run=run, name=name, error=error) from None
    _require(isinstance(found, dict), run, name, found)
    return dict(found)


def _require_key(key: str, config: Mapping[str, Any], run: str) -> None:
    """Raise `DataError` if `key` is not the key of `config`, which means that the key or the configuration was changed."""
    try:
        found = key_of(config)
    except RecursionError:  # too deep to be written as JSON
        found = ""
    if found != key:
        raise DataError(
            f"{run}: its key does not match its configuration, so one of them was changed.",
            run=run,
            name="config",
        )


def _is_measured(name: str, value: object) -> bool:
    """Return whether a value is possible for the metric `name`."""
    return _is_number(value) and (name not in SHARES or 0 <= value <= HIGHEST_SHARE)


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number (not a bool) and below 2^1023 in magnitude, which excludes NaN and infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2.0**1023


def _require(holds: bool, run: str, name: str, value: object) -> None:
    if not holds:
        raise DataError(
            f"{run}: {name} is {repr(value)[:80]}, which is not a valid value.", run=run, name=name
        )
