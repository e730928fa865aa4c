"""A specification says what is wrong with it, and what it will cost."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from byheart.errors import DataError, UsageError
from byheart.measure.forecast import forecast
from byheart.measure.sources import training_set_of
from byheart.measure.specification import read_specification, specification_of, with_searched_value
from byheart.measure.store import Store
from byheart.measure.sweep import Sweep
from byheart.process.memory_limit import OverMemoryLimit
from tests.refusal import refused

GOOD = """
name = "small"
seeds = 3

[model]
family = "attention-only"
variant = "as-coded"
dim = [3, 4]
head_dim = "=dim"
n_heads = [1, 6]

[data]
kind = "associations"
n_vocab = 6

[training]
steps = 20
batch = 8
learning_rate = 1e-3

[pass]
metric = "accuracy"
threshold = 0.99
"""


@pytest.fixture
def table() -> dict[str, Any]:
    return {
        "seeds": 2,
        "model": {"family": "attention-only", "dim": 3, "head_dim": 3, "n_heads": [1, 2]},
        "data": {"kind": "associations", "n_vocab": 6},
        "training": {"steps": 20},
    }


def test_the_grid_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(GOOD)
    specification = read_specification(path)
    runs = specification.runs
    assert len(runs) == 12
    assert len({run.key for run in runs}) == 12
    assert all(run.model.sizes["head_dim"] == run.model.sizes["dim"] for run in runs)
    assert {run.data["seed"] for run in runs} == {0, 1, 2}  # each seed has labels of its own
    assert runs[0].training.stop == specification.rule
    assert runs[0].model.options["variant"] == "as-coded"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"modle": {}}, "has no field `modle`. Did you mean `model`"),
        ({"model": {"family": "rnn"}}, "no model family `rnn`"),
        ({"model": {"dim": 3}}, "needs `family`"),
        (
            {"model": {"family": "attention-only", "dim": 3}},
            "needs the sizes `head_dim` (head width d_h), `n_heads`",
        ),
        (
            {"model": {"family": "attention-only", "dim": 3, "head_dim": 3, "n_heads": 1, "heads": 2}},
            "no size or option",
        ),
        (
            {"model": {"family": "attention-only", "dim": 3, "head_dim": 3, "n_heads": 1, "dropout": 0.1}},
            "no size or option `dropout`",
        ),
        ({"model": {"family": "attention-only", "dim": 0, "head_dim": 3, "n_heads": 1}}, "at least 1; got 0"),
        (
            {"model": {"family": "attention-only", "dim": 3, "head_dim": "=d", "n_heads": 1}},
            "`=d` refers to `d`",
        ),
        (
            {"model": {"family": "attention-only", "dim": 3, "head_dim": 3, "n_heads": 1, "variant": "x"}},
            "as-written, as-coded, position-first, layer-norm, maps-always; got 'x'",
        ),
        ({"data": {"kind": "poems"}}, "no kind of data `poems`"),
        ({"data": {"kind": "associations", "n_words": 3}}, "no field `n_words`"),
        ({"data": {"kind": "associations", "n_vocab": -3}}, "whole number of at least 1; got -3"),
        ({"data": {"kind": "documents", "path": "none.jsonl", "n_documents": 3}}, "there is no file"),
        (
            {"data": {"kind": "sentences", "path": "x", "n_samples": 3, "ordered": 1}},
            "must be true or false; got 1",
        ),
        ({"data": {"kind": "documents"}}, "need the fields `path`, `n_documents`"),
        ({"training": {"steps": 0}}, "`steps` must be a whole number of at least 1"),
        ({"training": {"step": 5}}, "Did you mean `steps`"),
        ({"training": {"steps": 5, "optimiser": "sgd"}}, "one of adam, adamw, lbfgs"),
        ({"training": {"steps": 5, "optimiser": "lbfgs", "batch": 4}}, "batch = 0"),
        ({"training": {"steps": 5, "learning_rate": -1.0}}, "must be positive"),
        ({"training": {"steps": []}}, "empty list"),
        ({"seeds": 0}, "count of at least 1"),
        ({"seeds": [1, 1]}, "a seed twice"),
        ({"pass": {"metric": "beauty", "threshold": 1}}, "no metric `beauty`"),
        ({"pass": {"metric": "loss"}}, "threshold is missing; it must be a number"),
        ({"search": {"axis": "model.n_heads", "low": 1, "high": 9}}, "needs a pass rule"),
        ({"budget": {"max_runs": 3}}, "has 4 runs"),
        ({"budget": {"max_hours": 3}}, "no field `max_hours`"),
        ({"tuning": {"trials": 0}}, "trials is 0; it must be a whole number from 1"),
        ({"tuning": {"trials": 2, "learning_rate": 3}}, "learning_rate is 3; it must be a list"),
        ({"tuning": {"trials": 2, "learning_rate": [2.0, 1.0]}}, "range"),
        ({"tuning": {"trials": 2, "learning_rate": [0.0, 1.0]}}, "above 0"),
        ({"tuning": [1]}, "[tuning]: it is a list"),
        ({"pass": "loss"}, "[pass]: it is"),
        ({"pass": {"metric": "loss", "threshold": float("nan")}}, "finite number; got nan"),
        ({"budget": {"max_seconds": float("inf")}}, "positive number; got inf"),
        ({"training": {"learning_rate": 1e-3}}, "[training]: steps is missing"),
        ({"training": {"steps": 5, "learning_rate": "fast"}}, 'learning_rate is "fast"'),
        ({"training": {"steps": 10**400}}, "is a number of 1,329 bits"),
        ({"data": {"kind": ["associations", ["facts"]]}}, "`kind` in [data] is a list"),
        ({"data": {"kind": "associations", "seed": "x"}}, "`seed` of data"),
        ({"seeds": 10**9}, "at most 1,000,000"),
        (
            {"model": {name: list(range(1, 200)) for name in ("family", "dim", "head_dim", "n_heads")}},
            "grid has 1,568,239,201 points",
        ),
    ],
)
def test_each_mistake_is_named(table: dict[str, Any], change: dict[str, Any], complaint: str) -> None:
    wrong = copy.deepcopy(table) | change
    with pytest.raises(UsageError) as caught:
        specification_of(wrong, Path())
    assert complaint in str(caught.value)


def test_data_larger_than_memory_are_not_drawn(table: dict[str, Any]) -> None:
    for data in (
        {"kind": "associations", "n_vocab": 1000, "seq_len": 2**40},
        {"kind": "random-tokens", "n_samples": 2**40},
        {"kind": "facts", "n_samples": 2, "n_vocab": 2**50, "n_classes": 2},
        {"kind": "rademacher-vectors", "dim": 2**50},
    ):
        with refused(OverMemoryLimit, "n_bytes", limit=4294967296):
            specification_of(table | {"data": data}, Path())


def test_the_unchanged_table_is_right(table: dict[str, Any]) -> None:
    assert len(specification_of(table, Path()).runs) == 4


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with refused(UsageError, "path"):
        read_specification(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = \nseeds = 1")
    with refused(UsageError, "path"):
        read_specification(tmp_path / "bad.toml")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with refused(UsageError, "path"):
        read_specification(tmp_path / "pipe.toml")


@pytest.mark.parametrize(
    "content", [b"seeds = " + b"9" * 5000, b"seeds = " + b"[" * 100_000, b"name = '\xff'"]
)
def test_toml_that_its_reader_cannot_take_is_our_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with refused(UsageError, "path"):
        read_specification(tmp_path / "bad.toml")


def test_a_forecast_counts_and_estimates(table: dict[str, Any], tmp_path: Path) -> None:
    specification = specification_of(table, Path())
    with Store(tmp_path / "runs.sqlite") as store:
        before = forecast(specification, store, device="cpu")
        assert (before.n_runs, before.n_stored, before.n_stacks) == (4, 0, 1)
        assert 0 < before.largest_stack_bytes < before.available_bytes
        assert before.seconds > 0
        assert store.count() == 0
        Sweep(specification.runs[:3], store, device="cpu").run()
        after = forecast(specification, store, device="cpu")
        assert (after.n_runs, after.n_stored) == (4, 3)
        assert after.largest_stack_bytes < before.largest_stack_bytes


def test_a_reference_follows_the_searched_value(table: dict[str, Any]) -> None:
    specification = specification_of(
        table
        | {
            "model": {"family": "attention-only", "head_dim": "=dim", "n_heads": 1},
            "pass": {"metric": "accuracy", "threshold": 1.0},
            "search": {"axis": "model.dim", "low": 2, "high": 9},
        },
        Path(),
    )
    assert specification.search is not None
    point = with_searched_value(specification.points[0], specification.search, 7)
    assert specification.run(point, 0).model.sizes["head_dim"] == 7
    assert {run.model.sizes["head_dim"] for run in specification.runs} == {9}


def test_both_ends_of_a_search_are_checked(table: dict[str, Any]) -> None:
    search = {"axis": "data.n_samples", "low": 2, "high": 9}
    data = {"kind": "facts", "n_vocab": 5, "n_classes": 2}
    rule = {"metric": "accuracy", "threshold": 1.0}
    with refused(OverMemoryLimit, "n_bytes", limit=4294967296):
        specification_of(table | {"data": data, "pass": rule, "search": search | {"high": 2**50}}, Path())


def test_a_forecast_of_a_search_counts_its_rounds_at_the_largest_value(table: dict[str, Any]) -> None:
    table["model"]["n_heads"] = 1
    rule = {"pass": {"metric": "accuracy", "threshold": 1.0}}
    search = {"search": {"axis": "model.n_heads", "low": 1, "high": 200}}
    plain = forecast(specification_of(table | rule, Path()), None, device="cpu")
    found = forecast(specification_of(table | rule | search, Path()), None, device="cpu")
    assert (plain.n_search_runs, found.n_search_runs) == (None, 2 * (2 + 8))
    assert found.largest_stack_bytes > 10 * plain.largest_stack_bytes
    tuned = specification_of(table | rule | search | {"tuning": {"trials": 3}}, Path())
    assert forecast(tuned, None, device="cpu").n_tuning_runs == 3 * 2 * (2 + 8)


def test_models_too_large_to_time_are_counted(table: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.measure.forecast.MOST_PROBE_BYTES", 0)
    assert forecast(specification_of(table, Path()), None, device="cpu").n_untimed == 4


def test_a_data_file_that_changed_is_noticed(table: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("key,value\na,1\nb,2\n")
    data = {"kind": "file", "path": "facts.csv"}
    run = specification_of(table | {"data": data}, tmp_path).runs[0]
    path.write_text("key,value\na,2\nb,1\n")
    with refused(DataError, path=str(path)):
        training_set_of(run.data)
