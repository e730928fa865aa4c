"""Earlier results, to which the papers compare their own. Only results from which numbers can be computed are here.

Sontag 1997 and Siegel 2024 give necessary sizes. Baum 1988, Bubeck et al. 2020, Vardi et al. 2022, Mahdavi et al. 2023,
Kajitsuka & Sato 2023 and linear memories give sufficient sizes. Results that are stated only as orders of growth, without
constants, are in the module `orders`.
"""

from __future__ import annotations

from fractions import Fraction

from byheart.bounds.bound import Bound, Theorem, spell
from byheart.bounds.enclosures import Real, ceil_fraction, floor_log2, log2
from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.bounds.lookup import Points, dense_parameters, lookup_size, normalise
from byheart.bounds.sizes import require_ball, takes_sizes
from byheart.bounds.vc_dimension import log2_e_times, smallest
from byheart.errors import ImpossibleSize
from byheart.theorems import realises

SONTAG = Theorem(
    "Sontag 1997",
    "",
    "Sontag 1997, Shattering all sets of k points requires (k - 1)/2 parameters",
    networks="networks of ReLU, sigmoid, softmax and other functions definable with exp",
)
SIEGEL = Theorem(
    "Siegel 2024",
    "",
    "after Siegel 2024, Sharp lower bounds on interpolation by deep ReLU networks; constants by byheart",
    networks="ReLU networks",
)
BAUM = Theorem("Baum 1988", "", "Baum 1988, On the capabilities of multilayer perceptrons")
BUBECK = Theorem("Bubeck et al. 2020", "", "Bubeck, Eldan, Lee & Mikulincer 2020, Proposition 4")
TWO_LAYERS = Theorem(
    "two-layer ReLU interpolation", "", "folklore: piecewise linear interpolation along a generic direction"
)
VARDI = Theorem(
    "VYS22 Theorem 3.1",
    "KS25-L C.1",
    "Vardi, Yehudai & Shamir 2022, Theorem 3.1, counted as in KS25 Lemma C.1",
)
MAHDAVI = Theorem("MLT23 Theorem 1", "DPC24-S6", "Mahdavi, Liao & Thrampoulidis 2023, Theorem 1")
LINEAR_MEMORY = Theorem(
    "linear associative memory",
    "DPC24-S6",
    "Cabannes, Dohmatob & Bietti 2024, as restated in DPC24 section 6",
)
REAL = "parameters are real numbers of any precision"
GENERAL_POSITION = "general position: no D + 1 of the D-dimensional points lie on one hyperplane"
FLAT = "the network reads each sample as one vector"


@takes_sizes(n_samples=0)
def sontag_1997(n_samples: int) -> Bound:
    """(N - 1) / 2 parameters are needed to memorise every set of N distinct points. The points may be arbitrarily close."""
    value = n_samples // 2  # (N - 1) / 2, rounded up
    assumptions = (
        "one architecture memorises every two-class labelling of every set of N distinct points",
        "the architecture is built from ReLU, sigmoid, softmax or other functions definable with exp",
        REAL,
    )
    sentence = f"To memorise any {spell(n_samples)} points, however close, at least {spell(value)} parameters are needed."
    return SONTAG.bound("parameters", "lower", value, assumptions, sentence)


