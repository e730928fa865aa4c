"""Exact weights: what is exactly at a limit of the format is loaded again, and one more is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from byheart.errors import CorruptModel, UsageError
from byheart.network import SparseMatrix, Transformer
from byheart.storage import load_folder, save_folder
from byheart.storage.sparse_weights import encode_sparse
from byheart.storage.tensor_file import write_tensors
from tests.refusal import refused

from .test_folder import RECORD, memory_of

WEIGHTS = "model.safetensors"


def save_row(path: Path, entries: dict[int, Fraction | int], n_columns: int | None = None) -> SparseMatrix:
    """Save a network whose only weights are one row."""
    width = max(entries, default=0) + 1 if n_columns is None else n_columns
    row = SparseMatrix.of((1, width), {(0, column): value for column, value in entries.items()})
    network = Transformer(row, (), SparseMatrix.of((1, 1), {}), seq_len=1)
    save_folder(path, memory_of(network), RECORD, None)
    return row


def loaded_row(path: Path) -> SparseMatrix:
    weights = load_folder(path)[0].network.w_in
    assert isinstance(weights, SparseMatrix)
    return weights


@pytest.mark.parametrize("exponent", [4096, -4096])
def test_an_exponent_at_the_limit_comes_back(tmp_path: Path, exponent: int) -> None:
    row = save_row(tmp_path / "m", {0: 3 * Fraction(2) ** exponent})
    assert loaded_row(tmp_path / "m") == row
    with refused(UsageError, exponent=4097):
        save_row(tmp_path / "n", {0: 3 * Fraction(2) ** (exponent + (1 if exponent > 0 else -1))})


def test_a_network_of_more_limbs_may_have_larger_exponents(tmp_path: Path) -> None:
    """5000 limbs: 4999 of one number, which is shifted by 5000, and one of another."""
    row = save_row(tmp_path / "m", {0: (2 ** (64 * 4998) + 1) * 2**5000, 1: 3})
    assert loaded_row(tmp_path / "m") == row
    with refused(UsageError, exponent=5001):
        save_row(tmp_path / "n", {0: (2 ** (64 * 4998) + 1) * 2**5001, 1: 3})


@pytest.mark.parametrize("sign", [1, -1])
def test_mantissas_of_every_length_come_back(tmp_path: Path, sign: int) -> None:
    row = save_row(tmp_path / "m", {bits: sign * (2**bits + 1) for bits in range(1, 200)})
    assert loaded_row(tmp_path / "m") == row
    counts = load_file(tmp_path / "m" / WEIGHTS)["limb_counts"]
    assert counts.tolist() == [bits // 64 + 1 for bits in range(1, 200)]


@pytest.mark.parametrize(("n_columns", "dtype"), [(256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_columns_are_stored_in_as_few_bytes_as_hold_them(n_columns: int, dtype: str) -> None:
    row = SparseMatrix.of((1, n_columns), {(0, n_columns - 1): 1})
    assert encode_sparse([row])["columns"].dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("exponent", "dtype"), [(127, "i1"), (128, "i2"), (-128, "i1"), (-129, "i2"), (4096, "i2")]
)
def test_exponents_are_stored_in_as_few_bytes_as_hold_them(exponent: int, dtype: str) -> None:
    row = SparseMatrix.of((1, 2), {(0, 0): Fraction(2) ** exponent, (0, 1): 1})
    assert encode_sparse([row])["exponents"].dtype == np.dtype(dtype)


@pytest.mark.parametrize(("n_columns", "is_taken"), [(4096, True), (4097, False)])
def test_columns_without_entries_are_few(tmp_path: Path, n_columns: int, is_taken: bool) -> None:
    row = save_row(tmp_path / "m", {0: 1}, n_columns)
    if is_taken:
        assert loaded_row(tmp_path / "m") == row
    else:
        with refused(CorruptModel, "problem"):
            load_folder(tmp_path / "m")


def test_as_many_columns_as_entries_are_allowed(tmp_path: Path) -> None:
    row = save_row(tmp_path / "m", dict.fromkeys(range(4097), 1))
    assert loaded_row(tmp_path / "m") == row


def _set(name: str, values: list[int]) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: np.array(values, tensors[name].dtype)})


LIES: dict[str, list[Callable[[dict[str, np.ndarray]], None]]] = {
    "no sign": [_set("negative", [0, 1])],
    "no limb count": [_set("limb_counts", [1, 2]), _set("limbs", [3, 5, 7])],
    "no limbs, though the sum is right": [_set("limb_counts", [0, 2, 2])],
    "even though it has two limbs": [_set("limbs", [3, 4, 7, 7])],
    "a limb that no entry has": [_set("limbs", [3, 5, 7, 7, 9])],
    "last limb zero": [_set("limbs", [3, 5, 7, 0])],
    "columns fall": [_set("columns", [0, 2, 1])],
    "column repeated": [_set("columns", [0, 1, 1])],
    "column outside": [_set("columns", [0, 1, 3])],
    "one exponent too large": [_set("exponents", [0, 0, 127]), lambda t: t.update(exponents=np.array([0, 0, 4097], np.int16))],
    "row in another matrix": [_set("row_counts", [2, 1])],
}  # fmt: skip


@pytest.mark.parametrize("lie", [None, *LIES])
def test_a_lie_about_one_entry_is_refused(tmp_path: Path, lie: str | None) -> None:
    save_row(tmp_path / "m", {0: 3, 1: -5, 2: 7 * 2**64 + 7})
    tensors = load_file(tmp_path / "m" / WEIGHTS)
    assert tensors["limb_counts"].tolist() == [1, 1, 2]
    for change in LIES.get(lie or "", []):
        change(tensors)
    write_tensors(tmp_path / "m" / WEIGHTS, tensors)
    if lie is None:
        load_folder(tmp_path / "m")
    else:
        with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
            load_folder(tmp_path / "m")
