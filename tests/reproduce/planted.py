"""Records whose numbers are planted, so that what a figure concludes from them is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from byheart.measure.records import Record, Run
from byheart.reproduce.figure import Scale
from byheart.reproduce.registry import stages_by_name
from byheart.reproduce.samples import COLLECTIONS, Samples, prepare

Measured = dict[str, float]
WORDS = [f"w{number}" for number in range(300)]


def planted(run: Run, measured: Measured, n_parameters: int = 1000) -> Record:
    """A record of `run` that says `measured`."""
    full = {"loss": 1.0, "gap": 1.0, "relative_gap": 1.0, "accuracy": 0.5, **measured}
    return Record(
        key=run.key,
        config=run.config,
        status="done",
        steps=run.training.steps,
        measured=full,
        n_parameters=n_parameters,
        n_samples=1.0,
        seconds=0.5,
        device="planted",
        versions={"torch": "0"},
        created="2026-01-01T00:00:00+00:00",
        curve_steps=np.array([0, run.training.steps]),
        curve={"loss": np.array([1.0, full["loss"]]), "accuracy": np.array([0.0, full["accuracy"]])},
    )


def runs_of(name: str, scale: Scale, samples: Samples | None = None) -> Iterable[Run]:
    """Every run of a figure once."""
    stages = stages_by_name(name)(scale, samples)
    return {run.key: run for stage in stages for run in stage.runs}.values()


def records_of(
    name: str, measured: Callable[[Run], Measured], samples: Samples | None = None, scale: Scale = "paper"
) -> list[Record]:
    """A record for every run of a figure."""
    return [planted(run, measured(run)) for run in runs_of(name, scale, samples)]


def small_samples(folder: Path, *, most: int | None = None) -> Samples:
    """Samples of random words, as many as the paper's scale asks for, or `most` of each."""
    rng = np.random.default_rng(0)
    texts = {}
    for name, collection in COLLECTIONS.items():
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
