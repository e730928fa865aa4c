"""Train runs on many machines with Ray. Workers train stacks (groups of runs), and only this process writes the run store.

If a worker is lost, its stack is queued again, up to a limited number of times. The other stacks continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch

from byheart.measure.model_memory import BEST_STACK
from byheart.measure.records import Record, Run
from byheart.measure.stack_plan import pack, record_of, stack_of
from byheart.measure.store import Store
from byheart.measure.sweep import SweepState
from byheart.measure.trainer import train
from byheart.process.devices import choose_device
from byheart.process.task_runner import ray_cluster, results_on_cluster

WORKER_BYTES = 8 << 30  # memory planned per worker, because its real memory is not known to this process


def train_on_cluster(
    runs: Sequence[Run],
    store: Store,
    *,
    address: str = "auto",
    most: int | None = None,
    max_seconds: float | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
) -> list[Record]:
    """Train the runs that are not yet in the store on the Ray cluster at `address` ("local" starts a cluster on this machine).

    Runs train in stacks (groups that train together) of at most `most` runs. Return the records in the order of `runs`. The time is
    checked whenever a stack has been stored. Once it exceeds `max_seconds`, unfinished stacks are abandoned, and their runs have no
    record.
    """
    by_key = {run.key: run for run in runs}
    with ray_cluster(address, "training on a cluster") as ray:
        _train(ray, by_key, store, most, max_seconds, on_progress or (lambda progress: None))
    return store.records_of([run.key for run in runs])


def _train(
    ray: Any,
    runs: Mapping[str, Run],
    store: Store,
    most: int | None,
    max_seconds: float | None,
    tell: Callable[[SweepState], None],
) -> None:
    """Send stacks (groups of runs that train together) to the workers until none is left, and store the returned records."""
    began, resources = time.monotonic(), ray.cluster_resources()
    kind, needs = ("cuda", {"num_gpus": 1}) if resources.get("GPU", 0) >= 1 else ("cpu", {"num_cpus": 1})
    stored = store.stored_keys(runs)
    pending = [run for key, run in runs.items() if key not in stored]
    stacks = pack(pending, memory=WORKER_BYTES, most=most or BEST_STACK[kind], device=torch.device(kind))
    configs = [[run.config for run in stack.runs] for stack in stacks]
    at_once = 2 * max(1, int(sum(resources.get(name, 0) for name in ("CPU", "GPU"))))
    with closing(results_on_cluster(ray, _train_batch, configs, needs=needs, at_once=at_once)) as results:
        for _, records in results:
            for record in records:
                store.add(record)
            n_stored, seconds = len(store.stored_keys(runs)), time.monotonic() - began
            tell(SweepState(len(runs), n_stored, n_stored, None, seconds))
            if max_seconds is not None and seconds > max_seconds:
                return


def _train_batch(configs: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Train one stack (runs that train together) on a worker of the cluster. Return one record per run."""
    runs = [Run.of(config) for config in configs]
    device = choose_device("auto")
    outcomes = train(stack_of(runs, device), [run.training for run in runs])
    return [record_of(run, outcome, device) for run, outcome in zip(runs, outcomes, strict=True)]
