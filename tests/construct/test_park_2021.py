"""PLYS21 in whole numbers: every phase keeps the points distinct, and the last one finds the label."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.park_2021.arrangement import arrange, bucket_starts, fold, overlay
from byheart.construct.park_2021.program import (
    ANSWER,
    PACKED,
    PLACE,
    bucket_blocks,
    costs_of,
    extraction_blocks,
    fold_blocks,
    lookup_blocks,
    segment_blocks,
)
from byheart.construct.park_2021.theorem import pack_buckets
from byheart.data import Dataset, VectorSequences
from tests.examples import examples

from ..program.programs import run, run_all
from .rival_data import answers, compiled, single_vectors

METHOD = "park-2021"


def places(largest: int = 2**40) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, largest), min_size=1, max_size=30, unique=True)


@examples(60)
@given(places(), st.integers(0, 2**32))
def test_folding_keeps_points_apart(line: list[int], seed: int) -> None:
    mirrors, folded = fold(line, np.random.default_rng(seed))
    assert len(set(folded)) == len(line)
    assert min(folded) >= 0
    followed = list(line)
    for mirror in mirrors:
        assert mirror >= max(followed)
        followed = [x if 2 * x <= mirror else mirror - x for x in followed]
    assert followed == folded


@examples(60)
@given(places(20_000), st.integers(1, 6))
def test_overlaid_segments_keep_points_apart(line: list[int], per_segment: int) -> None:
    segments, moved = overlay(line, per_segment)
    assert len(set(moved)) == len(line)
    assert min(moved) >= 0
    assert max(moved) < 2 * per_segment * len(line) + max(line)
    assert all(before.start < after.start for before, after in pairwise(segments))
    for x, new in zip(line, moved, strict=True):
        segment = max((s for s in segments if s.start <= x), key=lambda s: s.start)
        assert new == x - segment.start + segment.target


@examples(60)
@given(places(20_000), st.integers(1, 50))
def test_buckets_cover_all_points_and_do_not_overlap(line: list[int], width: int) -> None:
    starts = bucket_starts(line, width)
    assert all(after - before >= width for before, after in pairwise(starts))
    assert all(sum(start <= x < start + width for start in starts) == 1 for x in line)


@examples(60)
@given(places(), st.integers(1, 4), st.integers(0, 2**32), st.data())
def test_the_program_finds_the_field_of_every_point(
    line: list[int], field_bits: int, seed: int, data: st.DataObject
) -> None:
    move_cost, field_cost = costs_of(field_bits)
    arrangement = arrange(line, np.random.default_rng(seed), move_cost, move_cost, field_cost)
    fields = {x: data.draw(st.integers(0, 2**field_bits - 1)) for x in line}
    packed = pack_buckets(arrangement, [fields[x] + 1 for x in line], field_bits)
    blocks = lookup_blocks(arrangement, packed, field_bits, 0)
    found = run_all(blocks, [{PLACE: x} for x in line[:4]])
    assert [after[ANSWER] for after in found] == [fields[x] + 1 for x in line[:4]]


def test_each_phase_by_itself() -> None:
    assert run(fold_blocks([10], 0), {PLACE: 8})[PLACE] == 2
    assert run(fold_blocks([10], 3), {PLACE: 1})[PLACE] == 4
    segments, moved = overlay([1, 5, 100, 103], 2)
    extent = max(moved) + 1
    for x, new in zip([1, 5, 100, 103], moved, strict=True):
        assert run(segment_blocks(segments, extent), {PLACE: x})[PLACE] == new - extent
    starts, packed = [2, 9], [5, 6]
    blocks = bucket_blocks(starts, packed, 4, 0)
    assert run(blocks, {PLACE: 4}) == {PLACE: 4 - 2 - 4, PACKED: 5}
    assert run(blocks, {PLACE: 9}) == {PLACE: 0 - 4, PACKED: 6}
    reading = extraction_blocks(3, 2, 0)
    fields = 0b011011  # fields 3, 2, 1 from the lowest
    assert [run(reading, {PLACE: q - 3, PACKED: fields})[ANSWER] for q in range(3)] == [4, 3, 2]


@examples(60)
@given(single_vectors(), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    assert (answers(compiled(METHOD, data, seed), data) == data.labels).all()


@pytest.mark.parametrize(
    "line",
    [
        np.arange(512),  # as dense as can be, N a perfect cube
        np.arange(500) * 2**20,
        np.concatenate([np.arange(60) + 2**30 * k for k in range(5)]),  # clusters, worst for folds
        np.array([0, 1, 2**200, 2**200 + 2**190], dtype=object).astype(np.float64),
    ],
)
def test_lines_with_structure(line: np.ndarray) -> None:
    values = np.asarray(line, dtype=np.float64)[:, None, None]
    labels = np.random.default_rng(0).integers(0, 16, len(values))
    names = tuple(map(str, range(16)))
    data = Dataset(VectorSequences(values), labels, "next-token", names, None, False)
    assert (answers(compiled(METHOD, data), data) == labels).all()
