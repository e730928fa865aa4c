"""`byheart compare`: build every construction on one data file and show their sizes side by side."""

from __future__ import annotations

from dataclasses import astuple
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from byheart.cli.options import (
    data_argument,
    figure_option,
    output_options,
    precision_option,
    reading_choices,
    reading_options,
    seed_option,
    threads_option,
)
from byheart.cli.output import echo_json, one_line, ratio, say, show_pairs, show_table
from byheart.cli.progress import watch
from byheart.cli.summary import describe_data, first_sentence, show_worst_case
from byheart.errors import ExitStatus, amount
from byheart.process.progress import Progress

if TYPE_CHECKING:
    from byheart.compare import Comparison, Row
    from byheart.data.dataset import Dataset
    from byheart.report.growth import Growth

FIGURE_SECONDS = 5.0


@click.command()
@data_argument
@click.option(
    "--methods", metavar="NAMES", help="Constructions to compare, separated by commas (default: all)."
)
@precision_option("each construction's own")
@seed_option
@figure_option("how sizes grow with the number of samples, for random data of this shape")
@reading_options
@threads_option
@output_options
def command(
    data: Path,
    methods: str | None,
    precision: Any,
    seed: int,
    figure: Path | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Build and verify every construction that accepts DATA, and show their sizes beside the bounds.

    Each construction that does not accept the data, or would have more than 20,000,000 parameters, is listed with the
    reason.
    """
    from byheart.compare import compare
    from byheart.data.dataset import Dataset

    chosen = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    with watch(whole="compare") as progress:
        progress(0, 1, "read")
        dataset = Dataset.read(data, **reading_choices(reading))
        comparison = compare(dataset, chosen, precision=precision, seed=seed, progress=progress)
        record = None if figure is None else _draw(dataset, chosen, seed, figure, progress)
    if as_json:
        document = comparison.to_json()
        if record is not None:
            document["figure"] = {"path": str(figure), **record.to_json()}
        echo_json(document)
    else:
        _show(comparison, data)
        if record is not None:
            say(f"\n  The figure is in {figure}.")
    if any(row.state == "wrong" for row in comparison.rows):
        return ExitStatus.FALSE
    return ExitStatus.HOLDS if comparison.memorised else ExitStatus.OUTSIDE


def _draw(dataset: Dataset, methods: list[str] | None, seed: int, path: Path, progress: Progress) -> Growth:
    from byheart.data.shape import DataShape
    from byheart.report.figures import draw_growth
    from byheart.report.growth import growth

    names = ("n_samples", "seq_len", "n_classes", "task", "dim", "vocab", "ordered")
    shape = DataShape(**{name: getattr(dataset, name) for name in names})
    record = growth(shape, methods, seconds=FIGURE_SECONDS, seed=seed, progress=progress)
    draw_growth([record], path)
    return record


def _show(comparison: Comparison, data: Path) -> None:
    say(f"{data}: {describe_data(comparison.dataset.shape)}")
    say(f"label bits: {comparison.dataset.label_bits:,.0f}\n")
    memorised = comparison.memorised
    if memorised:
        say(f"  Memorised, with {amount(comparison.dataset.shape.n_samples, 'sample')} verified:\n")
        _show_sizes(memorised)
        say()
        _show_theory(memorised)
        has_orders = any(row.formula is not None and row.formula.is_order for row in memorised)
        say("\n  longest  bits of the longest weight")
        say("  bits     bits to store all weights, as in `byheart bounds`")
        order = "; ~ marks an order of growth" if has_orders else ""
        say(f"  theorem  parameters by the paper's formula{order}")
        show_worst_case(_worst_case(memorised))
        say()
    failed = [row for row in comparison.rows if row.state == "wrong"]
    if failed:
        show_table(("WRONG", "because"), [(row.method, one_line(row.reason or "")) for row in failed])
        say()
    refused = [row for row in comparison.rows if row.state == "refused"]
    if refused:
        show_pairs(
            [("not built", "because")] + [(row.method, first_sentence(row.reason or "")) for row in refused]
        )


def _worst_case(rows: tuple[Row, ...]) -> list[tuple[str, int, str]]:
    """Return the worst-case lower bounds for data of the same shape as these data, each as (quantity, value, source)."""
    from byheart.bounds.bound import for_networks

    found = {
        each.quantity: each
        for row in rows
        for each in row.floors
        if each.speaks_of == "some data of this shape"
    }
    return [
        (quantity, each.value, for_networks(each.source, each.networks)) for quantity, each in found.items()
    ]


def _show_sizes(rows: tuple[Row, ...]) -> None:
    from byheart.bounds.bound import with_options

    table = [
        (with_options(row.method, row.options), *map(short, (*astuple(row.size)[:-1], row.size.stored_bits)))
        for row in rows
        if row.size is not None
    ]
    headers = ("", "dense", "non-zero", "depth", "width", "longest", "bits")
    show_table(headers, table, numbers=range(1, 7))


def _show_theory(rows: tuple[Row, ...]) -> None:
    table = []
    for row in rows:
        promised = ""
        if row.formula is not None:
            promised = ("~" if row.formula.is_order else "") + short(row.formula.parameters)
        own = [each.value for each in row.floors if each.speaks_of == "these data"]
        table.append(
            (
                row.method,
                row.precision,
                ratio(row.bits_per_parameter),
                promised,
                short(max(own)) if own else "",
                f"{row.seconds_compile:.1f}s",
                f"{row.seconds_verify:.1f}s",
            )
        )
    headers = ("", "weights", "bits/param", "theorem", "at least", "build", "check")
    show_table(headers, table, numbers=range(2, 7))


def short(value: int) -> str:
    """Format a count in few characters, such as 12,345, 123k, 1.23M, 45.6G or, if it is very large, 1.2e+15."""
    if value < 100_000:
        return f"{value:,}"
    for unit, name in ((10**3, "k"), (10**6, "M"), (10**9, "G"), (10**12, "T")):
        if value < 999.5 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{Decimal(value):.1e}"  # a float may be too small for it