@takes_sizes(n_samples=0)
def siegel_2024(n_samples: int, radius: Real, separation: Real) -> Bound:
    """Return a lower bound (at most N / 2) on the number of parameters that a ReLU network needs to memorise any N samples.

    Here N is `n_samples`. The samples lie in a ball of radius r = `radius`, and samples that differ are at least δ = `separation`
    apart. The argument is that of Siegel (2024), with explicit constants.

    Place M = floor(2r/δ) + 1 points on a diameter, δ apart. Choose b <= N / 2 blocks of p + 1 neighbouring points each. To make a
    data set, choose two neighbouring points in each block, and label the first 1 and the second 0. There are p^b such data sets, of
    2b points each. A ReLU network with U units is linear on at most 2^U pieces of the line. On each piece, its output falls below
    1/2 at most once, so this happens at most 2^U times in total. For a network that is right for a data set, the output falls below
    1/2 between the two points of every block. Therefore one pattern of outputs on the M points is right for at most (2^U / b)^b of
    these data sets, and all data sets together need at least (p b / 2^U)^b patterns. A network with W parameters has at most
    (16 e M 2^U)^W patterns, by Goldberg & Jerrum's Corollary 2.1 (see `smallest_relu_parameters`). Since U <= W / 2, it follows
    that

        b (log2(p b) - W / 2) <= W (W / 2 + log2(16 e M)).

    The left side decreases with W and the right side increases, so the smallest W that satisfies this is a lower bound. The
    function computes this bound for p + 1 = 2, 4, 8, ... and returns the largest. As δ tends to 0, the bound tends to N / 2. A data
    set of N samples may have fewer than N distinct points, because samples may repeat.
    """
    require_ball(radius, separation)
    r, delta = Fraction(radius), Fraction(separation)
    n_grid = (2 * r / delta).__floor__() + 1
    cost = log2_e_times(16 * n_grid).high
    value, most = 0, n_samples // 2
    # blocks of 2^j points: if all `most` blocks fit, only the longest blocks matter
    longest = max(1, floor_log2(Fraction(n_grid, most))) if most else 1
    for exponent in range(longest, n_grid.bit_length()):
        n_blocks = min(most, n_grid >> exponent)
        if n_blocks <= value:
            break
        value = max(value, _needed_for_blocks(n_blocks, (1 << exponent) - 1, cost))
    assumptions = (
        "one ReLU architecture memorises every two-class labelling of any N points in a ball, at least δ apart",
        "hidden units have biases and no parameter is shared",
        REAL,
    )
    sentence = (
        f"To memorise any {spell(n_samples)} points at this separation, a ReLU network needs at least "
        f"{spell(value)} parameters."
    )
    return SIEGEL.bound("parameters", "lower", value, assumptions, sentence)


def _needed_for_blocks(n_blocks: int, choices: int, cost: Fraction) -> int:
    reward = log2(choices * n_blocks).low
    # b (log2(p b) - W/2) <= W (W/2 + cost), with both sides doubled
    needed = smallest(lambda w: n_blocks * (2 * reward - w) <= w * (w + 2 * cost), start=0)
    return min(n_blocks, needed)


@takes_sizes()
def baum_1988(n_samples: int, input_dim: int) -> Bound:
    """ceil(N / D) threshold units memorise any labelling, with two classes, of N points in general position.

    N = `n_samples`, and D = `input_dim` is the dimension of the points. The bound is on the parameters: D + 2 per unit, plus 1.
    """
    units = ceil_fraction(Fraction(n_samples, input_dim))
    assumptions = ("two classes", GENERAL_POSITION, "threshold units", FLAT, REAL)
    return _sufficient(BAUM, units * (input_dim + 2) + 1, assumptions)


@takes_sizes()
def bubeck_2020(n_samples: int, input_dim: int) -> Bound:
    """4 ceil(N / D) ReLU units with real outputs fit any labels of N points in general position.

    N = `n_samples`, and D = `input_dim` is the dimension of the points. The bound is on the parameters: D + 2 per unit.
    """
    units = 4 * ceil_fraction(Fraction(n_samples, input_dim))
    return _sufficient(BUBECK, units * (input_dim + 2), (GENERAL_POSITION, FLAT, REAL))


@takes_sizes()
def two_layer_relu_size(n_samples: int, input_dim: int) -> TheoremSize:
    """Return the size of a two-layer network with N ReLU units that can fit any labels of N = `n_samples` distinct points.

    The points have dimension `input_dim`. Each unit reads the projection of a point onto one direction that separates all points.
    """
    return TheoremSize(
        TWO_LAYERS,
        width=max(input_dim, n_samples),
        depth=2,
        parameters=n_samples * (input_dim + 2) + 1,
        weight_bits=0,
        assumptions=("distinct inputs", FLAT, REAL),
    )


