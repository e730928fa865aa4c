"""Check for given weights, without rounding, what MFT24 Theorems 4 and 6 state: no two contexts have the same image under attention
or averaging, and no image is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from byheart.construct.madden_2024.ranks import FIRST_BITS, flint_module
from byheart.errors import UsageError
from byheart.network.decoder.architecture import Decoder, TokenAveraging
from byheart.program.targets import EncodedContexts
from byheart.theorems import realises

MOST_BITS = 2048
"""The highest precision in bits. If enclosures of two images still overlap, the images are reported as not shown to be distinct."""


@dataclass(frozen=True)
class CertifiedInjectivity:
    """Whether the images of contexts under attention or averaging were shown to be distinct and non-zero.

    bits  the working precision; 0 for rational arithmetic
    """

    holds: bool
    n_contexts: int
    bits: int


@realises("MFT24-T4", "MFT24-T6", "MFT24-skip", "MFT24-base")
def certify_injectivity(
    front: Decoder, encoded: EncodedContexts, *, base: Fraction | None = None
) -> CertifiedInjectivity:
    """Check the claim of MFT24 Theorem 4 (attention) or 6 (averaging) for the exact real values of the weights of `front`.

    Source:     MFT24, Theorems 4 and 6: for generic embeddings z of tokens and u of positions, the map from contexts to numbers
                is injective, and its values are not zero.
    Assumes:    dimension 1, as in the theorems. Contexts are padded on the left with `front.pad`. Attention has one
                head whose weights are 1, with or without a skip connection. With `base` a, softmax uses powers of a > 0
                instead of e, which multiplies the scores by ln a.
    Guarantee:  averaging is decided in rational arithmetic. For attention, images are enclosed in balls (Arb), which are numbers
                with an error bound. Their precision is doubled until all are disjoint, up to `MOST_BITS`. If `holds` is true,
                the claim is proved. If it is false, it is disproved for averaging, but only unproved for attention. A claim that
                holds for all contexts over ω tokens up to length T proves the theorem for that ω and T: the difference of two
                images is analytic in (z, u), and an analytic function that is non-zero at one point is zero almost nowhere.
    """
    if front.dim != 1:
        raise UsageError(
            f"the theorems are about dimension 1; this decoder has dimension {front.dim}.\n  Draw it with dim=1.",
            dim=front.dim,
        )
    contexts = [[int(token) for token in row if token != front.pad] for row in encoded.tolist()]
    z = [Fraction(float(value)) for value in front.tokens[:, 0]]
    if isinstance(front.mixing, TokenAveraging):
        shares = [Fraction(float(value)) for value in front.mixing.shares]
        sums = sorted(
            sum((share * z[token] for share, token in zip(shares, context, strict=False)), Fraction(0))
            for context in contexts
        )
        holds = all(a < b for a, b in pairwise(sums)) and Fraction(0) not in sums
        return CertifiedInjectivity(holds, len(contexts), 0)
    assert front.positions is not None
    weights = (front.mixing.key, front.mixing.query, front.mixing.value, front.mixing.output)
    if any(weight.tolist() != [[[1.0]]] for weight in weights):
        raise UsageError(
            "the theorem assumes one head whose weights are 1; in a decoder drawn with a base, a weight contains the base.\n"
            "  Draw the decoder without a base, and pass the base to certify_injectivity instead."
        )
    u = [Fraction(float(value)) for value in front.positions[:, 0]]
    flint, bits = flint_module(), FIRST_BITS
    while True:
        with flint.ctx.workprec(bits):
            images = sorted(
                (_attend(context, z, u, flint, front.mixing.has_skip, base) for context in contexts),
                key=lambda ball: float(ball.mid()),
            )
            # a comparison of balls is true only if it is true for all numbers in them
            holds = all(bool(a < b) for a, b in pairwise(images)) and not any(
                bool(ball.contains(0)) for ball in images
            )
        if holds or 2 * bits > MOST_BITS:
            return CertifiedInjectivity(holds, len(contexts), bits)
        bits *= 2


def _attend(
    context: list[int],
    z: list[Fraction],
    u: list[Fraction],
    flint: Any,
    has_skip: bool,
    base: Fraction | None,
) -> Any:
    """Return a ball (a number with an error bound) that contains ⟨x, softmax(x x_t)⟩, plus x_t if there is a skip connection.

    x is the vector of the sums of the context's token embeddings `z` and the position embeddings `u`, and x_t is its last entry. If
    `base` is given, softmax uses its powers instead of those of e.
    """
    sums = [z[token] + position for token, position in zip(context, u, strict=False)]
    x = [flint.fmpq(number.numerator, number.denominator) for number in sums]
    log = flint.arb(1) if base is None else flint.arb(flint.fmpq(base.numerator, base.denominator)).log()
    powers = [(log * flint.arb(each * x[-1])).exp() for each in x]
    total = sum(powers[1:], powers[0])
    weighted = [flint.arb(each) * power for each, power in zip(x, powers, strict=True)]
    mean = sum(weighted[1:], weighted[0]) / total
    return mean + flint.arb(x[-1]) if has_skip else mean
