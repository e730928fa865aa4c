"""A certified lower bound on the loss of a model minus the entropy of a corpus, for models whose logits have a small rank.

A decoder with m neurons (Madden et al. 2024, eq. 2) and a sequence encoder of dimension m (Dana et al. 2024, Definition 1) both
compute the logits of n contexts over ω tokens as a product of an n × m and an m × ω matrix. Let q be the probabilities of the
model, and π̂ the frequencies of the next tokens in the corpus. log q is the logits minus one number per context, so its rank is
at most m + 1 for any weights. If the matrix log π̂ of some m + 2 contexts and m + 2 tokens has full rank, q cannot equal π̂.

Let δ = log q - log π̂ and φ(x) = eˣ - 1 - x >= 0. The divergence of context i is Σ_j π̂_ij φ(δ_ij), summed over the tokens j that
follow it, plus the probability that q gives to all other tokens. Let c_ij be how often token j follows context i, and c the least
c_ij over the m + 2 contexts and tokens. Then

    loss - entropy >= Σ_ij c_ij φ(δ_ij) >= c Σ_ij φ(δ_ij)        over the m + 2 contexts and tokens.

For these contexts and tokens, the matrix log π̂ + δ is singular, so Σ δ_ij² >= s², where s is the least singular value of log π̂.
Let g(x) = φ(-x) for x >= 0. Then φ(δ) >= g(|δ|), g increases, and g(x)/x² decreases. Let r = √(Σ δ_ij²). Then r >= |δ_ij| and
r >= s, so Σ φ(δ_ij) >= Σ g(|δ_ij|) >= Σ δ_ij² g(r)/r² = g(r) >= g(s). Finally g(s) >= s²/(2 + s). To see this, multiply the
difference g(s) - s²/(2 + s) by 2 + s. The product is (2 + s)e⁻ˢ + s - 2, which is 0 at s = 0 and has the derivative
1 - (1 + s)e⁻ˢ >= 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from byheart.bounds.bound import Bound, Theorem
from byheart.bounds.enclosures import Interval, ln, sqrt
from byheart.errors import ImpossibleSize
from byheart.theorems import realises

SOURCE = "byheart, after Madden, Fox & Thrampoulidis 2024, Theorem 1, and Dana, Pydi & Chevaleyre 2024, Proposition 1"
_PLACES = 256  # intervals are rounded outward to this many binary digits, so that numbers stay short


@realises("MFT24-T1", "DPC24-P1")
def excess_loss(counts: Sequence[Sequence[int]], totals: Sequence[int]) -> Bound:
    """Return a lower bound on loss - entropy, in nats, for every model whose logits have rank at most m.

    Loss and entropy are summed over the corpus.

    `counts[i][j]` is how often the j-th of m + 2 tokens follows the i-th of m + 2 contexts, and `totals[i]` is how often any
    token follows the i-th context. The bound is zero if the matrix of all log(counts[i][j] / totals[i]) does not have full rank, or
    if interval arithmetic is not precise enough to prove that the rank is full.
    """
    size = len(counts)
    if size < 2 or any(len(row) != size for row in counts) or len(totals) != size:
        raise ImpossibleSize(
            "counts must be a square matrix, with one row for each of at least two contexts, "
            "and totals must have one number per context"
        )
    if any(min(row) < 1 or sum(row) > total for row, total in zip(counts, totals, strict=True)):
        raise ImpossibleSize(
            "every token must follow every context at least once, and the sum of the counts of a context must not exceed its total"
        )
    logs = [[ln(Fraction(count, total)) for count in row] for row, total in zip(counts, totals, strict=True)]
    s = _least_singular_value(logs)
    value = min(map(min, counts)) * s * s / (2 + s)
    rank = Theorem(f"rank {size - 2} of logits", "MFT24-T1", SOURCE)
    assumptions = (
        f"the logits have rank at most {size - 2}, which is the number of neurons or the dimension of the encoder",
    )
    sentence = (
        f"The summed loss of a model whose logits have rank at most {size - 2} exceeds the entropy by at least about "
        f"{float(value):.4g} nats."
    )
    return rank.bound(
        "loss above the entropy in nats", "lower", value, assumptions, sentence, speaks_of="these data"
    )


def _least_singular_value(matrix: Sequence[Sequence[Interval]]) -> Fraction:
    """Return a lower bound on the least singular value.

    |det| is the product of all k singular values, so the least one is |det| divided by the product of the k - 1 others. This
    product is at most (F/(k - 1))^((k-1)/2), where F is the sum of their squares, because a geometric mean is at most the
    arithmetic mean. F is at most the sum of the squares of all entries.
    """
    size = len(matrix)
    away = _distance_from_zero(_determinant([list(row) for row in matrix]))
    # logarithms of probabilities are not positive, so the lower end is further from zero
    frobenius = sum((entry.low**2 for row in matrix for entry in row), Fraction(0))
    if not away:
        return Fraction(0)
    ceiling = sqrt((frobenius / (size - 1)) ** (size - 1)).high
    return away / ceiling


def _determinant(rows: list[list[Interval]]) -> Interval:
    """Return an interval that contains the determinant, by elimination with the pivot furthest from zero.

    If in some step every possible pivot may be zero, return [-1, 1] instead. That interval contains zero, but it need not contain
    the determinant.
    """
    result = Interval(Fraction(1), Fraction(1))
    size = len(rows)
    for step in range(size):
        pivot = max(range(step, size), key=lambda at: _distance_from_zero(rows[at][step]))
        if not _distance_from_zero(rows[pivot][step]):
            return Interval(Fraction(-1), Fraction(1))
        if pivot != step:
            rows[step], rows[pivot] = rows[pivot], rows[step]
            result = result * -1
        head = rows[step]
        result = (result * head[step]).shorten(_PLACES)
        for at in range(step + 1, size):
            share = (rows[at][step] * head[step].reciprocal().shorten(_PLACES)).shorten(_PLACES)
            pairs = zip(rows[at], head, strict=True)
            rows[at] = [mine - (share * theirs).shorten(_PLACES) for mine, theirs in pairs]
    return result


def _distance_from_zero(value: Interval) -> Fraction:
    return max(value.low, -value.high, Fraction(0))
