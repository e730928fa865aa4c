"""KS25 Figures 1 and 2: training loss and accuracy on labelled texts by number of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import gather, series
from byheart.theorems import realises

NEAR_ONE = 0.99
AXIS_END = 0.25  # of the loss in the paper's Figure 1
FROZEN = (
    f"The fixed table of words is of width {runs.WIDTH}, picked at N = 600 among 6, 64, 128 and 256, the only one memorised with.",
    f"The fixed table of sub-words is of width {runs.SUB_WORD_WIDTH}, as in BERT.",
)


@dataclass(frozen=True)
class TextStudy:
    """One of the two figures: its texts, how many of them, and the numbers of blocks at each scale."""

    name: str
    collection: str
    label: str
    n_samples: Mapping[fig.Scale, int]
    blocks: Mapping[fig.Scale, tuple[int, ...]]

    def stages(self, scale: fig.Scale, samples: Samples | None) -> list[fig.TrainingStage]:
        """Every number of blocks with the words' table fixed, and trained; few and many blocks apart, sub-words last."""
        assert samples is not None
        return [
            fig.TrainingStage(
                f"KS25 {self.name}, {collection}, {embedding}, {blocks[0]} to {blocks[-1]} blocks",
                3 + is_later,
                tuple(
                    run
                    for count in blocks
                    for run in runs.text_runs(
                        scale,
                        samples,
                        collection,
                        self.n_samples[scale],
                        count,
                        embedding,
                        width=runs.SUB_WORD_WIDTH if is_later else runs.WIDTH,
                    )
                ),
            )
            for is_later, collection in enumerate((self.collection, f"{self.collection}-sub-words"))
            for embedding in runs.EMBEDDINGS
            for blocks in split(self.blocks[scale])
        ]


@realises("KS25-F1", "KS25-F2")
def compute(
    study: TextStudy, scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts
) -> fig.Computed:
    """Curves of the best trials of the first seed, and final loss and accuracy by blocks, for every reading."""
    best = runs.best_trials(observations, lambda one: (runs.reading_of(one), runs.n_blocks(one)))
    panels, trials, checks, rows = [], [], [], []
    numbers: dict[str, Any] = {}
    for reading in dict.fromkeys(runs.reading_of(one) for one in best):
        mine = [one for one in best if runs.reading_of(one) == reading]
        accuracy = gather(mine, runs.n_blocks, lambda one: one.measured["accuracy"])
        losses = gather(mine, runs.n_blocks, lambda one: one.loss)
        numbers[reading] = {
            "blocks": list(accuracy.x),
            "accuracy by seed": [list(values) for values in accuracy.values],
            "loss by seed": [list(values) for values in losses.values],
        }
        panels += _panels(mine, reading)
        one_block, top = accuracy.at(1), max(accuracy.means)
        is_whole = set(study.blocks[scale]) <= set(accuracy.x) and one_block is not None
        at = accuracy.x[accuracy.means.index(top)]
        said = f"accuracy {accuracy.means[0]:.3f} with #blocks = {accuracy.x[0]:g}, at best {top:.3f} with {at:g}"
        trials.append(
            fig.ConditionResult(reading, said, None if not is_whole else (one_block or 0) < NEAR_ONE <= top)
        )
        low = min(losses.means, default=float("nan"))
        checks.append(
            fig.Check(
                f"loss on the paper's axis, {reading}",
                f"least {low:.3g}",
                f"below {AXIS_END}",
                low < AXIS_END,
            )
        )
        ends = accuracy.intervals
        for x, mean, (lo, hi) in zip(accuracy.x, accuracy.means, ends, strict=True):
            rows.append(
                (reading, f"{x:g}", f"{mean:.3f} [{lo:.3f}, {hi:.3f}]", f"{losses.at(x) or float('nan'):.3g}")
            )
    heads = ("reading", "blocks", "accuracy of the best trial", "loss")
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tuple(checks),
        (fig.Table("Final accuracy and loss, mean over seeds", heads, tuple(rows)),),
        numbers,
        (*runs.CHOICES, *FROZEN),
        missing="" if len(trials) >= len(runs.EMBEDDINGS) else "One of the readings was not trained.",
    )


def split(values: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Small and large values apart, since models of one stack cost as much as the largest of them."""
    middle = len(values) // 2
    return [part for part in (values[:middle], values[middle:]) if part]


def _panels(best: Sequence[Observation], reading: str) -> list[fig.Panel]:
    first = sorted((one for one in best if one.curve), key=runs.n_blocks)
    accuracy = gather(best, runs.n_blocks, lambda one: one.measured["accuracy"])
    curves = [
        fig.Panel(
            f"Training {name}: {reading}",
            "epoch",
            name,
            tuple(
                fig.Series(
                    f"#blocks = {runs.n_blocks(one)}",
                    runs.CURVE_STYLES[number % len(runs.CURVE_STYLES)],
                    one.curve["step"],
                    one.curve[name],
                )
                for number, one in enumerate(first)
            ),
            y_scale="log" if name == "loss" else "linear",
        )
        for name in ("loss", "accuracy")
    ]
    final = fig.Panel(
        f"Final accuracy: {reading}", "#blocks", "accuracy", (series("best trial", "measured", accuracy),)
    )
    return [*curves, final]


def _figure(study: TextStudy, statement: str) -> fig.Figure:
    size = study.n_samples["paper"]
    return fig.Figure(
        f"kajitsuka-sato-2025-{study.name}",
        "KS25",
        (statement,),
        f"KS25 Figure {study.name[-1]}: training on {study.label}, N = {size}, by number of blocks",
        "With more blocks the training loss falls to nearly zero and the accuracy approaches one.",
        f"The mean accuracy of the best trials is below {NEAR_ONE} with one block and at least {NEAR_ONE} with some larger number.",
        study.stages,
        partial(compute, study),
        curves=lambda one: one.seed == 0,
        needs_samples=True,
    )


FIGURES = (
    _figure(
        TextStudy(
            "fig1",
            "multinli",
            "MultiNLI",
            {"smoke": 60, "laptop": 500, "paper": 2000},
            {"smoke": (1, 3), "laptop": (1, 10), "paper": (1, 10, 20, 30, 40, 50)},
        ),
        "KS25-F1",
    ),
    _figure(
        TextStudy(
            "fig2",
            "imdb",
            "IMDb",
            {"smoke": 60, "laptop": 500, "paper": 3000},
            {"smoke": (1, 3), "laptop": (1, 10), "paper": (1, 10, 20, 30, 40)},
        ),
        "KS25-F2",
    ),
)
