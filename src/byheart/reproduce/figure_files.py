"""Compute the record of a figure from stored runs, write the record to files, and read it back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from byheart.errors import ByheartError, DataError, MalformedFile
from byheart.measure.records import Record, finite
from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.records.json_file import show_value
from byheart.reproduce.figure import Facts, Figure, FigureRecord, Scale, decide
from byheart.reproduce.observation import Observation, from_groups, observe, to_groups
from byheart.reproduce.registry import figure_of
from byheart.reproduce.runner import stored_records

SCHEMA = 3
OPTIMISERS = {"adam": "Adam", "adamw": "AdamW", "lbfgs": "L-BFGS"}
# the maximum number in a record, because drawing takes milliseconds for each
MOST_PANELS, MOST_SERIES, MOST_CELLS = 32, 64, 4096
AGREES = 1e-9  # relative, or absolute below 1


def make_record(
    name: str, scale: Scale, samples: Samples | None, store: Store, earlier: Path | None = None
) -> FigureRecord:
    """Compute the record of a figure from the runs in the store.

    `earlier` is the path of a record of the figure with runs that the store no longer holds. Its observations are kept, and those
    of the store are added. If both have a run, the one in the store is used.

    Raise `DataError` if the store has no run of the figure and `earlier` is None.
    """
    records = stored_records(name, scale, samples, store)
    if not records and earlier is None:
        raise DataError(
            f"the store {store.path} holds no run of {name} at scale {scale}.\n"
            f"  Train such runs with `byheart reproduce {name} --scale {scale} --store {store.path}`.",
            figure=name,
        )
    figure = figure_of(name)
    found, parts, facts = dict[str, Observation](), [], None
    if earlier is not None:
        before, runs, facts = read_observations(earlier, scale)
        found = {_identity(one): one for one in before}
        parts.append(runs)
    if records:
        ours = [observe(record) for record in records]
        fresh = [record for record, one in zip(records, ours, strict=True) if _identity(one) not in found]
        parts.append(_runs(records, fresh))
        found |= {_identity(one): one for one in ours}
    # in the order in which they are stored, so that computing from the file gives the same record
    kept = from_groups(to_groups(_trimmed(figure, one) for one in found.values()))
    if figure.facts is not None and (samples is not None or not figure.needs_samples):
        facts = finite(figure.facts(scale, kept, samples))
    return assemble(name, scale, kept, facts or {}, _joined(parts, kept))


def _trimmed(figure: Figure, one: Observation) -> Observation:
    """Return the parts of an observation that the figure stores."""
    measured = {
        name: value for name, value in one.measured.items() if name in (figure.measured or one.measured)
    }
    keeps_curve = figure.curves is not None and figure.curves(one)
    return replace(one, measured=measured, curve=one.curve if keeps_curve else {})


def _identity(one: Observation) -> str:
    """Return the part of a run's configuration that identifies it within its figure.

    This is everything except the version of the engine and the path and digest of the data.
    """
    config = {name: value for name, value in one.config.items() if name != "engine"}
    config["data"] = {key: value for key, value in config["data"].items() if key not in ("path", "sha256")}
    return json.dumps(config, sort_keys=True)


def read_observations(path: Path, scale: Scale) -> tuple[tuple[Observation, ...], dict[str, Any], Facts]:
    """Read the observations, runs and facts from a figure's record, which must have this scale.

    The record may have been written by an earlier version of byheart.
    """
    from byheart.records.json_file import read_json
    from byheart.records.reader import read_values
    from byheart.records.refusals import refuse_file

    table: Any = read_json(path)
    if not isinstance(table, dict) or table.get("scale") != scale:
        raise refuse_file(str(path), f"it is not a record of a figure at scale {scale}")
    try:
        found = from_groups(table["observations"])
        runs, facts = dict(table["runs"]), dict(table["facts"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise refuse_file(str(path), f"its observations, runs or facts cannot be read: {error!r}") from error
    read_values(runs, _StoredRuns, f"{path}, runs", refuse=refuse_file)
    return found, runs, facts


def _joined(parts: Sequence[Mapping[str, Any]], kept: Sequence[Observation]) -> dict[str, Any]:
    """Combine the summaries of runs from several records.

    `count` and `diverged` are those of the runs in `kept`; devices, versions, dates and seconds are those in all summaries.
    """
    versions = {json.dumps(row, sort_keys=True): row for part in parts for row in part["versions"]}
    return {
        "count": len(kept),
        "diverged": sum(one.status == "diverged" for one in kept),
        "devices": sorted({device for part in parts for device in part["devices"]}),
        "versions": list(versions.values()),
        "first": min(part["first"] for part in parts),
        "last": max(part["last"] for part in parts),
        "seconds": round(math.fsum(part["seconds"] for part in parts), 3),
    }


def assemble(
    name: str, scale: Scale, observations: Sequence[Observation], facts: Facts, runs: Mapping[str, Any]
) -> FigureRecord:
    """Compute the record from observations and facts.

    This is a pure function, so that a stored record can be checked.
    """
    figure = figure_of(name)
    computed = figure.compute(scale, observations, facts)
    return FigureRecord(
        figure=name,
        paper=figure.paper,
        title=figure.title,
        claim=figure.claim,
        own=figure.own,
        rule=figure.rule,
        scale=scale,
        budget=_budget(observations),
        verdict=decide(scale, computed.trials, computed.missing),
        **{
            part: getattr(computed, part)
            for part in ("checks", "tables", "panels", "numbers", "choices", "counter")
        },
        seeds=tuple(sorted({one.seed for one in observations})),
        runs=runs,
        facts=facts,
        observations=tuple(observations),
    )


def _runs(records: Sequence[Record], fresh: Sequence[Record]) -> dict[str, Any]:
    """Return the devices, versions and dates of the runs in `records`, and the training time of those in `fresh`: the runs that
    an earlier record of the figure does not contain.
    """
    return {
        "devices": sorted({record.device for record in records}),
        "versions": [
            dict(pairs) for pairs in sorted({tuple(sorted(record.versions.items())) for record in records})
        ],
        "first": min(record.created for record in records),
        "last": max(record.created for record in records),
        "seconds": math.fsum(record.seconds for record in fresh),
    }


def _budget(observations: Sequence[Observation]) -> str:
    """Describe the number of seeds per setting and steps per model."""
    counts = sorted({len(row["seeds"]) for row in to_groups(observations)[1:]}) or [0]
    plans = sorted(
        {(one.config["training"]["optimiser"], one.config["training"]["steps"]) for one in observations}
    )
    steps: dict[str, list[str]] = {}
    for optimiser, count in plans:
        steps.setdefault(optimiser, []).append(f"{count:,}")
    trained = "; ".join(f"{OPTIMISERS[name]}: {', '.join(counts)} steps" for name, counts in steps.items())
    seeds = f"{counts[0]} to {counts[-1]}" if counts[0] != counts[-1] else str(counts[0])
    return f"seeds per setting: {seeds}; {trained}"


def recompute(record: FigureRecord) -> list[str]:
    """Compute a stored record again from its observations, and return the differences. The result is empty if they agree."""
    with blaming(record):
        again = assemble(record.figure, record.scale, record.observations, record.facts, record.runs)
        return list(_differences(_document(record), _document(again), ""))


def _differences(stored: Any, found: Any, path: str) -> Iterator[str]:
    if isinstance(stored, Mapping) and isinstance(found, Mapping):
        for name in [*stored, *(name for name in found if name not in stored)]:
            if name not in stored or name not in found:
                yield f"{path}/{name} is {'stored but not computed' if name not in found else 'computed but not stored'}"
            else:
                yield from _differences(stored[name], found[name], f"{path}/{name}")
    elif isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            yield f"{path}: {len(stored)} entries stored, {len(found)} computed"
        else:
            for number, pair in enumerate(zip(stored, found, strict=True)):
                yield from _differences(*pair, f"{path}/{number}")
    elif _is_number(stored) and _is_number(found):
        if abs(stored - found) > AGREES * max(1.0, abs(stored)):
            yield f"{path}: stored {stored!r}, computed {found!r}"
    elif stored != found:
        yield f"{path}: stored {stored!r}, computed {found!r}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _document(record: FigureRecord) -> dict[str, Any]:
    plain = finite(asdict(replace(record, observations=())))
    return {"schema": SCHEMA, **plain, "observations": finite(to_groups(record.observations))}


def to_json(record: FigureRecord) -> str:
    """Return the record as JSON, with each list of plain values on one line. Numbers that JSON cannot express become null."""
    return _text(_document(record), "") + "\n"


def _text(value: Any, indent: str) -> str:
    """Return JSON with objects and lists of objects on several lines, and each group of observations on one line."""
    if isinstance(value, dict) and value and not ({"setting", "common"} & set(value)):
        inner = ",\n".join(
            f"{indent} {json.dumps(name, ensure_ascii=False)}: {_text(item, indent + ' ')}"
            for name, item in value.items()
        )
        return f"{{\n{inner}\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = ",\n".join(f"{indent} {_text(item, indent + ' ')}" for item in value)
        return f"[\n{inner}\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class _StoredRuns:
    """The fields of `runs` in a record."""

    count: int
    diverged: int
    devices: tuple[str, ...]
    versions: tuple[Mapping[str, str], ...]
    first: str
    last: str
    seconds: float


def read_record(path: Path) -> FigureRecord:
    """Read a record that `to_json` wrote. Raise `MalformedFile` if it is not valid, and `UsageError` if there is no such figure."""
    from byheart.records.json_file import read_json
    from byheart.records.reader import read_values
    from byheart.records.refusals import refuse_file

    table: Any = read_json(path)
    if not isinstance(table, dict) or "schema" not in table:
        raise refuse_file(str(path), "it is not the record of a figure")
    if table["schema"] != SCHEMA:
        raise MalformedFile(
            f"{path} has schema {show_value(table['schema'])}; this version of byheart reads schema {SCHEMA}.\n"
            "  Write a new record from the stored runs, with `byheart reproduce NAME --scale SCALE --draw-only`.",
            path=str(path),
        )
    rest = {name: value for name, value in table.items() if name not in ("schema", "observations")}
    rest["panels"] = _with_nan(rest.get("panels"))
    record = read_values(rest, FigureRecord, str(path), refuse=refuse_file)
    read_values(record.runs, _StoredRuns, f"{path}, runs", refuse=refuse_file)
    sizes = [(len(record.panels), "panels", MOST_PANELS)]
    sizes += [(len(panel.series), "series in a panel", MOST_SERIES) for panel in record.panels]
    sizes += [(sum(map(len, panel.cells)), "cells in a panel", MOST_CELLS) for panel in record.panels]
    for number, what, most in sizes:
        if number > most:
            raise refuse_file(str(path), f"it has {number:,} {what}, more than the limit of {most:,}")
    if record.paper != figure_of(record.figure).paper:
        raise refuse_file(str(path), f"{record.figure} is not a figure of {record.paper}")
    try:
        return replace(record, observations=from_groups(table["observations"]))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise MalformedFile(f"{path}: its observations cannot be read: {error!r}.", path=str(path)) from error


def _with_nan(value: Any) -> Any:
    """Replace null by NaN in panels that were read from JSON. In panels, null stands for a number that JSON cannot express."""
    if isinstance(value, dict):
        return {name: _with_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [math.nan if item is None else _with_nan(item) for item in value]
    return value


@contextmanager
def blaming(record: FigureRecord) -> Iterator[None]:
    """Return a context manager for code that draws a stored record or computes it again.

    An exception in its block, other than a `ByheartError`, is converted to a `MalformedFile` that names the figure of the record.
    """
    try:
        yield
    except ByheartError:
        raise
    except (
        Exception
    ) as error:  # the numbers of a record are arbitrary, so numpy and matplotlib may raise any exception
        raise MalformedFile(
            f"the figure {record.figure} cannot be drawn or computed from its record: {type(error).__name__}: {error}\n"
            "  Write a new record from the stored runs, with "
            f"`byheart reproduce {record.figure} --scale {record.scale} --draw-only`.",
            figure=record.figure,
        ) from error


def verdict_text(record: FigureRecord) -> str:
    lines = [
        record.title,
        "",
        f"Claim: {record.claim}",
        f"The paper's own condition: {record.own}",
        f"Rule: {record.rule}",
        f"Verdict at scale {record.scale}: {record.verdict.headline}. {record.verdict.summary}",
        *([f"Best counter-argument: {record.counter}"] if record.counter else []),
        f"Budget: {record.budget}",
        "",
    ]
    words = {True: "yes", False: "no", None: "open"}
    lines += [
        f"- {words[trial.holds]}: {trial.name}{'' if trial.is_own else ' (variation)'}: {trial.found}."
        for trial in record.verdict.trials
    ]
    if record.checks:
        lines += ["", "Other checks, which do not affect the verdict:"]
        lines += [
            f"- {words[check.holds]}: {check.name}: found {check.found}; expected {check.wanted}."
            for check in record.checks
        ]
    lines += ["", run_sentence(record), *(f"Choice: {choice}" for choice in record.choices)]
    return "\n".join(lines) + "\n"


def run_sentence(record: FigureRecord) -> str:
    """Describe the number of runs, their seeds, devices and total time."""
    runs = record.runs
    seeds = ", ".join(map(str, record.seeds))
    return (
        f"Runs: {runs['count']:,} ({runs['diverged']} diverged). Seeds: {seeds}. Devices: {', '.join(runs['devices'])}."
        f" Training took {runs['seconds']:,.0f} s; the last run was on {runs['last'][:10]}."
    )
