"""The models and the training that the figures of DPC24 (Dana, Pydi & Chevaleyre 2024) share.

The data are all 2,500 pairs of 50 tokens, each with one uniformly random next token. The paper trains on 1,000 batches of
1,024 drawn pairs, reshuffled for each of 10 epochs, with Adam at a learning rate of 1e-3; here every step draws a fresh batch.
Accuracy is measured on all pairs and averaged over 20 of the last 100 steps. The labels, the weights and the batches are drawn with
the seed.

The authors' stored points come from two versions of their code, as its public history shows:
- the variant `layer-norm`, 5,000 steps: Figures 1a and 2b, and the attention curves of Figure 3;
- the variant `maps-always`, 10,000 steps: Figures 1b, 2a, 4 (15,000 steps) and the MLP curves of Figure 3.
`maps-always` has linear maps from the model width d to the head width d_h and back, which all heads share. A third variant,
`as-coded`, is the code of 2025, which has no such maps if d = d_h. If d ≠ d_h, it is the same as `maps-always`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from byheart.measure.families import ModelConfig
from byheart.measure.recipe import Training
from byheart.measure.records import Run
from byheart.reproduce.figure import Scale, TrainingStage
from byheart.reproduce.observation import Observation

Variant = Literal["as-coded", "as-written", "position-first", "layer-norm", "maps-always"]
How = Literal["adam", "longer", "longest", "lbfgs"]
"""The ways of training: the paper's Adam, the same with 4 and 16 times the steps, and L-BFGS."""

N_VOCAB = 50
MEASURED = ("loss", "accuracy", "accuracy_tail")  # the measurements that figures need
HEADS = (1, 6, 11, 16, 21, 26)  # the paper's grid
DENSE = tuple(sorted({*range(1, 26, 2), *HEADS}))
DIMS = tuple(range(3, 14))
TIMES: dict[How, int] = {"adam": 1, "longer": 4, "longest": 16}
LBFGS_EVALUATIONS = 1500
# epochs of 1,000 batches, for versions of the code that differ
EPOCHS: dict[Variant, int] = {"layer-norm": 5}
PLANS: dict[tuple[Variant, How], tuple[int, int]] = {  # the priority, and the maximum number of seeds
    ("layer-norm", "adam"): (0, 10),
    ("maps-always", "adam"): (0, 10),
    ("layer-norm", "longer"): (4, 3),
    ("layer-norm", "longest"): (5, 3),
    ("as-coded", "adam"): (0, 10),
    ("as-written", "adam"): (2, 5),
    ("position-first", "adam"): (3, 3),
    ("as-coded", "longer"): (4, 5),
    ("as-coded", "longest"): (3, 5),
    ("as-coded", "lbfgs"): (5, 5),
    ("as-written", "lbfgs"): (9, 5),
}


def seeds(scale: Scale, variant: Variant = "as-coded", how: How = "adam", most: int = 10) -> range:
    """Return the seeds of the runs to train at a scale.

    At the paper's scale, there are at most `most` seeds, and fewer for some variations of the model or of training (see `PLANS`).
    The smoke scale has two seeds, and the laptop scale has one.
    """
    if scale != "paper":
        return range({"smoke": 2, "laptop": 1}[scale])
    _, fewer = PLANS.get((variant, how), (0, most))
    return range(min(most, fewer))


def heads_at(scale: Scale, variant: Variant, how: How, dim: int = 10) -> tuple[int, ...]:
    """Return the numbers of heads to try, which depend on the scale and the way of training.

    At the paper's scale, these are the paper's numbers: 1, 6, ..., 26, and also 31 if `dim` is at least 11. Some ways of training
    add further numbers. Others keep only the numbers before accuracy saturates. At other scales, only some of the paper's numbers
    are tried.
    """
    if scale != "paper":
        return thin(HEADS, scale)
    if how == "longest" or (variant, how) == ("layer-norm", "longer"):
        return HEADS[:4]
    is_dense = how == "adam" and (variant == "as-coded" or (variant, dim) == ("layer-norm", 10))
    return (DENSE if is_dense else HEADS) + ((31,) if dim >= 11 else ())


