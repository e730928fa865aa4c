"""The same runs over many machines with Ray. Workers train stacks; this process alone writes the store.

A stack whose worker is lost is queued again, so long as it has not been lost too often; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from byheart.errors import ByheartError, ExitStatus
from byheart.measure.devices import BEST_STACK, choose_device
from byheart.measure.records import Record, Run
from byheart.measure.stack_plan import Batch, pack, record_of, stack_of
from byheart.measure.store import Store
from byheart.measure.sweep import Progress
from byheart.measure.trainer import train
from byheart.task_runner import ray_cluster

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
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Record]:
    """Train what the store lacks on the Ray cluster at `address` ("local" starts one here); records in order."""
    with ray_cluster(address, "training on a cluster") as ray:
        _Cluster(ray, runs, store, most, on_progress).run()
    return store.records_of([run.key for run in runs])


class _Cluster:
    """The state of one call: stacks waiting, stacks at work, how often each was lost."""

    def __init__(
        self,
        ray: Any,
        runs: Sequence[Run],
        store: Store,
        most: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.ray, self.store, self.on_progress = ray, store, on_progress
        self.runs = {run.key: run for run in runs}
        self.began = time.monotonic()
        n_gpus = int(ray.cluster_resources().get("GPU", 0))
        needs = {"num_gpus": 1} if n_gpus else {"num_cpus": 1}
        # Ray's own retries are off: a lost stack is queued again here, where it is counted.
        self.task = ray.remote(**needs, max_retries=0)(_train_batch)
        stored = store.stored_keys(self.runs)
        pending = [run for key, run in self.runs.items() if key not in stored]
        kind = "cuda" if n_gpus else "cpu"
        self.waiting: list[Batch] = pack(
            pending, memory=WORKER_BYTES, most=most or BEST_STACK[kind], device=torch.device(kind)
        )
        self.losses: dict[str, int] = {}

    def run(self) -> None:
        at_work: dict[Any, Batch] = {}
        limit = 2 * max(1, int(sum(self.ray.cluster_resources().get(name, 0) for name in ("CPU", "GPU"))))
        while self.waiting or at_work:
            while self.waiting and len(at_work) < limit:
                batch = self.waiting.pop(0)
                at_work[self.task.remote([run.config for run in batch.runs])] = batch
            ended, _ = self.ray.wait(list(at_work), num_returns=1, timeout=POLL_SECONDS)
            for reference in ended:
                self._collect(reference, at_work.pop(reference))
            self._tell()

    def _collect(self, reference: Any, batch: Batch) -> None:
        try:
            records: list[Record] = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            raise  # the training itself failed: doing it again would fail again
        except self.ray.exceptions.RayError as error:
            self._requeue(batch, error)
            return
        for record in records:
            self.store.add(record)

    def _requeue(self, batch: Batch, error: Exception) -> None:
        name = batch.runs[0].key
        self.losses[name] = self.losses.get(name, 0) + 1
        if self.losses[name] >= MOST_LOSSES:
            raise ClusterLost(
                f"a stack of {len(batch.runs)} runs lost its worker {MOST_LOSSES} times, last: {error}.\n"
                "  Finished runs are stored; run the same command again, with a smaller max_stack if memory ran out.",
                n_runs=len(batch.runs),
            ) from error
        self.waiting.append(batch)

    def _tell(self) -> None:
        if self.on_progress is not None:
            n_stored = len(self.store.stored_keys(self.runs))
            self.on_progress(
                Progress(len(self.runs), n_stored, n_stored, None, time.monotonic() - self.began)
            )


def _train_batch(configs: Sequence[Mapping[str, Any]]) -> list[Record]:
    """What a worker does: train one stack and return its records."""
    runs = [Run.of(config) for config in configs]
    device = choose_device("auto")
    outcomes = train(stack_of(runs, device), [run.training for run in runs])
    return [record_of(run, outcome, device) for run, outcome in zip(runs, outcomes, strict=True)]
