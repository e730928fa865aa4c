"""`byheart measure` and `byheart runs`, as a person and as a program calls them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import byheart as bh
from byheart.cli.measure import Interrupted
from byheart.cli.measure import command as measure
from byheart.cli.progress import watch
from byheart.cli.runs import command as runs
from byheart.errors import UsageError
from byheart.measure.progress import duration, report_to, share_done
from byheart.measure.records import Record, key_of
from byheart.measure.specification import Budget, read_specification
from byheart.measure.store import Store
from byheart.measure.sweep import SweepState
from byheart.measure.trainer import Moment
from byheart.measure.workers import BudgetSpent, make_trainer
from tests.measure.small_sweep import small_sweep
from tests.measure.test_store import record
from tests.refusal import refused

SPEC = small_sweep(n_steps=20, seeds=2)
SEARCH = """
[pass]
metric = "accuracy"
threshold = 1.0
[search]
axis = "model.n_heads"
low = 0
high = 6
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(command: object, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_a_dry_run_trains_nothing(folder: Path) -> None:
    result = call(measure, "spec.toml", "--dry-run", "--device", "cpu")
    assert "4, of which 0 are stored" in result.stdout
    assert "memory" in result.stdout
    assert not (folder / "runs.sqlite").exists()
    document = json.loads(call(measure, "spec.toml", "--dry-run", "--device", "cpu", "--json").stdout)
    assert (document["n_runs"], document["n_stacks"]) == (4, 1)
    assert document["seconds"] > 0
    assert document["largest_stack_bytes"] > 0


def test_a_store_cannot_steer_the_terminal(tmp_path: Path) -> None:
    config = record().config | {"family": "\x9b2J\u202egone"}
    with Store(tmp_path / "runs.sqlite") as store:
        store.add(replace(record(), key=key_of(config), config=config))
    shown = call(runs, "list", "--store", str(tmp_path / "runs.sqlite")).stdout
    assert r"\x9b2J\u202egone" in shown
    assert ("\x9b" in shown, "\u202e" in shown) == (False, False)


def test_measure_list_export_compare(folder: Path) -> None:
    document = json.loads(call(measure, "spec.toml", "--device", "cpu", "--json").stdout)
    assert len(document["records"]) == 4
    assert {record["status"] for record in document["records"]} == {"done"}
    assert (document["n_trained"], document["n_stored"], document["store"]) == (4, 0, "runs.sqlite")
    again = call(measure, "spec.toml", "--device", "cpu")
    assert "attention-only" in again.stdout
    assert "runs.sqlite" in again.stdout
    document = json.loads(call(measure, "spec.toml", "--device", "cpu", "--json").stdout)
    assert (document["n_trained"], document["n_stored"]) == (0, 4)
    assert "n_heads=2" in again.stdout
    assert "runs: 4" in call(runs, "list").stdout
    listed = json.loads(
        call(runs, "list", "--json", "--where", "sizes.n_heads=2", "--where", "seed<1").stdout
    )
    assert [(row["sizes.n_heads"], row["seed"]) for row in listed["runs"]] == [(2, 0)]
    call(runs, "export", "-o", "runs.csv")
    call(runs, "export", "-o", "runs.parquet")
    with Path("runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    table = parquet.read_table("runs.parquet").to_pylist()
    assert len(rows) == len(table) == 4
    assert [float(row["measured.loss"]) for row in rows] == [row["measured.loss"] for row in table]
    compared = json.loads(call(runs, "compare", "--json").stdout)["settings"]
    assert [group["setting"] for group in compared] == [{"sizes.n_heads": 1}, {"sizes.n_heads": 2}]
    assert all(group["n_records"] == 2 and group["interval"] for group in compared)
    assert "mean loss" in call(runs, "compare", "--metric", "loss").stdout


def test_runs_are_fitted(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("[1, 2]", "[1, 2, 3, 4]"))
    call(measure, "spec.toml", "--device", "cpu")
    document = json.loads(call(runs, "fit", "--x", "sizes.n_heads", "--y", "n_parameters", "--json").stdout)
    best = document["fits"][0]
    # A head as written costs 4 d d_h = 36 parameters, whatever the rest.
    assert best["law"] == "linear"
    assert best["coefficients"]["slope"]["value"] == pytest.approx(36)
    assert (
        "R²"
        in call(runs, "fit", "--x", "sizes.n_heads", "--law", "linear", "--up-to-first-above", "0.9").stdout
    )
    with pytest.raises(UsageError):
        call(runs, "fit", "--x", "family")


def test_helpers_share_the_store(folder: Path) -> None:
    result = call(measure, "spec.toml", "--device", "cpu", "--workers", "2", "--json")
    assert len(json.loads(result.stdout)["records"]) == 4


def test_a_capacity_search_shows_its_interval(folder: Path) -> None:
    (folder / "search.toml").write_text(
        SPEC.replace("n_heads = [1, 2]", "").replace("steps = 20", "steps = 200") + SEARCH
    )
    document = json.loads(call(measure, "search.toml", "--device", "cpu", "--json").stdout)
    (found,) = document["capacities"]
    assert len(found["brackets"]) == 2
    assert all(bracket["n_runs"] <= 5 for bracket in found["brackets"])
    assert "smallest model.n_heads" in call(measure, "search.toml", "--device", "cpu").stdout
    again = json.loads(call(measure, "search.toml", "--device", "cpu", "--json").stdout)
    assert (again["n_trained"], again["n_stored"]) == (0, document["n_trained"])


def test_a_spent_budget_says_how_to_go_on(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC + "[budget]\nmax_seconds = 1e-9\n")
    with pytest.raises(BudgetSpent) as caught:
        call(measure, "spec.toml", "--device", "cpu")
    assert caught.value.exit_status == 5
    assert "Run the same command again" in str(caught.value)
    # without a store, the runs are lost
    with pytest.raises(BudgetSpent) as caught:
        bh.measure("spec.toml", device="cpu")
    assert "store" in str(caught.value)
    assert "again" not in str(caught.value)


def test_a_spent_budget_counts_each_run_once(folder: Path) -> None:
    (folder / "spec.toml").write_text(
        SPEC.replace("n_heads = [1, 2]", "n_heads = [1, 1]") + "[budget]\nmax_seconds = 1e-9\n"
    )
    with pytest.raises(BudgetSpent) as caught:
        bh.measure("spec.toml", device="cpu")
    assert caught.value.facts["n_runs"] == 2


def test_the_rounds_of_a_search_share_one_time_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def train(*arguments: object, max_seconds: float, **options: object) -> list[Record]:
        left.append(max_seconds)
        return []

    clock = SimpleNamespace(monotonic=iter([1000.0, 1010.0, 1050.0, 1200.0]).__next__)
    monkeypatch.setattr("byheart.measure.workers.time", clock)
    monkeypatch.setattr("byheart.measure.workers.train_here", train)
    specification = read_specification(folder / "spec.toml")
    with Store(folder / "runs.sqlite") as store:
        trainer = make_trainer(replace(specification, budget=Budget(max_seconds=100.0)), store)
        for _ in range(3):
            trainer([])
    assert left == [90.0, 50.0, 0.0]


def test_ctrl_c_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("byheart.measure.workers.Sweep", interrupt)
    with refused(Interrupted, "command") as caught:
        call(measure, "spec.toml", "--device", "cpu")
    assert caught.value.exit_status == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--where", "beauty=3"],
        ["list", "--where", "beauty"],
        ["export", "-o", "runs.xls"],
        ["compare", "--metric", "beauty"],
        ["compare", "--metric", "status"],
        ["list", "--store", "none.sqlite"],
    ],
)
def test_mistakes_are_named(folder: Path, arguments: list[str]) -> None:
    call(measure, "spec.toml", "--device", "cpu")
    with pytest.raises(UsageError):
        call(runs, *arguments)
    assert not list(folder.glob(".runs*"))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("n_heads", "sizes.n_heads"), ("sizes.n_head", "sizes.n_heads"), ("seeds", "seed"), ("beauty", None)],
)
def test_the_column_that_is_meant_is_suggested(folder: Path, name: str, meant: str | None) -> None:
    call(measure, "spec.toml", "--device", "cpu")
    for arguments in (["list", "--where", f"{name}=1"], ["compare", "--by", name]):
        with refused(UsageError, column=name, meant=meant):
            call(runs, *arguments)


