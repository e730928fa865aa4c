"""Train the models for the papers' figures within a time limit, the most important ones first.

The work can be resumed. Only torch and numpy are needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byheart.measure.records import Record, Run
from byheart.measure.store import Store
from byheart.measure.sweep import Sweep, SweepReport, SweepState
from byheart.measure.text_samples import Samples
from byheart.process.devices import choose_device
from byheart.reproduce.figure import Scale, TrainingStage
from byheart.reproduce.registry import figure_of

TELL_SECONDS = 10.0


@dataclass(frozen=True)
class Done(SweepReport):
    """The result of training a group of stages."""

    name: str
    error: str = ""


def work(
    stages: Sequence[TrainingStage],
    store: Store,
    *,
    device: str = "auto",
    seconds: float | None = None,
    say: Callable[[str], None] | None = None,
    on_progress: Callable[[SweepState], None] | None = None,
    goes_on: bool = False,
) -> list[Done]:
    """Train the runs of `stages` that are not in the store, in order of priority. After `seconds`, start nothing new.

    With `goes_on`, a stage that fails is reported and skipped, and models whose training cannot end in time are abandoned.
    """
    began = time.monotonic()
    is_cuda = choose_device(device).type == "cuda"
    told = say or (lambda line: None)
    found: list[Done] = []
    for name, group in group_stages(stages):
        runs, start = runs_of(group), time.monotonic()
        left = None if seconds is None else seconds - (start - began)
        if left is not None and left <= 0:
            told(f"{start - began:6.0f} s  not begun: {name} (no time is left)")
            found.append(Done(len(runs), 0, 0, 0.0, False, name))
            continue
        told(f"{start - began:6.0f} s  begins: {name} (number of runs: {len(runs)})")
        sweep = Sweep(
            runs,
            store,
            device=device,
            engine=group[0].engine if is_cuda else "auto",
            max_seconds=left,
            gives_up=goes_on,
            on_progress=on_progress or _teller(told, began),
            overhead=group[0].overhead if is_cuda else None,
        )
        try:
            done = Done(**vars(sweep.run()), name=name)
        except Exception as error:
            if not goes_on:
                raise
            message = f"{type(error).__name__}: {error}"[:300]
            done = Done(len(runs), 0, 0, time.monotonic() - start, False, name, message)
        told(
            f"{time.monotonic() - began:6.0f} s  {'done' if done.is_complete else 'not finished'}: {name},"
            f" {done.n_trained} trained, {done.n_found} already stored, {done.seconds:.1f} s {done.error}"
        )
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found.append(done)
    return found


def group_stages(stages: Sequence[TrainingStage]) -> list[tuple[str, list[TrainingStage]]]:
    """Return the stages in order of priority, in named groups of stages that train together."""
    groups: dict[tuple[object, ...], list[TrainingStage]] = {}
    for number, stage in sorted(enumerate(stages), key=lambda pair: (pair[1].priority, pair[0])):
        key = (stage.priority, stage.together or number)
        groups.setdefault(key, []).append(stage)
    return [("; ".join(stage.name for stage in group), group) for group in groups.values()]


def runs_of(group: Sequence[TrainingStage]) -> list[Run]:
    """Return the runs of several stages, each once."""
    return list({run.key: run for stage in group for run in stage.runs}.values())


def _teller(told: Callable[[str], None], began: float) -> Callable[[SweepState], None]:
    last = [time.monotonic()]

    def tell(progress: SweepState) -> None:
        now = time.monotonic()
        if now - last[0] < TELL_SECONDS or progress.moment is None:
            return
        last[0] = now
        moment = progress.moment
        told(
            f"{now - began:6.0f} s    {progress.n_stored}/{progress.n_runs} runs stored; in training {moment.n_active},"
            f" step {moment.step}/{moment.n_steps}, {moment.model_steps_per_second:,.0f} model-steps/s,"
            f" best loss {moment.best_loss:.4g}"
        )

    return tell


def stages_of(names: Sequence[str], scale: Scale, samples: Samples | None) -> list[TrainingStage]:
    """Return the stages of several figures. Of stages with exactly the same runs, only the first is returned."""
    found, seen = [], set()
    for name in names:
        for stage in figure_of(name).stages(scale, samples):
            keys = tuple(sorted(run.key for run in stage.runs))
            if keys not in seen:
                seen.add(keys)
                found.append(stage)
    return found


def stored_records(name: str, scale: Scale, samples: Samples | None, store: Store) -> list[Record]:
    """Return the stored records of a figure's runs, in the order of the runs."""
    stages = figure_of(name).stages(scale, samples)
    keys = list(dict.fromkeys(run.key for stage in stages for run in stage.runs))
    return store.records_of(keys)
