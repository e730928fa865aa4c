"""All constructions side by side: each row is verified or says why it is not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.cli.compare import short
from byheart.cli.main import run
from byheart.compare import Row, compare
from byheart.construct.registry import get, names
from byheart.data import Dataset, VectorSequences
from byheart.data.generators import uniform_vectors
from byheart.errors import ConflictingLabels, DoesNotHold, UsageError
from byheart.records.vocabulary import Precision
from byheart.theorems import checks
from tests.construct.rival_data import SEQUENCES, SINGLE, THEOREMS
from tests.refusal import refused


def by_method(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.method: row for row in rows}


@checks("KS25-Tab1", "DPC24-S6")
def test_every_construction_has_a_row_that_says_what_happened() -> None:
    data = uniform_vectors(20, 1, 3, 4, seed=0)
    comparison = compare(data)
    assert {row.method for row in comparison.rows} == set(names())
    rows = by_method(comparison.rows)
    for name in (name for name in THEOREMS if data.task in get(name).tasks):
        row = rows[name]
        assert row.state == "memorised"
        assert (row.checked, row.wrong) == (20, 0)
        assert row.size is not None
        assert row.planned is not None
        assert row.bits_per_parameter == pytest.approx(40 / row.size.parameters_dense)
        assert row.seconds_compile is not None
        assert row.formula is not None
        assert row.formula.is_order == (name in ("park-2021", "kim-2023"))
        assert {floor.quantity for floor in row.floors} == (
            {"parameters", "bits"} if row.precision == "exact" else {"parameters", "parameters of 64 bits"}
        )
        # no construction may lie below a lower bound
        sizes = {"bits": row.size.total_bits}
        assert all(sizes.get(f.quantity, row.size.parameters_dense) >= f.value for f in row.floors)
        # no theorem bounds the parameters of all networks; each is about ReLU units or some kind of attention
        worst = [floor for floor in row.floors if floor.speaks_of == "some data of this shape"]
        assert all(floor.networks for floor in worst if floor.quantity == "parameters")
    sizes = [row.size.parameters_dense for row in comparison.memorised if row.size is not None]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("precision", "quantity"),
    [("float32", "parameters of 32 bits"), ("bfloat16", "parameters of 16 bits"), ("int8", "bits")],
)
def test_every_precision_has_its_floor(precision: Precision, quantity: str) -> None:
    (row,) = compare(uniform_vectors(20, 2, 3, 4, seed=0), ["retrieval"], precision=precision).rows
    assert quantity in {floor.quantity for floor in row.floors}


def test_refusals_are_rows_with_their_reason() -> None:
    rows = by_method(compare(uniform_vectors(10, 3, 2, seed=0), [*SINGLE, "kajitsuka-sato-2025-sparse"]).rows)
    for name in SINGLE:
        assert rows[name].state == "refused"
        assert "up to 3 tokens" in str(rows[name].reason)
    assert "seq-to-seq" in str(rows["kajitsuka-sato-2025-sparse"].reason)


def test_the_theorem_is_evaluated_with_its_constants() -> None:
    data = uniform_vectors(50, 4, 4, seed=0, task="seq-to-seq")
    row = by_method(compare(data, ["kajitsuka-sato-2023"]).rows)["kajitsuka-sato-2023"]
    assert row.formula is not None
    assert row.formula.parameters == 4 * (1 + 4) + 4 * (2 * 200 + 4)


def test_a_precision_that_is_not_offered_is_a_refusal() -> None:
    rows = compare(uniform_vectors(10, 1, 2, seed=0), ["park-2021"], precision="float32").rows
    assert (rows[0].state, rows[0].precision) == ("refused", "float32")
    assert "exact" in str(rows[0].reason)


def test_what_would_be_too_large_is_not_built() -> None:
    (row,) = compare(uniform_vectors(50, 1, 2, seed=0), ["vardi-2022"], most_parameters=1000).rows
    assert row.state == "refused"
    assert "more than the 1,000 allowed" in str(row.reason)


def test_a_wrong_network_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise DoesNotHold("1 of 10 samples is answered wrongly.")

    monkeypatch.setattr("byheart.compare.compile", fails)
    (row,) = compare(uniform_vectors(10, 1, 2, seed=0), ["vardi-2022"]).rows
    assert (row.state, row.size) == ("wrong", None)


def test_conflicts_and_unknown_methods_are_errors() -> None:
    data = uniform_vectors(4, 1, 2, seed=0)
    doubled = Dataset(
        VectorSequences(np.concatenate([data.inputs.values, data.inputs.values[:1]])),
        np.append(data.labels, (data.labels[0] + 1) % 16),
        "next-token",
        data.label_names,
        None,
        False,
    )
    with pytest.raises(ConflictingLabels):
        compare(doubled)
    with refused(UsageError, method="vardi-1922"):
        compare(data, ["vardi-1922"])


def test_the_package_offers_it_by_name() -> None:
    assert bh.compare(uniform_vectors(5, 1, 2, seed=0), ["vardi-2022"]).rows[0].state == "memorised"


def test_progress_names_the_construction() -> None:
    seen: list[str] = []
    compare(
        uniform_vectors(5, 1, 2, seed=0),
        ["vardi-2022", "park-2021"],
        progress=lambda done, total, stage="": seen.append(stage),
    )
    assert "1/2 vardi-2022: compile" in seen
    assert "2/2 park-2021: verify" in seen


# --- command line ---------------------------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    data = uniform_vectors(12, 1, 2, 3, seed=0)
    assert isinstance(data.inputs, VectorSequences)
    path = tmp_path / "vectors.npz"
    np.savez(path, inputs=data.inputs.values, labels=data.labels)
    return path


def test_the_command_prints_two_tables(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(vectors), "--methods", "vardi-2022,park-2021,kajitsuka-sato-2025-sparse"]) == 0
    out = capsys.readouterr().out
    assert "with 12 samples verified" in out
    for words in (
        "dense",
        "non-zero",
        "longest",
        "theorem",
        "at least",
        "worst case",
        "not built",
        "order of growth",
    ):
        assert words in out
    assert max(len(line) for line in out.splitlines() if str(vectors) not in line) <= 80


def test_bits_mean_the_same_in_compare_and_in_bounds(
    vectors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bounds", "--data", str(vectors), "--json"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    (bits,) = (each["bits"] for each in estimates if each["name"] == "vardi-2022")
    assert run(["compare", str(vectors), "--methods", "vardi-2022"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "vardi-2022" in line)
    assert row.split()[-1] == short(bits)


def test_names_are_whole_in_eighty_columns(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = [name for name in names() if "next-token" in get(name).tasks]
    assert run(["compare", str(vectors), "--methods", ",".join(every[:4])]) == 0
    out = capsys.readouterr().out
    for name in every[:4]:
        assert f"  {name} " in out


def test_a_refusal_is_told_in_one_sentence_and_in_full_as_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = uniform_vectors(8, 3, 2, 3, seed=0)
    assert isinstance(data.inputs, VectorSequences)
    path = tmp_path / "sequences.npz"
    np.savez(path, inputs=data.inputs.values, labels=data.labels)
    assert run(["compare", str(path), "--methods", "vardi-2022,two-layer-relu"]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert "vardi-2022 memorises one vector per sample, but these samples have up to 3 tokens." in out
    assert "Choose a construction" not in out
    assert run(["compare", str(path), "--methods", "vardi-2022", "--json"]) == 4
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert "Choose a construction with attention" in row["reason"]


def test_the_command_prints_one_document(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(vectors), "--methods", "vardi-2022, two-layer-relu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in document["rows"]] == ["two-layer-relu", "vardi-2022"]
    first = document["rows"][0]
    assert first["size"]["parameters_dense"] == 12 * 3 + 2 - 1
    assert first["formula"]["parameters"] == 12 * 4 + 1
    assert document["dataset"]["n_samples"] == 12


def test_nothing_memorised_is_outside_the_assumptions(
    vectors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(vectors), "--methods", "kajitsuka-sato-2025-sparse"]) == 4
    assert "not built" in capsys.readouterr().out


def test_the_figure_is_drawn(vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.report.growth.SIZES", (10, 20))
    figure = tmp_path / "growth.svg"
    assert run(["compare", str(vectors), "--methods", "two-layer-relu", "--figure", str(figure)]) == 0
    assert figure.read_text().startswith("<?xml")


@pytest.mark.slow
def test_real_facts_are_compared(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(shared_data / "facts.csv"), "--json"]) == 0
    captured = capsys.readouterr()
    rows = {row["method"]: row for row in json.loads(captured.out)["rows"]}
    assert set(rows) == set(names())
    for name in (name for name in SEQUENCES if "next-token" in get(name).tasks):
        assert (rows[name]["state"], rows[name]["checked"], rows[name]["wrong"]) == ("memorised", 1790, 0)
    for name in SINGLE:
        assert "up to 65 tokens" in rows[name]["reason"]
    assert "verify" in captured.err  # progress
