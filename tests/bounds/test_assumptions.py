"""What is looked at in the data before a bound is shown, and where too much would have to be looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from byheart.bounds import DataShape, shape_of, table
from byheart.bounds.assumptions import ASSUMED, check_assumptions
from byheart.bounds.token_vectors import tokens_as_vectors
from byheart.data import piece_reader
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import spool
from byheart.data.generators import uniform_vectors
from byheart.errors import UsageError
from tests.refusal import refused


def samples(*rows: list[list[float]]) -> Dataset:
    """Samples of tokens that are vectors, each with a class of its own."""
    return Dataset.from_arrays(np.array(rows, dtype=float), np.arange(len(rows)), on_conflict="keep")


def says_nothing(reason: str) -> bool:
    """Whether there is no reason against a bound."""
    return len(reason) == 0


def points(*rows: tuple[float, ...]) -> Dataset:
    return samples(*([list(row)] for row in rows))


@pytest.mark.parametrize(
    ("data", "is_general"),
    [
        (points((0, 0), (1, 0), (0, 1)), True),
        (points((0, 0), (1, 1), (2, 2)), False),
        (points((0, 0), (1, 1), (2, 2.5)), True),
        (points((0, 0), (1, 0), (0, 1), (1, 1)), True),
        (points((0, 0), (1, 0), (0, 1), (2, 0)), False),
        (points((0, 0), (1, 0)), True),  # fewer than D + 1 points, and none lies twice
        (points((0, 0), (1, 0), (0, 1), (0, 1)), True),  # a repeated sample is no sample more
        (points((1,), (2,), (5,)), True),
        (points((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)), False),
        (points((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)), True),
    ],
)
def test_points_on_a_hyperplane_are_found(data: Dataset, is_general: bool) -> None:
    assert says_nothing(check_assumptions(data).general_position) == is_general


@pytest.mark.parametrize(
    ("data", "is_independent"),
    [
        (samples([[1, 0], [0, 1]], [[1, 1], [1, 0]]), True),
        (samples([[1, 0], [2, 0]], [[1, 1], [1, 0]]), False),  # tokens of one sample
        (samples([[1, 0], [0, 1]], [[1, 0], [0, 2]]), False),  # last tokens of two
        (samples([[1, 0], [0, 1]], [[1, 1], [0, 1]]), False),  # the same last token
        (samples([[1, 0], [0, 1]], [[1, 0], [0, 1]]), True),  # the same sample
        (samples([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 1, 1]]), True),
        (samples([[1.0], [2.0]]), True),  # more tokens than dimensions: another reason is given
        (samples([[0.0]]), False),
        (samples([[1.0]], [[2.0]]), True),
    ],
)
def test_dependent_tokens_are_found(data: Dataset, is_independent: bool) -> None:
    assert says_nothing(check_assumptions(data).independent_tokens) == is_independent


@pytest.mark.parametrize(("n_samples", "is_checked"), [(2000, True), (2001, False)])
def test_two_thousand_choices_are_looked_at(n_samples: int, is_checked: bool) -> None:
    data = points(*((float(number + 1),) for number in range(n_samples)))
    assert says_nothing(check_assumptions(data).independent_tokens) == is_checked


@pytest.mark.parametrize(("n", "is_checked"), [(12, True), (13, False)])
def test_twelve_dimensions_are_looked_at(n: int, is_checked: bool) -> None:
    assert says_nothing(check_assumptions(samples(np.eye(n).tolist())).independent_tokens) == is_checked
    flat = points(tuple(np.arange(n - 1) * 1.0))
    assert says_nothing(check_assumptions(flat).general_position) == is_checked


def test_long_samples_cost_no_time_and_are_not_called_few_choices() -> None:
    found = check_assumptions(
        uniform_vectors(500, 40, 64, 2, seed=0)
    )  # elimination would take a quarter of an hour
    for reason in (found.independent_tokens, found.general_position):
        assert reason.endswith("at most 12 vectors are checked together")


def test_distributions_need_full_support() -> None:
    for lines, full_support in (
        (["a x", "a y", "b x", "b y"], False),  # a and b never follow
        (["a a", "a b", "b a", "b b"], True),
    ):
        found = check_assumptions(Dataset.from_documents(lines, tokenizer="word"))
        assert (found.full_support == "") == full_support


def test_tokens_and_other_tasks_are_taken_as_they_are() -> None:
    assert check_assumptions(Dataset.from_pairs([("a", "x"), ("b", "y")])) == ASSUMED
    sequences = Dataset.from_arrays(np.zeros((1, 2, 2)), [[0, 0]], task="seq-to-seq")
    assert check_assumptions(sequences) == ASSUMED


def test_data_in_pieces_are_measured_as_far_as_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", 3)
    table_file = tmp_path / "t.csv"
    table_file.write_text("key,value\n" + "".join(f"k{i} x{i % 3},v{i % 2}\n" for i in range(8)))
    pieces = spool(table_file, tmp_path / "tokens", tokenizer="word")
    whole = Dataset.read(table_file, tokenizer="word")
    assert check_assumptions(pieces) == ASSUMED
    one, other = shape_of(whole), shape_of(pieces)
    assert (one.radius, one.separation) == (other.radius, other.separation)
    np.savez(tmp_path / "v.npz", inputs=np.arange(16.0).reshape(8, 1, 2), labels=np.arange(8) % 2)
    vectors = spool(tmp_path / "v.npz", tmp_path / "vectors")
    checks = check_assumptions(vectors)
    assert checks.general_position
    assert checks.independent_tokens
    assert (shape_of(vectors).radius, shape_of(vectors).dim) == (None, 2)
    names = {bound.name for bound in table(vectors).applicable}
    assert not any("Baum" in name or "Bubeck" in name for name in names)
    with refused(UsageError):
        table([1, 2])


@pytest.mark.parametrize(
    ("shape", "dim", "radius", "separation"),
    [
        (DataShape(5, 3, 2, vocab=7), 1, 6, 1),
        (DataShape(5, 3, 2, vocab=7, ragged=True), 1, 7, 1),
        (DataShape(5, 3, 2, vocab=7, ordered=True), 2, 8, 1),
        (DataShape(5, 3, 2, vocab=7, ordered=True, ragged=True), 2, 9, 1),
        (DataShape(5, 3, 2, vocab=7, radius=20, separation=2), 1, 20, 2),
        (DataShape(5, 3, 2, vocab=7, radius=2, separation=2, ragged=True), 1, 7, 1),
        (DataShape(5, 3, 2, dim=4, radius=3, separation=2), 4, 3, 2),
        (DataShape(5, 3, 2, dim=4, radius=3, separation=2, ordered=True), 5, 5, 1),
    ],
)
def test_tokens_are_vectors_a_distance_apart(
    shape: DataShape, dim: int, radius: int, separation: int
) -> None:
    found = tokens_as_vectors(shape)
    assert found is not None
    assert (found.dim, found.radius, found.separation) == (dim, radius, separation)


def test_nothing_is_known_of_vectors_that_were_not_measured() -> None:
    for missing in ({}, {"radius": 1}, {"separation": 1}):
        assert tokens_as_vectors(DataShape(5, 3, 2, dim=4, **missing)) is None
