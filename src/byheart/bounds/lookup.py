"""The size of one feed-forward lookup: a ReLU network that returns the right values for N of V points and 0 for the others.

Vardi, Yehudai & Shamir (2022) constructed this network. Lemma C.1 of Kajitsuka & Sato (2025) adds the requirement that it
returns 0 for the other points, and Lemma F.1 splits it so that weights stay short. The papers state only orders of growth.
Here, the depths and bits in the proofs are added up exactly. Notation:

    N  n_stored       V  Points.count   r  radius       δ  separation       C  n_values
    m  groups, ⌈√(N log2 N)⌉            k  keys in a group, ⌈√(N / log2 N)⌉          d  Points.dim
    R  upper limit of the keys, 20 r V² δ⁻¹ √(π d). A key is the number to which a point is projected.

Departs: where the proofs require it, the numbers differ from the paper's: a value y in [C] takes ⌊log2 C⌋ + 1 bits, a key below R
takes ⌊log2 R⌋ + 1 bits, and an interval end takes one bit more than a key (Lemma G.2). A single point forms one group with one key.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from byheart.bounds.enclosures import Interval, Real, ceil_fraction, ceil_sqrt, floor_log2, log2, pi, settle
from byheart.bounds.sizes import require_ball, require_sizes, takes_sizes
from byheart.errors import ImpossibleSize
from byheart.theorems import realises


@takes_sizes()
def group_count(n_stored: int) -> int:
    """Return the number of groups in Lemma C.1, ⌈√(N log2 N)⌉ for N = `n_stored`, exactly; 1 for a single point.

    An interval around N log2 N is refined until both ends give the same result. This ends, because N log2 N is an integer if N is a
    power of two, and irrational otherwise.
    """
    if n_stored <= 1:
        return 1
    return settle(lambda bits: log2(n_stored, bits) * n_stored, ceil_sqrt, 64 + 2 * n_stored.bit_length())


@takes_sizes()
def group_size(n_stored: int) -> int:
    """Return the number of keys per group, ⌈√(N / log2 N)⌉ for N = `n_stored`, exactly; 1 for a single point."""
    if n_stored <= 1:
        return 1
    start_bits = 64 + 2 * n_stored.bit_length()
    return settle(lambda bits: log2(n_stored, bits).reciprocal() * n_stored, ceil_sqrt, start_bits)


@dataclass(frozen=True)
class RootOfPi:
    """The positive real number √(square π^pi_power). All sizes and distances in the proofs have this form."""

    square: Fraction
    pi_power: int

    def _square(self, bits: int) -> Interval:
        return pi(bits) ** self.pi_power * self.square

    def floor_log2(self) -> int:
        """Return ⌊log2⌋ of this number, exactly.

        An interval around the number is refined until both ends give the same result. This ends: for `pi_power` >= 1 the square of
        the number is irrational, and for `pi_power` = 0 both ends are equal.
        """
        return settle(self._square, floor_log2) // 2

    def ceil(self) -> int:
        """Return the smallest integer that is not below this number, exactly."""
        return settle(self._square, ceil_sqrt, 64 + self.square.numerator.bit_length())

    @property
    def integer_bits(self) -> int:
        """Return the number of bits that positive integers up to this number need: ⌊log2⌋ + 1."""
        return self.floor_log2() + 1


@dataclass(frozen=True)
class Points:
    """`count` points of R^dim, of norm at most √(radius_square π^radius_pi), at least `separation` apart."""

    count: int
    dim: int
    radius_square: Fraction
    radius_pi: int
    separation: Fraction

    def __post_init__(self) -> None:
        require_sizes(1, count=self.count, dim=self.dim)
        require_sizes(0, radius_pi=self.radius_pi)
        require_ball(self.radius_square, self.separation)

    @property
    def key_range(self) -> RootOfPi:
        """The number R = 20 r V² δ⁻¹ √(π d). Stage I of Lemma C.1 projects every point to a number in [2, R], its key.

        There are V points of dimension d, with norm at most r, at least δ apart.
        """
        scale = Fraction(400 * self.count**4 * self.dim) / self.separation**2
        return RootOfPi(scale * self.radius_square, self.radius_pi + 1)

    @property
    def projection_range(self) -> RootOfPi:
        """The number 3 d r V² √π δ⁻¹, whose logarithm is the bit complexity of the projection (Lemma C.2).

        There are V points of dimension d, with norm at most r, at least δ apart.
        """
        scale = Fraction(9 * self.dim**2 * self.count**4) / self.separation**2
        return RootOfPi(scale * self.radius_square, self.radius_pi + 1)


@dataclass(frozen=True)
class LookupSize:
    """The depth of one lookup in layers, and the bits of its largest weight."""

    depth: int
    weight_bits: int


@realises("KS25-L C.1")
@takes_sizes()
def lookup_size(points: Points, n_stored: int, n_values: int) -> LookupSize:
    """Return the size of the lookup in Lemma C.1: its width is 12, its depth is given by eq. (110), and its bits by eq. (111).

    The lookup returns the right values, integers from 1 to `n_values`, for `n_stored` of the points, and 0 for the others.
    """
    return _size(points, n_stored, n_values, n_stored)


@realises("KS25-L F.1")
@takes_sizes()
def batched_lookup_size(points: Points, n_stored: int, n_values: int, batch_root: int) -> LookupSize:
    """Return the size of the lookup in Lemma F.1. Its width is 13, and its weights are at most as long as those of Lemma C.1.

    The points are looked up in batches of B², where B = `batch_root`.

    Departs: the paper repeats all stages of Lemma C.1 for each batch. Here the projection (Stage I) is done only once, because
    repeating it would increase the range of the keys. B² need not divide N = `n_stored`. If B = 1, a batch is a single key.
    """
    if batch_root**2 > n_stored:
        raise ImpossibleSize(
            f"batch_root is {batch_root}; its square must be at most the number of samples, {n_stored}",
            batch_root=batch_root,
            n_stored=n_stored,
        )
    size = _size(points, n_stored, n_values, batch_root**2)
    return LookupSize(size.depth + 1, size.weight_bits)  # one more layer, φ(x, y) = y, reads the running sum


def _size(points: Points, n_stored: int, n_values: int, batch: int) -> LookupSize:
    groups, keys = group_count(batch), group_size(batch)
    key_bits = points.key_range.integer_bits
    slot = max(key_bits, floor_log2(n_values) + 1)
    # (110): 2 to project; 3m + 2 to find the group; 3 k max{log R, log C} + 2k + 2 to extract the value
    one_batch = (3 * groups + 2) + (3 * keys * slot + 2 * keys + 2)
    n_batches = ceil_fraction(Fraction(n_stored, batch))
    # (111), but interval ends take one bit more than a key (Lemma G.2)
    bits = max(points.projection_range.integer_bits, keys * slot + key_bits + 1, keys * slot + 2)
    return LookupSize(2 + n_batches * one_batch, bits)


def normalise(radius: Real, separation: Real) -> tuple[Fraction, Fraction]:
    """Return the radius and the separation as exact fractions. A radius below 1 and a separation above 1 are replaced by 1,
    because the theorems require r >= 1 and δ <= 1.
    """
    require_ball(radius, separation)
    r, delta = Fraction(radius), Fraction(separation)
    return max(r, Fraction(1)), min(delta, Fraction(1))


@takes_sizes(layers=0)
def dense_parameters(width: int, layers: int, input_dim: int) -> int:
    """Return the number of entries of an input map without bias, `layers` square layers with bias, and an output row."""
    return width * input_dim + layers * (width**2 + width) + width
