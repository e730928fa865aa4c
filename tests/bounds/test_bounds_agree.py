"""On one problem every lower bound stays at or below every upper bound, over twelve orders of magnitude."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import Bound, BoundTable, DataShape, for_shape, theorem_4_2
from byheart.errors import UsageError
from tests.examples import examples

from .settings_at_random import comparisons, contradictions, random_problem, size


@given(st.integers(0, 2**32))
@examples(200)
def test_no_lower_bound_exceeds_an_upper_bound(seed: int) -> None:
    table = for_shape(random_problem(Random(seed)))
    assert contradictions(table) == []
    assert all(bound.assumptions and bound.source and bound.sentence for bound in table.applicable)
    assert all(entry.reason for entry in table.not_applicable)


@pytest.mark.slow
def test_ten_thousand_settings(project_root: Path) -> None:
    # in an interpreter of its own, without the run-time type checks that make each setting twenty times slower
    script = [sys.executable, "-m", "tests.bounds.settings_at_random", "10000", "20250101"]
    done = subprocess.run(script, cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tried, compared = map(int, done.stdout.split())
    assert tried == 10_000
    assert compared > 50_000


def test_the_rule_can_fail() -> None:
    table = for_shape(DataShape(1000, 8, 16, dim=4, radius=1, separation=Fraction(1, 100)))
    assert comparisons(table) > 10
    too_large = replace(theorem_4_2(1000), value=10**30)
    broken = BoundTable(table.shape, (*table.applicable, too_large), table.not_applicable)
    assert len(contradictions(broken)) >= 4
    assert "KS25 Theorem 4.2: parameters >= 10000" in contradictions(broken)[0]


@given(st.integers(0, 2**32))
@examples(200)
def test_more_samples_never_lower_a_bound(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng)
    larger = replace(problem, n_samples=problem.n_samples + size(rng))
    try:
        larger.require_possible()
    except UsageError:
        larger = problem
    before, after = for_shape(problem), for_shape(larger)

    def by_name(table: BoundTable) -> dict[tuple[str, str, str], Bound]:
        return {(b.name, b.quantity, b.kind): b for b in table.applicable}

    assert by_name(before).keys() == by_name(after).keys()
    for key, bound in by_name(after).items():
        assert by_name(before)[key].value <= bound.value, key
