"""Many independent tasks: one after the other, side by side in processes, or on the machines of a Ray cluster.

A task leaves its result in a file and does nothing where that file is there already. So it may be run twice, on any machine: a task
whose worker is lost is simply run again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
MOST_LOSSES = 5  # times the worker of one task may be lost before nothing more is tried
FINISH_SECONDS = 5.0  # that helpers have when the work is over


class WorkersLost(ByheartError):
    """Workers were lost again and again; finished tasks are kept."""

    exit_status = ExitStatus.STOPPED


@dataclass(frozen=True)
class Workers:
    """Who does the tasks: this process, other processes, or a cluster.

    n_processes  of this machine; 1 is this process itself
    cluster      address of a Ray cluster that does them instead; "local" starts one here
    """

    n_processes: int = 1
    cluster: str | None = None

    def connected(self) -> AbstractContextManager[Any]:
        """Hold the connection to the cluster, if there is one, for several rounds of tasks."""
        return nullcontext() if self.cluster is None else ray_cluster(self.cluster, PURPOSE)

    def run(
        self, task: Callable[[Any], None], arguments: Sequence[Any], progress: Progress | None = None
    ) -> None:
        """Do `task` for each of the arguments. The first exception of a task ends it all."""
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
) -> Iterator[tuple[int, Any]]:
    """The number of each argument with the result of `task` for it, in the order in which the workers finish.

    needs: resources of one task, by default one core. at_once: number of tasks submitted at a time.

    Ray's own retries are off: a task whose worker is lost is counted and queued again here. What a task raises ends it all.
    """
    remote = ray.remote(**(needs or {"num_cpus": 1}), max_retries=0)(task)
    waiting = list(range(len(arguments)))[::-1]
    at_work: dict[Any, int] = {}
    losses: Counter[int] = Counter()
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


@contextmanager
def helpers(n_processes: int, target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Run `target` in that many processes of this machine while the block runs. They end with this process, however it ends.

    After the block they have a moment to finish.
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
            if helper.is_alive():  # only after an error or an interruption here
                helper.terminate()
                helper.join()


def _help(parent: int, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    end_with_parent(parent)
    target(*arguments)


@contextmanager
def ray_cluster(address: str, purpose: str) -> Iterator[Any]:
    """The package ray, joined to the cluster at `address` ("local" starts one here) while the block runs."""
    if address == "local":
        # Ray then listens on the loopback address alone, as it does on other systems; it reads this when it is imported
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
                "  Start one with `ray start --head` and give its address, or give `local` for one on this machine."
            ) from error
    try:
        yield ray
    finally:
        if owns:
            ray.shutdown()


def _lost(n_left: int) -> WorkersLost:
    return WorkersLost(
        f"workers were lost {MOST_LOSSES} times; {n_left} tasks are left.\n"
        "  What was finished is kept: run the same command again, with fewer workers or smaller tasks if memory ran out.",
        n_left=n_left,
    )
