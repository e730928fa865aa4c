"""The rank of a decoder's Jacobian: how many output numbers the parameters can change independently. MFT24 Lemma 1 is based on
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from byheart.construct.madden_2024.ranks import FIRST_BITS, MOST_BITS, flint_module
from byheart.errors import UsageError
from byheart.network.decoder.architecture import Decoder, TokenAveraging
from byheart.program.targets import EncodedContexts
from byheart.theorems import realises


@dataclass(frozen=True)
class JacobianRank:
    """Bounds on the rank of a Jacobian: it is at least `certified` and at most `most`.

    The Jacobian has the derivatives of n (ω - 1) logit differences with respect to k parameters, for n contexts and ω tokens. Here
    n (ω - 1) is `n_wanted`, and k is `n_parameters`.
    """

    certified: int
    most: int
    n_parameters: int
    n_wanted: int

    @property
    def is_decided(self) -> bool:
        return self.certified == self.most

    @property
    def is_free(self) -> bool:
        """Whether it is proved that small changes of these weights can change the distributions of all contexts in every direction,
        as memory capacity requires.
        """
        return self.certified == self.n_wanted


@realises("MFT24-L1")
def certified_jacobian_rank(decoder: Decoder, encoded: EncodedContexts) -> JacobianRank:
    """Bound the rank of the Jacobian of n distributions with respect to the parameters of an averaging decoder, at its weights.

    Source:     MFT24 Lemma 1. n distributions over ω tokens are n (ω - 1) numbers, the differences of logits. If the rank of their
                Jacobian is below n (ω - 1) at all weights, the distributions that the decoder can produce have measure zero
                (Sard). The rank is at most k, the number of parameters.
    Assumes:    token averaging with tanh or arctan neurons. Weights are used as exact real numbers.
    Guarantee:  `certified` comes from elimination in ball arithmetic (Arb) with pivots that exclude zero. `most` is the
                smaller of two bounds: k minus the rank of the directions that change no difference (`_unseen_directions`), and
                r (n + ω - 1 - r), the dimension of the n x (ω - 1) matrices of rank r = min(m, n, ω - 1), for m neurons.
    """
    if not isinstance(decoder.mixing, TokenAveraging) or decoder.activation not in ("tanh", "arctan"):
        raise UsageError("the Jacobian is available only for token averaging with tanh or arctan neurons.")
    contexts = [[int(token) for token in row if token != decoder.pad] for row in encoded.tolist()]
    hidden, n_outputs = decoder.logits.shape
    arrays = (decoder.tokens, decoder.mixing.shares, decoder.hidden, decoder.bias, decoder.logits)
    n_parameters = sum(array.size for array in arrays)
    n_wanted = len(contexts) * (n_outputs - 1)
    unseen = _rank(_unseen_directions(decoder, contexts))
    fewest = min(hidden, len(contexts), n_outputs - 1)
    most = min(n_parameters - unseen, fewest * (len(contexts) + n_outputs - 1 - fewest))
    flint, bits = flint_module(), FIRST_BITS
    while True:
        with flint.ctx.workprec(bits):
            certified = _pivots([row for context in contexts for row in _rows(decoder, context, flint)])
        if certified == most or 2 * bits > MOST_BITS // 16:
            return JacobianRank(certified, most, n_parameters, n_wanted)
        bits *= 2


def _rows(decoder: Decoder, context: Sequence[int], flint: Any) -> list[list[Any]]:
    """For each logit of a context, except its last logit, return the derivatives of (this logit - last logit) with respect to all
    parameters.

    The parameters are the embeddings z, averaging weights u, hidden weights W, bias b and output matrix V. With y = Σ_t u_t z_t,
    h_j = W_jᵀ y + b_j, the activation function ψ and s = ψ(h), the logit of token γ minus that of the last token ω is
    Σ_j s_j (V_jγ - V_jω). In the code, g is the derivative ψ'(h).
    """

    def balls(array: np.ndarray) -> Any:
        exact = [Fraction(float(value)) for value in array.ravel()]
        found = np.array([flint.arb(flint.fmpq(x.numerator, x.denominator)) for x in exact], dtype=object)
        return found.reshape(array.shape)

    assert isinstance(decoder.mixing, TokenAveraging)
    z, u, w = balls(decoder.tokens), balls(decoder.mixing.shares), balls(decoder.hidden)
    bias, v = balls(decoder.bias), balls(decoder.logits)
    zero = flint.arb(0)
    y = sum(u[t] * z[token] for t, token in enumerate(context))
    inputs = y @ w + bias
    s = np.array([x.tanh() if decoder.activation == "tanh" else x.atan() for x in inputs], dtype=object)
    g = np.array(
        [
            1 - a * a if decoder.activation == "tanh" else 1 / (1 + x * x)
            for x, a in zip(inputs, s, strict=True)
        ],
        dtype=object,
    )
    rows = []
    for gamma in range(v.shape[1] - 1):
        slope = g * (v[:, gamma] - v[:, -1])  # the derivative by h
        by_y = w @ slope
        by_z = np.full(z.shape, zero, dtype=object)
        by_u = np.full(u.shape, zero, dtype=object)
        for t, token in enumerate(context):
            by_z[token] = by_z[token] + u[t] * by_y
            by_u[t] = z[token] @ by_y
        by_v = np.full(v.shape, zero, dtype=object)
        by_v[:, gamma], by_v[:, -1] = s, -s
        parts = (by_z, by_u, np.outer(y, slope), slope, by_v)
        rows.append([each for part in parts for each in part.ravel()])
    return rows


def _pivots(rows: list[list[Any]]) -> int:
    """Count the pivots of Gaussian elimination that are certainly not zero."""
    found = 0
    while rows and rows[0]:
        places = [(r, c) for r, row in enumerate(rows) for c, ball in enumerate(row) if not ball.contains(0)]
        if not places:
            return found
        r, c = max(places, key=lambda at: abs(float(rows[at[0]][at[1]].mid())))
        pivot = rows.pop(r)
        rows = [
            [a - row[c] / pivot[c] * b for at, (a, b) in enumerate(zip(row, pivot, strict=True)) if at != c]
            for row in rows
        ]
        found += 1
    return found


def _unseen_directions(decoder: Decoder, contexts: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Return directions in which the parameters can change while all differences of logits stay the same, to first order.

    Each direction has one number per parameter, in the order of `_rows`. With token embeddings z, averaging weights u and hidden
    weights W, there are four kinds:
    - add one number to all output weights of a neuron
    - change z by z A, and W by -A W, for a matrix A
    - change z by -z, and u by u
    - if all contexts have one length, add one vector to all tokens, and change the bias accordingly
    """

    def exact(array: np.ndarray) -> np.ndarray:
        return np.array([Fraction(float(x)) for x in array.ravel()], dtype=object).reshape(array.shape)

    assert isinstance(decoder.mixing, TokenAveraging)
    z, u, w = exact(decoder.tokens), exact(decoder.mixing.shares), exact(decoder.hidden)
    zero = {
        name: np.full(array.shape, Fraction(0), dtype=object)
        for name, array in (("z", z), ("u", u), ("w", w), ("b", decoder.bias), ("v", decoder.logits))
    }
    found: list[list[Fraction]] = []

    def direction(**parts: np.ndarray) -> None:
        found.append([each for part in (zero | parts).values() for each in part.ravel()])

    for neuron in range(decoder.logits.shape[0]):
        row = zero["v"].copy()
        row[neuron] = Fraction(1)
        direction(v=row)
    for p, q in np.ndindex(w.shape[0], w.shape[0]):
        tokens, weights = zero["z"].copy(), zero["w"].copy()
        tokens[:, q], weights[p] = z[:, p], -w[q]
        direction(z=tokens, w=weights)
    direction(u=u, z=-z)
    lengths = {len(context) for context in contexts}
    if len(lengths) == 1:
        total = sum(u[: lengths.pop()], Fraction(0))
        for p in range(w.shape[0]):
            tokens = zero["z"].copy()
            tokens[:, p] = Fraction(1)
            direction(z=tokens, b=-total * w[p])
    return found


def _rank(rows: list[list[Fraction]]) -> int:
    rows, rank = [list(row) for row in rows], 0
    for column in range(len(rows[0])):
        at = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if at is None:
            continue
        rows[rank], rows[at] = rows[at], rows[rank]
        for r in range(rank + 1, len(rows)):
            factor = rows[r][column] / rows[rank][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank
