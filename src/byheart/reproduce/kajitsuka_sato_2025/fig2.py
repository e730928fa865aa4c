"""KS25 Figure 2: training loss and accuracy on IMDb, N = 3000, n = 8, by number of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.records import Record
from byheart.reproduce.figure import Computed, Figure, Scale
from byheart.reproduce.kajitsuka_sato_2025.curves import CLAIM, TextStudy
from byheart.reproduce.samples import Samples
from byheart.theorems import realises

STUDY = TextStudy(
    "fig2",
    "imdb",
    "IMDb",
    {"smoke": 60, "laptop": 500, "paper": 3000},
    {"smoke": (1, 3), "laptop": (1, 10), "paper": (1, 10, 20, 30, 40)},
)
stages = STUDY.stages


@realises("KS25-F2")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Loss and accuracy over the epochs of the best trials, and at the end by number of blocks."""
    return STUDY.compute(scale, records)


FIGURE = Figure(
    "kajitsuka-sato-2025-fig2",
    "KS25",
    ("KS25-F2",),
    "KS25 Figure 2: training on IMDb, N = 3000, by number of blocks",
    CLAIM,
    stages,
    compute,
    needs_samples=True,
)
