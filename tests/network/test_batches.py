"""Batches side by side: the same bits for any number of threads, in order, and nothing left changed behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from byheart.network.batches import batch_size_for, run_in_batches, single_thread


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_two_threads_give_the_bits_of_one(two_threads: object) -> None:
    rng = np.random.default_rng(0)
    weights = torch.from_numpy(rng.standard_normal((300, 300)))
    inputs = rng.standard_normal((1000, 300))
    seen: list[tuple[int, int]] = []

    def function(batch: torch.Tensor) -> torch.Tensor:
        assert torch.get_num_threads() == 1
        return torch.softmax(batch @ weights, dim=1)

    side_by_side = run_in_batches(function, inputs, 300, batch_size=64, progress=lambda *at: seen.append(at))
    assert torch.get_num_threads() == 2
    assert seen[-1] == (1000, 1000)
    assert seen == sorted(seen)
    torch.set_num_threads(1)
    assert (run_in_batches(function, inputs, 300, batch_size=64) == side_by_side).all()
    with single_thread():
        expected = function(torch.from_numpy(inputs)).numpy()
    np.testing.assert_allclose(side_by_side, expected, rtol=1e-12)


def test_an_error_in_a_thread_is_an_error(two_threads: object) -> None:
    def fail(batch: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_in_batches(fail, np.zeros((100, 2)), 2, batch_size=10)
    assert torch.get_num_threads() == 2


def test_no_samples_give_no_rows() -> None:
    assert run_in_batches(lambda batch: batch, np.zeros((0, 3)), 3).shape == (0, 3)


def test_batches_fit_the_cache_and_are_not_tiny() -> None:
    assert batch_size_for(1 << 20) == 16
    assert batch_size_for(1 << 10) == 3072
    assert batch_size_for(1 << 20, "cuda") == 128
    assert batch_size_for(1 << 10, "cuda") == 1 << 17
