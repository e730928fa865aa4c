"""What theory says: one number with its kind, its assumptions and its source.

A `Bound` is never an estimate, a measurement or a certificate: those are other types, and nothing here turns one into
another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from byheart.records.json_record import JsonRecord

Kind = Literal["lower", "upper", "exact"]
Scope = Literal["these data", "some data of this shape"]
"""Of what a bound speaks. What suffices for all data of a shape suffices for these data. What some data of that shape need, in the
worst case, these data may do without: they may be far easier."""

CAPACITIES = ("contexts", "facts", "samples")
"""Quantities of what a model holds, of which a lower bound is a promise."""


def spell(number: int) -> str:
    """A whole number for people: in full with commas, or as a power of ten where it is too long to read."""
    if abs(number) < 10**24:
        return f"{number:,}"
    # bit_length / log2(10), good to a digit of the exponent, without forming the decimal digits
    return f"about 10^{abs(number).bit_length() * 30103 // 100000}"


@dataclass(frozen=True)
class Bound:
    """One theorem evaluated on one problem.

    `value` is an integer or an exact rational, rounded outward where a real number had to be rounded: a
    lower bound down, an upper bound up. `statement` is the id in the theorem index, empty where the index
    lists none. `quantity` says what is bounded ("parameters", "bits", "depth",
    "samples", ...); two bounds may be compared only when their quantities agree and both apply. `speaks_of` says whether it is
    about these data or about some data of this shape; only the first kind may be shown beside the size of a model of these data.
    """

    name: str
    statement: str
    quantity: str
    kind: Kind
    value: int | Fraction
    assumptions: tuple[str, ...]
    source: str
    sentence: str
    speaks_of: Scope

    def __post_init__(self) -> None:
        """Refuse a bound that could mislead: a float, an unknown kind, no source or no sentence."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | Fraction):
            raise TypeError(f"{self.name}: a bound is an int or a Fraction, not {type(self.value).__name__}")
        if self.kind not in get_args(Kind):
            raise ValueError(f"{self.name}: kind {self.kind!r} is not one of {', '.join(get_args(Kind))}")
        if not (self.name and self.quantity and self.source and self.sentence):
            raise ValueError(f"{self.name!r}: a bound needs a name, a quantity, a source and a sentence")

    def to_json(self) -> dict[str, object]:
        """A JSON-ready dictionary; a rational that is not an integer becomes the string "p/q"."""
        return {**asdict(self), "value": int(self.value) if self.value.denominator == 1 else str(self.value)}


@dataclass(frozen=True)
class Estimate(JsonRecord):
    """What one of our constructions takes; not a bound.

    bits        bits that store it, see `Size.stored_bits`
    options     those that `compile` chooses itself, where there are such
    is_planned  whether it was planned for the data themselves, so that the network built has exactly this size; otherwise
                it is what random data of this shape would probably take
    """

    name: str
    precision: str
    parameters: int
    bits: int
    is_planned: bool
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name with the options that are not those of the construction itself."""
        return with_options(self.name, self.options)


def with_options(name: str, options: Mapping[str, object]) -> str:
    """A construction with its options: retrieval (reject bits 16)."""
    listed = ", ".join(f"{option.replace('_', ' ')} {value}" for option, value in options.items())
    return f"{name} ({listed})" if listed else name


@dataclass(frozen=True)
class NotApplicable(JsonRecord):
    """A bound or a construction that says nothing about a data set, and why."""

    name: str
    statement: str
    reason: str


@dataclass(frozen=True)
class Theorem:
    """A result with its name, its id in the theorem index (if it has one) and where it is printed."""

    name: str
    statement: str
    source: str

    def bound(
        self,
        quantity: str,
        kind: Kind,
        value: int | Fraction,
        assumptions: tuple[str, ...],
        sentence: str,
        *,
        more: str = "",
        speaks_of: Scope | None = None,
    ) -> Bound:
        """The bound for one problem; `more` says more precisely where it is printed.

        Unless `speaks_of` says otherwise, what is enough is enough for these data, and what is needed is needed by some data;
        of what a model can hold, the least is held of any data, and more than the most is too much for some.
        """
        source = self.source + more
        promises: Kind = "lower" if quantity in CAPACITIES else "upper"
        scope = speaks_of or ("these data" if kind == promises else "some data of this shape")
        return Bound(self.name, self.statement, quantity, kind, value, assumptions, source, sentence, scope)

    def refuse(self, reason: str) -> NotApplicable:
        return NotApplicable(self.name, self.statement, reason)


@dataclass(frozen=True)
class Paper:
    """A paper: the prefix of its statements here, and its authors."""

    short: str
    authors: str

    def theorem(self, where: str, statement: str, source: str = "") -> Theorem:
        """A statement of this paper; `source` says more precisely `where` it is printed."""
        return Theorem(f"{self.short} {where}", statement, f"{self.authors}, {source or where}")


KS25 = Paper("KS25", "Kajitsuka & Sato 2025")
