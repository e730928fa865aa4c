"""Bounds from theory: a number with its kind, its assumptions and its source.

Bounds, estimates, measurements and certificates are different types, and no function here converts one into another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from byheart.records.json_record import JsonRecord

Kind = Literal["lower", "upper", "exact"]
Scope = Literal["these data", "some data of this shape", "arbitrary distributions"]
"""What a bound is about.

these data               one data set. A size that suffices for all data of a shape also suffices for each data set of this shape
some data of this shape  the worst case among all data sets of the same shape: of the same task and vocabulary or dimension, with as
                         many sequences, tokens and contexts, and with labels from as many classes, of which some may be unused. It
                         may be more than a given data set needs
arbitrary distributions  a model that can give any next-token distributions to a given number of contexts. No data set asks for
                         this: N documents determine distributions with at most N possible next tokens each. Such a bound
                         therefore does not apply to data
"""

CAPACITIES = ("contexts", "facts", "samples")
"""Quantities that a model can hold. A lower bound on one of them is a guarantee: the model can hold at least this many."""


def spell(number: int) -> str:
    """Format an integer for display: with commas or, if it is very long, as a power of ten."""
    if abs(number) < 10**24:
        return f"{number:,}"
    # bit_length / log2(10) gives the exponent to within one, without computing the decimal digits
    return f"about 10^{abs(number).bit_length() * 30103 // 100000}"


@dataclass(frozen=True)
class Bound:
    """One theorem evaluated on one problem.

    value      an integer or an exact rational. If a real number had to be rounded, it was rounded so that the bound stays true
    quantity   what is bounded: "parameters", "bits", "depth", "samples", ... Two bounds can be compared only if they have
               the same quantity and both apply
    statement  the id of the theorem in the theorem index; empty if the theorem is not in the index
    speaks_of  whether the bound holds for these data, for some data of this shape, or only for arbitrary distributions (see
               `Scope`). Only bounds of the first kind may be shown next to the size of a model of these data
    networks   the networks that the bound is about, such as "ReLU networks"; empty if it is about all networks
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
    networks: str = ""

    def __post_init__(self) -> None:
        """Reject a value that is not exact, an unknown kind, and an empty name, quantity, source or sentence."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | Fraction):
            raise TypeError(
                f"{self.name}: the value of a bound must be an int or a Fraction, not {type(self.value).__name__}"
            )
        if self.kind not in get_args(Kind):
            raise ValueError(f"{self.name}: kind {self.kind!r} is not one of {', '.join(get_args(Kind))}")
        if not (self.name and self.quantity and self.source and self.sentence):
            raise ValueError(f"{self.name!r}: a bound needs a name, a quantity, a source and a sentence")

    def to_json(self) -> dict[str, object]:
        """Return a dictionary for JSON. A rational that is not an integer becomes the string "p/q"."""
        return {**asdict(self), "value": int(self.value) if self.value.denominator == 1 else str(self.value)}


@dataclass(frozen=True)
class Estimate(JsonRecord):
    """The estimated size of one of our constructions. This is not a bound.

    bits        bits that store the network, see `Size.stored_bits`
    options     the options that `compile` would choose itself, if any
    is_planned  True if the network was planned for these data, and will have exactly this size; False if the size is an
                estimate for random data of this shape
    """

    name: str
    precision: str
    parameters: int
    bits: int
    is_planned: bool
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name, followed by the options that `compile` would choose."""
        return with_options(self.name, self.options)


def for_networks(name: str, networks: str) -> str:
    """Return the name of a bound, with the networks that it is about, such as "Siegel 2024, for ReLU networks"."""
    return f"{name}, for {networks}" if networks else name


def with_options(name: str, options: Mapping[str, object]) -> str:
    """Return the name of a construction, followed by its options in parentheses, such as "retrieval (reject bits 16)"."""
    listed = ", ".join(f"{option.replace('_', ' ')} {value}" for option, value in options.items())
    return f"{name} ({listed})" if listed else name


@dataclass(frozen=True)
class NotApplicable(JsonRecord):
    """A bound or a construction that does not apply to a data set, with the reason."""

    name: str
    statement: str
    reason: str


@dataclass(frozen=True)
class Theorem:
    """A theorem with its name, its id in the theorem index (if any), where it is published, and the networks that it is about
    (empty if it is about all networks).
    """

    name: str
    statement: str
    source: str
    networks: str = ""

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
        """Return the bound for one problem. `more` is added to the source, to give the place in the publication in more detail.

        If `speaks_of` is not given, an upper bound holds for these data, and a lower bound for some data of this shape (the worst
        case). For the amounts that a model can hold, listed in `CAPACITIES`, it is the other way round. An exact value
        is treated as a bound for some data of this shape.
        """
        source = self.source + more
        promises: Kind = "lower" if quantity in CAPACITIES else "upper"
        scope = speaks_of or ("these data" if kind == promises else "some data of this shape")
        told = self.name, self.statement, quantity, kind, value, assumptions, source, sentence, scope
        return Bound(*told, self.networks)

    def refuse(self, reason: str) -> NotApplicable:
        return NotApplicable(self.name, self.statement, reason)


@dataclass(frozen=True)
class Paper:
    """A paper: its short name, with which the names of its theorems begin, and its authors with the year."""

    short: str
    authors: str

    def theorem(self, where: str, statement: str, source: str = "", networks: str = "") -> Theorem:
        """Return the theorem that is at `where` in this paper, such as "Theorem 4.1".

        `statement` is its id in the theorem index. `source`, if given, is its place in more detail than `where`.
        """
        return Theorem(f"{self.short} {where}", statement, f"{self.authors}, {source or where}", networks)


KS25 = Paper("KS25", "Kajitsuka & Sato 2025")
