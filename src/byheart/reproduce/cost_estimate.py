"""What figures will cost, before anything is trained: from stored timings of every stage, in seconds for the largest scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byheart.errors import UsageError
from byheart.measure.devices import choose_device
from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Scale
from byheart.reproduce.published import stored_tables
from byheart.reproduce.runner import stages_of

FILE = Path(__file__).with_name("timings.json")


@dataclass(frozen=True)
class CostEstimate:
    """Runs of a figure, those already stored, and the time of the others as it was on `device`."""

    figure: str
    n_runs: int
    n_stored: int
    seconds: float
    device: str


def estimates(
    names: Sequence[str], scale: Scale, samples: Samples | None, store: Store | None, *, device: str = "auto"
) -> list[CostEstimate]:
    """One estimate per figure; runs shared with an earlier figure count once."""
    table = stored_tables(FILE.name)[choose_device(device).type]
    seen: set[str] = set()
    found = []
    for name in names:
        n_runs = n_stored = 0
        seconds = 0.0
        for stage in stages_of([name], scale, samples):
            keys = {run.key for run in stage.runs} - seen
            stored = set() if store is None else store.stored_keys(keys)
            seen |= keys
            n_runs, n_stored = n_runs + len(keys), n_stored + len(stored)
            seconds += (len(keys) - len(stored)) * _seconds_per_run(table, scale, stage.name)
        found.append(CostEstimate(name, n_runs, n_stored, seconds, table["device"]))
    return found


def _seconds_per_run(table: dict[str, Any], scale: Scale, stage: str) -> float:
    """The mean of the stage's runs; where none was timed, that of the stages of the same figure."""
    timed: dict[str, float] = table[scale]
    if stage in timed:
        return timed[stage]
    figure = stage.partition(",")[0]
    like = [seconds for name, seconds in timed.items() if name.partition(",")[0] == figure]
    if not like:
        raise UsageError(
            f"no run of `{stage}` was ever timed; `benchmarks/reproduce_timings.py` times some.", stage=stage
        )
    return sum(like) / len(like)
