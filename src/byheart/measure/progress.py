"""Describe the progress of a sweep (the training of many runs) in words and as a share of the work."""

from __future__ import annotations

import math
from collections.abc import Callable

from byheart.measure.sweep import SweepState
from byheart.process.progress import Progress

TOTAL = 1000  # number of parts that the work is divided into


def report_to(show: Progress) -> Callable[[SweepState], None]:
    """Return a function that a sweep calls with its state. The function passes the share of the work that is done, and a text
    that describes the progress, to `show`.
    """

    def report(progress: SweepState) -> None:
        text = ", ".join(f"{name} {value}" for name, value in cells(progress))
        show(round(TOTAL * share_done(progress)), TOTAL, f"measure, {text}")

    return report


def share_done(progress: SweepState) -> float:
    """Return the share of the work that is done. The runs in training count in proportion to their completed steps."""
    done = float(progress.n_stored)
    if progress.moment is not None:
        done += progress.moment.n_active * progress.moment.step / progress.moment.n_steps
    return min(1.0, done / max(1, progress.n_runs))


def cells(progress: SweepState) -> list[tuple[str, str]]:
    """Return the names and values that describe the progress, such as ("runs", "3/10")."""
    shown = [("runs", f"{progress.n_stored}/{progress.n_runs}")]
    moment = progress.moment
    if moment is not None:
        shown += [
            ("in training", f"{moment.n_active}"),
            ("step", f"{moment.step:,}/{moment.n_steps:,}"),
            ("best loss", f"{moment.best_loss:.4g}"),
            ("model-steps/s", f"{moment.model_steps_per_second:,.0f}"),
        ]
    return shown


def duration(seconds: float) -> str:
    """Format a number of seconds in seconds, minutes or hours."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
