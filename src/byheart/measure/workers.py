"""Several processes on one machine, one store between them. Who finishes first takes what is left."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from byheart.measure.records import Record, Run
from byheart.measure.steppers import Engine
from byheart.measure.store import Store
from byheart.measure.sweep import Progress, run_sweep


def train_here(
    runs: Sequence[Run],
    store: Store,
    *,
    n_workers: int = 1,
    device: str = "auto",
    engine: Engine = "auto",
    most: int | None = None,
    max_seconds: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Record]:
    """Train what the store lacks with `n_workers` processes, this one included; records in the order of the runs.

    Runs left over when the time is up have no record. A helper that dies leaves its runs to the others.
    """
    settings = {"device": device, "engine": engine, "most": most, "max_seconds": max_seconds}
    lacking = {run.key for run in runs} - store.stored(run.key for run in runs)
    helpers = []
    if lacking:
        context = multiprocessing.get_context("spawn")
        configs = [run.config for run in runs if run.key in lacking]
        for _ in range(n_workers - 1):
            helper = context.Process(target=_help, args=(configs, store.path, settings), daemon=True)
            helper.start()
            helpers.append(helper)
    try:
        run_sweep(
            runs,
            store,
            device=device,
            engine=engine,
            most=most,
            max_seconds=max_seconds,
            on_progress=on_progress,
        )
    finally:
        for helper in helpers:
            helper.join(timeout=5)
            if helper.is_alive():  # only after an error or an interruption here
                helper.terminate()
                helper.join()
    found = {record.key: record for record in store.records(run.key for run in runs)}
    return [found[run.key] for run in runs if run.key in found]


def _help(configs: list[Mapping[str, Any]], path: Path, settings: dict[str, Any]) -> None:
    with Store(path) as store:
        run_sweep([Run.of(config) for config in configs], store, wait=False, **settings)
