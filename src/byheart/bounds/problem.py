"""What is to be memorised, as numbers: all that a bound may look at."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Literal, get_args

from byheart.bounds.enclosures import sqrt
from byheart.data import Dataset
from byheart.errors import UsageError

Task = Literal["next-token", "seq-to-seq", "set", "distribution"]


@dataclass(frozen=True)
class VectorView:
    """How token-wise theorems see the tokens: vectors of `dim` with norm <= `radius`, `separation` apart."""

    dim: int
    radius: Fraction
    separation: Fraction

    def distinct_tokens(self, at_most: int) -> int:
        """Tokens that certainly fit, on a diameter or a grid in the ball, counted up to a limit."""
        on_diameter = (2 * self.radius / self.separation).__floor__() + 1
        # the cube has side 2r/√d: floor(√(4r² / (d δ²))) + 1 places along each edge
        per_edge = isqrt((4 * self.radius**2 / (self.dim * self.separation**2)).__floor__()) + 1
        full = per_edge > 1 and self.dim >= at_most.bit_length()
        in_cube = at_most if full else per_edge ** min(self.dim, at_most.bit_length())
        return min(at_most, max(on_diameter, in_cube))


@dataclass(frozen=True)
class Problem:
    """A memorisation problem by its sizes.

    n_samples      sequences N; for `distribution`, documents
    seq_len        tokens in the longest sequence, n (for `distribution`, in the longest context, T)
    n_classes      labels C; for `distribution`, the tokens that may come next
    task           as for a data set
    dim            dimension of token vectors, or None for token ids
    vocab          number of token ids ω, or None for vectors
    radius, separation   of the token vectors (Assumption 4.1); None when nothing is known or assumed
    ordered        whether positions matter
    n_contexts     distinct contexts, where known; otherwise every label is taken to have its own
    n_labels       labels in all; by default one per sequence, or n per sequence for `seq-to-seq`
    is_consistent  whether equal contexts carry equal labels
    """

    n_samples: int
    seq_len: int = 1
    n_classes: int = 2
    task: Task = "next-token"
    dim: int | None = None
    vocab: int | None = None
    radius: Fraction | int | float | None = None
    separation: Fraction | int | float | None = None
    ordered: bool = False
    n_contexts: int | None = None
    n_labels: int | None = None
    is_consistent: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that no data set has, in the user's own values."""
        if self.task not in get_args(Task):
            raise UsageError(f"task {self.task!r} is none of {', '.join(get_args(Task))}", task=self.task)
        for name in ("n_samples", "seq_len", "n_classes", "dim", "vocab", "n_contexts", "n_labels"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be at least 1.", **{name: value})
        if (self.dim is None) == (self.vocab is None):
            raise UsageError(
                f"dim is {self.dim} and vocab is {self.vocab}; give exactly one of them:\n"
                "  dim for tokens that are vectors, vocab for token ids.",
                dim=self.dim,
                vocab=self.vocab,
            )
        if self.n_contexts is not None and self.task != "distribution" and self.n_contexts > self.label_count:
            raise UsageError(
                f"n_contexts is {self.n_contexts}, more than the {self.label_count} labels.",
                n_contexts=self.n_contexts,
            )
        if (self.radius is not None and not self.radius >= 0) or (
            self.separation is not None and not self.separation > 0
        ):
            raise UsageError(
                f"radius is {self.radius} and separation is {self.separation}; "
                "radius must not be negative and separation must be positive.",
                radius=self.radius,
                separation=self.separation,
            )

    @property
    def label_count(self) -> int:
        """Labels in all."""
        if self.n_labels is not None:
            return self.n_labels
        return self.n_samples * self.seq_len if self.task == "seq-to-seq" else self.n_samples

    @property
    def context_count(self) -> int:
        """Distinct contexts: as known, or one per label."""
        return self.label_count if self.n_contexts is None else self.n_contexts

    @property
    def has_positions(self) -> bool:
        """Whether positions enter the network: they tell nothing in sequences of one token."""
        return self.ordered and self.seq_len > 1

    def tokens_as_vectors(self) -> VectorView | None:
        """The tokens as vectors, or None when their separation is unknown.

        Token ids are the numbers 0 to ω - 1, a distance of 1 apart; where positions matter one more
        coordinate holds the position, from 0.
        """
        last = self.seq_len - 1 if self.has_positions else 0
        if self.vocab is not None:
            radius, separation = self.radius, self.separation
            return VectorView(
                2 if self.has_positions else 1,
                Fraction(self.vocab - 1 + last if radius is None else radius),
                Fraction(1 if separation is None else separation),
            )
        if self.dim is None or self.radius is None or self.separation is None:
            return None
        separation = Fraction(self.separation)
        if not self.has_positions:
            return VectorView(self.dim, Fraction(self.radius), separation)
        return VectorView(self.dim + 1, Fraction(self.radius) + last, min(separation, Fraction(1)))


def problem_of(dataset: Dataset) -> Problem:
    """The sizes of a data set, its separation measured exactly and its contexts counted."""
    separation = dataset.check().separation
    if separation is None:
        dataset.require_finite()
    assert separation is not None
    delta_square = Fraction(1) if separation.delta_squared is None else separation.delta_squared
    is_distribution = dataset.task == "distribution"
    n_contexts = len(dataset.contexts()) if is_distribution else int(dataset.context_ids.max()) + 1
    return Problem(
        n_samples=dataset.n_samples,
        seq_len=max(dataset.seq_len - 1, 1) if is_distribution else dataset.seq_len,
        n_classes=dataset.n_classes,
        task=dataset.task,
        dim=dataset.dim,
        vocab=dataset.vocab,
        radius=sqrt(separation.r_squared).high,
        separation=sqrt(delta_square).low,
        ordered=dataset.ordered,
        n_contexts=n_contexts,
        n_labels=dataset.n_labels,
        is_consistent=len(dataset.conflicts) == 0,
    )
