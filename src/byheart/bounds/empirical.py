"""Laws that say how many bits trained models store. They are fitted to measurements, so they are never bounds.

A better optimiser or other data may break a law. Each law states the conditions of its measurements and whether a value is
extrapolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from byheart.bounds.enclosures import ceil_fraction
from byheart.errors import ImpossibleSize


@dataclass(frozen=True)
class EmpiricalLaw:
    """A measured law: for models between two sizes, the memorised bits are proportional to the parameters.

    bits_per_parameter   memorised bits per parameter
    stored_bits          bits in which one parameter is stored, at the shortest precision at which this capacity was measured
    precision            the name of this precision
    smallest_parameters  parameters of the smallest model that was measured; `largest_parameters` are those of the largest
    """

    name: str
    bits_per_parameter: Fraction
    stored_bits: int
    precision: str
    smallest_parameters: int
    largest_parameters: int
    conditions: str
    source: str

    @property
    def bits_per_stored_bit(self) -> Fraction:
        """Memorised bits per stored bit. Models of different precisions are compared by this number."""
        return self.bits_per_parameter / self.stored_bits

    def parameters_for(self, bits: int) -> int:
        """Return the number of parameters that would hold `bits` bits if the law also holds at that size."""
        return ceil_fraction(bits / self.bits_per_parameter)

    def bits_held_by(self, n_parameters: int) -> int:
        """Return the number of bits that a model of this size would hold according to the law, rounded down."""
        return (n_parameters * self.bits_per_parameter).__floor__()

    def covers(self, n_parameters: int) -> bool:
        """Whether this size is within the range of sizes that were measured. Otherwise the law is an extrapolation."""
        return self.smallest_parameters <= n_parameters <= self.largest_parameters

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "bits_per_parameter": float(self.bits_per_parameter),
            "precision": self.precision,
            "bits_per_stored_bit": float(self.bits_per_stored_bit),
            "measured_between": [self.smallest_parameters, self.largest_parameters],
            "conditions": self.conditions,
            "source": self.source,
        }


MORRIS_2025 = EmpiricalLaw(
    name="Morris et al. 2025",
    bits_per_parameter=Fraction(36, 10),
    stored_bits=16,
    precision="bfloat16",
    smallest_parameters=500_000,
    largest_parameters=1_500_000_000,
    conditions="GPT-style models trained to saturation on random sequences; slightly more bits per parameter in float32",
    source="Morris et al. 2025, How much do language models memorize?",
)

ALLEN_ZHU_2024 = EmpiricalLaw(
    name="Allen-Zhu & Li 2024",
    source="Allen-Zhu & Li 2024, Physics of Language Models: Part 3.3, Knowledge Capacity Scaling Laws",
    bits_per_parameter=Fraction(2),
    stored_bits=8,
    precision="int8",
    smallest_parameters=1_000_000,
    largest_parameters=500_000_000,
    conditions="GPT-2-style models, synthetic biographies seen 1000 times each; trained in 16 bits, then quantised to int8",
)

PUBLISHED_LAWS = (MORRIS_2025, ALLEN_ZHU_2024)

STATIC_FUNCTION_BITS_PER_STORED_BIT = Fraction(995, 1000)
"""Bits of values per stored bit, if a table is stored not as a network but as a static function: a data structure that returns
the value of each key and does not store the keys (ribbon filters: Dillinger, Hübschle-Schneider, Sanders & Walzer 2022)."""


def law_from_runs(
    name: str, runs: Sequence[tuple[int, int]], conditions: str, source: str, *, stored_bits: int = 32
) -> EmpiricalLaw:
    """Fit a law through the origin to measured (parameters, memorised bits) pairs by least squares."""
    if not runs or min(parameters for parameters, _ in runs) < 1:
        raise ImpossibleSize("a law needs at least one run, and every run at least one parameter")
    slope = Fraction(sum(p * b for p, b in runs), sum(p * p for p, _ in runs))
    if slope <= 0:
        raise ImpossibleSize("no bits were memorised in these runs, so no law can be fitted to them")
    return EmpiricalLaw(
        name=name,
        bits_per_parameter=slope,
        stored_bits=stored_bits,
        precision=f"{stored_bits} bits",
        smallest_parameters=min(p for p, _ in runs),
        largest_parameters=max(p for p, _ in runs),
        conditions=conditions,
        source=f"{source} (number of runs: {len(runs)})",
    )
