"""KS25 Figure 2: training loss and accuracy on IMDb, N = 3000, n = 8, by number of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.records import Record
from byheart.reproduce import kajitsuka_sato_2025_runs as runs
from byheart.reproduce.figure import Computed, Figure, Scale, Stage
from byheart.reproduce.kajitsuka_sato_2025_fig1 import halves
from byheart.reproduce.kajitsuka_sato_2025_trials import training_figure
from byheart.reproduce.samples import Samples
from byheart.theorems import realises

COLLECTION = "imdb"
N_SAMPLES: dict[Scale, int] = {"smoke": 60, "laptop": 500, "paper": 3000}
BLOCKS: dict[Scale, tuple[int, ...]] = {"smoke": (1, 3), "laptop": (1, 10), "paper": (1, 10, 20, 30, 40)}


def stages(scale: Scale, samples: Samples | None) -> list[Stage]:
    """Blocks 1, 10, ..., 40 with the words' table fixed, and trained."""
    assert samples is not None
    return [
        Stage(
            f"KS25 fig2, {embedding}, {blocks[0]} to {blocks[-1]} blocks",
            3,
            tuple(
                run
                for n_blocks in blocks
                for run in runs.text_runs(scale, samples, COLLECTION, N_SAMPLES[scale], n_blocks, embedding)
            ),
        )
        for embedding in runs.EMBEDDINGS
        for blocks in halves(BLOCKS[scale])
    ]


@realises("KS25-F2")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Loss and accuracy over the epochs of the best trials, and at the end by number of blocks."""
    return training_figure(scale, records, "IMDb", BLOCKS[scale])


FIGURE = Figure(
    "kajitsuka-sato-2025-fig2",
    "KS25",
    ("KS25-F2",),
    "KS25 Figure 2: training on IMDb, N = 3000, by number of blocks",
    "With more blocks the training loss falls to nearly zero and the accuracy approaches one.",
    stages,
    compute,
    needs_samples=True,
)
