"""The construction of Kajitsuka & Sato 2023: one softmax head and one wide hidden layer, run natively in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from byheart.bounds.predecessors import kajitsuka_sato_2023_size
from byheart.construct.kajitsuka_sato_2023.context_ids import (
    SoftmaxIds,
    TokenPlaces,
    candidate_places,
    find_sharpness,
    ids_for,
    theorem_beta,
)
from byheart.construct.kajitsuka_sato_2023.network_program import (
    VALUE,
    interpolate,
    network_outline,
    network_program,
)
from byheart.construct.registry import Example, Method
from byheart.data.assumption import Assumption
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens
from byheart.data.row_groups import representatives
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.memoriser import Memoriser
from byheart.network.size import Size
from byheart.process.progress import Progress, report
from byheart.program.blocks import Program
from byheart.program.construction import ProgramPlan
from byheart.program.count import count
from byheart.program.distinct_tokens import assume_contexts, distinct_tokens, labelled_tokens
from byheart.program.emit import emit

NAME = "kajitsuka-sato-2023"
_LEAST_GAP_IN_ERRORS = 8.0
_STATEMENTS: dict[float | str | None, str] = {
    None: "KS23 Corollary 1, with a sharpness of attention chosen for the data",
    "theorem": "KS23 Corollary 1",
}


@dataclass(frozen=True)
class SoftmaxOptions:
    """The sharpness `beta`, which is the factor of the attention scores.

    It is a number, "theorem" for the theorem's value, or None for the best value that a search finds.
    """

    beta: float | str | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.beta, (int, float)) and 0 < self.beta < np.inf
        if not (self.beta is None or self.beta == "theorem" or is_number):
            raise UsageError(
                f"beta must be a positive number or 'theorem', not {self.beta!r}.", beta=self.beta
            )


def memorise_by_one_head(
    data: Dataset, options: SoftmaxOptions, rng: np.random.Generator, progress: Progress | None = None
) -> ProgramPlan:
    """Compile a label for every token: one softmax head gives every context an id, and one hidden layer maps the id to its
    label.

    Source:     Kajitsuka & Sato (2023), Theorem 2 and Corollary 1: one layer, one head with weight matrices
                of rank 1, separation by the Boltzmann operator; 4(s + d) + d(2nN + d) parameters for N
                sequences of n tokens without repetition, in dimension d with head size s.
    Assumes:    equal contexts carry equal labels; float64 can distinguish the contexts (measured, see below).
    Guarantee:  at every labelled token the output equals label + 1 exactly, run natively in float64, in any
                order of summation. The gap between ids is compared with a bound on their rounding error. The hidden layer's
                error is bounded below 1/4, and `round_to_whole` then rounds the result to the nearest integer exactly.
    Size:       one attention layer, one block with a unit for each context (two if there is only one), and 2·(⌊log2 C⌋ + 1) small
                blocks for C labels. For vectors, one more small block.
    Departs:    with the theorem's sharpness β, ids differ by as little as e^-(hundreds). Instead, a search chooses β, the
                projection of tokens to a line, and the weights of token and context in the id, so that the gap is as large as
                possible. This also allows repeated tokens (our own argument). All weight matrices have rank 1, so the network keeps
                only the token's value on the line: 4·d + O(nN) parameters. There is one ReLU per context instead of two. Option
                beta="theorem" uses the theorem's β; a number sets β.
    """
    data.require_finite()
    data.require_consistent()
    tokens = distinct_tokens(data)
    labelled = labelled_tokens(data, tokens)
    first = representatives(data.context_ids)
    samples, columns = np.array(labelled.samples)[first], np.array(labelled.columns)[first]
    labels = np.array(labelled.labels)[first].astype(np.float64)
    ids = _context_ids(candidate_places(data, tokens, rng), samples, columns, options, rng)
    report(progress, 1, 2)
    _require_gap(ids)
    hidden = interpolate(ids, labels)
    program = network_program(tokens, ids, hidden, data.n_classes.bit_length())
    network = emit(program, "float64")
    margin = _measure_error(program, data, samples, columns, labels)
    report(progress, 2, 2)
    return ProgramPlan(
        program=program,
        data=data,
        method=NAME,
        theorem=_STATEMENTS.get(options.beta, "KS23 Corollary 1, with a given sharpness of attention"),
        assumptions=(
            *assume_contexts(data, len(ids.ids)),
            Assumption(
                "float64 tells all contexts apart",
                True,
                f"β = {ids.beta:.4g}: ids differ by at least {ids.gap:.3g} and are off by at most {ids.error:.3g}; "
                f"labels before rounding are off by at most {hidden.error:.3g}",
            ),
        ),
        theorem_size=kajitsuka_sato_2023_size(data.n_samples, data.seq_len, network.dim),
        notes={
            "contexts": len(ids.ids),
            "beta": ids.beta,
            "id_gap": ids.gap,
            "id_error_bound": ids.error,
            "value_error_bound": hidden.error,
            "value_error_measured": margin,
        },
        precision="float64",
        network=network,
    )


def size_of(shape: DataShape, options: SoftmaxOptions) -> Size:
    """Return the estimated size for data of this shape. All numbers except the non-zero count are exact if all contexts are
    distinct.

    The non-zero count assumes that all numbers that come from the data are non-zero.
    """
    return count(network_outline(shape), "float64")


def _context_ids(
    candidates: list[TokenPlaces],
    samples: np.ndarray,
    columns: np.ndarray,
    options: SoftmaxOptions,
    rng: np.random.Generator,
) -> SoftmaxIds:
    """Try several ways to give the contexts ids, and return the ids for which gap / error is largest.

    The gap is the smallest difference between two ids, and the error is a bound on how far rounding may move an id. The sharpness
    (factor of the attention scores) is chosen as `options` say: a number, the theorem's value, or the best one found.
    """
    if options.beta is None:
        return find_sharpness(candidates, samples, columns, rng)
    tried = []
    for places in candidates:
        beta = theorem_beta(places) if options.beta == "theorem" else float(options.beta)
        angles = rng.uniform(0, np.pi / 2, size=16)
        tried += [ids_for(places, samples, columns, beta, angle) for angle in angles]
    return max(tried, key=lambda found: found.gap / found.error)


def _require_gap(ids: SoftmaxIds) -> None:
    if ids.gap < _LEAST_GAP_IN_ERRORS * ids.error:
        raise AssumptionViolated(
            f"float64 cannot distinguish all {len(ids.ids)} contexts after one softmax head: with "
            f"β = {ids.beta:.4g} the closest two context ids differ by {ids.gap:.3g}, and rounding may move an id by "
            f"{ids.error:.3g}.\n  Use an exact construction, such as kajitsuka-sato-2025.",
            gap=ids.gap,
            error=ids.error,
            beta=ids.beta,
        )


def _measure_error(
    program: Program, data: Dataset, samples: np.ndarray, columns: np.ndarray, labels: np.ndarray
) -> float:
    """Return the largest difference between the labels and the native network's output before rounding."""
    from byheart.network.transformer.module import run_module

    n_rounding = 2 * data.n_classes.bit_length()
    unrounded = emit(replace(program, steps=program.steps[:-n_rounding], answer=VALUE), "float64")
    outputs = run_module(unrounded, Memoriser.of(unrounded, data).encode(data.inputs))
    return float(np.abs(outputs[samples, columns] - labels).max())


METHOD = Method(
    name=NAME,
    source="Kajitsuka & Sato 2023, Corollary 1",
    tasks=("seq-to-seq", "next-token"),
    precisions=("float64",),
    size_of=size_of,
    plan=memorise_by_one_head,
    options=SoftmaxOptions,
    example=lambda: Example(random_tokens(30, 3, 12, seed=0, task="seq-to-seq")),
    page="rivals.md",
    statements=("KS25-eq2", "KS25-Tab1"),
)
