"""KS25 Figures 1 and 2: training loss and accuracy on labelled texts, as functions of the number of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, gather, series
from byheart.theorems import realises

LIKELY_SEEDS: dict[fig.Scale, int] = {"smoke": 1, "laptop": 2, "paper": 5}
NEAR_ONE, MEMORISED = 0.95, 0.99  # accuracies
AXIS_END = 0.25  # the end of the loss axis in the paper's Figure 1
# the paper's two claims
MORE, ENOUGH = "more blocks bring the accuracy near one", "uniform attention suffices"
FROZEN = (
    f"The fixed table of words has width {runs.WIDTH}, the only one of 6, 64, 128 and 256 with which N = 600 was memorised.",
    f"The fixed table of sub-words has width {runs.SUB_WORD_WIDTH}, as in BERT.",
)


@dataclass(frozen=True)
class TextStudy:
    """KS25's Figure 1 or Figure 2: its texts, their number, and the numbers of blocks at each scale."""

    name: str
    collection: str
    label: str
    n_samples: Mapping[fig.Scale, int]
    blocks: Mapping[fig.Scale, tuple[int, ...]]

    def stages(self, scale: fig.Scale, samples: Samples | None) -> list[fig.TrainingStage]:
        """Return the training stages. The first ones train models with every number of blocks. They follow our most likely
        interpretation of what the paper does not state.

        Except at scale `laptop`, variations follow, with fixed and with trained embeddings: first for texts that are split into
        words, then for texts that are split into sub-words. Few and many blocks are separate stages.
        """
        assert samples is not None
        likely = [
            fig.TrainingStage(
                f"KS25 {self.name}, {self.collection}-sub-words, {runs.BERT}, {blocks[0]} to {blocks[-1]} blocks",
                2,
                tuple(
                    run
                    for count in blocks
                    for run in runs.text_runs(
                        scale,
                        samples,
                        f"{self.collection}-sub-words",
                        self.n_samples[scale],
                        count,
                        "learned",
                        rates=runs.BERT_RATES,
                        initialisation=runs.BERT,
                        n_seeds=LIKELY_SEEDS[scale],
                    )
                ),
            )
            for blocks in split(self.blocks[scale])
        ]
        if scale == "laptop":
            return likely
        return likely + [
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
    """Compute the final loss and accuracy for each number of blocks, under every reading (interpretation) of what the paper leaves
    open.

    For the most likely reading, also return the training curves of the first seed's best trials.
    """
    panels, trials, checks, rows = [], [], [], []
    numbers: dict[str, Any] = {}
    own, other = (runs.likely_up_to(end) for end in (runs.SMALL_RATE, runs.LARGE_RATE))
    found = runs.readings(observations, (runs.SMALL_RATE, runs.LARGE_RATE))
    for reading, mine in found.items():
        best = runs.best_trials(mine, lambda one: (runs.n_blocks(one),))
        accuracy = gather(best, runs.n_blocks, lambda one: one.measured["accuracy"])
        losses = gather(best, runs.n_blocks, lambda one: one.loss)
        numbers[reading] = {
            "blocks": list(accuracy.x),
            "accuracy by seed": [list(values) for values in accuracy.values],
            "loss by seed": [list(values) for values in losses.values],
        }
        panels += _panels(best, reading, has_curves=reading == own)
        is_whole = set(study.blocks[scale]) <= set(accuracy.x)
        holds, said = _judge(accuracy, losses)
        trials.append(fig.ConditionResult(reading, said, holds if is_whole else None, reading == own, MORE))
        low = min(losses.means, default=float("nan"))
        checks.append(
            fig.Check(
                f"the loss reaches the range of the paper's axis, {reading}",
                f"least {low:.3g}",
                f"below {AXIS_END}",
                low < AXIS_END,
            )
        )
        for x, mean, (lo, hi), loss, (a, b) in zip(
            accuracy.x, accuracy.means, accuracy.intervals, losses.means, losses.intervals, strict=True
        ):
            rows.append(
                (reading, f"{x:g}", f"{mean:.3f} [{lo:.3f}, {hi:.3f}]", f"{loss:.3g} [{a:.3g}, {b:.3g}]")
            )
    trials.append(_suffices(found))
    heads = ("reading", "blocks", "accuracy of the best trial", "loss")
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tuple(checks),
        (fig.Table("Final accuracy and loss, mean over seeds", heads, tuple(rows)),),
        numbers,
        (*runs.CHOICES, *FROZEN),
        counter=_counter(numbers, own, other),
        missing=""
        if own in found
        else "No model was trained with the likely reading (the most likely interpretation) of the paper.",
    )


