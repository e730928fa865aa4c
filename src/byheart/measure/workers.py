"""Several processes on one machine that share one store. Each takes new runs when it has finished its own."""

from __future__ import annotations

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
    """The specification's time limit passed before every run was trained; finished runs are stored."""

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
) -> Callable[[Sequence[Run]], list[Record]]:
    """A function that trains runs into the store, here or on a cluster, within the specification's budget."""
    from byheart.measure.cluster import train_on_cluster

    budget = specification.budget

    def trainer(runs: Sequence[Run]) -> list[Record]:
        if cluster is not None:
            records = train_on_cluster(
                runs, store, address=cluster, most=budget.max_stack, on_progress=on_progress
            )
        else:
            records = train_here(
                runs,
                store,
                n_workers=n_workers,
                device=device,
                engine=engine,
                most=budget.max_stack,
                max_seconds=budget.max_seconds,
                on_progress=on_progress,
            )
        if len(records) < len({run.key for run in runs}):
            raise BudgetSpent(
                f"the budget of {budget.max_seconds:g} s is spent: {len(records)} of {len(runs)} runs are stored.\n"
                "  Run the same command again to continue."
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
    """Train the runs that are not in the store with `n_workers` processes, this one included; records in the order of the runs.

    Runs left over when the time is up have no record. A helper that dies leaves its runs to the others, who see it
    at their next claim; helpers end with this process, however it ends.
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
