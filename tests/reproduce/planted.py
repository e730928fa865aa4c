"""Observations whose numbers are planted, so that what a figure concludes from them is known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from byheart.measure.records import Run
from byheart.measure.text_samples import COLLECTIONS, Samples
from byheart.reproduce.figure import Computed, Facts, Scale, Verdict, decide
from byheart.reproduce.observation import Observation
from byheart.reproduce.registry import figure_of
from byheart.reproduce.samples import prepare

Measured = dict[str, float]
WORDS = [f"w{number}" for number in range(300)]


def planted(run: Run, measured: Measured, n_parameters: int = 1000, n_samples: float = 1.0) -> Observation:
    """An observation of `run` that says `measured`."""
    full = {
        "loss": 1.0,
        "gap": 1.0,
        "relative_gap": 1.0,
        "accuracy": 0.5,
        "first_within": math.nan,
        **measured,
    }
    full.setdefault("best_accuracy", full["accuracy"])
    diverged = not math.isfinite(full["loss"])
    ends = {
        "step": (0.0, float(run.training.steps)),
        "loss": (1.0, full["loss"]),
        "accuracy": (0.0, full["accuracy"]),
    }
    return Observation(run.config, full, n_parameters, n_samples, "diverged" if diverged else "done", ends)


def compute(
    name: str, observations: Sequence[Observation], facts: Facts | None = None
) -> tuple[Verdict, Computed]:
    """What a figure makes of them at the paper's scale."""
    computed = figure_of(name).compute("paper", observations, facts or {})
    return decide("paper", computed.trials, computed.missing), computed


def trial_of(verdict: Verdict, condition: str) -> bool | None:
    """What the rule says under a condition."""
    return next(trial.holds for trial in verdict.trials if trial.condition == condition)


def runs_of(name: str, scale: Scale, samples: Samples | None = None) -> Iterable[Run]:
    """Every run of a figure once."""
    stages = figure_of(name).stages(scale, samples)
    return {run.key: run for stage in stages for run in stage.runs}.values()


def observations_of(
    name: str, measured: Callable[[Run], Measured], samples: Samples | None = None, scale: Scale = "paper"
) -> list[Observation]:
    """An observation of every run of a figure."""
    return [planted(run, measured(run)) for run in runs_of(name, scale, samples)]


def small_samples(folder: Path, *, most: int | None = None) -> Samples:
    """Samples of random words, as many as the paper's scale asks for, or `most` of each."""
    rng = np.random.default_rng(0)
    texts = {}
    for name, collection in COLLECTIONS.items():
        if collection.source != name:
            continue
        count = most or collection.most + 20
        rows = []
        for words in rng.integers(0, len(WORDS), (count, collection.n_tokens + 2)):
            row: dict[str, object] = {collection.text: " ".join(WORDS[word] for word in words)}
            if collection.label is not None:
                row[collection.label] = int(rng.integers(0, collection.n_classes))
            rows.append(row)
        texts[name] = rows
    prepare(texts, folder)
    return Samples.at(folder)
