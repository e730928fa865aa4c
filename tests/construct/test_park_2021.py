"""PLYS21 in whole numbers: every phase keeps the points distinct, and the last one finds the label."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byheart.construct.park_2021.arrangement import arrange, bucket_starts, fold, overlay
from byheart.construct.park_2021.program import (
    ANSWER,
    PLACE,
    bucket_steps,
    extraction_steps,
    fold_steps,
    lookup_program,
    segment_steps,
)
from byheart.construct.park_2021.theorem import costs_of
from byheart.data import Dataset, VectorSequences
from tests.program.programs import run

from .rival_data import answers, compiled, single_vectors

METHOD = "park-2021"


def places(largest: int = 2**40) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, largest), min_size=1, max_size=30, unique=True)


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(places(20_000), st.integers(1, 50))
def test_buckets_cover_all_points_and_do_not_overlap(line: list[int], width: int) -> None:
    starts = bucket_starts(line, width)
    assert all(after - before >= width for before, after in pairwise(starts))
    assert all(sum(start <= x < start + width for start in starts) == 1 for x in line)


@settings(max_examples=60, deadline=None)
@given(places(), st.integers(1, 4), st.integers(0, 2**32), st.data())
def test_the_program_finds_the_field_of_every_point(
    line: list[int], field_bits: int, seed: int, data: st.DataObject
) -> None:
    costs = costs_of(field_bits)
    arrangement = arrange(line, np.random.default_rng(seed), costs.move, costs.move, costs.field)
    fields = {x: data.draw(st.integers(0, 2**field_bits - 1)) for x in line}
    words = [0] * len(arrangement.starts)
    for x, place in zip(line, arrangement.places, strict=True):
        bucket = max(k for k, start in enumerate(arrangement.starts) if start <= place)
        words[bucket] += fields[x] << (field_bits * (place - arrangement.starts[bucket]))
    program = lookup_program(arrangement, words, field_bits, 0)
    for x in line[:4]:
        assert run(program, {PLACE: x})[ANSWER] == fields[x] + 1


def test_each_phase_by_itself() -> None:
    assert run(fold_steps([10], 0), {PLACE: 8})[PLACE] == 2
    assert run(fold_steps([10], 3), {PLACE: 1})[PLACE] == 4
    segments, moved = overlay([1, 5, 100, 103], 2)
    extent = max(moved) + 1
    for x, new in zip([1, 5, 100, 103], moved, strict=True):
        assert run(segment_steps(segments, extent), {PLACE: x})[PLACE] == new - extent
    starts, words = [2, 9], [5, 6]
    program = bucket_steps(starts, words, 4, 20, 0)
    assert run(program, {PLACE: 4}) == {PLACE: 4 - 2 - 4, "word": 5}
    assert run(program, {PLACE: 9}) == {PLACE: 0 - 4, "word": 6}
    reading = extraction_steps(3, 2, 0)
    word = 0b011011  # fields 3, 2, 1 from the lowest
    assert [run(reading, {PLACE: q - 3, "word": word})[ANSWER] for q in range(3)] == [4, 3, 2]


@settings(max_examples=200, deadline=None)
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