def test_runs_of_several_settings_are_not_taken_for_seeds(folder: Path) -> None:
    """The interval of runs with different numbers of steps was shown as one over seeds."""
    for steps in (20, 30):
        (folder / "spec.toml").write_text(SPEC.replace("steps = 20", f"steps = {steps}"))
        call(measure, "spec.toml", "--device", "cpu")
    by = ["--by", "sizes.n_heads"]
    for arguments, pooled in (
        (by, ["training.steps"]),
        ([*by, "--by", "training.steps"], []),
        ([*by, "--where", "training.steps=30"], []),
        ([], []),
    ):
        found = json.loads(call(runs, "compare", "--json", *arguments).stdout)["settings"]
        assert all(group["pooled"] == pooled for group in found)
        assert all((group["interval"] is None) == bool(pooled) for group in found)
    assert "training.steps" in call(runs, "compare", *by).stdout
    for where, pooled in (([], ["training.steps"]), (["--where", "training.steps=30"], [])):
        fit = ["fit", "--x", "sizes.n_heads", "--y", "loss", "--law", "constant", *where]
        assert json.loads(call(runs, *fit, "--json").stdout)["pooled"] == pooled
        assert call(runs, *fit).stdout.count("training.steps") == len(pooled)
    draw = ["--figure", "heads.svg", "--metric", "loss"]
    for arguments, n_comments in ((by, 1), ([*by, "--where", "training.steps=30"], 0)):
        call(runs, "compare", *arguments, *draw)
        # matplotlib writes each text of a figure in a comment
        assert (folder / "heads.svg").read_text().count("training.steps -->") == n_comments


