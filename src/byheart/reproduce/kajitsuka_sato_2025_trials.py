"""What KS25's records say: the best trial of every seed, and the fewest blocks that memorise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Panel, Scale, Series, Style
from byheart.reproduce.kajitsuka_sato_2025_runs import EMBEDDINGS, PASSES, RATES, embedding_of
from byheart.reproduce.points import judged, points, series

CHOICES = (
    "Words are tokens; the answer is read at the first word; no positions, so a text is its first word and a multiset.",
    "Frozen: a fixed random table of width 256 and a trained map to the two-dimensional stream. Learned: a trained table.",
    "Width 256 was picked at N = 600 among 6, 64, 128 and 256, the only one that 2 to 16 blocks memorised with.",
    "At 40 and 50 blocks the smallest learning rate tried does best; a finer tuning may do better.",
    f"The best of the learning rates {', '.join(f'{rate:g}' for rate in RATES)}, warm-up 100 steps, weight decay 0.01.",
    "Memorised means a mean training loss below 0.01.",
    "Texts whose words occur with two labels are left out, repeats count once.",
)
CURVE_STYLES: tuple[Style, ...] = ("measured", "second", "third", "fourth", "fifth", "sixth")


def n_blocks(record: Record) -> int:
    """#blocks of a record."""
    return int(record.config["sizes"]["n_blocks"])


def loss(record: Record) -> float:
    """Mean training loss at the end; infinite where training diverged."""
    value = record.measured["loss"]
    return value if math.isfinite(value) else math.inf


def best_trials(records: Iterable[Record], setting: Callable[[Record], tuple[object, ...]]) -> list[Record]:
    """For every setting and seed the record with the least loss, over learning rates."""
    best: dict[tuple[object, ...], Record] = {}
    for record in records:
        key = (*setting(record), record.config["seed"])
        if key not in best or loss(record) < loss(best[key]):
            best[key] = record
    return list(best.values())


def fewest_blocks(
    records: Iterable[Record], setting: Callable[[Record], object]
) -> dict[tuple[object, int], int | None]:
    """For every (setting, seed) the fewest blocks some trial of which memorised; None where none did."""
    found: dict[tuple[object, int], int | None] = {}
    for record in records:
        key = (setting(record), int(record.config["seed"]))
        found.setdefault(key, None)
        if PASSES.holds(record.measured):
            before = found[key]
            found[key] = n_blocks(record) if before is None else min(before, n_blocks(record))
    return found


def training_figure(
    scale: Scale, records: Sequence[Record], collection: str, wanted: Sequence[int]
) -> Computed:
    """Figures 1 and 2: curves of the best trials of the first seed, and final loss and accuracy by blocks."""
    best = best_trials(records, lambda record: (embedding_of(record), n_blocks(record)))
    panels, checks, words = [], [], []
    numbers: dict[str, Any] = {}
    for embedding in EMBEDDINGS:
        mine = [record for record in best if embedding_of(record) == embedding]
        if not mine:
            continue
        for name in ("loss", "accuracy"):
            panels.append(
                Panel(
                    f"Training {name}, {collection}, table {embedding}",
                    "epoch",
                    name,
                    tuple(_training_curves(mine, name)),
                    y_scale="log" if name == "loss" else "linear",
                )
            )
        accuracy = points(mine, n_blocks, lambda record: record.measured["accuracy"])
        losses = points(mine, n_blocks, loss)
        numbers[embedding] = {
            "blocks": list(accuracy.x),
            "accuracy": list(accuracy.means),
            "accuracy ±": list(accuracy.halves),
            "loss": list(losses.means),
            "loss by seed": [list(values) for values in losses.values],
        }
        panels.append(
            Panel(
                f"Final accuracy by blocks, {collection}, table {embedding}",
                "#blocks",
                "accuracy",
                (series("best trial, mean over seeds", "measured", accuracy),),
            )
        )
        top = max(accuracy.means)
        at = accuracy.x[accuracy.means.index(top)]
        words.append(
            f"{embedding}: best accuracy {top:.3f} at {at:.0f} blocks, {accuracy.means[-1]:.3f} at {accuracy.x[-1]:.0f}"
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
                f"accuracy {accuracy.means[0]:.3f} at {accuracy.x[0]:.0f}, {accuracy.means[-1]:.3f} at {accuracy.x[-1]:.0f}",
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
            is_complete=set(wanted) <= seen and len(numbers) == len(EMBEDDINGS),
        ),
        numbers,
        CHOICES,
    )


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
