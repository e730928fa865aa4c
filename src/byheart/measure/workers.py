"""Train with several processes on one machine that share one store. When a process has finished its runs, it claims new ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from byheart.errors import ByheartError, ExitStatus
from byheart.measure.records import Record, Run
from byheart.measure.specification import Specification
from byheart.measure.steppers import Engine
from byheart.measure.store import Store
from byheart.measure.sweep import Sweep, SweepState
from byheart.process.task_runner import helpers


class BudgetSpent(ByheartError):
    """The time limit of the specification passed before all runs were trained. Finished runs are in the store."""

    exit_status = ExitStatus.STOPPED


def make_trainer(
    specification: Specification,
    store: Store,
    *,
    device: str = "auto",
    engine: Engine = "auto",
    n_workers: int = 1,
    cluster: str | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
    keeps_runs: bool = True,
) -> Callable[[Sequence[Run]], list[Record]]:
    """Return a function that trains runs and adds their records to `store`, on this machine or on a cluster.

    The function applies the limits `max_stack` and `max_seconds` of the specification's budget. Time is counted from the call of
    `make_trainer`, so all rounds of a search or a tuning share `max_seconds`. If the time ends before all runs are stored, the
    function raises `BudgetSpent`. The error message says how to continue if `keeps_runs` is true, and otherwise that the finished
    runs are lost.
    """
    from byheart.measure.cluster import train_on_cluster

    budget, began = specification.budget, time.monotonic()

    def trainer(runs: Sequence[Run]) -> list[Record]:
        left = (
            None if budget.max_seconds is None else max(0.0, budget.max_seconds - (time.monotonic() - began))
        )
        if cluster is not None:
            records = train_on_cluster(
                runs,
                store,
                address=cluster,
                most=budget.max_stack,
                max_seconds=left,
                on_progress=on_progress,
            )
        else:
            records = train_here(
                runs,
                store,
                n_workers=n_workers,
                device=device,
                engine=engine,
                most=budget.max_stack,
                max_seconds=left,
                on_progress=on_progress,
            )
        n_runs = len({run.key for run in runs})
        if budget.max_seconds is not None and len(records) < n_runs:
            remedy = (
                "Run the same command again to continue."
                if keeps_runs
                else "Finished runs are lost without a `store`. Give one to keep them and continue later."
            )
            raise BudgetSpent(
                f"the budget of {budget.max_seconds:g} s is spent: {len(records)} of {n_runs} runs are done.\n"
                f"  {remedy}",
                max_seconds=budget.max_seconds,
                n_stored=len(records),
                n_runs=n_runs,
            )
        return records

    return trainer


def train_here(
    runs: Sequence[Run],
    store: Store,
    *,
    n_workers: int = 1,
    device: str = "auto",
    engine: Engine = "auto",
    most: int | None = None,
    max_seconds: float | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
) -> list[Record]:
    """Train all runs that have no record in the store yet. `n_workers` processes, including this one, share the work.

    Return the records in the order of the runs.

    Runs that are not finished in time have no record. If a helper process dies, the others train its runs as soon
    as they have finished their own. When this process ends, for whatever reason, its helpers end too.
    """
    settings: dict[str, Any] = {"device": device, "engine": engine, "most": most, "max_seconds": max_seconds}
    lacking = {run.key for run in runs} - store.stored_keys(run.key for run in runs)
    configs = [run.config for run in runs if run.key in lacking]
    with helpers(n_workers - 1 if lacking else 0, _help, configs, store.path, settings):
        Sweep(runs, store, on_progress=on_progress, **settings).run()
    return store.records_of([run.key for run in runs])


def _help(configs: list[Mapping[str, Any]], path: Path, settings: dict[str, Any]) -> None:
    with Store(path) as store:
        Sweep([Run.of(config) for config in configs], store, wait=False, **settings).run()
