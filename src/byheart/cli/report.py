"""`byheart report`: write all stored figures to one HTML page that works offline, or check their numbers."""

from __future__ import annotations

from pathlib import Path

import click

from byheart.cli.options import PATH, output_option, output_options
from byheart.cli.output import echo_json, say, show_table
from byheart.errors import ByheartError, ExitStatus, UsageError

MOST_SHOWN = 10


class NotReproduced(ByheartError):
    """A stored figure differs from the same figure computed again from the stored results of each seed."""

    exit_status = ExitStatus.FALSE


@click.command()
@click.option(
    "--results", default="results", type=PATH, help="Folder of records that `byheart reproduce` wrote."
)
@output_option("DIR", "Folder to write the page to.")
@click.option(
    "--recompute",
    "recomputes",
    is_flag=True,
    help="Compute every number in the figures again from the stored results of each seed, and compare.",
)
@output_options
def command(results: Path, output: Path | None, recomputes: bool, as_json: bool) -> None:
    """Write the figures to the page DIR/index.html, or compute their numbers again with --recompute."""
    from byheart.report.page import read_passes, read_results, write_page

    if output is None and not recomputes:
        raise UsageError("give the folder for the page with -o DIR, or give --recompute.")
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"{output} is not a folder. Give a folder for the page.", path=str(output))
    records = read_results(results)
    found: dict[str, list[str]] = {}
    if recomputes:
        from byheart.reproduce.figure_files import recompute

        found = {record.figure: recompute(record) for record in records if record.observations}
    path = None if output is None else write_page(records, output, read_passes(results))
    if as_json:
        figures = [
            {"name": record.figure, "outcome": record.verdict.outcome}
            | ({"differences": found.get(record.figure)} if recomputes else {})
            for record in records
        ]
        echo_json({"path": None if path is None else str(path), "figures": figures})
    else:
        rows = [
            (record.figure, record.scale, record.verdict.outcome)
            + ((f"{len(record.observations):,}", _count(found.get(record.figure))) if recomputes else ())
            for record in records
        ]
        heads = ("figure", "scale", "verdict") + (("runs", "differences") if recomputes else ())
        show_table(heads, rows, numbers=(3, 4) if recomputes else ())
        if path is not None:
            say(f"\n{path}")
    different = [f"{name}{line}" for name, lines in found.items() for line in lines]
    if different:
        shown = "\n  ".join(different[:MOST_SHOWN])
        raise NotReproduced(
            "the stored figures differ from the same figures computed again from the stored results of each seed.\n"
            f"  Number of differences: {len(different)}, of which at most {MOST_SHOWN} are listed:\n  {shown}",
            different=different,
        )


def _count(differences: list[str] | None) -> str:
    return "seeds not kept" if differences is None else str(len(differences))
