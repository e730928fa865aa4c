"""Edges of the formulas: nothing to hold, one more or one less, and scales that must not matter."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from byheart.bounds import PUBLISHED_LAWS, Bound, law_from_runs, plan
from byheart.bounds import kajitsuka_sato_2025_lower as lower
from byheart.bounds.bound import spell
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


def test_long_numbers_are_spelt_as_powers_of_ten() -> None:
    assert spell(10**24 - 1) == f"{10**24 - 1:,}"
    assert spell(1 - 10**24) == f"{1 - 10**24:,}"
    for power in (24, 25, 30, 100, 1000):
        assert spell(10**power) == f"about 10^{power}"
    assert spell(-(10**30)) == "about 10^30"


@pytest.mark.parametrize(
    ("changed", "error"),
    [({"value": 1.5}, TypeError), ({"value": True}, TypeError), ({"kind": "middle"}, ValueError)]
    + [({name: ""}, ValueError) for name in ("name", "quantity", "source", "sentence")],
)
def test_a_bound_that_could_mislead_is_not_made(changed: dict[str, Any], error: type[Exception]) -> None:
    whole: dict[str, Any] = {
        "name": "a", "statement": "", "quantity": "b", "kind": "lower", "value": Fraction(1, 2), "assumptions": (), "source": "c",
        "sentence": "d", "speaks_of": "these data",
    }  # fmt: skip
    assert Bound(**whole).to_json()["value"] == "1/2"
    assert Bound(**{**whole, "value": Fraction(4, 2)}).to_json()["value"] == 2
    with pytest.raises(error):
        Bound(**{**whole, **changed})


@pytest.mark.parametrize("runs", [[], [(0, 5)], [(3, 5), (0, 1)], [(3, 0)], [(1, -1)]])
def test_runs_that_give_no_law_are_refused(runs: list[tuple[int, int]]) -> None:
    with pytest.raises(ImpossibleSize):
        law_from_runs("here", runs, "", "")


def test_a_law_is_the_line_through_the_runs() -> None:
    law = law_from_runs("here", [(1, 3), (2, 5)], "on a laptop", "this project", stored_bits=16)
    assert law.bits_per_parameter == Fraction(13, 5)  # (1·3 + 2·5) / (1 + 4)
    assert law.bits_per_stored_bit == Fraction(13, 80)
    assert (law.parameters_for(13), law.parameters_for(14), law.bits_held_by(3)) == (5, 6, 7)
    assert law.to_json()["measured_between"] == [1, 2]
    assert law_from_runs("here", [(1, 1)], "", "").stored_bits == 32


def test_a_row_says_where_a_law_is_extended() -> None:
    for n_facts in (10**3, 10**6, 10**12):
        for row in plan(n_facts, 8, vocab=10**6).rows:
            if row.kind == "trained":
                (law,) = (law for law in PUBLISHED_LAWS if law.name == row.name)
                assert (f"{law.largest_parameters:,}" in row.note) == (not law.covers(row.parameters))
                assert law.conditions in row.note
