"""What MFT24's records say: the gap of every width on every subset, and the smallest width that passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byheart.measure.records import Record
from byheart.measure.sources import training_set_of
from byheart.measure.training_set import TrainingSet
from byheart.reproduce.madden_2024.runs import PASSES
from byheart.reproduce.samples import Samples

CHOICES = (
    (
        "Whole stories of our copy of TinyStories, shuffled with numpy's default generator; contexts, vocabulary and entropy are"
        " those of our subsets, not of the paper's."
    ),
    (
        "The paper's grid has one seed, 50,000 steps a model, widths from 128 on only until their gap is below 0.1% of the"
        " entropy. The finer search stops a model once its gap is below 1% and has three seeds on every other subset."
    ),
    "A seed draws the stories and the weights; a wider model may end in a poorer minimum, so passing is not monotone in m.",
)


@dataclass(frozen=True)
class Subset:
    """One subset of stories."""

    n_stories: int
    seed: int
    n_contexts: int
    vocab: int
    entropy: float


@dataclass(frozen=True)
class TrainedCell:
    """One trained width on one subset."""

    subset: Subset
    width: int
    relative_gap: float
    gap: float  # final loss less entropy, a total in nats
    n_parameters: int

    @property
    def passes(self) -> bool:
        """The paper's rule: within 1% of the entropy."""
        return PASSES.holds({"relative_gap": self.relative_gap})


def parameters(width: int, vocab: int) -> int:
    """(m + 17)(ω + 17) + 799 at embedding width 16."""
    return (width + 17) * (vocab + 17) + 799


def cells(records: Sequence[Record], samples: Samples) -> list[TrainedCell]:
    """Every record as a cell, by stories, seed and width."""
    subsets: dict[tuple[int, int], Subset] = {}
    found = []
    for record in records:
        data = record.config["data"]
        key = (int(data["n_samples"]), int(data["seed"]))
        if key not in subsets:
            training_set: TrainingSet = training_set_of(samples.describe("tinystories", *key))
            subsets[key] = Subset(*key, training_set.n_rows, training_set.n_vocab, training_set.entropy)
        width = int(record.config["sizes"]["hidden_width"])
        measured = record.measured
        cell = TrainedCell(
            subsets[key], width, measured["relative_gap"], measured["gap"], record.n_parameters
        )
        found.append(cell)
    return sorted(found, key=lambda cell: (cell.subset.n_stories, cell.subset.seed, cell.width))


def smallest_passing(found: Sequence[TrainedCell], subset: Subset, widths: Sequence[int]) -> int | None:
    """The smallest of `widths` that passes on `subset`; None where none was seen to."""
    passing = [cell.width for cell in found if cell.subset == subset and cell.passes and cell.width in widths]
    return min(passing, default=None)
