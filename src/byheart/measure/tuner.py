"""Tune learning rate and warm-up with the ask-and-tell interface of Optuna.

There is one study (Optuna's word for a search) per grid point and seed, and in a capacity search also per value tried. Trials are
made in rounds: a round asks every study for several trials and trains all of them together.
The sampler has a seed, and trials are stored like all runs. After an interruption, the same trials are therefore proposed again,
and their results are found in the store.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from byheart.errors import import_extra
from byheart.measure.records import Record, Run
from byheart.measure.specification import Specification, TuningPlan

Point = Mapping[str, Mapping[str, Any]]
# a function that trains the runs that are not in its store, and returns the records in the order of the runs
Trainer = Callable[[Sequence[Run]], Sequence[Record]]
WORST = 1e30  # the loss that is reported to the sampler for a trial whose loss is not finite


def tune(
    specification: Specification, settings: Sequence[tuple[Point, int]], trainer: Trainer
) -> list[list[Record]]:
    """Tune every setting (grid point and seed). For each setting, return the records of all trials, in the order of the trials."""
    tuning = specification.tuning
    assert tuning is not None
    studies = [_study(tuning, point, seed) for point, seed in settings]
    found: list[list[Record]] = [[] for _ in settings]
    left = tuning.trials
    while left > 0:
        count = min(tuning.round_size, left)
        left -= count
        asked = [[study.ask() for _ in range(count)] for study in studies]
        runs = [
            specification.run(point, seed, **_suggest(tuning, trial))
            for (point, seed), trials in zip(settings, asked, strict=True)
            for trial in trials
        ]
        records = list(trainer(runs))
        for number, (study, trials) in enumerate(zip(studies, asked, strict=True)):
            answers = records[number * count : (number + 1) * count]
            for trial, record in zip(trials, answers, strict=True):
                loss = record.measured["loss"]
                study.tell(trial, loss if math.isfinite(loss) else WORST)
            found[number] += answers
    return found


def best(records: Sequence[Record]) -> Record:
    """Return the trial with the smallest loss. A diverged trial is chosen only if all diverged."""
    return min(
        records, key=lambda record: (not math.isfinite(record.measured["loss"]), record.measured["loss"])
    )


def _study(tuning: TuningPlan, point: Point, seed: int) -> Any:
    optuna = import_extra("optuna", "measure", "tuning the learning rate")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # The seed depends on the model and the seed of the run, so that studies do not all draw the same trials.
    # Python's own hash differs between processes.
    mixed = hashlib.sha256(f"{tuning.seed} {seed} {sorted(point['model'].items())}".encode()).digest()
    sampler = optuna.samplers.TPESampler(
        seed=int.from_bytes(mixed[:4], "big"), constant_liar=tuning.round_size > 1
    )
    return optuna.create_study(direction="minimize", sampler=sampler)


def _suggest(tuning: TuningPlan, trial: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if tuning.learning_rate is not None:
        chosen["learning_rate"] = trial.suggest_float("learning_rate", *tuning.learning_rate, log=True)
    if tuning.warmup is not None:
        chosen["warmup"] = trial.suggest_int("warmup", *tuning.warmup)
    return chosen
