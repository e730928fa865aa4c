"""Leave out rows that cannot be memorised, according to the given rules, or raise one error that counts all of these rows.

If possible, a data set is read to its end before an error is raised. If all faulty rows have the same kind of fault, the error is
specific to that kind. Otherwise it is a `FaultyRows` that lists all kinds, each with its remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jaxtyping import Bool

from byheart.data.sequences import MOSTLY_PADDING, TokenSequences
from byheart.errors import DataError, UsageError, amount
from byheart.process.memory_limit import OverMemoryLimit, memory_limit
from byheart.records.arguments import whole_number
from byheart.records.vocabulary import EmptyLabels, RowRule

SHOWN_ROWS = 5
LONGEST = 2**14
"""The largest number of tokens that a row may have if `max_tokens` is not given."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "empty_labels": get_args(EmptyLabels),
    "empty_inputs": get_args(RowRule),
    "malformed_rows": get_args(RowRule),
    "non_finite": get_args(RowRule),
}
"""The options that decide what happens to faulty rows, each with its allowed values."""

RULES = (*CHOICES, "max_tokens")

Rows = Bool[np.ndarray, " n_rows"]


class LongRow(DataError):
    """A row has so many tokens that it is memorised only if `max_tokens` allows it."""


class FaultyRows(DataError):
    """A data set has several kinds of faulty rows, listed in `facts["faults"]`."""


@dataclass(frozen=True)
class Fault:
    """All rows of a data set that have the same kind of fault.

    option    the name of the option that decides what happens to these rows
    remedies  the values of this option for which these rows are not an error
    what      what is wrong with these rows
    rows      the numbers (from 1) of the first few of these rows
    n_rows    the number of these rows
    error     the error to raise if this is the only kind of fault
    """

    option: str
    remedies: tuple[str, ...]
    what: str
    rows: tuple[int, ...]
    n_rows: int
    error: DataError

    def __str__(self) -> str:
        more = ", …" if self.n_rows > len(self.rows) else ""
        where = f"{'row' if self.n_rows == 1 else 'rows'} {', '.join(map(str, self.rows))}{more}"
        *others, last = self.remedies
        choices = f"{', '.join(others)} or {last}" if others else last
        line = f", the first on line {self.error.facts['line']}" if "line" in self.error.facts else ""
        option = f"--{self.option.replace('_', '-')}"
        return f"{self.what}: {amount(self.n_rows, 'row')} ({where}{line}); {option} {choices}"

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return {
            "option": self.option,
            "remedies": list(self.remedies),
            "what": self.what,
            "rows": list(self.rows),
            "n_rows": self.n_rows,
        }


