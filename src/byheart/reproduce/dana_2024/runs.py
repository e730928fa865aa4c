"""DPC24's models and training, which its figures share.

50 tokens, pairs of them, one uniformly random next token for each of the 2,500 pairs. The paper trains on 1,000 batches of
1,024 drawn pairs, reshuffled for each of 10 epochs, by Adam at 1e-3; here every step draws a fresh batch. Accuracy is over
all pairs, averaged over the last 100 steps. A seed draws the labels, the weights and the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from byheart.measure.families import Model
from byheart.measure.recipe import Training
from byheart.measure.records import Record, Run
from byheart.reproduce.figure import Scale, Stage

Variant = Literal["as-coded", "as-written"]
VARIANTS: tuple[Variant, ...] = ("as-coded", "as-written")
How = Literal["adam", "one-hot", "longer", "lbfgs"]
"""The paper's Adam; the same from the other reading of the initialisation; the same for longer; L-BFGS."""

N_VOCAB = 50
HEADS = (1, 6, 11, 16, 21, 26)
DIMS = tuple(range(3, 14))
N_SEEDS: dict[Scale, int] = {"smoke": 2, "laptop": 1, "paper": 5}
LONGER = 4  # times the paper's steps
LBFGS_EVALUATIONS = 1500


def seeds(scale: Scale) -> range:
    """The seeds of a scale; the paper's text used two."""
    return range(N_SEEDS[scale])


def training(scale: Scale, how: How, epochs: int = 10) -> Training:
    """The paper's Adam, the same for longer, or full-batch L-BFGS."""
    steps = {"smoke": 60, "laptop": 1000 * epochs, "paper": 1000 * epochs}[scale]
    if how == "lbfgs":
        evaluations = {"smoke": 30, "laptop": 400, "paper": LBFGS_EVALUATIONS}[scale]
        return Training(steps=evaluations, optimiser="lbfgs", dtype="float64")
    steps *= LONGER if how == "longer" else 1
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
        Model(
            "attention-only",
            {"dim": dim, "head_dim": head_dim, "n_heads": n_heads, "mlp_width": mlp_width},
            {"variant": variant, "initial": "one-hot" if how == "one-hot" else "width"},
        ),
        {"kind": "associations", "n_vocab": n_vocab, "seq_len": 2, "seed": seed},
        training(scale, how, epochs),
        seed,
    )


KEPT: dict[Scale, int] = {"smoke": 3, "laptop": 6}


def thinned(values: Iterable[int], scale: Scale, keep: int | None = None) -> tuple[int, ...]:
    """All values at the paper's scale; below it at most `keep` or as many as usual, ends included, evenly spread."""
    chosen = tuple(values)
    keep = keep or KEPT.get(scale, len(chosen))
    if scale == "paper" or len(chosen) <= keep:
        return chosen
    places = [round(i * (len(chosen) - 1) / (keep - 1)) for i in range(keep)]
    return tuple(chosen[place] for place in places)


PRIORITIES: dict[How, int] = {"adam": 1, "one-hot": 3, "lbfgs": 5, "longer": 8}
LEFT_OUT: dict[How, tuple[Scale, ...]] = {"longer": ("smoke", "laptop"), "one-hot": ("laptop",)}
AS_CODED_ALONE: tuple[How, ...] = ("one-hot", "longer")  # what these show, the one reading shows


def stages(
    name: str,
    scale: Scale,
    runs_of: Callable[[Variant, int, How], Sequence[Run]],
    *,
    priority: int = PRIORITIES["adam"],
    others: Sequence[How] = (),
) -> list[Stage]:
    """A stage for each reading of the model, trained as in the paper, then those trained in other ways."""
    ways: list[tuple[How, int]] = [("adam", priority)]
    ways += [(how, PRIORITIES[how]) for how in others if scale not in LEFT_OUT.get(how, ())]
    return [
        Stage(
            f"DPC24 {name}, {variant}, {how}",
            rank,
            tuple(run for seed in seeds(scale) for run in runs_of(variant, seed, how)),
            together="L-BFGS" if how == "lbfgs" else "",
        )
        for how, rank in ways
        for variant in (VARIANTS[:1] if how in AS_CODED_ALONE else VARIANTS)
    ]


def sweep(
    name: str,
    scale: Scale,
    values: Sequence[int],
    sizes: Callable[[int], dict[str, int]],
    *,
    others: Sequence[How],
    priority: int = PRIORITIES["adam"],
    n_vocab: int = N_VOCAB,
    epochs: int = 10,
) -> list[Stage]:
    """The stages of a figure along one size: `sizes` says what models a value stands for."""
    return stages(
        name,
        scale,
        lambda variant, seed, how: [
            run(scale, variant, seed, **sizes(value), n_vocab=n_vocab, how=how, epochs=epochs)
            for value in thinned(values, scale)
        ],
        priority=priority,
        others=others,
    )


def how_trained(record: Record) -> How:
    """Which of the ways of training a record comes from."""
    plan = record.config["training"]
    if record.config["options"]["initial"] == "one-hot":
        return "one-hot"
    if plan["optimiser"] == "lbfgs":
        return "lbfgs"
    return "longer" if plan["steps"] >= 1000 * 10 * LONGER else "adam"


def accuracy(record: Record) -> float:
    """The paper's accuracy: over the last 100 steps where it was recorded, else at the end."""
    return record.measured.get("accuracy_tail", record.measured["accuracy"])
