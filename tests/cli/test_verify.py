"""What `byheart verify` prints, for people and for programs."""

from __future__ import annotations

from pathlib import Path

from .conftest import ROWS, Byheart, write_table


def test_verify_holds(byheart: Byheart, folder: Path, table: Path) -> None:
    done = byheart("verify", folder, table)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "holds: 5 of 5 rows, 'key' -> 'value'"
    found = byheart("verify", folder, table, "--json").document
    assert (found["checked"], found["wrong"], found["holds"]) == (5, 0, True)
    assert found["digest"] == found["dataset"]["digest"]


def test_verify_shows_the_first_wrong_samples_and_counts_the_rest(
    byheart: Byheart, folder: Path, tmp_path: Path
) -> None:
    rows = dict.fromkeys(ROWS, "Lima")
    rows |= {f"capital of Peru {n}": "Lima" for n in range(4)}
    done = byheart("verify", folder, write_table(tmp_path / "other.csv", rows))
    assert done.status == 3
    assert "DOES NOT HOLD" in done.out
    assert all(value in done.out for value in ("8 of 9", "'capital of France'", "'Lima'"))
    found = byheart("verify", folder, tmp_path / "other.csv", "--json").document
    assert (found["wrong"], len(found["wrong_samples"])) == (8, 5)


def test_verify_knows_no_cuda_for_exact_models(byheart: Byheart, folder: Path, table: Path) -> None:
    done = byheart("verify", folder, table, "--device", "cuda")
    assert done.status == 2
    assert "UsageError" in done.err
    assert "cuda" in done.err


def test_a_float_model_is_verified_natively_and_by_the_interpreter(
    byheart: Byheart, table: Path, tmp_path: Path
) -> None:
    floats = ("--method", "kajitsuka-sato-2025-bits", "--precision", "float64", "--tokenizer", "word")
    assert byheart("compile", table, "-o", tmp_path / "model", *floats).status == 0
    done = byheart("verify", tmp_path / "model", table, "--json")
    assert (done.status, done.document["backend"], done.document["rechecked_by_interpreter"]) == (
        0,
        "module",
        3,
    )
    assert byheart("predict", tmp_path / "model", "capital of Georgia").out == "Tbilisi\n"


def test_the_number_of_samples_is_typed_like_any_whole_number(
    byheart: Byheart, folder: Path, table: Path
) -> None:
    done = byheart("verify", folder, table, "--sample", "1e0", "--json")
    assert (done.status, done.document["checked"]) == (0, 1)
