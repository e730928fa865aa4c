"""Random features: frozen random neurons and one linear solve for the output matrix (MFT24's algorithm, in floats)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from byheart.construct.madden_2024.context_vectors import Features, mixed_contexts, with_neurons, with_outputs
from byheart.construct.madden_2024.size import neurons_for
from byheart.errors import AssumptionViolated
from byheart.network.batches import run_in_batches
from byheart.network.decoder.architecture import Decoder
from byheart.network.decoder.module import DecoderModule
from byheart.network.transformer.floats import DTYPES
from byheart.program.linear_solve import SolvedNetwork, solve_least_norm
from byheart.program.targets import EncodedContexts, Logits
from byheart.theorems import realises

SPREAD = 10.0
"""Standard deviation of pre-activations. With small pre-activations, as in the paper's recipe, the features are nearly polynomial
and their matrix is singular in floats. At 10, neurons are nearly step functions in random directions."""

REFINEMENTS = 1


def draw_neurons(
    front: Decoder,
    mixed: Float[np.ndarray, "n_contexts dim"],
    n_neurons: int,
    rng: np.random.Generator,
    *,
    spread: float = SPREAD,
) -> Decoder:
    """Return `front` with random neurons, whose output weights are still zero.

    `mixed` holds the output of the mixing layer for every context. Over these contexts, the pre-activation of each neuron has
    standard deviation `spread`. The rows of `mixed` are first centred and whitened, so that no direction dominates another. If all
    rows are equal, the neurons are constant.
    """
    nothing = np.zeros((n_neurons, front.n_outputs))
    centre = mixed.mean(axis=0)
    centred = mixed - centre
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    sizes = sizes / np.sqrt(len(mixed))
    keep = sizes > 1e-6 * sizes.max(initial=0.0)
    if not keep.any():  # a single context (or equal rows) has no direction, so the neurons are constants
        return with_neurons(front, np.zeros((front.dim, n_neurons)), np.full(n_neurons, spread), nothing)
    whitening = axes[keep].T / sizes[keep]
    directions = rng.standard_normal((int(keep.sum()), n_neurons))
    directions *= spread / np.linalg.norm(directions, axis=0)
    hidden = whitening @ directions
    # thresholds are distributed like the data, so each neuron bends where there are contexts
    anchors = centred[rng.integers(len(mixed), size=n_neurons)] * rng.uniform(0, 1, (n_neurons, 1))
    bias = -np.einsum("dm,md->m", hidden, anchors + centre)
    return with_neurons(front, hidden, bias, nothing)


def features_of(decoder: Decoder, encoded: EncodedContexts) -> Features:
    """Return Φ, the outputs of the neurons for every context, computed in float64 from the stored weights."""
    module = DecoderModule(decoder).double().eval()
    return run_in_batches(
        lambda ids: module.features(module.mix(ids)), encoded, max(decoder.hidden_width, 1)
    ).astype(np.float64)


@realises("MFT24-algorithm", "MFT24-T5", "MFT24-T7")
def solve_by_random_features(
    front: Decoder,
    encoded: EncodedContexts,
    logits: Logits,
    rng: np.random.Generator,
    *,
    n_neurons: int | None = None,
    spread: float = SPREAD,
) -> SolvedNetwork[Decoder]:
    """Give every context its row of `logits` by solving for the output matrix.

    Source:     MFT24, the algorithm after Theorem 5: sample, scale, solve for the output matrix V.
    Assumes:    at least as many neurons as contexts (default: `neurons_for`).
    Guarantee:  exact up to the returned residual. For float32 the system uses the rounded hidden weights.
    Departs:    pre-activations have standard deviation `spread` and free biases, instead of the paper's small factor ε and
                equal biases b = η·1.
                Square systems are solved by LU, others by QR for the least-norm solution; both are refined.
    """
    n_contexts = len(encoded)
    if n_neurons is None:
        n_neurons = neurons_for(n_contexts, front.precision)
    if n_neurons < n_contexts:
        raise AssumptionViolated(
            f"hidden_width={n_neurons} is less than the number of contexts, {n_contexts}, so in general the linear system has "
            "no solution.\n"
            f"  Use a hidden_width of at least {n_contexts}, leave it out, or use solver=convex.",
            n_neurons=n_neurons,
            n_contexts=n_contexts,
        )
    neurons = draw_neurons(front, mixed_contexts(front, encoded), n_neurons, rng, spread=spread)
    features = features_of(neurons, encoded)
    output, condition = solve_least_norm(features, logits, REFINEMENTS)
    dtype = DTYPES[front.precision]
    residual = float(np.abs(features @ output.astype(dtype).astype(np.float64) - logits).max(initial=0.0))
    largest = float(np.abs(output).max(initial=0.0))
    return SolvedNetwork(with_outputs(neurons, output), condition, residual, {"largest_output": largest})