class RowCheck:
    """Applies the rules that the caller chose to the faulty rows of one data set.

    Rows that a rule leaves out are counted. Rows that remain an error are collected as faults.
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        """Read from `rules` the options that decide what happens to faulty rows, and ignore the others. If the option for a fault
        is missing, rows with this fault are an error.
        """
        self.rules = {name: rules[name] for name in RULES if rules.get(name) is not None}
        for name, choices in CHOICES.items():
            given = self.rules.get(name, "error")
            if given not in choices:
                raise UsageError(f"{name}={given!r} is not one of {', '.join(choices)}.", **{name: given})
        self.max_tokens: int | None = None
        if "max_tokens" in self.rules:
            self.max_tokens = whole_number("max_tokens", self.rules["max_tokens"])
            if self.max_tokens < 1:
                raise UsageError(
                    f"max_tokens is {self.max_tokens}; it must be at least 1.", max_tokens=self.max_tokens
                )
        self.faults: list[Fault] = []
        self._faulty_rows = np.zeros(0, dtype=np.int64)
        self.left_out: dict[str, int] = {}

    def rule(self, option: str) -> str:
        """Return the value that the caller chose for an option, by default "error"."""
        return str(self.rules.get(option, "error"))

    def settle(self, option: str, faulty: Rows, what: str, error: DataError) -> None:
        """Apply the value that the caller chose for `option` to the rows marked in `faulty`. If it is "drop", the rows are counted
        as left out. Otherwise, they are recorded as a fault.
        """
        n_rows = int(faulty.sum())
        if not n_rows:
            return
        if self.rule(option) == "drop":
            self.leave_out(f"{option}=drop", n_rows)
        else:
            self.add(option, tuple(rule for rule in CHOICES[option] if rule != "error"), what, faulty, error)

    def add(self, option: str, remedies: tuple[str, ...], what: str, faulty: Rows, error: DataError) -> None:
        """Record the rows marked in `faulty` as a fault. `require_none` later reports all recorded faults in one error."""
        rows = np.flatnonzero(faulty) + 1
        self._faulty_rows = np.union1d(self._faulty_rows, rows)  # a row may have several faults
        self.faults.append(Fault(option, remedies, what, tuple(rows[:SHOWN_ROWS].tolist()), len(rows), error))

    def leave_out(self, rule: str, n_rows: int) -> None:
        """Add `n_rows` to the number of rows that a rule leaves out."""
        self.left_out[rule] = self.left_out.get(rule, 0) + n_rows

    def settle_lengths(self, inputs: TokenSequences, standing: Rows) -> Rows:
        """Return a mask of the rows that have too many tokens, among the valid rows (`standing`).

        If `max_tokens` is given, longer rows are counted as left out. Otherwise, rows are recorded as a fault if they have more
        than `LONGEST` tokens, or if padding all rows to their length would take too much memory.
        """
        lengths = np.where(standing, inputs.lengths, 0)
        if self.max_tokens is not None:
            long = lengths > self.max_tokens
            if long.any():
                self.leave_out(f"max_tokens={self.max_tokens}", int(long.sum()))
            lengths[long] = 0
            return np.asarray(long)
        n_rows, longest, limit = int(standing.sum()), int(lengths.max(initial=0)), memory_limit()
        n_bytes = 8 * n_rows * longest
        fits = n_bytes <= max(limit, MOSTLY_PADDING * 8 * int(lengths.sum()))
        most = LONGEST if fits else min(LONGEST, max(1, limit // (8 * n_rows)))
        long = lengths > most
        if not long.any():
            return np.zeros_like(standing)
        row, remedies = int(np.argmax(lengths)) + 1, [str(n) for n in _next_longest(lengths, most)]
        what = f"rows with more than {most:,} tokens: {int(long.sum()):,}"
        facts = {"row": row, "n_tokens": longest}
        error: DataError
        leave_out = "".join(f", or leave out long rows with --max-tokens {n}" for n in remedies)
        if fits:
            remedies.append(str(longest))
            error = LongRow(
                f"row {row} has an input of {longest:,} tokens ({what}). The longest input determines the "
                f"time and memory of every step, so by default no input may have more than {LONGEST:,} tokens.\n"
                f"  Shorten the row, or allow it with --max-tokens {longest}{leave_out}.",
                **facts,
                most=most,
            )
        else:
            error = OverMemoryLimit(
                f"row {row} has an input of {longest:,} tokens ({what}). A network pads all inputs to the length "
                f"of the longest, and {n_rows:,} rows of that length would take {n_bytes:,} bytes, more "
                f"than the memory limit of {limit:,} bytes.\n"
                f"  Shorten the row{leave_out}.",
                **facts,
                n_bytes=n_bytes,
                limit=limit,
            )
        self.add(
            "max_tokens",
            tuple(remedies) or (str(most),),
            f"more than {most:,} tokens (the longest row has {longest:,})",
            long,
            error,
        )
        return np.asarray(long)

    def require_none(self) -> None:
        """Raise one error for all recorded faults. If there are none, do nothing."""
        if not self.faults:
            return
        faults = [fault.to_json() for fault in self.faults]
        if len(self.faults) == 1:
            self.faults[0].error.facts["faults"] = faults
            raise self.faults[0].error
        n_rows = len(self._faulty_rows)
        listed = "\n".join(f"  {fault}" for fault in self.faults)
        raise FaultyRows(
            f"{amount(n_rows, 'row')} cannot be memorised, for {len(self.faults)} reasons. Each is "
            "listed with the option that handles it:\n"
            f"{listed}\n"
            f"  In Python the options are {', '.join(f'{fault.option}=' for fault in self.faults)} with "
            "the same values.",
            n_rows=n_rows,
            faults=faults,
        )


def _next_longest(lengths: np.ndarray, most: int) -> list[int]:
    """Return a list with the length of the longest row that is not too long. The list is empty if there is no such row."""
    shorter = lengths[(lengths <= most) & (lengths > 0)]
    return [int(shorter.max())] if shorter.size else []
