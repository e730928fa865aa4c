"""`byheart inspect --fact`: show which weights hold a fact, and which other facts share these weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from byheart.cli.output import count, echo_json, printable, ratio, say, say_wrapped, show_pairs, show_table
from byheart.cli.predict import format_answer
from byheart.errors import amount
from byheart.inspect.location import LARGEST_EXACT

if TYPE_CHECKING:
    from byheart.documents.facts import ComparedData, LocatedFact
    from byheart.inspect.location import Location

MOST_SHARING = 10
UNKNOWN_SHARING = "not known: give the data file of the model with --data"
CARRIES = "Changing these bits can also change other facts whose labels are in the same weight, because sums of weights carry."
OTHER_DATA = (
    "this file does not contain the data from which the model was compiled; "
    "facts that are not in the file may share these weights"
)
NO_DIGEST = (
    "the model stores no digest of its data, so it was not checked whether this file contains all its facts"
)


def show_facts(folder: Path, facts: Sequence[str], data: Path | None, as_json: bool) -> None:
    """Print which weights hold `facts` (by default all facts of `data`).

    With `data`, also name the other facts that share these weights. Without `data`, print that these other facts
    cannot be named.
    """
    from byheart.documents.facts import locate_facts
    from byheart.pipeline import load

    found = locate_facts(load(folder), facts, data)
    if as_json:
        echo_json(found.to_json())
        return
    for number, fact in enumerate(found.facts):
        if number:
            say()
        _show(fact, data)
    if data is not None and found.compared is not None:
        say()
        show_pairs(_about(found.compared, data))


def _about(compared: ComparedData, data: Path) -> list[tuple[str, str]]:
    """Describe the data among which other facts at the same weights were looked for."""
    among = f"all {amount(compared.n_facts, 'fact')} in {data}; the model answers them as the file does"
    if compared.n_answered < compared.n_facts:
        among = (
            f"{compared.n_answered:,} of {amount(compared.n_facts, 'fact')} in {data}: those that the model answers as the file "
            "does"
        )
    notes: list[str] = []
    if not compared.is_model_data:
        notes.append(NO_DIGEST if compared.is_model_data is None else OTHER_DATA)
    return [("compared with", among), *(("note", note) for note in notes)]


def _show(found: LocatedFact, data: Path | None) -> None:
    say(f"{printable(found.fact)}: {format_answer(found.answer)}\n")
    if found.in_data == "missing":
        say(f"This is not a fact of {data}.\n")
    if found.in_data == "other answer":
        say(f"{data} has another answer to this question.\n")
    if not found.locations:
        say_wrapped("No weight holds this answer: the model ends every text that it does not store.")
        return
    is_spread = any(location.index is None for location in found.locations)
    if is_spread:
        rows = [(_layers(each), str(each.lemma)) for each in found.locations]
        show_table(("layers", "lemma"), rows)
    else:
        cells = [(each.answer, _name(each), _value(each), _bits(each)) for each in found.locations]
        n_columns = 4 if any(location.powers for location in found.locations) else 3
        headers = ("answer", "weight", "value", "its bits")[:n_columns]
        show_table(headers, [row[:n_columns] for row in cells], numbers=(2,))
        if n_columns == 4:
            say()
            say_wrapped(CARRIES)
    if any(location.zeros for location in found.locations):
        say(
            "\nIf all of these weights are set to zero, the answer happens to stay the same. "
            "If only one of them is set to zero, the answer changes."
        )
    sharing = found.sharing
    named = ", ".join(sharing[:MOST_SHARING])
    rest = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
    whole = f"{named}{rest}" if sharing else "none of the other facts that were compared"
    if not any(location.n_compared for location in found.locations):
        whole = UNKNOWN_SHARING if data is None else "no other fact was compared"
    say()
    show_pairs([("shared with", whole)])


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
        return f"{int(value):,}" if -LARGEST_EXACT <= value <= LARGEST_EXACT else count(int(value))
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
