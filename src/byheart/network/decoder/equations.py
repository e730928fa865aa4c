"""MFT24's decoder in NumPy, one context at a time, written directly from equation 2.

It is used to check the module independently.
"""

from __future__ import annotations

import numpy as np

from byheart.network.balls import Ball, Rounding, join
from byheart.network.decoder.architecture import Decoder, SelfAttention


def bound_logits(decoder: Decoder, sample: np.ndarray) -> Ball:
    """Return the logits Vᵀψ(Wᵀ mixed + b) of one context, and a bound on their rounding error. Padding in `sample` is ignored.

    The output of attention or averaging is `mixed`; `Decoder` explains the other symbols.
    """
    arithmetic = Rounding(decoder.precision)
    mixed = _mix(decoder, arithmetic, sample[sample < decoder.pad])
    before = arithmetic.add(arithmetic.matmul(decoder.hidden.T, mixed), arithmetic.exact(decoder.bias))
    return arithmetic.matmul(decoder.logits.T, arithmetic.activate(decoder.activation, before))


def _mix(decoder: Decoder, arithmetic: Rounding, context: np.ndarray) -> Ball:
    x = arithmetic.exact(decoder.tokens[context])  # (τ, d)
    mixing = decoder.mixing
    if not isinstance(mixing, SelfAttention):  # Σ_t u_t z_t
        return arithmetic.dot(arithmetic.exact(mixing.shares[: len(context)]), x)
    assert decoder.positions is not None
    x = arithmetic.add(x, arithmetic.exact(decoder.positions[: len(context)]))
    last, values = x[-1], []
    for key, query, value in zip(mixing.key, mixing.query, mixing.value, strict=True):
        # W_3ᵀ X softmax(Xᵀ W_1 W_2ᵀ x_τ); keys (d1, τ), the query (d1,)
        scores = arithmetic.dot(arithmetic.matmul(key.T, x.T).T, arithmetic.matmul(query.T, last))
        attended = arithmetic.dot(arithmetic.softmax(scores), x)
        values.append(arithmetic.matmul(value.T, attended))
    # Σ_h W_0ᵀ ..., one sum over all heads, as some programs compute it
    total = arithmetic.matmul(np.concatenate(mixing.output).T, join(values, np.concatenate))
    return arithmetic.add(total, last) if mixing.has_skip else total
