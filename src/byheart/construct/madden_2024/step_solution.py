"""The step solution, in dimension 1: neurons that saturate, and an output matrix that is given by a formula.

Sort the contexts by their image x_1 < ... < x_n under the mixing layer (attention or averaging). Let Y_i be the wanted logits of
context i. Neuron k > 1 is tanh(w_k (x - midpoint_k)). The weight w_k is so large that the neuron gives exactly -1 up to
x_{k-1} and exactly +1 from x_k on. Neuron 1 is constantly 1. With V_1 = (Y_1 + Y_n)/2 and V_k = (Y_k - Y_{k-1})/2 for k > 1, the
logits V_1 + Σ_{1<k<=i} V_k - Σ_{k>i} V_k equal Y_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from byheart.construct.madden_2024.context_vectors import (
    Injectivity,
    injectivity,
    mixed_contexts,
    with_neurons,
)
from byheart.errors import AssumptionViolated
from byheart.network.decoder.architecture import Decoder
from byheart.network.transformer.floats import DTYPES
from byheart.program.targets import EncodedContexts, Logits
from byheart.theorems import realises

SATURATION = {"float64": 20.0, "float32": 10.0}
"""From this value on, tanh is 1 to the last bit: 1 - tanh(x) < 2e^-2x, which is below a quarter of the rounding unit."""

SHARPNESS = {"float64": 160.0, "float32": 80.0}
"""The difference between a neuron's pre-activations at the two contexts next to its step. The pre-activation is minus half of this
number at the context below the step, and plus half at the one above. Both are far beyond `SATURATION`, so that rounding errors do
not change tanh."""

MANTISSA = {"float64": 53, "float32": 24}
COARSEST_BITS = 20
"""To make sums exact, target logits are rounded to multiples of 2^-s, but only if s is at least this.

For s = 20, rounding changes a logit by at most 2^-21, which causes a divergence of about 1e-13.
"""


@dataclass(frozen=True, eq=False)
class Steps:
    """A decoder with one neuron per context, and its properties.

    order       indices of the contexts, sorted by the number to which the mixing layer maps each context
    grid_bits   target logits are rounded to multiples of 2^-grid_bits, so that all sums are exact in any order; None if not rounded
    """

    decoder: Decoder
    order: Int[np.ndarray, " n_contexts"]
    targets: Logits
    injectivity: Injectivity
    grid_bits: int | None


@realises("MFT24-T5", "MFT24-T7")
def solve_by_steps(front: Decoder, encoded: EncodedContexts, logits: Logits) -> Steps:
    """Give every context its row of `logits`, with as many neurons as contexts.

    Source:     MFT24 Theorems 5 and 7 in dimension 1.
    Assumes:    the activation tanh; the distances between the images of contexts under attention or averaging exceed their
                rounding errors by a safe factor (compare `Injectivity.holds`).
    Guarantee:  every neuron is exactly ±1 on every context, because it is exactly ±1 on the two contexts next to its step, and
                rounding is monotone. Unless the grid would be too coarse (`COARSEST_BITS`), the wanted logits are rounded to a
                grid on which all partial sums are exact. The network's logits then equal the rounded logits (`Steps.targets`) in
                any order of summation.
    Departs:    free biases and steep weights replace the paper's equal biases b = η·1 and small factor ε, which would make the
                matrix singular in floats.
    """
    assert front.activation == "tanh"
    assert front.dim == 1
    precision = front.precision
    dtype = DTYPES[precision]
    found = injectivity(front, encoded)
    images = mixed_contexts(front, encoded)[:, 0]
    order = np.argsort(images)
    x = images[order]
    _require_room(x, found, precision)
    gaps = np.diff(x)
    slope = np.concatenate([[0.0], SHARPNESS[precision] / gaps]).astype(dtype)
    middle = (x[:-1] + gaps / 2).astype(np.float64)
    # the constant neuron has slope zero and a bias that saturates
    bias = np.concatenate([[SHARPNESS[precision]], -slope[1:].astype(np.float64) * middle]).astype(dtype)
    targets, grid_bits = _on_a_grid(logits, order, precision)
    ordered = targets[order]
    output = np.concatenate([(ordered[:1] + ordered[-1:]) / 2, np.diff(ordered, axis=0) / 2])
    _require_saturation(x.astype(dtype), slope, bias, found.rounding)
    decoder = with_neurons(front, slope[None, :].astype(np.float64), bias.astype(np.float64), output)
    return Steps(decoder, order, targets, found, grid_bits)


def _on_a_grid(
    logits: Logits, order: Int[np.ndarray, " n_contexts"], precision: str
) -> tuple[Logits, int | None]:
    """Round the logits to multiples of 2^-s. Sums of rows of the output matrix are then exact in floats, in any order.

    Return the rounded logits and s. If the multiples would be too far apart (s below `COARSEST_BITS`), return the unchanged
    logits and None.
    """
    ordered = logits[order]
    ends = np.abs(ordered[0]) + np.abs(ordered[-1])
    # every partial sum is at most Σ|V_k| (and V_k is a multiple of 2^-(s+1)); +1 for the change caused by rounding
    largest = float((np.abs(np.diff(ordered, axis=0)).sum(axis=0) + ends).max(initial=1.0)) / 2 + 1
    grid_bits = MANTISSA[precision] - 2 - int(np.ceil(np.log2(largest)))
    if grid_bits < COARSEST_BITS:
        return logits, None
    return np.round(logits * 2.0**grid_bits) / 2.0**grid_bits, grid_bits


def _require_room(x: Float[np.ndarray, " n_contexts"], found: Injectivity, precision: str) -> None:
    # a change of x by `rounding` moves the pre-activation by sharpness·rounding/gap; it must stay saturated
    room = SHARPNESS[precision] / 2 - SATURATION[precision]
    needed = 2 * found.rounding * SHARPNESS[precision] / room
    if len(x) > 1 and found.min_gap <= needed:
        finer = ", float64" if precision == "float32" else ""
        raise AssumptionViolated(
            f"attention or averaging maps two of {len(x)} contexts to numbers that differ by only "
            f"{found.min_gap:.3g}; in {precision}, the solver `steps` needs differences above {needed:.3g}.\n"
            f"  Use solver=random-features{finer} or another seed.",
            min_gap=found.min_gap,
            needed=needed,
        )


def _require_saturation(x: np.ndarray, slope: np.ndarray, bias: np.ndarray, rounding: float) -> None:
    """Check that each neuron is saturated (its tanh is exactly -1 or 1) on the two contexts next to its step, even if these are
    moved by `rounding` towards the step.

    In floats, w·x + b never decreases in x. So if a neuron is saturated at these two points, it is saturated on all contexts
    beyond them.
    """
    shift = x.dtype.type(rounding)
    limit = SATURATION["float32" if x.dtype == np.float32 else "float64"]
    above = slope[1:] * (x[1:] - shift) + bias[1:]
    below = slope[1:] * (x[:-1] + shift) + bias[1:]
    assert (above >= limit).all(), (
        "contexts are far enough apart, but a neuron is not exactly 1 at the context above its step"
    )
    assert (below <= -limit).all(), (
        "contexts are far enough apart, but a neuron is not exactly -1 at the context below its step"
    )
