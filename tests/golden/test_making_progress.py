"""The progress of `golden make` moves within checkpoints, also when other processes make them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart import golden
from byheart.golden import making_progress
from byheart.golden.balance import draw_balance_weights, find_balance_cases
from byheart.golden.case import CASES
from byheart.golden.exact import draw_exact_weights, find_exact_cases
from byheart.golden.family import SHAPES
from byheart.golden.making_progress import seconds_left, share_writer, step_seconds
from byheart.golden.selection import find_cases
from byheart.golden.signatures import SIGNATURES, signatures_of
from byheart.golden.weights import draw_weights
from byheart.process.progress import PARTS
from tests.golden.conftest import COUNTS, SMALL
from tests.golden.test_balance import FEW
from tests.process.test_progress import Told


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: shape.name)
def test_the_search_and_the_signatures_tell_their_progress(shape: golden.Shape) -> None:
    weights = draw_weights(shape)
    in_cases, in_signatures = Told(), Told()
    found = find_cases(shape, weights, dict(COUNTS), (5, 11), in_cases)
    in_cases.require_one_rise()
    signatures_of(shape, weights, found, in_signatures)
    assert len(in_signatures.shares) > 50
    assert in_signatures.shares == sorted(in_signatures.shares)


def test_the_other_designs_tell_their_progress() -> None:
    shapes = {shape.design: shape for shape in SHAPES}
    exact, balance = Told(), Told()
    find_exact_cases(shapes["exact"], draw_exact_weights(shapes["exact"]), 8, 1, exact)
    assert len(set(exact.shares)) == 7
    find_balance_cases(shapes["balance"], draw_balance_weights(shapes["balance"]), FEW, balance)
    balance.require_one_rise()


def test_processes_tell_the_progress_of_the_whole(
    small_family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share rose only when a checkpoint was finished."""
    monkeypatch.setattr(making_progress, "READ_SECONDS", 0.01)
    told = Told()
    golden.make(
        tmp_path / "family", family=SMALL, counts=COUNTS, lengths=(5, 11), n_processes=2, progress=told
    )
    told.require_one_rise()
    assert told.shares[-1] == 1
    assert len({share for share in told.shares if share < 1}) > 10
    names = {path.relative_to(small_family) for path in small_family.rglob("*")}
    assert {path.relative_to(tmp_path / "family") for path in (tmp_path / "family").rglob("*")} == names
    for name in (CASES, SIGNATURES):
        assert (tmp_path / "family" / name).read_bytes() == (small_family / name).read_bytes()


def test_a_written_share_never_falls(tmp_path: Path) -> None:
    path = tmp_path / "shares"
    shares = np.memmap(path, np.float64, "w+", shape=2)
    tell = share_writer(path, 1)
    tell(PARTS // 2, PARTS)
    tell(1, PARTS)
    assert shares.tolist() == [0.0, 0.5]


def test_the_time_left_is_that_of_the_last_process() -> None:
    assert seconds_left([3, 2, 1], 1) == 6
    assert seconds_left([3, 2, 1], 2) == 3
    assert seconds_left([10, 10, 9], 2) == 19
    assert seconds_left([0, 0, 4], 2) == 4


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(1, 4))
def test_the_time_left_never_grows(tasks: list[tuple[int, int]], n_processes: int) -> None:
    before, after = [max(pair) for pair in tasks], [min(pair) for pair in tasks]
    assert seconds_left(after, n_processes) <= seconds_left(before, n_processes)


def test_every_checkpoint_has_expected_times() -> None:
    assert all(sum(step_seconds(shape).values()) > 0 for shape in SHAPES)
