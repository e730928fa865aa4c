"""Run many independent tasks: one after the other, in parallel processes, or on the machines of a Ray cluster.

A task writes its result to a file, and does nothing if that file already exists. It can therefore be run twice and on
any machine, so a task whose worker is lost is simply run again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from byheart.errors import ByheartError, ExitStatus, UsageError, import_extra
from byheart.process.liveness import children_ignore_interrupts, end_with_parent
from byheart.process.progress import Progress, silent

PURPOSE = "compiling on a cluster"
MOST_LOSSES = 5  # give up when a pool of processes, or the worker of one task on a cluster, has been lost this many times
FINISH_SECONDS = 5.0  # time that helpers have to end after the block


class WorkersLost(ByheartError):
    """Workers ended unexpectedly too often. The results of finished tasks are kept."""

    exit_status = ExitStatus.STOPPED


@dataclass(frozen=True)
class Workers:
    """Where tasks run: in this process, in other processes, or on a cluster.

    n_processes  number of processes on this machine; with 1, or with a single task, tasks run in this process
    cluster      address of a Ray cluster to use instead; "local" starts one on this machine
    """

    n_processes: int = 1
    cluster: str | None = None

    def connected(self) -> AbstractContextManager[Any]:
        """Return a context manager that keeps the connection to the cluster, if any, during several calls of `run`."""
        return nullcontext() if self.cluster is None else ray_cluster(self.cluster, PURPOSE)

    def run(
        self, task: Callable[[Any], None], arguments: Sequence[Any], progress: Progress | None = None
    ) -> None:
        """Run `task` for each of the arguments. The first exception of a task ends all work and is raised."""
        tell = progress or silent
        if self.cluster is not None:
            with ray_cluster(self.cluster, PURPOSE) as ray:
                _run_on_cluster(ray, task, arguments, tell)
        elif self.n_processes > 1 and len(arguments) > 1:
            _run_in_processes(task, arguments, self.n_processes, tell)
        else:
            for number, argument in enumerate(arguments, start=1):
                task(argument)
                tell(number, len(arguments))


def _run_in_processes(
    task: Callable[[Any], None], arguments: Sequence[Any], n_processes: int, tell: Progress
) -> None:
    waiting = list(range(len(arguments)))
    for _ in range(MOST_LOSSES):
        lost: list[int] = []
        with ProcessPoolExecutor(
            n_processes, get_context("spawn"), initializer=end_with_parent, initargs=(os.getpid(),)
        ) as pool:
            with children_ignore_interrupts():
                numbers: dict[Future[None], int] = {pool.submit(task, arguments[at]): at for at in waiting}
            try:
                for future in as_completed(numbers):
                    try:
                        future.result()
                    except BrokenProcessPool:
                        lost.append(numbers[future])
                    else:
                        waiting.remove(numbers[future])
                        tell(len(arguments) - len(waiting), len(arguments))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if not lost:
            return
    raise _lost(len(waiting))


def _run_on_cluster(ray: Any, task: Callable[[Any], None], arguments: Sequence[Any], tell: Progress) -> None:
    for number, _ in enumerate(results_on_cluster(ray, task, arguments), start=1):
        tell(number, len(arguments))


def results_on_cluster(
    ray: Any,
    task: Callable[[Any], Any],
    arguments: Sequence[Any],
    *,
    needs: Mapping[str, float] | None = None,
    at_once: int | None = None,
) -> Generator[tuple[int, Any], None, None]:
    """Run `task` on each argument. Yield the index of each argument with its result, in the order in which workers finish.

    needs: the resources of one task, by default one core.
    at_once: the maximum number of tasks that are submitted and not yet finished; by default, all are submitted at once.

    The retries of Ray are switched off. Instead, this function queues a task again when its worker is lost, and
    counts the losses. An exception of a task ends all work. If the caller wants no more results, the submitted tasks are cancelled.
    """
    remote = ray.remote(**(needs or {"num_cpus": 1}), max_retries=0)(task)
    waiting = list(range(len(arguments)))[::-1]
    at_work: dict[Any, int] = {}
    losses: Counter[int] = Counter()
    try:
        while waiting or at_work:
            while waiting and (at_once is None or len(at_work) < at_once):
                number = waiting.pop()
                at_work[remote.remote(arguments[number])] = number
            ended, _ = ray.wait(list(at_work), num_returns=1)
            number = at_work.pop(ended[0])
            try:
                result = ray.get(ended[0])
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, ByheartError) else error) from None
            except ray.exceptions.RayError:
                losses[number] += 1
                if losses[number] >= MOST_LOSSES:
                    raise _lost(len(at_work) + len(waiting) + 1) from None
                waiting.insert(0, number)
            else:
                yield number, result
    finally:
        for reference in at_work:
            ray.cancel(reference)


@contextmanager
def helpers(n_processes: int, target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Run `target` in `n_processes` processes of this machine while the block runs. If this process ends, they end too.

    At the end of the block, each process has `FINISH_SECONDS` to finish. A process that still runs after this time is terminated.
    """
    context = get_context("spawn")
    started = []
    for _ in range(n_processes):
        helper = context.Process(target=_help, args=(os.getpid(), target, arguments), daemon=True)
        with children_ignore_interrupts():
            helper.start()
        started.append(helper)
    try:
        yield
    finally:
        for helper in started:
            helper.join(timeout=FINISH_SECONDS)
            if helper.is_alive():  # happens only after an error or an interruption in the block
                helper.terminate()
                helper.join()


def _help(parent: int, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    end_with_parent(parent)
    target(*arguments)


@contextmanager
def ray_cluster(address: str, purpose: str) -> Iterator[Any]:
    """Stay connected to the Ray cluster at `address` until the `with` block ends. The context manager yields the package `ray`.

    The address "local" starts a cluster on this machine. If ray is not installed, the error says that `purpose` needs it.
    """
    if address == "local":
        # with this variable, which Ray reads when it is imported, Ray listens only on the loopback address, as on other systems
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = import_extra("ray", "ray", purpose)
    owns = not ray.is_initialized()
    if owns:
        place: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address, **place, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            raise UsageError(
                f"no Ray cluster answers at {address}.\n"
                "  Start a cluster with `ray start --head` and give its address, or give `local` to "
                "start one on this machine.",
                address=address,
            ) from error
    try:
        yield ray
    finally:
        if owns:
            ray.shutdown()


def _lost(n_left: int) -> WorkersLost:
    return WorkersLost(
        f"workers ended unexpectedly {MOST_LOSSES} times; unfinished tasks: {n_left}.\n"
        "  Finished tasks are kept. Run the same command again. If memory ran out, use fewer workers or smaller "
        "tasks.",
        n_left=n_left,
    )
