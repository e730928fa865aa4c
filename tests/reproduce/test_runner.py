"""Stages in order, within a time, going on after a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from byheart.errors import DataError, MalformedFile, UsageError
from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import TrainingStage
from byheart.reproduce.figure_files import make_record, read_record
from byheart.reproduce.registry import figure_of
from byheart.reproduce.runner import group_stages, stages_of, work
from tests.refusal import refused


def test_stages_come_by_priority_and_those_together_as_one() -> None:
    stages = [
        TrainingStage("late", 5, (), together="x"),
        TrainingStage("first", 0, ()),
        TrainingStage("late too", 5, (), together="x"),
        TrainingStage("second", 0, ()),
    ]
    assert [name for name, _ in group_stages(stages)] == ["first", "second", "late; late too"]


def test_nothing_is_begun_once_the_time_is_over(tmp_path: Path) -> None:
    lines: list[str] = []
    with Store(tmp_path / "runs.sqlite") as store:
        stages = stages_of(["dana-2024-fig4"], "smoke", None)
        done = work(stages, store, device="cpu", seconds=0.0, say=lines.append)
        assert store.count() == 0
    assert not any(part.is_complete for part in done)
    assert all("not begun" in line for line in lines)


def test_a_stage_that_fails_is_reported_and_passed_over(tmp_path: Path, samples: Samples) -> None:
    good = stages_of(["dana-2024-fig4"], "smoke", None)[0]
    run = next(iter(stages_of(["kajitsuka-sato-2025-fig3"], "smoke", samples)[0].runs))
    gone = dict(run.data) | {"path": str(tmp_path / "gone.npz")}
    bad = TrainingStage("bad", -1, (type(run)(run.model, gone, run.training, run.seed),))
    with Store(tmp_path / "runs.sqlite") as store:
        done = work([good, bad], store, device="cpu", goes_on=True)
        assert [(part.name, part.is_complete) for part in done] == [("bad", False), (good.name, True)]
        assert "gone.npz" in done[0].error
        with refused(MalformedFile, "path"):
            work([bad], store, device="cpu")


def test_a_run_shared_by_figures_is_trained_once() -> None:
    one = stages_of(["dana-2024-fig1a", "dana-2024-fig2b"], "paper", None)
    keys = {run.key for stage in one for run in stage.runs}
    total = sum(len({run.key for run in stage.runs}) for stage in one)
    # at d = 10 both have 16 numbers of heads of August 2024 in ten seeds; five seeds of 2025's 16, and of 6 as written
    assert total - len(keys) == 10 * 16 + 5 * (16 + 6)


def test_an_empty_store_makes_no_figure(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "runs.sqlite") as store,
        refused(DataError, figure="dana-2024-fig1a"),
    ):
        make_record("dana-2024-fig1a", "paper", None, store)


def test_an_unknown_figure_is_refused_with_a_hint() -> None:
    with refused(UsageError, figure="dana-2024-fig1aa"):
        figure_of("dana-2024-fig1aa")


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', "[]", '{"schema": 1, "verdict": 3}'])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(MalformedFile):
        read_record(path)
