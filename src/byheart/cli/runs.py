"""`byheart runs`: list, filter, export and compare stored training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from byheart.cli.options import PATH, output_option, output_options, store_option, together
from byheart.cli.output import count, echo_json, ratio, say, show_table

MOST_ROWS = 60


# options that choose the records to use
store_options = together(
    store_option,
    click.option(
        "--where",
        multiple=True,
        metavar="CONDITION",
        help="Use only the runs with COLUMN=VALUE (also !=, <, <=, >, >=); may be repeated.",
    ),
)


@click.group()
def command() -> None:
    """List, filter, export and compare stored training runs."""


@command.command("list")
@store_options
@output_options
def list_runs(path: Path, where: tuple[str, ...], as_json: bool) -> None:
    """List runs. --where accepts the columns of `byheart runs export`, such as sizes.n_heads."""
    from byheart.measure.records import finite
    from byheart.measure.tabulate import labels

    rows = _rows(path, where)
    if as_json:
        echo_json({"store": str(path), "runs": finite(rows)})
        return
    shared, own = labels(rows)
    say(f"runs: {count(len(rows))}{'; ' if shared else ''}{shared}\n")
    shown = [
        (
            row["key"][:12],
            text or "-",
            str(row["seed"]),
            row["status"],
            count(row["n_parameters"]),
            ratio(row.get("measured.loss")),
            ratio(row.get("measured.accuracy")),
        )
        for row, text in zip(rows[:MOST_ROWS], own, strict=False)
    ]
    if shown:
        headers = ("run", "setting", "seed", "status", "parameters", "loss", "accuracy")
        show_table(headers, shown, numbers=(2, 4, 5, 6))
    if len(rows) > MOST_ROWS:
        say(f"\nOnly the first {MOST_ROWS} runs are shown. Filter them with --where, or export them.")


@command.command("export")
@store_options
@output_option("FILE", "File to write (.csv or .parquet).", required=True)
@output_options
def export_runs(path: Path, where: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Write runs to a CSV or Parquet file, one row per run."""
    from byheart.measure.tabulate import export

    rows = _rows(path, where)
    export(rows, output)
    if as_json:
        echo_json({"store": str(path), "path": str(output), "n_runs": len(rows)})
    else:
        say(f"runs written to {output}: {count(len(rows))}")


@command.command("compare")
@store_options
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Column to group by; may be repeated (default: all settings, except seeds, that differ between runs).",
)
@click.option("--metric", default="accuracy", help="The metric to average over seeds.")
@click.option(
    "--figure",
    type=PATH,
    metavar="FILE",
    help="Also draw the means to this .png, .svg or .pdf file, with the first column of --by on the x axis.",
)
@output_options
def compare_runs(
    path: Path, where: tuple[str, ...], by: tuple[str, ...], metric: str, figure: Path | None, as_json: bool
) -> None:
    """Average a metric over the seeds of each setting, with a 95% interval.

    If the runs of a group differ in more than their seeds, their mean has no interval, and the columns in which they
    differ are named.
    """
    from byheart.measure.tabulate import compare, pooled_columns

    found = compare(_rows(path, where), by, metric)
    if figure is not None:
        from byheart.report.figures import draw_comparison

        draw_comparison(found, metric, figure)
    if as_json:
        drawn = {} if figure is None else {"figure": str(figure)}
        echo_json({"store": str(path), "metric": metric, "settings": found, **drawn})
        return
    if not found:
        say("0 runs")
        return
    columns = list(found[0].setting)
    rows = [
        (
            *(str(group.setting[name]) for name in columns),
            str(group.n_records),
            ratio(group.mean),
            "-" if group.interval is None else f"{group.interval[0]:.4g} to {group.interval[1]:.4g}",
        )
        for group in found
    ]
    headers = (*columns, "runs", f"mean {metric}", "95% interval")
    show_table(headers, rows, numbers=tuple(range(len(columns) + 2)))
    pooled = pooled_columns(found)
    if pooled:
        say(
            f"\nSome means are over runs that also differ in {', '.join(pooled)}. They have no interval, because intervals are "
            f"over seeds.\nTo separate these runs, add {' '.join(f'--by {name}' for name in pooled)}, or filter with --where."
        )


@command.command("fit")
@store_options
@click.option("--x", required=True, metavar="COLUMN", help="Column of the x values, such as sizes.n_heads.")
@click.option("--y", default="accuracy", metavar="COLUMN", help="Column of the y values.")
@click.option(
    "--law",
    "laws",
    multiple=True,
    type=click.Choice(["linear", "quadratic", "square-root", "power", "constant"]),
    help="Formula to fit: y as a function of x. May be repeated. By default, all except `constant` are fitted, and `power` "
    "only if all values are positive. The best fit is shown first.",
)
@click.option(
    "--up-to-first-above",
    "ceiling",
    type=float,
    help="Leave out all points beyond the first x at which the mean of y exceeds this value.",
)
@output_options
def fit_runs(
    path: Path,
    where: tuple[str, ...],
    x: str,
    y: str,
    laws: tuple[str, ...],
    ceiling: float | None,
    as_json: bool,
) -> None:
    """Fit formulas, such as a line or a power law, to stored runs. Every coefficient gets a 95% interval.

    R² compares the formula with a constant, the mean of y: it is 1 for a perfect fit, and negative if the constant fits
    better.
    """
    from byheart.measure.fits import compare, up_to_first_above
    from byheart.measure.tabulate import points, pooled_at

    chosen = _rows(path, where)
    xs, ys = points(chosen, x, y)
    cut_off = None if ceiling is None else up_to_first_above(ceiling)
    if not laws:  # a power law is fitted to logarithms, so its values must be positive
        laws = ("linear", "quadratic", "square-root", *(("power",) if min(xs + ys, default=0) > 0 else ()))
    found, pooled = compare(xs, ys, laws, cut_off=cut_off), pooled_at(chosen, x)
    if as_json:
        echo_json({"store": str(path), "x": x, "y": y, "fits": found, "pooled": pooled})
        return
    say(f"{found[0].n_points} runs at {found[0].n_distinct} values of {x}; {found[0].cut_off}\n")
    rows = [
        (
            fitted.formula,
            "\n".join(
                f"{name} {value.value:.3g} ({value.low:.3g}, {value.high:.3g})"
                for name, value in fitted.coefficients.items()
            ),
            f"{fitted.r_squared:.4f}",
            f"{fitted.aicc:.1f}",
        )
        for fitted in found
    ]
    show_table(("law", "coefficients, 95% interval", "R²", "AICc"), rows, numbers=(2, 3))
    if any(fitted.r_squared < 0 for fitted in found):
        say("\nA negative R² means that the law fits worse than a constant, the mean of y.")
    if pooled:
        say(
            f"\nRuns with the same {x} also differ in {', '.join(pooled)}, "
            "but the intervals treat them as if only their seeds differed.\n"
            "To fit a single setting, filter with --where."
        )


def _rows(path: Path, where: tuple[str, ...]) -> list[dict[str, Any]]:
    from byheart.measure.store import Store
    from byheart.measure.tabulate import filter_rows, row_of

    with Store(path, create=False) as store:
        rows = [row_of(record) for record in store.records()]
    return filter_rows(rows, where)
