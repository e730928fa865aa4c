"""`byheart report`: every stored figure on one page that needs no network."""

from __future__ import annotations

from pathlib import Path

import click

from byheart.cli.options import output_options
from byheart.cli.output import echo_json, show_table


@click.command()
@click.option(
    "--results",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of records, as `byheart reproduce` writes them.",
)
@click.option("-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path))
@output_options
def command(results: Path, output: Path, as_json: bool) -> None:
    """Gather the records of figures into DIR/index.html, with verdicts, environment and seeds."""
    from byheart.report.page import read_passes, read_results, write_page

    records = read_results(results)
    path = write_page(records, output, read_passes(results))
    if as_json:
        figures = [{"name": record.figure, "outcome": record.verdict.outcome} for record in records]
        echo_json({"path": str(path), "figures": figures})
        return
    show_table(
        ("figure", "scale", "verdict"),
        [(record.figure, record.scale, record.verdict.outcome) for record in records],
        numbers=(),
    )
    click.echo(f"\n{path}")
