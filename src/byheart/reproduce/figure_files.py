"""From stored runs to a figure's record, and from the record to its files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from byheart.errors import DataError, MalformedFile
from byheart.measure.records import Record
from byheart.measure.store import Store
from byheart.reproduce.figure import Check, FigureRecord, Panel, Scale, Series, Verdict
from byheart.reproduce.registry import figure_of
from byheart.reproduce.runner import stored_records
from byheart.reproduce.samples import Samples

SCHEMA = 1


def make_record(name: str, scale: Scale, samples: Samples | None, store: Store) -> FigureRecord:
    """Compute a figure from what the store holds; a `DataError` where it holds nothing of it."""
    records = stored_records(name, scale, samples, store)
    if not records:
        raise DataError(
            f"the store {store.path} holds no run of {name} at scale {scale}.\n"
            f"  Train them with `byheart reproduce {name} --scale {scale} --store {store.path}`.",
            figure=name,
        )
    figure = figure_of(name)
    computed = figure.compute(scale, records, samples)
    return FigureRecord(
        figure=name,
        paper=figure.paper,
        title=figure.title,
        claim=figure.claim,
        scale=scale,
        panels=computed.panels,
        verdict=computed.verdict,
        numbers=computed.numbers,
        choices=computed.choices,
        seeds=tuple(sorted({int(record.config["seed"]) for record in records})),
        runs=_runs(records),
    )


def _runs(records: Sequence[Record]) -> dict[str, Any]:
    """How many runs, of what outcome, on what machine, when, and for how long each stack's share adds up."""
    return {
        "count": len(records),
        "diverged": sum(record.status == "diverged" for record in records),
        "devices": sorted({record.device for record in records}),
        "versions": [
            dict(pairs) for pairs in sorted({tuple(sorted(record.versions.items())) for record in records})
        ],
        "first": min(record.created for record in records),
        "last": max(record.created for record in records),
        "seconds": round(math.fsum(record.seconds for record in records), 3),
    }


def to_json(record: FigureRecord) -> str:
    """The record as JSON; numbers that JSON lacks become null, and six digits are kept."""
    return json.dumps({"schema": SCHEMA, **_plain(asdict(record))}, indent=1, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def read_record(path: Path) -> FigureRecord:
    """A record as `to_json` wrote it; a `MalformedFile` otherwise."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table.pop("schema") != SCHEMA:
            raise MalformedFile(f"{path} has another schema than {SCHEMA}.", path=str(path))
        verdict = table["verdict"]
        return FigureRecord(
            **{
                **table,
                "panels": tuple(_panel(panel) for panel in table["panels"]),
                "verdict": Verdict(
                    verdict["outcome"],
                    verdict["because"],
                    tuple(Check(**check) for check in verdict["checks"]),
                ),
                "choices": tuple(table["choices"]),
                "seeds": tuple(table["seeds"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedFile(f"{path} is no record of a figure: {error}", path=str(path)) from error


def _panel(table: dict[str, Any]) -> Panel:
    series = tuple(
        Series(**row | {name: _numbers(row[name]) for name in ("x", "y", "low", "high")})
        for row in table["series"]
    )
    return Panel(
        **{
            **table,
            "series": series,
            "columns": _numbers(table["columns"]),
            "rows": _numbers(table["rows"]),
            "cells": tuple(_numbers(row) for row in table["cells"]),
        }
    )


def _numbers(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values)


def verdict_text(record: FigureRecord) -> str:
    """The verdict as a page of plain text."""
    lines = [
        record.title,
        "",
        f"Claim: {record.claim}",
        f"Verdict at scale {record.scale}: {record.verdict.outcome}.",
        f"Because: {record.verdict.because}",
    ]
    lines += [
        f"- {'yes' if check.holds else 'no '}  {check.name}: found {check.found}; asked for {check.wanted}."
        for check in record.verdict.checks
    ]
    lines += ["", run_sentence(record), *(f"Choice: {choice}" for choice in record.choices)]
    return "\n".join(lines) + "\n"


def run_sentence(record: FigureRecord) -> str:
    """How many runs, which seeds, on what, for how long."""
    runs = record.runs
    seeds = ", ".join(map(str, record.seeds))
    return (
        f"{runs['count']:,} runs ({runs['diverged']} diverged), seeds {seeds}, on {', '.join(runs['devices'])},"
        f" {runs['seconds']:,.0f} s of training, {runs['last'][:10]}."
    )
