"""MFT24's models and training, which both panels of its Figure 1 share.

Stories cut to 10 tokens, embedding width 16, Adam at 1e-4 on the summed loss over all positions, 50,000 steps, float32. A
model passes when its final loss is within 1% of the data's entropy. Only distinct contexts are trained on, weighted by how
often they occur, which gives the same loss and gradient.

Widths beyond the paper's smallest passing ones are stopped once their gap is below a tenth of the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence

from byheart.measure.families import Model
from byheart.measure.plan import PassRule, Training
from byheart.measure.records import Run
from byheart.reproduce.figure import Scale, Stage
from byheart.reproduce.samples import Samples

PASSES = PassRule("relative_gap", 0.01)
ENOUGH = PassRule("relative_gap", 0.001)

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
NARROW, WIDE = WIDTHS[:5], WIDTHS[5:]
BETWEEN = (12, 20, 24, 28)
# Stories that train side by side: padding them to the largest of their group costs little.
GROUPS = ((100, 200, 300, 400), (500, 600, 700), (800, 900, 1000))


def training(scale: Scale, *, stops: bool) -> Training:
    """The paper's training; at smoke and laptop scale a faster one to the same loss."""
    if scale == "paper":
        return Training(steps=50_000, learning_rate=1e-4, reduction="sum", stop=ENOUGH if stops else None)
    steps = {"smoke": 150, "laptop": 3000}[scale]
    return Training(steps=steps, learning_rate=1e-2, schedule="cosine", reduction="sum")


def run(scale: Scale, samples: Samples, seed: int, n_stories: int, width: int, *, stops: bool = False) -> Run:
    """One model on the first `n_stories` of the sample drawn with `seed`."""
    return Run(
        Model("one-layer-decoder", {"hidden_width": width}),
        samples.describe("tinystories", n_stories, seed),
        training(scale, stops=stops),
        seed,
    )


def stages(scale: Scale, samples: Samples | None) -> list[Stage]:
    """The paper's grid with its one seed; then widths between those of its grid, and a second and third sample."""
    assert samples is not None
    if scale != "paper":
        stories, widths = {
            "smoke": ((20, 40), (2, 8)),
            "laptop": ((100, 400), (8, 16, 24, 32)),
        }[scale]
        return [Stage("MFT24 fig1", 2, tuple(run(scale, samples, 0, n, m) for n in stories for m in widths))]

    def grid(
        name: str, priority: int, seed: int, widths: Sequence[int], *, stops: bool = False
    ) -> list[Stage]:
        return [
            Stage(
                f"{name}, {group[0]} to {group[-1]} stories, seed {seed}",
                priority,
                tuple(run(scale, samples, seed, n, m, stops=stops) for n in group for m in widths),
                engine="graph" if stops else "auto",
            )
            for group in GROUPS
        ]

    return [
        *grid("MFT24 fig1", 2, 0, NARROW),
        *grid("MFT24 fig1, wide", 7, 0, WIDE, stops=True),
        *grid("MFT24 fig1, between", 8, 0, BETWEEN),
        *grid("MFT24 fig1", 9, 1, NARROW[2:]),
        *grid("MFT24 fig1", 9, 2, NARROW[2:]),
    ]
