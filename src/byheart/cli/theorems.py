"""`byheart theorems`: list every statement of the papers with the code that implements it and the tests that check it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from byheart.cli.options import output_options
from byheart.cli.output import echo_json, say, show_pairs, show_table

if TYPE_CHECKING:
    from byheart.theorems import Entry

STATES = ("done", "untested", "claimed", "open")
GRADES = ("built", "special case", "formula", "open")


@click.command()
@click.option("--state", type=click.Choice(STATES), help="List only statements in this state.")
@click.option("--grade", type=click.Choice(GRADES), help="List only statements of this grade.")
@click.option("--paper", metavar="NAME", help="List only statements of this paper, such as KS25.")
@output_options
def command(state: str | None, grade: str | None, paper: str | None, as_json: bool) -> None:
    """List every statement of the papers with the functions that implement it and the tests that check it.

    A statement has one of these states: done (implemented and tested), untested (implemented, but not tested),
    claimed (implemented, but the tests are not installed here), or open (not implemented yet).

    Its grade is built (the code implements the statement in full generality), special case (the code implements the
    part that the list describes), formula (the code only computes the number in the statement), or open (not
    implemented yet).
    """
    from byheart.theorems import index, papers

    known = papers()
    if paper is not None and paper not in known:
        raise click.BadParameter(f"{paper!r} is not one of {', '.join(known)}.", param_hint="--paper")
    entries = [
        entry
        for entry in index()
        if state in (None, entry.state)
        and grade in (None, entry.statement.grade)
        and paper in (None, entry.statement.paper)
    ]
    if as_json:
        echo_json({"papers": known, "statements": [entry.to_json() for entry in entries]})
        return
    states = _count(STATES, [entry.state for entry in entries])
    grades = _count(GRADES, [entry.statement.grade for entry in entries])
    say(f"statements: {len(entries)}\nby state: {states}\nby grade: {grades}\n")
    if entries:
        show_table(("id", "state", "grade", "implemented by, checked by"), [_row(entry) for entry in entries])
    cited = {entry.statement.paper for entry in entries}
    say()
    show_pairs([(name, citation) for name, citation in known.items() if name in cited])


def _count(names: Sequence[str], found: Sequence[str]) -> str:
    counts = Counter(found)
    return ", ".join(f"{counts[name]} {name}" for name in names if counts[name]) or "none"


def _row(entry: Entry) -> tuple[str, str, str, str]:
    functions = [".".join(place.name.split(".")[-2:]) for place in entry.functions]
    tests = [place.name.rpartition("::")[2] for place in entry.tests]
    lines = "\n".join(filter(None, (_few(functions), _few(tests), entry.statement.case)))
    return entry.id, entry.state, entry.statement.grade, lines


def _few(names: list[str]) -> str:
    more = f", {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else ""
