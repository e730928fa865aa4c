"""Record how long training took. The record is a file beside the store of runs. Each `byheart reproduce` that
trains runs adds a line to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from byheart.records import json_file
from byheart.records.refusals import refuse_file

FILE = "passes.jsonl"  # the file beside records of figures


@dataclass(frozen=True)
class Pass:
    """One training session (pass): its wall-clock time from the first stage to the last, including set-up."""

    began: str
    seconds: float
    device: str
    n_trained: int

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.began).timestamp()
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"seconds is {self.seconds}; it must be finite and at least 0")


def beside(store: Path) -> Path:
    """Return the path of the file that records the training sessions of a store. It is in the same folder as the store."""
    return store.with_name(f"{store.name}.{FILE}")


def note(path: Path, one: Pass) -> None:
    """Append a training session to the file, unless it trained nothing."""
    if one.n_trained == 0:
        return
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(one)) + "\n")


def read(path: Path) -> list[Pass]:
    """Return the recorded training sessions. If the file does not exist, return an empty list."""
    if not path.is_file():
        return []
    lines = json_file.read_bytes(path).split(b"\n")
    return [
        _read_pass(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()
    ]


def _read_pass(line: bytes, where: str) -> Pass:
    """Read a training session that `note` wrote.

    This does not use `byheart.records.reader`, since machines that train may have only torch and numpy.
    """
    table = json_file.parse_json(line, where)
    kinds: dict[str, type | tuple[type, ...]] = {
        "began": str,
        "seconds": (int, float),
        "device": str,
        "n_trained": int,
    }
    if (
        not isinstance(table, dict)
        or set(table) != set(kinds)
        or not all(
            isinstance(table[name], kind) and not isinstance(table[name], bool)
            for name, kind in kinds.items()
        )
    ):
        raise refuse_file(
            where,
            f"a training session must have exactly these fields: {', '.join(kinds)}; began and device must be "
            "texts, seconds a number, and n_trained a whole number",
        )
    try:
        return Pass(**table)
    except (
        ValueError,
        OverflowError,
    ) as error:  # an invalid date, an impossible year, or an invalid number of seconds
        raise refuse_file(where, str(error)) from error


def wall_clock(passes: Sequence[Pass]) -> float:
    """Return the number of seconds during which at least one training session was running. Sessions that overlap are not counted
    twice.
    """
    seconds, until = 0.0, 0.0
    for began, lasted in sorted(
        (datetime.fromisoformat(one.began).timestamp(), one.seconds) for one in passes
    ):
        seconds += max(0.0, began + lasted - max(began, until))
        until = max(until, began + lasted)
    return seconds


def in_words(passes: Sequence[Pass]) -> str:
    """Describe the wall-clock time of all training sessions, by device."""
    parts = []
    for device in dict.fromkeys(one.device for one in passes):
        mine = [one for one in passes if one.device == device]
        seconds, trained = wall_clock(mine), sum(one.n_trained for one in mine)
        count = "one session" if len(mine) == 1 else f"{len(mine)} sessions"
        parts.append(f"{seconds:,.0f} s on {device} ({count}; runs trained: {trained:,})")
    return (
        f"Wall-clock time of all training: {'; '.join(parts)}." if parts else "No training time was recorded."
    )
