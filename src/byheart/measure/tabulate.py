"""Convert records to flat rows, filter them, write them to CSV or Parquet, and compare settings over seeds."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any

from byheart.errors import UsageError, import_extra
from byheart.files.whole_file import write_whole
from byheart.measure.fits import mean_interval
from byheart.measure.records import Record

Row = dict[str, Any]
FORMATS = (".csv", ".parquet")
SIGNS = {"!=": ne, "<=": le, ">=": ge, "=": eq, "<": lt, ">": gt}  # longer operators first


def row_of(record: Record) -> Row:
    """Return one record as flat columns, such as `sizes.n_heads`, `training.steps` and `measured.accuracy`."""
    config = record.config
    row: Row = {"key": record.key, "family": config["family"], "seed": config["seed"]}
    for section in ("sizes", "options", "data", "training"):
        row |= {f"{section}.{name}": _flat(value) for name, value in config[section].items()}
    row |= {f"measured.{name}": value for name, value in record.measured.items()}
    for name in ("status", "steps", "n_parameters", "n_samples", "seconds", "device", "created"):
        row[name] = getattr(record, name)
    return row | {f"versions.{name}": value for name, value in record.versions.items()}


def _flat(value: Any) -> Any:
    if isinstance(value, Mapping):  # a pass rule
        return " ".join(str(item) for item in value.values())
    return str(value) if isinstance(value, list) else value


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Return all columns, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _full_name(name: str, known: Sequence[str]) -> str:
    """Return `name` if it is a column, otherwise `name` with the section `measured.` in front."""
    return name if name in known else f"measured.{name}"


def _require_column(name: str, known: Sequence[str]) -> None:
    if name not in known:
        meant = _similar_column(name, known)
        hint = f" Did you mean `{meant}`?" if meant else ""
        raise UsageError(
            f"no column `{name}`.{hint}\n  The columns are: {', '.join(known)}.", column=name, meant=meant
        )


def _similar_column(name: str, known: Sequence[str]) -> str | None:
    """Return the column that is most similar to `name`, with or without its section, such as `sizes.width` for `width`."""
    names = {each.rpartition(".")[2]: each for each in known} | {each: each for each in known}
    near = get_close_matches(name, names, n=1)
    return names[near[0]] if near else None


def filter_rows(rows: Sequence[Row], conditions: Sequence[str]) -> list[Row]:
    """Return the rows that meet every condition. A condition is `column=value`, or uses `!=`, `<`, `<=`, `>` or `>=`."""
    kept = list(rows)
    for condition in conditions:
        name, sign, text = _parse(condition)
        if rows:
            _require_column(name, columns_of(rows))
        kept = [row for row in kept if _meets(row.get(name), sign, text)]
    return kept


def _parse(condition: str) -> tuple[str, str, str]:
    for sign in SIGNS:
        name, found, text = condition.partition(sign)
        if found:
            return name.strip(), sign, text.strip()
    raise UsageError(
        f"{condition!r} is not a condition; write column=value, or use !=, <, <=, >, >=.", condition=condition
    )


def _meets(value: Any, sign: str, text: str) -> bool:
    try:
        return bool(SIGNS[sign](float(value), float(text)))
    except (TypeError, ValueError):  # texts can be equal, but are not ordered
        return sign in ("=", "!=") and bool(SIGNS[sign](str(value), text))


def export(rows: Sequence[Row], path: Path) -> None:
    """Write rows to a .csv or .parquet file, atomically."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} must end in {' or '.join(FORMATS)}.", path=str(path))
    columns = columns_of(rows)
    content = _csv(rows, columns) if path.suffix == ".csv" else _parquet(rows, columns)
    write_whole(path, lambda file: file.write(content))


def _csv(rows: Sequence[Row], columns: list[str]) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


def _parquet(rows: Sequence[Row], columns: list[str]) -> bytes:
    pyarrow = import_extra("pyarrow", "parquet", "writing a Parquet file")
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pyarrow.table({name: [row.get(name) for row in rows] for name in columns}), sink)
    return sink.getvalue()


