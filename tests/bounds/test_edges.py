"""Edges of the formulas: nothing to hold, one more or one less, and scales that must not matter."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds.dana_2024 import johnson_lindenstrauss_coherence
from byheart.bounds.kajitsuka_sato_2025 import theorem_4_1
from byheart.bounds.pigeonhole import label_bits, parameter_floor
from byheart.bounds.token_vectors import VectorView, tokens_as_vectors
from byheart.data.shape import DataShape
from byheart.errors import ImpossibleSize


def test_nothing_needs_nothing() -> None:
    assert lower.theorem_4_2_shallow(0, n_maps=6).value == 0
    assert parameter_floor(0, 16).value == 0
    assert label_bits(0, 7) == 0


@pytest.mark.parametrize(("bits", "each"), [(-1, 16), (16, 0)])
def test_a_floor_of_impossible_sizes_is_refused(bits: int, each: int) -> None:
    with pytest.raises(ImpossibleSize):
        parameter_floor(bits, each)


def test_token_ids_as_vectors() -> None:
    flat = {"n_samples": 9, "seq_len": 3, "vocab": 5}
    assert tokens_as_vectors(DataShape(**flat, ordered=False)) == VectorView(1, Fraction(4), Fraction(1))
    assert tokens_as_vectors(DataShape(**flat, ordered=True)) == VectorView(2, Fraction(6), Fraction(1))
    ragged = DataShape(**flat, ordered=False, ragged=True)
    assert tokens_as_vectors(ragged) == VectorView(1, Fraction(5), Fraction(1))


def test_scaling_radius_and_separation_together_changes_nothing() -> None:
    one, two = (
        theorem_4_1(16, 4, 16, 3, radius=factor * 2, separation=Fraction(factor, 4)) for factor in (1, 2)
    )
    assert one == two


def test_the_coherence_is_enclosed() -> None:
    found = johnson_lindenstrauss_coherence(100, 256)
    true = math.sqrt(32 * math.log(101) / 256)
    assert found.low <= Fraction(true) + Fraction(1, 10**12)
    assert found.high >= Fraction(true) - Fraction(1, 10**12)
    assert 0 <= found.high - found.low < Fraction(1, 10**12)
