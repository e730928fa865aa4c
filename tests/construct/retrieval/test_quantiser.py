"""Real vectors: the thresholds of the network cut exactly where the quantiser says."""

from __future__ import annotations

import numpy as np
import pytest

from byheart.construct.retrieval.keys import grid_points
from byheart.construct.retrieval.quantiser import draw_quantiser
from byheart.data.dataset import Dataset
from byheart.data.generators import rademacher_vectors, uniform_vectors
from byheart.data.sequences import VectorSequences
from byheart.errors import AssumptionViolated
from byheart.network.transformer.interpreter import interpret
from tests.construct.retrieval.layouts import memorise


def _n_wrong(data: Dataset, **options: object) -> int:
    memoriser = memorise(data, options, 0).memoriser
    answers = memoriser.answer(memoriser.encode(data.inputs), backend="module")
    return int((answers.reshape(-1) != data.labels).sum())


@pytest.mark.parametrize("task", ["next-token", "seq-to-seq", "set"])
def test_memorises_vectors_off_any_grid(task: str) -> None:
    assert _n_wrong(uniform_vectors(150, seed=1, task=task)) == 0


def test_memorises_them_in_float32_where_there_is_room() -> None:
    assert _n_wrong(uniform_vectors(60, seed=1), precision="float32") == 0


def test_memorises_two_classes_and_other_scales() -> None:
    assert _n_wrong(rademacher_vectors(100, seed=1)) == 0
    rng = np.random.default_rng(0)
    values = rng.standard_normal((100, 2, 3)) * 1e-9
    assert _n_wrong(Dataset.from_arrays(values, rng.integers(0, 4, size=100))) == 0


def test_the_network_agrees_with_the_rationals() -> None:
    """Over the rationals the same cells are cut, although nothing is rounded there."""
    data = uniform_vectors(30, seq_len=3, dim=2, seed=2)
    network = memorise(data, {}, 0).memoriser.network
    for row in range(3):
        assert interpret(network, data.inputs.values[row])[-1][0] == data.labels[row] + 1


def test_borders_keep_their_distance() -> None:
    values = np.random.default_rng(0).random((200, 4, 3))
    quantiser = draw_quantiser(values, 8, 53, np.random.default_rng(1))
    assert quantiser is not None
    inside = values @ quantiser.directions.T - quantiser.lowest
    assert inside.min() > 0
    assert inside.max() < 2**8
    assert np.abs(inside - np.rint(inside)).min() >= 2 / quantiser.sharpness
    points = quantiser.points(values)
    assert (points == np.floor(inside)).all()


def test_grids_are_recognised() -> None:
    values = np.random.default_rng(0).integers(-20, 20, size=(5, 2, 3)) / 8
    found = grid_points(VectorSequences(values))
    assert found is not None
    points, grid_bits = found
    assert (points == values * 2**grid_bits).all()
    assert grid_bits <= 3
    assert grid_points(VectorSequences(np.random.default_rng(0).random((5, 2, 3)))) is None


def test_vectors_too_close_for_floats_are_refused() -> None:
    near = 1 + np.arange(40).reshape(20, 2, 1) * 2.0**-50 + np.pi * 2.0**-30
    data = Dataset.from_arrays(near, np.arange(20) % 3)
    with pytest.raises(AssumptionViolated):
        memorise(data, {"precision": "float32"}, 0)


@pytest.mark.filterwarnings("error")
def test_values_whose_projections_overflow_have_no_quantiser() -> None:
    values = np.array([[[1e308, -1e308]], [[1.0, 2.0]]])
    assert draw_quantiser(values, 8, 53, np.random.default_rng(0)) is None
