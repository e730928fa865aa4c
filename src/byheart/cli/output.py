"""Print results: aligned tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any
from unicodedata import category

import click

from byheart.records.json_values import json_default

SCHEMA = 1
MARGIN = 2
QUIET = "byheart.quiet"  # the key under which `click` keeps -q until the command ends


def echo_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document with a schema version to standard output."""
    click.echo(json_text({"schema": SCHEMA, **document}, indent=2))


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """Return the document as JSON, on one line unless `indent` is given.

    Control characters and text-direction characters are escaped, so that they cannot affect a terminal.
    """
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=json_default)
    return "\n".join(
        printable(line, "", lambda character: json.dumps(character)[1:-1]) for line in text.split("\n")
    )


def say(text: str = "") -> None:
    """Print readable lines to standard output. Control characters in names are escaped."""
    click.echo(printable(text, keep="\n\t"))


def say_wrapped(text: str) -> None:
    """Print one sentence, wrapped to the width of the terminal."""
    _show(_text(text), margin=0)


def echo_error(name: str, message: str, facts: Mapping[str, Any], as_json: bool) -> None:
    """Print what went wrong to standard error and, with --json, as a JSON document to standard output."""
    click.echo(printable(f"{name}: {message}", keep="\n\t"), err=True)
    if as_json:
        echo_json({"error": name, "message": message, "facts": dict(facts)})


def is_quiet() -> bool:
    """Whether the command was given -q."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns; long values wrap within their column."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(_text(name), _text(value))
    _show(grid)


def show_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    first_width: int | None = None,
) -> None:
    """Print a table; the columns in `numbers` are right-aligned, the others may wrap.

    The first column wraps only if `first_width`, its largest width, is given.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, header in enumerate(headers):
        if place in numbers:
            table.add_column(_text(header), justify="right", no_wrap=True)
        else:
            first = place == 0
            table.add_column(
                _text(header),
                overflow="fold",
                no_wrap=first and first_width is None,
                max_width=first_width if first else None,
            )
    for row in rows:
        table.add_row(*map(_text, row))
    _show(table)


def _text(value: str) -> Any:
    """Return a cell of plain text, in which brackets are not interpreted as markup."""
    from rich.text import Text

    return Text(printable(value, keep="\n\t"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable(text: str, keep: str = "\t", escaped: Callable[[str], str] = _escaped) -> str:
    """Escape control characters and text-direction characters, so that a label cannot affect the terminal.

    The characters in `keep` are left as they are. `escaped` returns the text that replaces one character.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in keep or category(character) not in ("Cc", "Cf", "Zl", "Zp")
        else escaped(character)
        for character in text
    )


def _show(renderable: Any, margin: int = MARGIN) -> None:
    from rich.console import Console
    from rich.padding import Padding

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(Padding(renderable, (0, 0, 0, margin)))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def count(value: int | Fraction | float) -> str:
    """Format a number for display.

    An integer is written with commas or, if it has more than fifteen digits, like 1.2e16. An integer of 10,000 bits or more is
    rounded down to a power of two and written like 2^12000. Any other number is rounded: to an integer or, below 1,000, to four
    significant digits.
    """
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    if isinstance(value, int):
        if abs(value) < 10**15:
            return f"{value:,}"
        digits = str(value) if value.bit_length() < 10_000 else None
        return f"{digits[0]}.{digits[1]}e{len(digits) - 1}" if digits else f"2^{value.bit_length() - 1}"
    return f"{float(value):,.0f}" if value >= 1000 else f"{float(value):.4g}"


def ratio(value: float | None) -> str:
    """Format a small positive number to three significant digits, and None as "-"."""
    return "-" if value is None else f"{value:.3g}"


def one_line(text: str) -> str:
    """Return the text without its line breaks, so that it can be wrapped again."""
    return " ".join(text.split())
