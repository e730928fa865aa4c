"""`byheart measure`: train the models of a specification file, and report what was measured."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import PATH, WholeNumber, device_option, output_options, store_option
from byheart.cli.output import count, echo_json, ratio, say, show_pairs, show_table
from byheart.cli.progress import watch
from byheart.errors import ByheartError, ExitStatus

if TYPE_CHECKING:
    from byheart.measure.forecast import Forecast
    from byheart.measure.measurement import Measurement
    from byheart.measure.specification import Specification

MOST_ROWS = 60


class Interrupted(ByheartError):
    """Ctrl-C ended the measurement; finished runs are stored."""

    exit_status = ExitStatus.INTERRUPTED


@click.command()
@click.argument("spec", metavar="SPEC", type=PATH)
@store_option
@device_option
@click.option(
    "--engine",
    type=click.Choice(["auto", "eager", "graph", "compile"]),
    default="auto",
    help="How to run training steps: eager, graph (as a CUDA graph, for GPUs) or compile (with torch.compile). "
    "The default, auto, chooses one of them.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="FILE.py:FUNCTION",
    help="A function that builds your own PyTorch module, and the file that defines it. The file is executed. "
    "SPEC then names the family, such as towers:Tower for towers.py:Tower. May be repeated.",
)
@click.option("--workers", type=WholeNumber(), default=1, help="Number of processes that train.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on the Ray cluster at this address; `local` starts one for this machine alone.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the number of runs, and the memory and the time that they need; train nothing.",
)
@output_options
def command(
    spec: Path,
    path: Path,
    device: str,
    engine: Any,
    families: tuple[str, ...],
    workers: int,
    cluster: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Train every model of SPEC whose run is not stored yet, many at a time.

    SPEC is a TOML file. Each finished run is stored at once; run the same command again to continue after a stop.
    """
    from byheart.measure.forecast import forecast
    from byheart.measure.progress import report_to
    from byheart.measure.store import Store
    from byheart.measure.workflow import load_factory, measure, read

    specification = read(spec, [load_factory(text) for text in families])
    if dry_run:
        with Store(path) if path.exists() else nullcontext() as stored:
            expected = forecast(specification, stored, device=device)
        _show_forecast(specification, expected, as_json)
        return
    try:
        with watch() as show:
            measurement = measure(
                specification,
                store=path,
                device=device,
                engine=engine,
                workers=workers,
                cluster=cluster,
                on_progress=report_to(show),
            )
    except KeyboardInterrupt:
        again = shlex.join(["byheart", *sys.argv[1:]])
        raise Interrupted(
            f"stopped; finished runs are stored, and all others will start over. Continue with: {again}",
            command=again,
        ) from None
    _show(specification, measurement, path, as_json)


def _show_forecast(specification: Specification, expected: Forecast, as_json: bool) -> None:
    from byheart.measure.progress import duration

    if as_json:
        echo_json({"name": specification.name, **asdict(expected)})
        return
    members, alone = "models that are trained together", _own_families(specification)
    if alone:
        is_mixed = any(point["model"]["family"] not in alone for point in specification.points)
        members = f"{members}; groups of one model for {', '.join(alone)}" if is_mixed else "one model each"
    pairs = [
        ("name", specification.name),
        ("runs", f"{count(expected.n_runs)}, of which {count(expected.n_stored)} are stored"),
        ("stacks", f"{count(expected.n_stacks)} (groups of {members})"),
        ("memory", (f"{_gib(expected.largest_stack_bytes)} for the largest group of models; "
                    f"{_gib(expected.available_bytes)} available")),
        ("time", f"at most about {duration(expected.seconds)} on {expected.device}; less if models reach the target early"),
    ]  # fmt: skip
    if expected.n_search_runs is not None:
        pairs.append(("search", f"at most {count(expected.n_search_runs)} runs"))
    if expected.n_tuning_runs is not None:
        pairs.append(("tuning", f"{count(expected.n_tuning_runs)} trials"))
    show_pairs(pairs)


def _own_families(specification: Specification) -> list[str]:
    """Return the families whose models cannot be trained together in one stack."""
    from byheart.measure.families import family_of

    names = dict.fromkeys(point["model"]["family"] for point in specification.points)
    return [name for name in names if not family_of(name).is_stacked]


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**27 else f"{n_bytes / 2**20:.1f} MiB"


def _show(specification: Specification, measurement: Measurement, path: Path, as_json: bool) -> None:
    from byheart.measure.records import finite

    if as_json:
        echo_json(
            {
                "name": measurement.name,
                "rule": measurement.rule,
                "store": str(path),
                "n_stored": measurement.n_stored,
                "n_trained": measurement.n_trained,
                "records": [
                    finite({name: value for name, value in vars(record).items() if "curve" not in name})
                    for record in measurement.records
                ],
                "capacities": [
                    {"point": found.point, "why_open": list(found.why_open), **asdict(found.capacity)}
                    for found in measurement.capacities
                ],
            }
        )
        return
    for family in _own_families(specification):
        say(f"{family} is your own module, so its models are trained one at a time.\n")
    if measurement.rule is not None:
        say(f"A run passes if {measurement.rule}.\n")
    if measurement.capacities:
        _show_capacities(specification, measurement)
    else:
        _show_runs(measurement)
    trained, stored = count(measurement.n_trained), count(measurement.n_stored)
    say(f"\n{trained} trained, {stored} already stored; the store is {path}")


def _show_runs(measurement: Measurement) -> None:
    from byheart.measure.tabulate import labels, row_of

    shown = measurement.records[:MOST_ROWS]
    shared, own = labels([row_of(record) for record in shown])
    say(f"{shared}\n")
    rows = [
        (
            text or "-",
            str(record.config["seed"]),
            count(record.n_parameters),
            record.status,
            ratio(record.measured["loss"]),
            ratio(record.measured["accuracy"]),
        )
        for record, text in zip(shown, own, strict=True)
    ]
    show_table(
        ("setting", "seed", "parameters", "status", "loss", "accuracy"),
        rows,
        numbers=(1, 2, 4, 5),
        first_width=50,
    )
    if len(measurement.records) > MOST_ROWS:
        say(f"\n{len(measurement.records) - MOST_ROWS} more; see `byheart runs list`.")


def _show_capacities(specification: Specification, measurement: Measurement) -> None:
    assert specification.search is not None
    axis = specification.search.axis
    rows = []
    settings = [
        {**found.point["training"], **found.point["data"], **found.point["model"]}
        for found in measurement.capacities
    ]
    apart = [name for name in settings[0] if len({repr(setting.get(name)) for setting in settings}) > 1]
    for found, setting in zip(measurement.capacities, settings, strict=True):
        capacity = found.capacity
        interval = (
            "-" if capacity.interval is None else f"{capacity.interval[0]:.4g} to {capacity.interval[1]:.4g}"
        )
        rows.append(
            (
                ", ".join(f"{name}={setting.get(name)}" for name in apart) or "-",
                "-" if capacity.estimate is None else f"{capacity.estimate:.4g}",
                interval,
                f"{len(capacity.brackets) - capacity.n_open}/{len(capacity.brackets)}",
                str(max(bracket.n_runs for bracket in capacity.brackets)),
            )
        )
    show_table(
        ("setting", f"{specification.search.goal} {axis}", "95% interval", "settled", "runs each"),
        rows,
        numbers=(1, 2, 3, 4),
    )
    for found, row in zip(measurement.capacities, rows, strict=True):
        if found.why_open:
            say(f"\nNot settled{'' if row[0] == '-' else f', {row[0]}'}: {' '.join(found.why_open)}")
