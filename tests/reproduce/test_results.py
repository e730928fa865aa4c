"""The stored results of the paper's scale: small, readable, and with verdicts that follow from their checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from byheart.report.page import read_passes
from byheart.reproduce.figure_files import read_record
from byheart.reproduce.registry import FIGURES, figure_of
from byheart.reproduce.seed_values import judged
from byheart.reproduce.wall_clock import wall_clock

RESULTS = Path(__file__).resolve().parents[2] / "results"
STORED = sorted(RESULTS / f"{name}.json" for name in FIGURES)


def test_the_wall_clock_of_the_passes_is_stored_beside_them() -> None:
    passes = read_passes(RESULTS)
    assert passes
    assert all("H200" in one.device for one in passes)
    assert 0 < wall_clock(passes) < 30 * 60


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_result_is_small_and_its_verdict_follows_from_its_checks(path: Path) -> None:
    assert path.stat().st_size < 200_000
    record = read_record(path)
    assert (record.figure, record.scale) == (path.stem, "paper")
    assert record.claim == figure_of(path.stem).claim
    assert record.runs["devices"]
    assert record.runs["count"] > 0
    is_settled = record.verdict.outcome != "not settled"
    again = judged("paper", record.verdict.checks, record.verdict.because, is_complete=is_settled)
    assert again.outcome == record.verdict.outcome
