"""DPC24's models and training, which its figures share.

50 tokens, pairs of them, one uniformly random next token for each of the 2,500 pairs. The paper trains on 1,000 batches of
1,024 drawn pairs, reshuffled for each of 10 epochs, by Adam at 1e-3; here every step draws a fresh batch. Accuracy is over
all pairs, averaged over the last 100 steps. A seed draws the labels, the weights and the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from byheart.measure.families import ModelConfig
from byheart.measure.recipe import Training
from byheart.measure.records import Run
from byheart.reproduce.figure import Scale, TrainingStage
from byheart.reproduce.observation import Observation

Variant = Literal["as-coded", "as-written", "position-first"]
VARIANTS: tuple[Variant, ...] = ("as-coded", "as-written", "position-first")
How = Literal["adam", "longer", "longest", "lbfgs"]
"""The paper's Adam; the same for 4 and for 16 times the steps; L-BFGS."""

N_VOCAB = 50
HEADS = (1, 6, 11, 16, 21, 26)  # the paper's grid
DENSE = tuple(sorted({*range(1, 26, 2), *HEADS}))
DIMS = tuple(range(3, 14))
TIMES: dict[How, int] = {"adam": 1, "longer": 4, "longest": 16}
LBFGS_EVALUATIONS = 1500
PLANS: dict[tuple[Variant, How], tuple[int, int]] = {  # priority, and the most seeds
    ("as-coded", "adam"): (0, 10),
    ("as-written", "adam"): (2, 5),
    ("position-first", "adam"): (3, 3),
    ("as-coded", "longer"): (4, 5),
    ("as-coded", "longest"): (3, 5),
    ("as-coded", "lbfgs"): (5, 5),
    ("as-written", "lbfgs"): (9, 5),
}


def seeds(scale: Scale, variant: Variant = "as-coded", how: How = "adam", most: int = 10) -> range:
    """The seeds of a scale: at the paper's, `most` where the paper's own model is trained as it was, fewer elsewhere."""
    if scale != "paper":
        return range({"smoke": 2, "laptop": 1}[scale])
    _, fewer = PLANS.get((variant, how), (0, most))
    return range(min(most, fewer))


def heads_at(scale: Scale, variant: Variant, how: How, dim: int = 10) -> tuple[int, ...]:
    """Numbers of heads tried; at d = 11 to 13 the authors' stored grid goes on to 31."""
    if scale != "paper":
        return thin(HEADS, scale, 3 if scale == "smoke" else 6)
    if how == "longest":
        return HEADS[:4]
    return (DENSE if (variant, how) == ("as-coded", "adam") else HEADS) + ((31,) if dim >= 11 else ())


def training(scale: Scale, how: How, epochs: int = 10) -> Training:
    """The paper's Adam, the same for longer, or full-batch L-BFGS."""
    steps = {"smoke": 60, "laptop": 1000 * epochs, "paper": 1000 * epochs}[scale]
    if how == "lbfgs":
        evaluations = {"smoke": 30, "laptop": 400, "paper": LBFGS_EVALUATIONS}[scale]
        return Training(steps=evaluations, optimiser="lbfgs", dtype="float64")
    steps *= TIMES[how]
    return Training(
        steps=steps, learning_rate=1e-3, batch=1024 if scale != "smoke" else 64, tail=min(100, steps)
    )


def run(
    scale: Scale,
    variant: Variant,
    seed: int,
    *,
    dim: int,
    head_dim: int,
    n_heads: int,
    mlp_width: int = 0,
    n_vocab: int = N_VOCAB,
    how: How = "adam",
    epochs: int = 10,
) -> Run:
    """One model of the paper; at `smoke` the vocabulary is a fifth."""
    if scale == "smoke":
        n_vocab = max(5, n_vocab // 5)
    return Run(
        ModelConfig(
            "attention-only",
            {"dim": dim, "head_dim": head_dim, "n_heads": n_heads, "mlp_width": mlp_width},
            {"variant": variant},
        ),
        {"kind": "associations", "n_vocab": n_vocab, "seq_len": 2, "seed": seed},
        training(scale, how, epochs),
        seed,
    )


KEPT: dict[Scale, int] = {"smoke": 3, "laptop": 6}


def thin(values: Iterable[int], scale: Scale, keep: int | None = None) -> tuple[int, ...]:
    """All values at the paper's scale; below it at most `keep` or as many as usual, ends included, evenly spread."""
    chosen = tuple(values)
    keep = keep or KEPT.get(scale, len(chosen))
    if scale == "paper" or len(chosen) <= keep:
        return chosen
    places = [round(i * (len(chosen) - 1) / (keep - 1)) for i in range(keep)]
    return tuple(chosen[place] for place in places)


WAYS_WITH_MAPS: tuple[tuple[Variant, How], ...] = (
    ("as-coded", "adam"),
    ("as-written", "adam"),
    ("position-first", "adam"),
    ("as-coded", "lbfgs"),
)
"""Where d ≠ d_h the place at which the position enters makes a difference."""


def stages(
    name: str,
    scale: Scale,
    runs_of: Callable[[Variant, How, int], Sequence[Run]],
    ways: Sequence[tuple[Variant, How]],
    *,
    most_seeds: int = 10,
    later: int = 0,
) -> list[TrainingStage]:
    """A stage for each reading of the model and way of training; those of 4 and 16 times the steps at the paper's scale alone."""
    return [
        TrainingStage(
            f"DPC24 {name}, {variant}, {how}",
            PLANS[variant, how][0] + later,
            tuple(
                run for seed in seeds(scale, variant, how, most_seeds) for run in runs_of(variant, how, seed)
            ),
            together=f"DPC24, {variant}, {how}" if not later else "",
            engine="auto" if how in ("longer", "longest") else "graph",
        )
        for variant, how in ways
        if scale == "paper" or how not in ("longer", "longest")
    ]


def how_trained(one: Observation) -> How:
    """In which of the ways it was trained."""
    plan = one.config["training"]
    if plan["optimiser"] == "lbfgs":
        return "lbfgs"
    usual = 15 * 1000  # the most of the paper's figures
    return "adam" if plan["steps"] <= usual else "longer" if plan["steps"] <= usual * 4 else "longest"


def accuracy(one: Observation) -> float:
    """The paper's accuracy: over the last 100 steps where it was recorded, else at the end."""
    return one.measured.get("accuracy_tail", one.measured["accuracy"])
