"""MFT24 Theorems 5 and 7 as constructions: one interface, three solvers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.bounds.madden_2024 import theorem_5_parameters, theorem_7_parameters
from byheart.construct.madden_2024.convex import regress, smallest_width
from byheart.construct.madden_2024.mixing import draw_mixing, mixed_contexts, with_neurons
from byheart.construct.madden_2024.random_features import (
    draw_neurons,
    features_of,
    solve_by_random_features,
)
from byheart.construct.madden_2024.size import METHOD_NAMES, Kind
from byheart.construct.madden_2024.steps import solve_by_steps
from byheart.construct.madden_2024.targets import Targets, targets_of
from byheart.construct.registry import Assumption, Construction, statistics_of
from byheart.data.dataset import Dataset
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.decoder import Activation, Decoder
from byheart.network.memory import Memory, Progress
from byheart.theorems import realises

Solver = Literal["auto", "steps", "random-features", "convex"]
MARGIN = {"float64": 40.0, "float32": 22.0}
"""Logits on the support stand this far above the others: divergences of about ω·e^-margin."""

ALLOWED_DIVERGENCE = 1e-3
"""Nats by which a context may differ from its distribution: a thousand times what float32 needs."""

ALLOWED_GAP = 0.01
"""Share of the entropy that MFT24's experiment allows as gap; the convex solver's default goal."""

DIM = 16
DRAWS = 8


@dataclass(frozen=True)
class Choices:
    """The options of both constructions, checked.

    solver        `steps` (d = 1, no solve), `random-features` (one solve), `convex` (fewer neurons than contexts), or `auto`:
                  steps in float64 where the images lie far enough apart, else random features
    dim, n_heads  embedding dimension and heads; steps have one of each
    hidden_width  neurons; None for as many as contexts, or for the convex solver the fewest that reach the goal
    gap           convex: the share of the entropy that may be left
    """

    precision: Literal["float64", "float32"] = "float64"
    solver: Solver = "auto"
    activation: Activation = "tanh"
    dim: int = DIM
    n_heads: int = 1
    hidden_width: int | None = None
    margin: float | None = None
    gap: float = ALLOWED_GAP

    @staticmethod
    def of(method: str, options: Mapping[str, object]) -> Choices:
        """Read options; `UsageError` names what is wrong with one."""
        known = set(Choices.__dataclass_fields__)
        unknown = sorted(set(options) - known)
        if unknown:
            raise UsageError(
                f"{method} has no option {', '.join(unknown)}; it has {', '.join(sorted(known))}."
            )
        given: dict[str, Any] = dict(options)
        for name, allowed in (("solver", get_args(Solver)), ("activation", get_args(Activation))):
            if name in given and given[name] not in allowed:
                raise UsageError(f"{name} is {given[name]!r}; choose one of {', '.join(allowed)}.")
        choices = Choices(**given)
        if choices.solver == "steps" and choices.activation != "tanh":
            raise UsageError(
                f"steps need an activation that saturates: tanh, not {choices.activation}.\n"
                "  Choose solver=random-features for it."
            )
        return choices


@realises("MFT24-T5", "MFT24-T7", "MFT24-Def1")
def memorise(
    kind: Kind,
    data: Dataset,
    options: Mapping[str, object],
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Construction:
    """Compile contexts and what follows them into one decoder layer.

    Source:     MFT24 Theorem 5 (`kind` attention) and Theorem 7 (averaging); the proofs' algorithm, as repaired in
                `steps`, `random_features` and `convex`.
    Assumes:    distinct contexts of tokens; equal contexts of next-token data carry equal labels.
    Guarantee:  not exact: distributions have finite logits. The divergence from every distribution is measured and
                stands in the certificate.
    Size:       `size_of`: m = n neurons at d = 1 (steps). Others as their options say.
    Departs:    see the solvers.
    """
    name = METHOD_NAMES[kind]
    choices = Choices.of(name, options)
    targets = targets_of(data)
    margin = MARGIN[choices.precision] if choices.margin is None else choices.margin
    decoder, notes = _solved(kind, choices, targets, margin, rng, progress)
    n_contexts = len(targets)
    if data.task == "distribution":
        allowed = float("inf") if notes["solver"] == "convex" else ALLOWED_DIVERGENCE
        notes |= {"allowed_divergence": None if np.isinf(allowed) else allowed, "allowed_gap": choices.gap}
    if progress is not None:
        progress(1, 1)
    return Construction(
        memory=Memory(decoder, data.task, data.label_names, data.tokenizer, True),
        method=name,
        theorem={"attention": "MFT24 Theorem 5", "averaging": "MFT24 Theorem 7"}[kind],
        assumptions=(
            Assumption(
                "distinct contexts", True, f"{n_contexts} contexts of at most {decoder.seq_len} tokens"
            ),
            Assumption(
                "as many neurons as contexts",
                decoder.hidden_width >= n_contexts,
                f"{decoder.hidden_width} neurons, {n_contexts} contexts",
            ),
        ),
        theorem_size=_theorem_size(kind, decoder, n_contexts),
        notes={**notes, "n_contexts": n_contexts, "margin": margin},
        statistics=replace(statistics_of(data), n_contexts=n_contexts),
    )


def _solved(
    kind: Kind,
    choices: Choices,
    targets: Targets,
    margin: float,
    rng: np.random.Generator,
    progress: Progress | None,
) -> tuple[Decoder, dict[str, Any]]:
    if choices.solver == "steps" or (choices.solver == "auto" and _steps_may_do(choices)):
        try:
            return _by_steps(kind, choices, targets, margin, rng)
        except AssumptionViolated:
            if choices.solver == "steps":
                raise
    front, encoded = _front(kind, choices, targets, choices.dim, rng)
    if choices.solver == "convex":
        return _by_regression(front, encoded, choices, targets, rng, progress)
    fit = solve_by_random_features(
        front, encoded, targets.logits(margin), rng, n_neurons=choices.hidden_width
    )
    return fit.decoder, {
        "solver": "random-features",
        "condition": fit.condition,
        "residual": fit.residual,
        "largest_output": fit.largest_output,
    }


def _steps_may_do(choices: Choices) -> bool:
    asked_for_more = (choices.activation, choices.dim, choices.n_heads, choices.hidden_width) != (
        "tanh",
        DIM,
        1,
        None,
    )
    return choices.precision == "float64" and not asked_for_more


def _front(
    kind: Kind, choices: Choices, targets: Targets, dim: int, rng: np.random.Generator
) -> tuple[Decoder, np.ndarray]:
    contexts = targets.contexts
    front = draw_mixing(
        kind,
        contexts.n_vocab,
        contexts.max_len,
        dim,
        targets.n_outputs,
        rng,
        n_heads=choices.n_heads if dim > 1 else 1,
        activation=choices.activation,
        precision=choices.precision,
    )
    return front, contexts.padded(front.pad, front.seq_len)


def _by_steps(
    kind: Kind, choices: Choices, targets: Targets, margin: float, rng: np.random.Generator
) -> tuple[Decoder, dict[str, Any]]:
    """Draw embeddings until the images of all contexts lie far enough apart; the gap is a matter of luck."""
    for draw in range(DRAWS):
        front, encoded = _front(kind, choices, targets, 1, rng)
        try:
            steps = solve_by_steps(front, encoded, targets.logits(margin))
        except AssumptionViolated:
            if draw == DRAWS - 1:
                raise
            continue
        return steps.decoder, {
            "solver": "steps",
            "min_gap": steps.injectivity.min_gap,
            "rounding": steps.injectivity.rounding,
            "grid_bits": steps.grid_bits,
            "draws": draw + 1,
        }
    raise AssertionError("unreachable")


def _by_regression(
    front: Decoder,
    encoded: np.ndarray,
    choices: Choices,
    targets: Targets,
    rng: np.random.Generator,
    progress: Progress | None,
) -> tuple[Decoder, dict[str, Any]]:
    """The fewest neurons that reach the goal, or the number asked for."""
    goal = choices.gap * targets.entropy_nats
    if goal <= 0:  # one continuation each: what guessing costs stands in for the entropy
        goal = choices.gap * float(targets.counts.sum()) * float(np.log(targets.n_outputs)) * 1e-2
    n_neurons = choices.hidden_width or 64
    while True:
        hidden, bias = draw_neurons(front, mixed_contexts(front, encoded), n_neurons, rng)
        neurons = with_neurons(front, hidden, bias, np.zeros((n_neurons, targets.n_outputs)))
        features = features_of(neurons, encoded)
        if choices.hidden_width is not None:
            fit = regress(features, targets, goal_nats=goal)
            break
        found = smallest_width(features, targets, goal, progress=progress)
        if found is not None:
            fit, n_neurons = found.fit, found.n_neurons
            break
        n_neurons *= 2
    if not fit.reached:
        raise AssumptionViolated(
            f"{n_neurons} neurons leave a gap of {fit.gap_nats:.4g} nats, above the {goal:.4g} asked for.\n"
            "  Give a larger hidden_width or gap, or leave hidden_width out.",
            gap=fit.gap_nats,
            goal=goal,
        )
    decoder = with_neurons(front, hidden[:, :n_neurons], bias[:n_neurons], fit.coefficients)
    return decoder, {"solver": "convex", "gap_nats": fit.gap_nats, "evaluations": fit.evaluations}


def _theorem_size(kind: Kind, decoder: Decoder, n_contexts: int) -> TheoremSize:
    size = theorem_5_parameters if kind == "attention" else theorem_7_parameters
    bound = size(n_contexts, decoder.pad, decoder.seq_len, decoder.n_outputs)
    assert isinstance(bound.value, int)
    return TheoremSize(
        name=bound.name,
        statement=bound.statement,
        width=n_contexts,
        depth=2,
        parameters=bound.value,
        weight_bits=0,
        assumptions=bound.assumptions,
        source=bound.source,
    )


__all__ = ["Choices", "Solver", "memorise"]
