"""`byheart reproduce` and `byheart report`."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from byheart.cli import report, reproduce
from byheart.errors import UsageError
from byheart.report.page import read_passes
from byheart.reproduce.figure_files import read_record
from tests.refusal import refused


def run(module: object, *arguments: str) -> str:
    found = CliRunner().invoke(module.command, list(arguments), catch_exceptions=False, standalone_mode=False)
    return found.stdout


@contextmanager
def a_disk_of(n_bytes: int) -> Iterator[None]:
    """No file may become larger."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_figure_is_trained_drawn_and_gathered_into_a_page(tmp_path: Path) -> None:
    store, out = str(tmp_path / "runs.sqlite"), str(tmp_path / "figures")
    common = ("dana-2024-fig4", "--store", store, "-o", out, "--device", "cpu", "--json")
    said = json.loads(run(reproduce, *common))
    assert said["figures"][0]["outcome"] == "not settled"
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    drawn = [f"dana-2024-fig4.{suffix}" for suffix in ("json", "png", "svg", "verdict.txt")]
    assert names == [*drawn, "passes.jsonl"]
    assert "(one session; " in said["passes"]
    assert (
        json.loads(run(reproduce, *common, "--draw-only"))["figures"][0]["runs"] == said["figures"][0]["runs"]
    )
    assert f"{store}.passes.jsonl" in run(reproduce, *common[:-1], "--draw-only")
    files = {path: path.read_bytes() for path in Path(out).iterdir()}
    with a_disk_of(40_000), refused(UsageError, "path"):
        run(reproduce, *common, "--draw-only")
    assert {path: path.read_bytes() for path in Path(out).iterdir()} == files
    gathered = json.loads(run(report, "--results", out, "-o", str(tmp_path / "page"), "--json"))
    assert gathered["figures"] == [{"name": "dana-2024-fig4", "outcome": "not settled"}]
    assert said["passes"] in Path(gathered["path"]).read_text(encoding="utf-8")
    again = json.loads(run(report, "--results", out, "--recompute", "--json"))
    assert again["figures"][0]["differences"] == []
    path = tmp_path / "figures" / "dana-2024-fig4.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"accuracy_tail": [0.', '"accuracy_tail": [0.9', 1), encoding="utf-8")
    with pytest.raises(report.NotReproduced):
        run(report, "--results", out, "--recompute")


def test_a_page_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run(report, "--results", str(tmp_path))


def test_a_dry_run_trains_nothing(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    said = json.loads(
        run(reproduce, "dana-2024-fig4", "--store", str(store), "--dry-run", "--device", "cpu", "--json")
    )
    assert said["figures"][0]["n_runs"] > said["figures"][0]["n_stored"] == 0
    assert "minutes in all" in run(
        reproduce, "dana-2024-fig4", "--store", str(store), "--dry-run", "--device", "cpu"
    )
    assert not store.exists()


@pytest.mark.slow
def test_the_largest_scale_is_estimated_but_for_models_of_gigabytes(tmp_path: Path) -> None:
    names = ("dana-2024-fig4", "kajitsuka-sato-2025-length")
    said = json.loads(
        run(
            reproduce,
            *names,
            "--scale",
            "paper",
            "--store",
            str(tmp_path / "x"),
            "--dry-run",
            "--device",
            "cpu",
            "--json",
        )
    )
    assert all(one["seconds"] > 0 for one in said["figures"])
    assert [one["n_untimed"] > 0 for one in said["figures"]] == [False, True]


@pytest.mark.parametrize("choice", [(), ("--dry-run",)])
def test_a_quiet_command_shows_no_progress(choice: tuple[str, ...], tmp_path: Path) -> None:
    paths = ("--store", str(tmp_path / "runs.sqlite"), "-o", str(tmp_path / "figures"))
    asked = ["dana-2024-fig4", *paths, "--device", "cpu", *choice]
    assert CliRunner().invoke(reproduce.command, [*asked, "-q"]).stderr == ""


def test_the_figures_are_listed() -> None:
    assert "kajitsuka-sato-2025-length" in run(reproduce, "--list")
    assert len(json.loads(run(reproduce, "--list", "--json"))["figures"]) == 14


def test_without_a_name_nothing_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run(reproduce, "--store", str(tmp_path / "x.sqlite"))


def test_when_the_time_is_over_it_says_how_to_go_on(tmp_path: Path) -> None:
    store, out = str(tmp_path / "runs.sqlite"), str(tmp_path / "figures")
    common = ("dana-2024-fig4", "--store", store, "-o", out, "--device", "cpu")
    with refused(Exception, figure="dana-2024-fig4"):
        run(reproduce, *common, "--minutes", "0")
    run(reproduce, *common)
    assert "not settled" in run(reproduce, *common, "--minutes", "0", "--draw-only")


def test_a_text_figure_is_made_of_made_up_texts_at_the_smallest_scale(tmp_path: Path) -> None:
    places = (
        "--store",
        str(tmp_path / "x.sqlite"),
        "-o",
        str(tmp_path / "out"),
        "--samples",
        str(tmp_path / "texts"),
    )
    said = json.loads(run(reproduce, "kajitsuka-sato-2025-fig3", *places, "--device", "cpu", "--json"))
    assert said["figures"][0]["outcome"] == "not settled"
    assert not (
        tmp_path / "texts" / "samples.npz"
    ).exists()  # where another scale would take them for the papers'
    with pytest.raises(UsageError, match="--texts hub") as refused:
        run(reproduce, "kajitsuka-sato-2025-fig3", *places, "--scale", "laptop")
    assert refused.value.facts["path"].endswith("samples.npz")


def test_runs_are_added_to_a_record_whose_store_is_gone(tmp_path: Path) -> None:
    first, second = (str(tmp_path / f"{name}.sqlite") for name in ("first", "second"))
    out, more = str(tmp_path / "out"), str(tmp_path / "more")
    name, device = "dana-2024-fig4", ("--device", "cpu", "--json")
    whole = json.loads(run(reproduce, name, "--store", first, "-o", out, *device))["figures"][0]["runs"]
    run(reproduce, "dana-2024-fig1a", "--store", second, "-o", str(tmp_path / "other"), *device)
    again = json.loads(
        run(reproduce, name, "--store", second, "--draw-only", "--add-to", out, "-o", more, *device)
    )
    assert again["figures"][0]["runs"] == whole
    before, after = (read_record(Path(folder) / f"{name}.json") for folder in (out, more))
    assert before.observations == after.observations
    assert before.verdict == after.verdict
    assert len(read_passes(Path(more))) == 2
    run(reproduce, name, "--store", first, "--draw-only", "--add-to", out, "-o", more, *device)
    twice = read_record(Path(more) / f"{name}.json")
    assert twice.runs["seconds"] == before.runs["seconds"]  # runs of the store and the record count once