def _judge(accuracy: SeedValues, losses: SeedValues) -> tuple[bool | None, str]:
    """Decide whether more blocks help. Return the decision and a text that explains it. The decision is None if there are too few
    numbers of blocks or seeds.

    More blocks help if three conditions hold. The 95% interval of the accuracy with the most blocks is above the interval with
    one block. The best mean accuracy with more than one block is near 1. At the number of blocks with this accuracy, the loss is
    small.
    """
    if accuracy.x[0] != 1 or len(accuracy.x) < 2 or accuracy.n_seeds < 2:
        return None, "too few numbers of blocks, or too few seeds"
    top = max(accuracy.means[1:])
    at = accuracy.means.index(top, 1)
    (_, one_high), (most_low, _) = accuracy.intervals[0], accuracy.intervals[-1]
    said = (
        f"accuracy {_interval(accuracy, 0)} with 1 block, {_interval(accuracy, -1)} with {accuracy.x[-1]:g}, at best"
        f" {top:.3f} with {accuracy.x[at]:g}, where the loss is {losses.means[at]:.3g}"
    )
    return most_low > one_high and top >= NEAR_ONE and losses.means[at] < AXIS_END, said


def _interval(found: SeedValues, place: int) -> str:
    low, high = found.intervals[place]
    return f"{found.means[place]:.3f} [{low:.3f}, {high:.3f}]"


def _suffices(found: Mapping[str, Sequence[Observation]]) -> fig.ConditionResult:
    """Decide whether uniform attention suffices. It does if, in at least one reading (interpretation) of the paper, a model with
    one attention layer memorises with every seed.
    """
    best = {
        reading: [one.measured["accuracy"] for one in runs.best_trials(mine, lambda one: ())]
        for reading, mine in found.items()
    }
    if not best:
        return fig.ConditionResult("some trained reading", "no model was trained", None, claim=ENOUGH)
    name, values = max(best.items(), key=lambda item: min(item[1]))
    said = f"{name}: every seed has a trial with an accuracy of at least {min(values):.4f}"
    return fig.ConditionResult("some trained reading", said, min(values) >= MEMORISED, claim=ENOUGH)


def _counter(numbers: Mapping[str, Any], own: str, other: str) -> str:
    """Return the best argument against the figure's verdict: the accuracy that models with one block reach when they are trained
    with larger learning rates. Return an empty text if it was not measured.
    """
    if own not in numbers or other not in numbers:
        return ""
    ends = {
        name: (fmean(numbers[name]["accuracy by seed"][0]), fmean(numbers[name]["accuracy by seed"][-1]))
        for name in (own, other)
    }
    return (
        "The figure shows how fast models train with a bounded learning rate, not that they need many blocks. With rates up to"
        f" {runs.LARGE_RATE:g}, accuracy is {ends[other][0]:.3f} with one block and {ends[other][1]:.3f} with the most blocks (with"
        f" rates up to {runs.SMALL_RATE:g}: {ends[own][0]:.3f} and {ends[own][1]:.3f})."
    )


def split(values: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Split model sizes into small and large ones, which train in separate groups.

    In a group, every model costs as much as the largest model of the group.
    """
    middle = len(values) // 2
    return [part for part in (values[:middle], values[middle:]) if part]


def _panels(best: Sequence[Observation], reading: str, *, has_curves: bool) -> list[fig.Panel]:
    """Return panels of the final accuracy for each number of blocks.

    If `has_curves`, add the training curves of the first seed, as the paper draws them.
    """
    first = sorted((one for one in best if one.curve), key=runs.n_blocks) if has_curves else []
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
        )
        for name in ("loss", "accuracy")
        if first
    ]
    final = fig.Panel(
        f"Final accuracy: {reading}",
        "#blocks",
        "accuracy",
        (series("best trial", "measured", accuracy),),
        y_range=(0.0, 1.0),
    )
    return [*curves, final]


def _figure(study: TextStudy, statement: str) -> fig.Figure:
    size = study.n_samples["paper"]
    return fig.Figure(
        f"kajitsuka-sato-2025-{study.name}",
        "KS25",
        (statement,),
        f"KS25 Figure {study.name[-1]}: training on {study.label}, N = {size}, by number of blocks",
        "With more blocks the training loss falls to nearly zero and the accuracy approaches one; uniform attention suffices.",
        "Not stated in full. We use the interpretation with which the figure is reproduced: a class token and 7 sub-words, a"
        " trained table with 2 numbers for each token, weights from N(0, 0.02²), learning rates searched up to"
        f" {runs.SMALL_RATE:g}, 1,000 epochs.",
        "More blocks help: the interval of the best trials' accuracy with the most blocks lies above the interval with one block."
        f" The best mean accuracy with more than one block is at least {NEAR_ONE}, and at that number of blocks the loss is below"
        f" {AXIS_END}, the end of the paper's axis. Uniform attention suffices: under at least one interpretation of the paper,"
        f" every seed has a trial with an accuracy of at least {MEMORISED}.",
        study.stages,
        partial(compute, study),
        curves=lambda one: one.seed == 0 and runs.is_likely(one) and runs.rate_of(one) <= runs.SMALL_RATE,
        measured=runs.MEASURED,
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
