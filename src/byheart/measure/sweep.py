"""Train many runs and store their records. A sweep can be resumed, several processes can share it, and no stored run is trained
again.

A process claims a stack (runs that train together), trains it, and stores each run as soon as it ends. If the process dies, its
claims expire, and another process claims the unfinished runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from byheart.measure.model_memory import BEST_STACK, bytes_per_model
from byheart.measure.records import Run
from byheart.measure.sources import training_set_of
from byheart.measure.stack_plan import pack, record_of, stack_of
from byheart.measure.steppers import Engine
from byheart.measure.store import Store
from byheart.measure.trainer import Moment, Outcome, train
from byheart.process.devices import choose_device, free_bytes

RENEW_SECONDS = 10.0
WAIT_SECONDS = 0.5
PACE_STEPS = 0.05  # share of a stack's steps over which its speed is measured


@dataclass(frozen=True)
class SweepState:
    """The state of a sweep. `moment` is the progress of the runs that are training together now; None if no runs are training."""

    n_runs: int
    n_stored: int
    n_trained_here: int
    moment: Moment | None
    seconds: float


@dataclass(frozen=True)
class SweepReport:
    """The result of a sweep. `is_complete` is true if every run was stored when the sweep ended.

    `n_found` runs were already stored when the sweep began, and this process added `n_trained`.
    """

    n_runs: int
    n_found: int  # number of runs already stored at the start
    n_trained: int  # number of runs stored by this process
    seconds: float
    is_complete: bool


class _TooLate(Exception):
    """Raised if a stack cannot end before the deadline of the sweep."""


@dataclass(eq=False)
class Sweep:
    """Trains every run that is not in the store, and stores each record as soon as the run ends.

    Up to `most` runs train together; such a group is called a stack. After `max_seconds`, no new stack begins. With `gives_up`, a
    stack is abandoned as soon as its speed shows that it cannot end within `max_seconds`. Stacks that can are trained instead.

    Other processes may train runs for the same store. With `wait`, the method `run` waits until they have stored all runs that
    this process does not train. Even then, it returns early if the time is over or a stack was abandoned.

    `overhead` is the fixed cost of a stack, counted in parameters (see `stack_plan.pack`).
    """

    runs: Sequence[Run]
    store: Store
    _: KW_ONLY
    device: str = "auto"
    engine: Engine = "auto"
    most: int | None = None
    max_seconds: float | None = None
    gives_up: bool = False
    wait: bool = True
    on_progress: Callable[[SweepState], None] | None = None
    overhead: int | None = None

    def __post_init__(self) -> None:
        self.began, self.renewed = time.monotonic(), 0.0
        self.deadline = None if self.max_seconds is None else self.began + self.max_seconds
        self.place = choose_device(self.device)
        self.by_key = {run.key: run for run in self.runs}
        self.n_trained = self.n_stored = 0
        # the time at which the first steps of the stack were done, and their number
        self.paced: tuple[float, int] | None = None
        self.bytes: dict[str, int] = {}
        self.given_up: set[str] = set()

    def run(self) -> SweepReport:
        stored = self.store.stored_keys(self.by_key)
        n_found = self.n_stored = len(stored)
        pending = [run for key, run in self.by_key.items() if key not in stored]
        try:
            while pending and not self._is_late():
                for batch in pack(
                    pending,
                    memory=free_bytes(self.place),
                    most=self.most or BEST_STACK[self.place.type],
                    device=self.place,
                    measure=self._bytes,
                    overhead=self.overhead,
                ):
                    if self._is_late():
                        break
                    claimed = set(self.store.claim([run.key for run in batch.runs]))
                    if claimed:
                        self._train([run for run in batch.runs if run.key in claimed])
                stored = self.store.stored_keys(self.by_key)
                self.n_stored = len(stored)
                pending = [run for run in pending if run.key not in stored]
                if self.given_up or (pending and not self.wait):
                    break
                if pending:
                    self._tell(None)
                    time.sleep(WAIT_SECONDS)
        finally:
            self.store.release()
        seconds = time.monotonic() - self.began
        return SweepReport(len(self.by_key), n_found, self.n_trained, seconds, not pending)

    def _bytes(self, run: Run) -> int:
        """Return the memory, in bytes, that a run takes. Cache it, because every choice of the next runs to train needs it."""
        if run.key not in self.bytes:
            self.bytes[run.key] = bytes_per_model(
                run.model, training_set_of(run.data), run.training, self.place
            )
        return self.bytes[run.key]

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _train(self, runs: list[Run]) -> None:
        def finish(number: int, outcome: Outcome) -> None:
            self.n_trained += self.store.add(record_of(runs[number], outcome, self.place))
            self.n_stored += 1

        self.paced = None
        try:
            train(
                stack_of(runs, self.place),
                [run.training for run in runs],
                engine=self.engine,
                on_finish=finish,
                on_moment=self._tell,
            )
        except _TooLate:
            self.given_up |= {run.key for run in runs}

    def _tell(self, moment: Moment | None) -> None:
        now = time.monotonic()
        if self.gives_up and self.deadline is not None and moment is not None and moment.step > 0:
            # the first steps compile or capture, so the speed is measured on the steps after them
            self.paced = self.paced or (now, moment.step)
            since, first = self.paced
            if moment.step >= first + PACE_STEPS * moment.n_steps:
                pace = (now - since) / (moment.step - first)
                if now + pace * (moment.n_steps - moment.step) > self.deadline:
                    raise _TooLate
        if now - self.renewed > RENEW_SECONDS:
            self.store.renew()
            self.renewed = now
        if self.on_progress is not None:
            self.on_progress(
                SweepState(len(self.by_key), self.n_stored, self.n_trained, moment, now - self.began)
            )
