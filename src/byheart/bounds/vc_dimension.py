"""Bound how many labellings a network with real parameters can realise. Lower bounds on the number of parameters follow from this.

Goldberg & Jerrum (1995) count the sign patterns of polynomials. Bartlett, Harvey, Liaw & Mehrabian (2019)
sharpen the count layer by layer. The functions here that count sign patterns or compute a VC dimension return upper bounds, so the
lower bounds on parameters that are derived from them are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from byheart.bounds.enclosures import DEFAULT_BITS, Interval, e, log2
from byheart.errors import ImpossibleSize
from byheart.theorems import realises


def log2_e_times(factor: int | Fraction, bits: int = DEFAULT_BITS) -> Interval:
    """Return an interval that contains log2(e * factor), for a positive rational factor."""
    euler = e(bits)
    return Interval(log2(euler.low * factor, bits).low, log2(euler.high * factor, bits).high)


@realises("KS25-L B.4")
def log2_sign_patterns(n_polynomials: int, degree: int, n_variables: int) -> Fraction:
    """Return an upper bound on log2 of the number of sign vectors of polynomials in real variables. A sign vector consists of the
    signs of all polynomials at one point.

    Source:   Goldberg & Jerrum (1995), Corollary 2.1, as quoted in KS25 Lemma B.4: at most (8 e M D / W)^W
              vectors over {-1, 0, 1} for M = `n_polynomials` of degree at most D = `degree` in W = `n_variables` <= M
              variables.
    Departs:  the lemma does not cover M < W; the bound is then the trivial one, at most 3^M sign vectors.
    """
    if n_polynomials < 0 or degree < 1 or n_variables < 0:
        raise ImpossibleSize("need n_polynomials >= 0, degree >= 1 and n_variables >= 0")
    if n_variables == 0 or n_polynomials == 0:
        return Fraction(0)
    trivial = n_polynomials * log2(3).high
    if n_polynomials < n_variables:
        return trivial
    lemma = n_variables * log2_e_times(Fraction(8 * n_polynomials * degree, n_variables)).high
    return min(lemma, trivial)


def goldberg_jerrum_vc_dimension(n_parameters: int, n_predicates: int, degree: int) -> int:
    """Return 2 W log2(8 e D s), rounded down: an upper bound on the VC dimension of a Boolean formula of polynomial inequalities.

    Source:   Goldberg & Jerrum (1995), Theorem 2.2, for any Boolean formula that combines s = `n_predicates` distinct polynomial
              equalities or inequalities. Their degree in the W = `n_parameters` real parameters is at most D = `degree`.
    """
    if min(n_parameters, n_predicates, degree) < 1:
        raise ImpossibleSize("n_parameters, n_predicates and degree must be at least 1")
    return (2 * n_parameters * log2_e_times(8 * degree * n_predicates).high).__floor__()


def bartlett_vc_dimension(layer_units: Sequence[int], layer_parameters: Sequence[int]) -> int:
    """Return an upper bound on the VC dimension of a layered ReLU network with one output (Bartlett et al. 2019, Theorem 7).

    `layer_units[i]` is the number of units of layer i + 1, and `layer_parameters[i]` is the number of weights and biases of this
    layer. The last layer is the single output.

    Derivation, for activation functions with one breakpoint and degree 1: let L be the number of layers, k_i the number of
    units of layer i, and W_i the number of parameters in layers 1 to i. Then N inputs have at most prod_i 2 (2 e N k_i i /
    W_i)^{W_i} sign patterns. By the weighted mean inequality this is at most 2^L (2 e N R / S)^S with R = sum_i i k_i and S =
    sum_i W_i. If the network shatters the N inputs, this number is at least 2^N. Their Lemma 18 says: 2^N <= 2^t (N r / w)^w
    implies N <= t + w log2(2 r log2 r), for r >= 16. For t = L, w = S and r = 2 e R, this gives

        N <= L + S log2(4 e R log2(2 e R)).
    """
    if len(layer_units) != len(layer_parameters) or not layer_units:
        raise ImpossibleSize(
            "layer_units and layer_parameters must have the same length and must not be empty"
        )
    if min(layer_units) < 1 or min(layer_parameters) < 1:
        raise ImpossibleSize("every layer needs at least one unit and one parameter")
    depth = len(layer_units)
    reach = sum(i * units for i, units in enumerate(layer_units, start=1))
    running, exponent = 0, 0
    for parameters in layer_parameters:
        running += parameters
        exponent += running
    return depth + _solved_exponent(exponent, reach)


def uniform_width_vc_dimension(width: int, depth: int, input_dim: int) -> int:
    """Return the bound of `bartlett_vc_dimension` for `depth` hidden ReLU layers of `width` units each and a linear output, in
    closed form.

    There are (input_dim + 1)·width parameters in the first layer, (width + 1)·width in each later one, and
    width + 1 in the output.
    """
    if min(width, input_dim) < 1 or depth < 1:
        raise ImpossibleSize("width, depth and input_dim must be at least 1")
    first, later = (input_dim + 1) * width, (width + 1) * width
    # sum over layers i = 1..depth of (first + (i - 1) later), and then the whole network for the output
    hidden = depth * first + later * (depth * (depth - 1) // 2)
    whole = first + (depth - 1) * later + width + 1
    reach = width * (depth * (depth + 1) // 2) + depth + 1
    return depth + 1 + _solved_exponent(hidden + whole, reach)


def depth_limited_vc_dimension(n_parameters: int, n_maps: int, *, n_tokens: int = 1) -> int:
    """Return an upper bound on the VC dimension of a ReLU network with at most `n_maps` affine maps on any path.

    This follows from Theorem 7 of Bartlett et al. (2019). See `bartlett_vc_dimension` for the definitions of R and S.

    With L = `n_maps` and W = `n_parameters` there are at most W / 2 hidden units (each has a weight and a bias), so R is
    at most L (W / 2 + 1), and S is at most L W. If a network acts on each of n = `n_tokens` tokens with the same weights and
    averages the results, the proof needs n polynomials for each hidden unit, so R is at most L (n W / 2 + 1).
    """
    if min(n_parameters, n_maps, n_tokens) < 1:
        raise ImpossibleSize("n_parameters, n_maps and n_tokens must be at least 1")
    reach = n_maps * (n_tokens * (n_parameters // 2) + 1)
    return n_maps + _solved_exponent(n_maps * n_parameters, reach)


def _solved_exponent(exponent: int, reach: int) -> int:
    # r = 2 e R, or 16 if this is less, as the lemma requires r >= 16; `inner` is an upper bound on log2 r
    euler = e().high
    r = max(2 * euler * reach, Fraction(16))
    inner = log2(r).high
    return (exponent * log2(2 * r * inner).high).__floor__()


def smallest(enough: Callable[[int], bool], start: int = 1) -> int:
    """Return the smallest integer >= start for which the monotone predicate `enough` holds."""
    if enough(start):
        return start
    low, high = start, 2 * max(start, 1)
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_relu_parameters(n_points: int) -> int:
    """Return a lower bound on the number of parameters of a ReLU network that shatters a set of `n_points` inputs, that is,
    realises all of their 2^n_points labellings.

    The bound holds for layered ReLU networks (skip connections and linear layers allowed) in which no parameter is
    shared between layers, every hidden unit has its own bias and its own incoming weight, and every linear
    map on a path has its own parameter.

    The derivation needs only Goldberg & Jerrum's Corollary 2.1 (KS25 Lemma B.4). Let N be `n_points`, W the number of parameters,
    and U the number of hidden units. Each unit has two parameters of its own, so U <= W / 2. Order the units so that each depends
    only on earlier ones. Given which of the first i - 1 units are active, the input of unit i is a polynomial in the parameters.
    That gives 2^(i-1) polynomials for unit i, and 2^U polynomials that decide whether the output exceeds 1/2. In total, these are s
    = 2^(U+1) - 1 polynomials. Their degree is at most D, the largest number of linear maps on a path, and D <= W. If N points are
    shattered, the N s polynomials have at least 2^N sign vectors, so N <= W log2(8 e N s D / W) <= W (U + 1 + log2(8 e N)), that is

        N <= W (W / 2 + log2(16 e N)).

    (The lemma does not cover N s < W. Then W > N, and N is at least the number returned.) The right side increases with W, so the
    smallest integer W that satisfies the inequality is a lower bound: about sqrt(2 N).
    """
    if n_points < 0:
        raise ImpossibleSize("n_points must be at least 0")
    if n_points == 0:
        return 0
    logarithm = log2_e_times(16 * n_points).high
    return min(n_points, smallest(lambda w: w * (Fraction(w, 2) + logarithm) >= n_points))
