"""The same runs over many machines with Ray. Workers train stacks; this process alone writes the store.

A stack whose worker is lost is queued again, so long as it has not been lost too often; the others go on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from byheart.errors import ByheartError, ExitStatus
from byheart.measure.devices import BEST_STACK, choose_device
from byheart.measure.records import Record, Run
from byheart.measure.stack_plan import Batch, pack, record_of, stack_of
from byheart.measure.store import Store
from byheart.measure.sweep import SweepState
from byheart.measure.trainer import train
from byheart.process.task_runner import ray_cluster

MOST_LOSSES = 5  # times one stack may lose its worker before the sweep gives up
POLL_SECONDS = 1.0
WORKER_BYTES = 8 << 30  # planned per worker where its own memory is not known to this process


class ClusterLost(ByheartError):
    """Workers were lost again and again; what was finished is stored."""

    exit_status = ExitStatus.STOPPED


def train_on_cluster(
    runs: Sequence[Run],
    store: Store,
    *,
    address: str = "auto",
    most: int | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
) -> list[Record]:
    """Train what the store lacks on the Ray cluster at `address` ("local" starts one here); records in order."""
    by_key = {run.key: run for run in runs}
    with ray_cluster(address, "training on a cluster") as ray:
        _train(ray, by_key, store, most, on_progress or (lambda progress: None))
    return store.records_of([run.key for run in runs])


def _train(
    ray: Any, runs: Mapping[str, Run], store: Store, most: int | None, tell: Callable[[SweepState], None]
) -> None:
    """Keep the workers busy with stacks until none is left, and store what they return."""
    began, resources = time.monotonic(), ray.cluster_resources()
    kind, needs = ("cuda", {"num_gpus": 1}) if resources.get("GPU", 0) >= 1 else ("cpu", {"num_cpus": 1})
    # Ray's own retries are off: a lost stack is queued again here, where it is counted.
    task = ray.remote(**needs, max_retries=0)(_train_batch)
    stored = store.stored_keys(runs)
    pending = [run for key, run in runs.items() if key not in stored]
    waiting = pack(pending, memory=WORKER_BYTES, most=most or BEST_STACK[kind], device=torch.device(kind))
    at_work: dict[Any, Batch] = {}
    losses: Counter[str] = Counter()
    limit = 2 * max(1, int(sum(resources.get(name, 0) for name in ("CPU", "GPU"))))
    while waiting or at_work:
        while waiting and len(at_work) < limit:
            batch = waiting.pop(0)
            at_work[task.remote([run.config for run in batch.runs])] = batch
        ended, _ = ray.wait(list(at_work), num_returns=1, timeout=POLL_SECONDS)
        for reference in ended:
            batch = at_work.pop(reference)
            try:
                for record in ray.get(reference):
                    store.add(record)
            except ray.exceptions.RayTaskError:
                raise  # the training itself failed: doing it again would fail again
            except ray.exceptions.RayError as error:
                losses[batch.runs[0].key] += 1
                if losses[batch.runs[0].key] >= MOST_LOSSES:
                    raise ClusterLost(
                        f"a stack of {len(batch.runs)} runs lost its worker {MOST_LOSSES} times, last: {error}.\n"
                        "  Finished runs are stored; run the same command again, with a smaller max_stack if memory ran out.",
                        n_runs=len(batch.runs),
                    ) from error
                waiting.append(batch)
        n_stored = len(store.stored_keys(runs))
        tell(SweepState(len(runs), n_stored, n_stored, None, time.monotonic() - began))


def _train_batch(configs: Sequence[Mapping[str, Any]]) -> list[Record]:
    """What a worker does: train one stack and return its records."""
    runs = [Run.of(config) for config in configs]
    device = choose_device("auto")
    outcomes = train(stack_of(runs, device), [run.training for run in runs])
    return [record_of(run, outcome, device) for run, outcome in zip(runs, outcomes, strict=True)]
