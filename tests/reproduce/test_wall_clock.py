"""What training took, noted pass by pass, and what it will take."""

from __future__ import annotations

from pathlib import Path

from byheart.errors import MalformedFile
from byheart.measure.store import Store
from byheart.reproduce.cost_estimate import estimates
from byheart.reproduce.runner import stages_of, work
from byheart.reproduce.wall_clock import Pass, beside, in_words, note, read, wall_clock
from tests.refusal import refused


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}+00:00"


def test_passes_side_by_side_count_once() -> None:
    beside_each_other = [
        Pass(at(10), 50.0, "GPU", 1),
        Pass(at(0), 20.0, "GPU", 1),
        Pass(at(15), 5.0, "GPU", 1),
    ]
    assert wall_clock(beside_each_other) == 60
    assert wall_clock([*beside_each_other, Pass(at(90), 7.0, "GPU", 1)]) == 67
    assert wall_clock([]) == 0


def test_passes_add_up_device_by_device(tmp_path: Path) -> None:
    path = beside(tmp_path / "runs.sqlite")
    assert read(path) == []
    for one in (Pass(at(0), 10.0, "GPU", 5), Pass(at(5), 2.5, "CPU", 1), Pass(at(30), 20.0, "GPU", 6)):
        note(path, one)
    note(path, Pass(at(99), 9.0, "GPU", 0))  # trained nothing
    assert in_words(read(path)) == (
        "Wall-clock time of all training: 30 s on GPU (2 sessions; runs trained: 11); 2 s on CPU (one session; runs trained: 1)."
    )


def test_a_line_that_is_no_pass_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "passes.jsonl"
    path.write_text('{"began": 1}\n')
    with refused(MalformedFile, "file", "problem"):
        read(path)


def test_an_estimate_counts_what_is_stored_and_shared_once(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        names = ["dana-2024-fig4", "dana-2024-fig4"]
        before = estimates(names, "smoke", None, store, device="cpu")
        assert before[0].n_runs > 0
        assert before[0].seconds > 0
        assert (before[1].n_runs, before[1].seconds) == (0, 0.0)
        work(stages_of(names[:1], "smoke", None)[:1], store, device="cpu")
        after = estimates(names[:1], "smoke", None, store, device="cpu")[0]
    assert after.n_stored == 6
    assert after.n_runs == before[0].n_runs