@dataclass(frozen=True)
class Compared:
    """The mean of a metric over a group of records. `setting` maps the columns of the grouping to their values in this group.

    `pooled` names the columns of the configuration, except seeds, in which these records differ. `interval` is the 95% confidence
    interval of the mean over seeds. It is None for fewer than two finite values, and if `pooled` is not empty, because then the
    records are not independent samples of one setting. The mean leaves out the `n_without` records whose metric is missing or not
    finite.
    """

    setting: dict[str, Any]
    n_records: int
    mean: float
    interval: tuple[float, float] | None
    n_without: int  # number of records whose metric is missing or not finite
    pooled: tuple[str, ...]


def compare(rows: Sequence[Row], by: Sequence[str], metric: str) -> list[Compared]:
    """Group rows by the columns `by` and average `metric` over each group.

    If `by` is empty, group by all columns of the configuration in which rows differ, except seeds.
    """
    known = columns_of(rows)
    metric = _full_name(metric, known)
    for name in (*by, metric) if rows else ():
        _require_column(name, known)
    texts = [row[metric] for row in rows if isinstance(row.get(metric), str)]
    if texts:
        raise UsageError(f"`{metric}` must be a number; got {texts[0]!r}.", metric=metric)
    by = list(by) or differing_columns(rows)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
    ordered = sorted(
        groups.items(),
        key=lambda group: [(isinstance(v, str), str(v) if isinstance(v, str) else v or 0) for v in group[0]],
    )
    return [_compare(dict(zip(by, setting, strict=True)), group, metric) for setting, group in ordered]


def pooled_columns(found: Sequence[Compared]) -> list[str]:
    """Return the columns of the configuration, except seeds, that have different values within at least one group of records."""
    return list(dict.fromkeys(name for group in found for name in group.pooled))


def pooled_at(rows: Sequence[Row], x: str) -> list[str]:
    """Return the columns of the configuration, except seeds, in which rows with the same value in the column `x` differ."""
    name, groups = _full_name(x, columns_of(rows)), dict[Any, list[Row]]()
    for row in rows:
        groups.setdefault(row.get(name), []).append(row)
    return list(dict.fromkeys(each for group in groups.values() for each in differing_columns(group)))


def points(rows: Sequence[Row], x: str, y: str) -> tuple[list[float], list[float]]:
    """Return the columns `x` and `y` as two lists of numbers, for a fit. Rows are in the order of their seeds.

    Rows in which `x` or `y` has no value are left out. Raise `UsageError` if a value is a text.
    """
    known = columns_of(rows)
    found: list[tuple[float, float]] = []
    names = [_full_name(name, known) for name in (x, y)]
    for name in names if rows else ():
        _require_column(name, known)
    for row in sorted(rows, key=lambda row: row["seed"]):
        pair = [row.get(name) for name in names]
        if any(isinstance(value, str) for value in pair):
            raise UsageError(f"`{x}` and `{y}` must be numbers; got {pair[0]!r} and {pair[1]!r}.", x=x, y=y)
        if pair[0] is not None and pair[1] is not None:
            found.append((float(pair[0]), float(pair[1])))
    return [one for one, _ in found], [other for _, other in found]


def labels(rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Return short descriptions for display: what all rows have in common, and what distinguishes each row."""
    apart = differing_columns(rows)
    shared = [
        f"{name.partition('.')[2]}={value}"
        for name, value in (rows[0].items() if rows else ())
        if name.startswith(("sizes.", "options.")) and name not in apart
    ]
    family = [] if "family" in apart or not rows else [rows[0]["family"]]
    own = [", ".join(f"{name.rpartition('.')[2]}={row.get(name)}" for name in apart) for row in rows]
    return ", ".join([*family, *shared]), own


def differing_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of the configuration, except seeds, in which rows differ."""
    sections = ("family", "sizes.", "options.", "data.", "training.")
    return [
        name
        for name in columns_of(rows)
        if name.startswith(sections)
        and name != "data.seed"
        and len({repr(row.get(name)) for row in rows}) > 1
    ]


def _compare(setting: dict[str, Any], rows: Sequence[Row], metric: str) -> Compared:
    values = [row.get(metric) for row in rows]
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    mean = statistics.fmean(numbers) if numbers else math.nan
    pooled = tuple(differing_columns(rows))
    interval = mean_interval(numbers) if len(numbers) > 1 and not pooled else None
    return Compared(setting, len(values), mean, interval, len(values) - len(numbers), pooled)
