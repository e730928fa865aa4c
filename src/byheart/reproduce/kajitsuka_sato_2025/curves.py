"""KS25 Figures 1 and 2: training loss and accuracy on labelled texts by number of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Panel, Scale, Series, Stage
from byheart.reproduce.kajitsuka_sato_2025 import runs as runs
from byheart.reproduce.kajitsuka_sato_2025.trials import CHOICES, CURVE_STYLES, best_trials, loss, n_blocks
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import judged, points, series

CLAIM = "With more blocks the training loss falls to nearly zero and the accuracy approaches one."

FROZEN = (
    f"The fixed table is of width {runs.WIDTH}, picked at N = 600 among 6, 64, 128 and 256, the only one memorised with.",
)


@dataclass(frozen=True)
class TextStudy:
    """One of the two figures: its texts, how many of them, and the numbers of blocks at each scale."""

    name: str
    collection: str
    label: str
    n_samples: Mapping[Scale, int]
    blocks: Mapping[Scale, tuple[int, ...]]

    def stages(self, scale: Scale, samples: Samples | None) -> list[Stage]:
        """Every number of blocks with the words' table fixed, and trained; few and many blocks apart."""
        assert samples is not None
        return [
            Stage(
                f"KS25 {self.name}, {collection}, {embedding}, {blocks[0]} to {blocks[-1]} blocks",
                3 + sub_words,
                tuple(
                    run
                    for count in blocks
                    for run in runs.text_runs(
                        scale, samples, collection, self.n_samples[scale], count, embedding
                    )
                ),
            )
            for sub_words, collection in enumerate((self.collection, f"{self.collection}-sub-words"))
            for embedding in runs.EMBEDDINGS
            for blocks in halves(self.blocks[scale])
        ]

    def compute(self, scale: Scale, records: Sequence[Record]) -> Computed:
        """Curves of the best trials of the first seed, and final loss and accuracy by blocks."""
        best = best_trials(records, lambda record: (runs.embedding_of(record), n_blocks(record)))
        panels, checks, words = [], [], []
        numbers: dict[str, Any] = {}
        for embedding in runs.EMBEDDINGS:
            mine = [record for record in best if runs.embedding_of(record) == embedding]
            if not mine:
                continue
            accuracy = points(mine, n_blocks, lambda record: record.measured["accuracy"])
            losses = points(mine, n_blocks, loss)
            panels += _panels(mine, self.label, embedding)
            numbers[embedding] = {
                "blocks": list(accuracy.x),
                "accuracy": list(accuracy.means),
                "accuracy ±": list(accuracy.halves),
                "loss": list(losses.means),
                "loss by seed": [list(values) for values in losses.values],
            }
            top = max(accuracy.means)
            at = accuracy.x[accuracy.means.index(top)]
            first, last = accuracy.x[0], accuracy.x[-1]
            words.append(
                f"{embedding}: best accuracy {top:.3f} at {at:.0f} blocks, {accuracy.means[-1]:.3f} at {last:.0f}"
            )
            checks += [
                Check(
                    f"accuracy near one with enough blocks, {embedding}",
                    f"{top:.4f} at {at:.0f} blocks",
                    "at least 0.99",
                    top >= 0.99,
                ),
                Check(
                    f"more blocks train better, {embedding}",
                    f"accuracy {accuracy.means[0]:.3f} at {first:.0f}, {accuracy.means[-1]:.3f} at {last:.0f}",
                    "no less at the most blocks than at the fewest",
                    accuracy.means[-1] >= accuracy.means[0],
                ),
            ]
        seen = {n_blocks(record) for record in best}
        return Computed(
            tuple(panels),
            judged(
                scale,
                checks,
                "Accuracy of the best trial, mean over seeds. " + "; ".join(words) + ".",
                is_complete=set(self.blocks[scale]) <= seen and len(numbers) == len(runs.EMBEDDINGS),
            ),
            numbers,
            (*CHOICES, *FROZEN),
        )


def halves(values: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Small and large values apart, since models of one stack cost as much as the largest of them."""
    middle = len(values) // 2
    return [part for part in (values[:middle], values[middle:]) if part]


def _panels(records: Sequence[Record], label: str, embedding: str) -> list[Panel]:
    accuracy = points(records, n_blocks, lambda record: record.measured["accuracy"])
    return [
        *(
            Panel(
                f"Training {name}, {label}, table {embedding}",
                "epoch",
                name,
                tuple(_training_curves(records, name)),
                y_scale="log" if name == "loss" else "linear",
            )
            for name in ("loss", "accuracy")
        ),
        Panel(
            f"Final accuracy by blocks, {label}, table {embedding}",
            "#blocks",
            "accuracy",
            (series("best trial, mean over seeds", "measured", accuracy),),
        ),
    ]


def _training_curves(records: Sequence[Record], name: str) -> list[Series]:
    first = sorted((record for record in records if record.config["seed"] == 0), key=n_blocks)
    return [
        Series(
            f"#blocks = {n_blocks(record)}",
            CURVE_STYLES[number % len(CURVE_STYLES)],
            tuple(float(step) for step in record.curve_steps),
            tuple(float(value) for value in record.curve[name]),
        )
        for number, record in enumerate(first)
    ]
