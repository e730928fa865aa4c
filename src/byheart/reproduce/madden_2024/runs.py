"""The models of MFT24 and their training. Both panels of its Figure 1 use them.

Stories are cut to 10 tokens, and the embedding width is 16. Adam minimises the loss summed over all positions, with learning rate
1e-4, 50,000 steps and float32. A model passes when its final loss is within 1% of the data's entropy. Models are trained on
distinct contexts, and the loss of each context counts as often as the context occurs. This gives the same loss and gradient as
training on all contexts.

No training is stopped early, because only the final loss decides whether a model passes. There are three seeds at the
paper's scale, otherwise one. The seed determines both the choice of stories and the initial weights of the model.
"""

from __future__ import annotations

from byheart.measure.families import ModelConfig
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Scale, TrainingStage

PASSES = PassRule("relative_gap", 0.01)

STORIES = tuple(range(100, 1001, 100))
WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
FINER = (12, 20, 24, 28, 40)
SEEDS = (0, 1, 2)
FROZEN_STORIES = (100, 400, 700, 1000)


def training(scale: Scale) -> Training:
    """Return the paper's training options or, at smoke and laptop scale, fewer steps with a larger learning rate and a cosine
    schedule.
    """
    if scale == "paper":
        return Training(steps=50_000, learning_rate=1e-4, reduction="sum")
    steps = {"smoke": 150, "laptop": 2000}[scale]
    return Training(steps=steps, learning_rate=1e-2, schedule="cosine", reduction="sum")


def run(
    scale: Scale, samples: Samples, seed: int, n_stories: int, width: int, attention: str = "trained"
) -> Run:
    """Return the run of one model on the first `n_stories` of the stories shuffled with `seed`.

    If `attention` is "frozen", the embedding and the attention head are not trained.
    """
    return Run(
        ModelConfig("one-layer-decoder", {"hidden_width": width}, {"attention": attention}),
        samples.describe("tinystories", n_stories, seed),
        training(scale),
        seed,
    )


def stages(scale: Scale, samples: Samples | None) -> list[TrainingStage]:
    """Return the groups of training runs: the paper's widths and numbers of stories, the variant in which the embedding and the
    attention head are not trained ("frozen"), and a finer list of widths.

    Models of similar sizes train together. At scales other than `paper`, there is one small group.
    """
    assert samples is not None
    if scale != "paper":
        stories: tuple[int, ...]
        widths: tuple[int, ...]
        stories, widths = {"smoke": ((20, 40), (2, 8)), "laptop": ((100, 200), (8, 16, 32))}[scale]
        return [
            TrainingStage(
                "MFT24 fig1", 2, tuple(run(scale, samples, 0, n, m) for n in stories for m in widths)
            )
        ]
    found = []
    for n in STORIES:
        parts: list[tuple[str, int, tuple[int, ...], tuple[int, ...], str]] = [
            ("narrow", 2, WIDTHS[:4], SEEDS, "trained"),
            ("middle", 3, WIDTHS[4:6], SEEDS, "trained"),
            ("wide", 4, WIDTHS[6:7], SEEDS, "trained"),
            ("widest", 5, WIDTHS[7:], SEEDS, "trained"),
            ("finer", 7, FINER, SEEDS, "trained"),
        ]
        if n in FROZEN_STORIES:
            parts.append(("frozen", 6, WIDTHS[2:7], SEEDS[:1], "frozen"))
            parts.append(("frozen with more seeds", 6, WIDTHS[2:7], SEEDS[1:], "frozen"))
        for name, priority, widths, seeds, attention in parts:
            runs = tuple(run(scale, samples, seed, n, m, attention) for seed in seeds for m in widths)
            found.append(TrainingStage(f"MFT24 fig1, {name} at {n} stories", priority, runs, engine="auto"))
    return found
