"""`byheart inspect --fact`: show which weights hold a fact, and which other facts share these weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from byheart.cli.output import count, echo_json, printable, ratio, say, show_pairs, show_table
from byheart.cli.predict import format_answer

if TYPE_CHECKING:
    from byheart.documents.facts import LocatedFact
    from byheart.inspect.location import Location

MOST_SHARING = 10
UNKNOWN_SHARING = "not known: give the data file of the model with --data"


def show_facts(folder: Path, facts: Sequence[str], data: Path | None, as_json: bool) -> None:
    """Print which weights hold `facts` (by default all facts of `data`).

    With `data`, also name the other facts that share these weights. Without `data`, print that these other facts
    cannot be named.
    """
    from byheart.documents.facts import locate_facts
    from byheart.pipeline import load

    found = locate_facts(load(folder), facts, data)
    if as_json:
        echo_json({"facts": found})
        return
    for number, fact in enumerate(found):
        if number:
            say()
        _show(fact, data is not None)


def _show(found: LocatedFact, names_sharing: bool) -> None:
    say(f"{printable(found.fact)}: {format_answer(found.answer)}\n")
    is_spread = any(location.index is None for location in found.locations)
    if is_spread:
        rows = [(_layers(each), str(each.lemma)) for each in found.locations]
        show_table(("layers", "lemma"), rows)
    else:
        cells = [(each.answer, _name(each), _value(each), _bits(each)) for each in found.locations]
        n_columns = 4 if any(location.powers for location in found.locations) else 3
        headers = ("answer", "weight", "value", "its bits")[:n_columns]
        show_table(headers, [row[:n_columns] for row in cells], numbers=(2,))
    if any(location.zeros for location in found.locations):
        say(
            "\nIf all of these weights are set to zero, the answer happens to stay the same. "
            "If only one of them is set to zero, the answer changes."
        )
    sharing = found.sharing
    named = ", ".join(sharing[:MOST_SHARING])
    rest = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
    whole = f"{named}{rest}" if sharing else "no other fact"
    say()
    show_pairs([("shared with", whole if names_sharing else UNKNOWN_SHARING)])


def _name(location: Location) -> str:
    assert location.index is not None
    return f"{location.tensor}[{', '.join(map(str, location.index))}]"


def _layers(location: Location) -> str:
    is_one = location.layer == location.last_layer
    return str(location.layer) if is_one else f"{location.layer} to {location.last_layer}"


def _value(location: Location) -> str:
    value = location.value
    if value is None:
        return ""
    if value == int(value):
        return count(int(value))
    return f"{value:,}" if isinstance(value, float) else ratio(float(value))


def _bits(location: Location) -> str:
    """Describe which bits of the weight belong to the fact, as powers of two, such as "2^3 and 2^5 to 2^8"."""
    runs: list[list[int]] = []
    for power in location.powers:
        if runs and power == runs[-1][-1] + 1:
            runs[-1].append(power)
        else:
            runs.append([power])
    return " and ".join(f"2^{run[0]}" if len(run) == 1 else f"2^{run[0]} to 2^{run[-1]}" for run in runs)