def training(scale: Scale, how: How, epochs: int = 10) -> Training:
    """Return the training options: Adam as in the paper, Adam with more steps, or full-batch L-BFGS."""
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
    """Return the run of one model of the paper. At scale `smoke`, the vocabulary has a fifth of its usual size, but at least 5
    tokens.
    """
    if scale == "smoke":
        n_vocab = max(5, n_vocab // 5)
    if variant == "maps-always" and dim != head_dim:
        variant = "as-coded"  # the same model under its older name
    epochs = EPOCHS.get(variant, epochs)
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


KEPT: dict[Scale, int] = {"smoke": 3, "laptop": 4}


def thin(values: Iterable[int], scale: Scale, keep: int | None = None) -> tuple[int, ...]:
    """Return all values at the paper's scale.

    At other scales, return at most `keep` values, evenly spread and including the ends. By default, `keep` depends on the scale.
    """
    chosen = tuple(values)
    keep = keep or KEPT.get(scale, len(chosen))
    if scale == "paper" or len(chosen) <= keep:
        return chosen
    places = [round(i * (len(chosen) - 1) / (keep - 1)) for i in range(keep)]
    return tuple(chosen[place] for place in places)


LAPTOP = (("layer-norm", "adam"), ("maps-always", "adam"))
WAYS_WITH_MAPS: tuple[tuple[Variant, How], ...] = (
    ("as-coded", "adam"),
    ("maps-always", "adam"),
    ("as-written", "adam"),
    ("position-first", "adam"),
    ("as-coded", "lbfgs"),
)
"""The pairs (version of the model, optimiser) to train if the model width d and the head width d_h differ. In this case, it
matters where a version adds the positions."""


def stages(
    name: str,
    scale: Scale,
    runs_of: Callable[[Variant, How, int], Sequence[Run]],
    ways: Sequence[tuple[Variant, How]],
    *,
    most_seeds: int = 10,
    later: int = 0,
) -> list[TrainingStage]:
    """Return one stage for each of `ways`, which are pairs of a model variant and a way of training.

    `runs_of` returns the runs for a variant, a way of training and a seed. A run that several stages would contain belongs only to
    the first of them.

    At laptop scale, the only stages are those for the variants that the authors used for the points of their figures. Stages with 4
    and 16 times as many steps exist only at the paper's scale.

    `later` is added to the priority numbers of the stages, so that they train later.
    """
    found, seen = [], set[str]()
    for variant, how in ways:
        if scale != "paper" and how in ("longer", "longest"):
            continue
        if scale == "laptop" and (variant, how) not in LAPTOP:
            continue
        named = [
            run for seed in seeds(scale, variant, how, most_seeds) for run in runs_of(variant, how, seed)
        ]
        fresh = tuple(run for run in named if run.key not in seen)
        seen |= {run.key for run in fresh}
        if fresh:
            found.append(
                TrainingStage(
                    f"DPC24 {name}, {variant}, {how}",
                    PLANS[variant, how][0] + later,
                    fresh,
                    together=f"DPC24, {variant}, {how}" if not later else "",
                    engine="auto" if how in ("longer", "longest") else "graph",
                )
            )
    return found


def how_trained(one: Observation) -> How:
    """Return the way in which a run was trained."""
    plan = one.config["training"]
    if plan["optimiser"] == "lbfgs":
        return "lbfgs"
    usual = 15 * 1000  # the largest number of steps in the paper's figures
    return "adam" if plan["steps"] <= usual else "longer" if plan["steps"] <= usual * 4 else "longest"


def accuracy(one: Observation) -> float:
    """Return the accuracy averaged over the last steps of training, or the final accuracy if this average was not recorded."""
    return one.measured.get("accuracy_tail", one.measured["accuracy"])
