"""The figure of the capacity plan: what is drawn is what was computed, in the format asked for."""

from __future__ import annotations

import resource
from pathlib import Path

from byheart.bounds import curves, plan
from byheart.errors import UsageError
from byheart.measure.tabulate import compare
from byheart.report.figures import compared_lines, draw_comparison, draw_plan, share_limits
from tests.refusal import refused


def test_every_curve_is_in_the_figure(tmp_path: Path) -> None:
    lines = curves([plan(10**power, 10) for power in (6, 9, 12)])
    assert {line.kind for line in lines} >= {"theorem", "trained", "floor"}
    for suffix in (".png", ".svg"):
        draw_plan(lines, "facts of 10 bits", tmp_path / f"plan{suffix}")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plan.svg").stat().st_size > 1000


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with refused(UsageError, "path"):
        draw_plan([], "nothing", tmp_path / "plan.docx")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_leaves_the_figure_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(b"drawn before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with refused(UsageError, "path"):
            draw_plan(curves([plan(10**6, 10)]), "facts of 10 bits", tmp_path / "plan.png")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.png"]
    assert (tmp_path / "plan.png").read_bytes() == b"drawn before"


def test_a_comparison_is_a_line_for_each_setting_of_the_other_columns(tmp_path: Path) -> None:
    rows = [
        {"sizes.width": width, "sizes.depth": depth, "measured.loss": float(width + depth + seed)}
        for width in (1, 2)
        for depth in (3, 4)
        for seed in (0, 1)
    ]
    found = compare(rows, ["sizes.width", "sizes.depth"], "loss")
    first, second = compared_lines(found)
    assert [first.label, second.label] == ["depth = 3", "depth = 4"]
    assert [(x, mean) for x, mean, _, _ in first.points] == [(1, 4.5), (2, 5.5)]
    assert all(low < mean < high for _, mean, low, high in first.points)
    draw_comparison(found, "loss", tmp_path / "loss.svg")
    assert "depth = 4" in (tmp_path / "loss.svg").read_text(encoding="utf-8")
    with refused(UsageError):
        draw_comparison([], "loss", tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


def test_the_axis_of_a_share_contains_its_intervals() -> None:
    """An interval that ended at 1.054 was cut at 1.05."""
    for shares in ((0.4, 0.6), (0.875, 1.0, 0.9375), (0.0, 1.0)):
        rows = [{"sizes.width": 1, "measured.accuracy": share} for share in shares]
        lines = compared_lines(compare(rows, ["sizes.width"], "accuracy"))
        ((_, _, low, high),) = lines[0].points
        least, most = share_limits(lines)
        assert least < min(low, 0)
        assert most > max(high, 1)
