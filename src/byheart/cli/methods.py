"""`byheart methods`: list the constructions, each with the data that it accepts and the paper that describes it."""

from __future__ import annotations

import click

from byheart.cli.options import PRECISIONS, TASKS, output_options
from byheart.cli.output import echo_json, show_table


@click.command()
@click.option("--task", type=click.Choice(TASKS), help="List only constructions for this task.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), help="List only constructions with this kind of weights."
)
@output_options
def command(task: str | None, precision: str | None, as_json: bool) -> None:
    """List the constructions that `compile --method` can build.

    The default, `auto`, chooses one of them. `byheart compare DATA` builds every construction that accepts DATA and
    shows their sizes.
    """
    from byheart.construct.registry import get, names

    methods = [
        method
        for method in map(get, names())
        if task in (None, *method.tasks) and precision in (None, *method.precisions)
    ]
    if as_json:
        keys = ("name", "source", "tasks", "precisions")
        echo_json({"methods": [{key: getattr(method, key) for key in keys} for method in methods]})
        return
    show_table(
        ("method", "tasks", "weights", "source"),
        [
            (method.name, ", ".join(method.tasks), ", ".join(method.precisions), method.source)
            for method in methods
        ],
    )
