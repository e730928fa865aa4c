"""The layout search: pruned, it finds what the full search finds, at once."""

from __future__ import annotations

import numpy as np
import pytest

from byheart.construct.registry import get
from byheart.construct.retrieval import key_hash, layout_floors, search, table_solver
from byheart.construct.retrieval.keys import keys_of
from byheart.construct.retrieval.layout import Entrance
from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.search import find_layout
from byheart.data.generators import grid_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.program.count import count_dense
from tests.effort import at_most_calls
from tests.refusal import refused

GRID = Entrance("grid", 0, 4, 8, False, "attention", 2, 63, 8)
TOKENS = Entrance("table", 1000, 0, 8, True, "attention", 2, 0, 8)
SET = Entrance("table", 50, 0, 5, False, "sum", 0, 0, 5)
REAL = Entrance("real", 0, 3, 4, False, "attention", 4, 126, 4, 6, 2)
CASES = [
    (GRID, 1, 4, 53, 0),
    (GRID, 30, 4, 53, 0),
    (GRID, 4000, 4, 24, 0),
    pytest.param((TOKENS, 30_000, 10, 53, 0), marks=pytest.mark.slow),
    pytest.param((TOKENS, 10**7, 4, 53, 0), marks=pytest.mark.slow),
    (TOKENS, 500, 18, 53, 14),
    pytest.param((SET, 7000, 1, 53, 0), marks=pytest.mark.slow),
    (SET, 5000, 4, 24, 0),
    (REAL, 700, 4, 53, 0),
    pytest.param((GRID, 3000, 4, 200, 0), marks=pytest.mark.slow),
    (GRID, 500, 4, 200, 0),
]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer layouts, so that a full search is quick."""
    monkeypatch.setattr(search, "_RATIO", 1.5)
    monkeypatch.setattr(search, "_GROUPS", (1, 2, 4, 8))
    monkeypatch.setattr(search, "_DIGITS", (3, 5))
    find_layout.cache_clear()
    yield
    find_layout.cache_clear()


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].kind}-{case[1]}-{case[3]}")
def test_the_pruned_search_answers_as_the_full_one(case: tuple[Entrance, int, int, int, int]) -> None:
    entrance, n_keys, field_bits, mantissa_bits, reject_bits = case
    found = [
        find_layout(entrance, n_keys, field_bits, mantissa_bits, reject_bits=reject_bits, prune=prune)
        for prune in (True, False)
    ]
    assert found[0] == found[1]


@pytest.mark.usefixtures("coarse")
def test_a_bound_that_is_too_high_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    least_sizes = layout_floors._least_sizes

    def doubled(*arguments: object) -> tuple[np.ndarray, np.ndarray]:
        least, fits = least_sizes(*arguments)
        return 2 * least, fits

    monkeypatch.setattr(layout_floors, "_least_sizes", doubled)
    with pytest.raises(AssertionError):
        find_layout(GRID, 3001, 4, 53)


def test_what_cannot_be_built_is_left_out_only_then() -> None:
    """The full search over candidates of all kinds, also those `rank` leaves out, finds nothing smaller."""
    best = find_layout(GRID, 9000, 4, 24)
    start = search._starts(GRID, 9000, 4, 24, 0, True)
    for each in start:
        ranked = layout_floors.rank(each, [3, 4, 5], [5, 7, 9, 20], (2, 4, 8))
        kept = set(zip(ranked.planes.tolist(), ranked.channels.tolist(), ranked.groups.tolist(), strict=True))
        for planes in (3, 4, 5):
            for channels in (5, 7, 9, 20):
                for groups in (2, 4, 8):
                    layout = search.fill(each, planes, channels, groups)
                    if groups <= channels and layout is not None:
                        assert (planes, channels, groups) in kept
                        assert count_dense(describe(layout)) >= count_dense(describe(best))


def test_a_trillion_facts_are_planned_at_once() -> None:
    """A tenth of a second, or some million calls where the types of every call are checked."""
    find_layout.cache_clear()
    get("retrieval").estimate(DataShape(10**6, 8, 16, dim=4))
    for n_samples in (10**4, 10**9, 10**12):
        with at_most_calls(20_000_000):
            size = get("retrieval").estimate(DataShape(n_samples, 8, 16, dim=4))
        assert size.parameters_dense > n_samples * 4 / 53


def test_labels_too_long_for_the_mantissa_are_refused() -> None:
    with refused(AssumptionViolated, n_keys=1000, field_bits=23):
        find_layout(GRID, 1000, 23, 24)


def test_keys_that_touch_one_channel_alone_have_room_there() -> None:
    """With two channels half the keys touch the first one only: its columns must hold them, not all columns together.

    Twelve draws; without that room nine in ten fail by a dependency in one of the fifteen planes.
    """
    data = grid_vectors(3000, seed=2)
    keys = keys_of(data, 53, np.random.default_rng(0))
    start = next(each for each in search._starts(GRID, 3000, 4, 64, 0, False) if each.n_segments == 4)
    layout = search.fill(start, 15, 2, 2)
    assert layout is not None
    n_solved = n_tried = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        hashed = key_hash.draw(layout, keys.lowest, keys.highest, rng)
        where = layout.addresses(keys.pick(key_hash.evaluate_fields(layout, hashed, keys.inputs, True)))
        if where.n_duplicates == 0:
            n_tried += 1
            n_solved += isinstance(
                table_solver.solve(layout, where, keys.labels, rng), table_solver.SolvedTable
            )
    assert n_tried >= 2
    assert n_solved >= n_tried / 2
