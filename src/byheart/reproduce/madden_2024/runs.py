"""MFT24's models and training, which both panels of its Figure 1 share.

Stories cut to 10 tokens, embedding width 16, Adam at 1e-4 on the summed loss over all positions, 50,000 steps, float32. A
model passes when its final loss is within 1% of the data's entropy. Only distinct contexts are trained on, weighted by how
often they occur, which gives the same loss and gradient.

The paper's grid is trained with one seed, its widths from 128 on until their gap is below a tenth of the threshold. The
finer search tries more widths, and two more seeds on every other subset, each until it passes. A seed draws the stories and
the weights.
"""

from __future__ import annotations

from byheart.measure.families import Model
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.reproduce.figure import Scale, Stage
from byheart.reproduce.samples import Samples

PASSES = PassRule("relative_gap", 0.01)
ENOUGH = PassRule("relative_gap", 0.001)

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
NARROW, WIDE = WIDTHS[:5], WIDTHS[5:]
FINER = (12, 16, 20, 24, 28, 32, 40)
OTHER_SEEDS, OTHER_STORIES = (1, 2), (200, 400, 600, 800, 1000)
# Stories that train side by side: padding them to the largest of their group costs little.
GROUPS = ((100, 200, 300, 400), (500, 600, 700), (800, 900, 1000))


def training(scale: Scale, stop: PassRule | None = None) -> Training:
    """The paper's training; at smoke and laptop scale a faster one to the same loss."""
    if scale == "paper":
        return Training(steps=50_000, learning_rate=1e-4, reduction="sum", stop=stop)
    steps = {"smoke": 150, "laptop": 3000}[scale]
    return Training(steps=steps, learning_rate=1e-2, schedule="cosine", reduction="sum")


def run(
    scale: Scale, samples: Samples, seed: int, n_stories: int, width: int, stop: PassRule | None = None
) -> Run:
    """One model on the first `n_stories` of the sample drawn with `seed`."""
    return Run(
        Model("one-layer-decoder", {"hidden_width": width}),
        samples.describe("tinystories", n_stories, seed),
        training(scale, stop),
        seed,
    )


def stages(scale: Scale, samples: Samples | None) -> list[Stage]:
    """The paper's grid with its one seed; then the finer search, and its widest models."""
    assert samples is not None
    if scale != "paper":
        stories, widths = {
            "smoke": ((20, 40), (2, 8)),
            "laptop": ((100, 400), (8, 16, 24, 32)),
        }[scale]
        return [Stage("MFT24 fig1", 2, tuple(run(scale, samples, 0, n, m) for n in stories for m in widths))]
    found = []
    for group in GROUPS:
        name = f"{group[0]} to {group[-1]} stories"
        grid = tuple(run(scale, samples, 0, n, m) for n in group for m in NARROW)
        wide = tuple(run(scale, samples, 0, n, m, ENOUGH) for n in group for m in WIDE)
        finer = [run(scale, samples, 0, n, m, PASSES) for n in group for m in FINER if m not in NARROW]
        finer += [
            run(scale, samples, seed, n, m, PASSES)
            for seed in OTHER_SEEDS
            for n in group
            if n in OTHER_STORIES
            for m in FINER
        ]
        found += [
            Stage(f"MFT24 fig1, {name}", 2, grid, engine="auto"),
            Stage(f"MFT24 fig1, wide, {name}", 6, wide),
            Stage(f"MFT24 fig1, finer, {name}", 7, tuple(finer), engine="auto"),
        ]
    return found