@takes_sizes()
def vardi_2022_size(
    n_samples: int, n_classes: int, input_dim: int, radius_square: Real, separation: Real
) -> TheoremSize:
    """A ReLU network of width 12 with Õ(√N) parameters suffices for N samples.

    The constants are those of Lemma C.1 of Kajitsuka & Sato 2025. The lemma also allows points for which the network must return
    0; here there are none. A sample is taken as one vector, and `radius_square` is an upper bound on its squared norm.
    """
    require_ball(radius_square, separation)
    r2 = max(Fraction(radius_square), Fraction(1))
    _, delta = normalise(1, separation)
    size = lookup_size(Points(n_samples, input_dim, r2, 0, delta), n_samples, n_classes)
    return TheoremSize(
        VARDI,
        width=12,
        depth=size.depth,
        parameters=dense_parameters(12, size.depth, input_dim),
        weight_bits=size.weight_bits,
        assumptions=(
            "samples have bounded norm and differ by at least δ",
            "weights of unlimited precision",
            FLAT,
        ),
    )


@takes_sizes()
def kajitsuka_sato_2023_size(n_samples: int, seq_len: int, dim: int, head_size: int = 1) -> TheoremSize:
    """Return the size that suffices by Corollary 1 of Kajitsuka & Sato 2023, with 4(s + d) + d(2nN + d) parameters.

    The network is one layer with one softmax head of size s = `head_size`, for N = `n_samples` samples of n = `seq_len` tokens
    of dimension d = `dim`.
    """
    n_tokens = n_samples * seq_len
    return TheoremSize(
        Theorem("KS23 Corollary 1", "", "Kajitsuka & Sato 2023, Corollary 1"),
        width=2 * n_tokens,
        depth=1,
        parameters=4 * (head_size + dim) + dim * (2 * n_tokens + dim),
        weight_bits=0,
        assumptions=("no token occurs twice in a sequence", "tokens are separated", REAL),
    )


@realises("DPC24-S6")
@takes_sizes()
def mahdavi_2023(n_heads: int, head_dim: int, seq_len: int) -> Bound:
    """One layer of H = `n_heads` heads of size d_h = `head_dim` can memorise H (min(n, d_h) - 1) + 1 examples of n = `seq_len`
    tokens.
    """
    value = n_heads * (min(seq_len, head_dim) - 1) + 1
    sentence = (
        f"One layer of {spell(n_heads)} heads memorises any {spell(value)} examples "
        "that meet the assumptions."
    )
    return MAHDAVI.bound("samples", "lower", value, (*_LINEARLY_INDEPENDENT, REAL), sentence)


@takes_sizes()
def mahdavi_2023_parameters(n_samples: int, seq_len: int, dim: int) -> Bound:
    """Return the number of parameters that suffice by Theorem 1 of Mahdavi et al. 2023, with ceil((N - 1)/(n - 1)) heads of
    size n, but at least one.

    There are N = `n_samples` samples of n = `seq_len` tokens of dimension d = `dim`, with 2 <= n <= d. A head has 2dn + 2d²
    parameters: keys and queries are d x n, value and output d x d. The output vector has d more parameters.
    """
    if not 2 <= seq_len <= dim:
        raise ImpossibleSize(
            f"Theorem 1 of Mahdavi et al. 2023 needs 2 <= seq_len <= dim, not seq_len = {seq_len} and dim = {dim}",
            seq_len=seq_len,
            dim=dim,
        )
    heads = max(1, ceil_fraction(Fraction(n_samples - 1, seq_len - 1)))
    value = heads * (2 * dim * seq_len + 2 * dim**2) + dim
    return _sufficient(MAHDAVI, value, (*_LINEARLY_INDEPENDENT, REAL))


@realises("DPC24-S6")
@takes_sizes()
def linear_memory(dim: int) -> Bound:
    """A linear memory, a d x d matrix with d = `dim`, stores d pairs of a key and a value.

    The embeddings of keys and values are fixed, and those of the keys are linearly independent.
    """
    assumptions = ("embeddings are fixed, and those of the keys are linearly independent", REAL)
    sentence = f"A {spell(dim)} x {spell(dim)} matrix stores {spell(dim)} associations."
    return LINEAR_MEMORY.bound("samples", "lower", dim, assumptions, sentence)


_LINEARLY_INDEPENDENT = (
    "n <= d, the n tokens of each context are linearly independent, and so are any n queries",
    "one layer of attention, queries separate from contexts",
)


def _sufficient(theorem: Theorem, value: int, assumptions: tuple[str, ...]) -> Bound:
    sentence = f"By {theorem.name}, {spell(value)} parameters suffice."
    return theorem.bound("parameters", "upper", value, assumptions, sentence)
