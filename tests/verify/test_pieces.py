"""A data set in pieces is checked piece after piece, and the certificate is that of the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from byheart.data import piece_reader
from byheart.data.dataset import Dataset
from byheart.data.dataset_pieces import DatasetPieces, spool
from byheart.network.memoriser import Memoriser
from byheart.verify import Certificate, verify

from .lookup import lookup

N_ROWS, PIECE_ROWS = 20, 7


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty rows, which are read in pieces of seven, seven and six."""
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", PIECE_ROWS)
    path = tmp_path / "table.csv"
    path.write_text("key,value\n" + "".join(f"k{i},v{i}\n" for i in range(N_ROWS)))
    return path


def whole_and_pieces(table: Path) -> tuple[Dataset, DatasetPieces, Memoriser]:
    whole = Dataset.read(table, tokenizer="word")
    return whole, spool(table, table.parent / "pieces", tokenizer="word"), lookup(whole)


def with_wrong_rows(memoriser: Memoriser, *rows: int) -> Memoriser:
    """The same with the names of the labels of these rows changed, so that they are answered wrongly."""
    wrong = {f"v{row}" for row in rows}
    names = tuple(f"not {name}" if name in wrong else name for name in memoriser.label_names)
    return replace(memoriser, label_names=names)


def same(left: Certificate, right: Certificate) -> bool:
    return replace(left, seconds=0.0) == replace(right, seconds=0.0)


def test_the_certificate_is_that_of_the_whole(table: Path) -> None:
    whole, pieces, memoriser = whole_and_pieces(table)
    assert [piece.n_samples for piece in pieces.pieces()] == [7, 7, 6]
    found = verify(memoriser, pieces)
    assert (found.holds, found.checked, found.wrong, found.wrong_samples) == (True, N_ROWS, 0, ())
    assert (found.rechecked_by_interpreter, found.rechecked_by) == (3, "interpreter")
    assert same(found, verify(memoriser, whole))


@pytest.mark.parametrize("rows", [(0,), (6,), (7,), (19,), (3, 8, 13, 14)])
def test_a_wrong_row_is_found_in_any_piece(table: Path, rows: tuple[int, ...]) -> None:
    _, pieces, memoriser = whole_and_pieces(table)
    found = verify(with_wrong_rows(memoriser, *rows), pieces)
    assert (found.holds, found.checked, found.wrong) == (False, N_ROWS, len(rows))
    assert [sample.expected for sample in found.wrong_samples] == [f"v{row}" for row in rows]


def test_a_certificate_shows_the_first_five_wrong_rows(table: Path) -> None:
    whole, pieces, memoriser = whole_and_pieces(table)
    spoilt = with_wrong_rows(memoriser, *range(4, N_ROWS))
    for data in (whole, pieces):
        found = verify(spoilt, data)
        assert found.wrong == 16
        assert [sample.expected for sample in found.wrong_samples] == ["v4", "v5", "v6", "v7", "v8"]


def test_the_second_evaluator_is_asked_about_the_first_piece_alone(table: Path) -> None:
    _, pieces, memoriser = whole_and_pieces(table)
    assert verify(memoriser, pieces, n_rechecked=99).rechecked_by_interpreter == PIECE_ROWS
    none = verify(memoriser, pieces, n_rechecked=0)
    assert (none.rechecked_by_interpreter, none.rechecked_by) == (0, None)


@pytest.mark.parametrize("n_drawn", [1, 2, 5, 19])
def test_a_sample_is_the_same_whether_the_data_are_whole_or_in_pieces(table: Path, n_drawn: int) -> None:
    whole, pieces, memoriser = whole_and_pieces(table)
    spoilt = with_wrong_rows(memoriser, *range(N_ROWS))
    one, other = (verify(spoilt, data, sample=n_drawn, n_rechecked=0) for data in (whole, pieces))
    assert (other.checked, other.wrong, other.sampled) == (n_drawn, n_drawn, n_drawn)
    assert same(one, other)


def test_progress_rises_from_nothing_to_all(table: Path) -> None:
    whole, pieces, memoriser = whole_and_pieces(table)
    for data in (whole, pieces):
        told: list[float] = []

        def tell(done: int, total: int, *_: str, told: list[float] = told) -> None:
            told.append(done / total)

        verify(memoriser, data, progress=tell)
        assert told == sorted(told)
        assert 0 <= told[0] < 0.5
        assert 0.9 < told[-1] <= 1
    shares = np.array(told)
    assert ((shares > 0.3) & (shares < 0.4)).any()  # the first piece is done when a third is