def test_a_negative_r_squared_is_explained(folder: Path) -> None:
    """A power law is fitted to logarithms, so it can fit y worse than a constant."""
    configs = [record(seed).config for seed in range(3)]
    with Store(folder / "runs.sqlite") as store:
        for heads, loss, config in zip((1, 2, 3), (1e-6, 10.0, 1.0), configs, strict=True):
            of_heads = config | {"sizes": config["sizes"] | {"n_heads": heads}}
            found = replace(record(heads), key=key_of(of_heads), config=of_heads, measured={"loss": loss})
            store.add(found)
    fit = ["fit", "--x", "sizes.n_heads", "--y", "loss", "--law"]
    (fitted,) = json.loads(call(runs, *fit, "power", "--json").stdout)["fits"]
    assert fitted["r_squared"] < 0
    texts = [call(runs, *fit, law).stdout for law in ("linear", "power")]
    assert [text.count("R²") for text in texts] == [1, 2]


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with refused(UsageError, device="tpu9000"):
        call(measure, "spec.toml", "--device", "tpu9000")


class _Terminal:
    def __init__(self, is_terminal: bool) -> None:
        self.text, self.is_terminal = "", is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


def progress(stored: int, step: int, seconds: float) -> SweepState:
    return SweepState(10, stored, stored, Moment(step, 100, 4, 4, 0.25, 1234.0), seconds)


def test_progress_for_people_and_for_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.cli.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr("byheart.cli.progress.QUIET_SECONDS", 0.0)
    piped, terminal = _Terminal(False), _Terminal(True)
    for stream in (piped, terminal):
        with watch(stream) as show:
            report = report_to(show)
            report(progress(2, 0, 0.0))
            report(progress(2, 50, 10.0))
    shown = "measure, runs 2/10, in training 4, step 50/100, best loss 0.25, model-steps/s 1,234: 40% after"
    assert shown in piped.text
    assert " s left" in piped.text  # one estimate, of the command line's own
    assert piped.text.count(" left") == 1
    assert "\x1b" not in piped.text
    assert "best loss" in terminal.text


def test_share_done_and_durations() -> None:
    assert share_done(progress(2, 50, 10.0)) == pytest.approx(0.4)  # 4 of 10 runs' worth
    assert [duration(s) for s in (5, 300, 9000)] == ["5 s", "5 min", "2.5 h"]
