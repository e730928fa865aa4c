"""Exact fixed-point arithmetic on many numbers at once.

A `Fixed` holds n multiples of 2^-`frac_bits`. Each is a two's-complement integer of 32-bit limbs, lowest limb first. A result
gets as many limbs as the operation could need and is then trimmed, so nothing ever overflows or rounds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import gcd

import numpy as np
from numba import njit

from byheart.network.exact.dyadic import Dyadic

LIMB = 32
_FULL = (1 << LIMB) - 1
_ROWS_WORTH_A_THREAD = 1 << 15


@dataclass(frozen=True, eq=False)
class Fixed:
    """n integers of `limbs.shape[1]` limbs (32-bit pieces). An integer k represents the number k · 2^-frac_bits."""

    limbs: np.ndarray  # uint32 (n, n_limbs), two's complement, lowest limb first
    frac_bits: int

    def __len__(self) -> int:
        return len(self.limbs)

    @staticmethod
    def from_integers(values: Sequence[int], frac_bits: int) -> Fixed:
        """Create numbers from Python integers of any size."""
        n_limbs = max((value.bit_length() for value in values), default=0) // LIMB + 1
        raw = b"".join(value.to_bytes(4 * n_limbs, "little", signed=True) for value in values)
        return Fixed(
            np.frombuffer(raw, dtype="<u4").astype(np.uint32).reshape(len(values), n_limbs), frac_bits
        )

    @staticmethod
    def from_fractions(values: Sequence[Fraction]) -> Fixed:
        frac_bits = max((value.denominator.bit_length() - 1 for value in values), default=0)
        return Fixed.from_integers([int(value * (1 << frac_bits)) for value in values], frac_bits)

    def fractions(self) -> list[Fraction]:
        width = 4 * self.limbs.shape[1]
        raw = self.limbs.astype("<u4").tobytes()
        integers = (
            int.from_bytes(raw[at : at + width], "little", signed=True) for at in range(0, len(raw), width)
        )
        if self.frac_bits <= 0:
            return [Fraction(value << -self.frac_bits) for value in integers]
        return [Fraction(value, 1 << self.frac_bits) for value in integers]

    def take(self, rows: np.ndarray) -> Fixed:
        return Fixed(self.limbs[rows], self.frac_bits)

    def relu(self) -> Fixed:
        return Fixed(np.where(self._is_negative()[:, None], np.uint32(0), self.limbs), self.frac_bits)

    def signs(self) -> np.ndarray:
        """Return the sign of each number: -1, 0 or 1."""
        return np.where(self._is_negative(), -1, (self.limbs != 0).any(axis=1).astype(np.int64))

    def _is_negative(self) -> np.ndarray:
        return np.asarray(self.limbs[:, -1] >> np.uint32(LIMB - 1) != 0)

    def ranks(self) -> np.ndarray:
        """Return each number's rank in the sorted list of distinct numbers."""
        unsigned = self.limbs.copy()
        # flip the sign bit, so that two's complement sorts like unsigned numbers
        unsigned[:, -1] ^= np.uint32(1 << (LIMB - 1))
        # the last limb is the most significant one, like the last key of lexsort
        order = np.lexsort(unsigned.T)
        is_larger = (unsigned[order[1:]] != unsigned[order[:-1]]).any(axis=1)
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[order] = np.concatenate([[0], np.cumsum(is_larger)])
        return ranks

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows, index). `rows` holds the position of the first copy of each distinct number. Number i equals the number at
        position `rows[index[i]]`.
        """
        index = np.empty(len(self), dtype=np.int64)
        rows = np.empty(len(self), dtype=np.int64)
        n_distinct = _distinct_rows(self.limbs, index, rows)
        return rows[:n_distinct], index


Term = tuple[Dyadic, Fixed]


def linear_combination(n_rows: int, terms: Sequence[Term], bias: Dyadic) -> Fixed:
    """Return bias + Σ coefficient · number for each of `n_rows` rows. A term is a coefficient and one number for each row."""
    needed = [numbers.frac_bits - coefficient.exponent for coefficient, numbers in terms]
    needed += [-bias.exponent] if bias.mantissa else []
    if not needed:
        return Fixed(np.zeros((n_rows, 1), dtype=np.uint32), 0)
    frac_bits = max(needed)
    start = bias.mantissa << (frac_bits + bias.exponent) if bias.mantissa else 0
    shifts = [frac_bits - bits for bits in needed[: len(terms)]]
    n_bits = start.bit_length()
    for (coefficient, numbers), shift in zip(terms, shifts, strict=True):
        n_bits = max(n_bits, LIMB * numbers.limbs.shape[1] + coefficient.mantissa.bit_length() + shift)
    # a sum of t + 1 numbers below 2^n_bits in magnitude is below 2^(n_bits + bits of (t + 1)); the sign needs one more bit
    n_limbs = (n_bits + (len(terms) + 1).bit_length() + 1) // LIMB + 1
    total = np.zeros((n_rows, n_limbs), dtype=np.uint32)
    if start:
        total[:] = _limbs_of(start % (1 << (LIMB * n_limbs)), n_limbs)
    for (coefficient, numbers), shift in zip(terms, shifts, strict=True):
        magnitude = abs(coefficient.mantissa) << (shift % LIMB)
        factor = _limbs_of(magnitude, -(-magnitude.bit_length() // LIMB))
        subtract, offset = coefficient.mantissa < 0, shift // LIMB
        if len(factor) == 1:
            _in_threads(_add_multiples, n_rows, total, numbers.limbs, factor[0], subtract, offset)
        else:
            _in_threads(_add_products, n_rows, total, numbers.limbs, factor, subtract, offset)
    return _trim(Fixed(total, frac_bits))


def _limbs_of(value: int, n_limbs: int) -> np.ndarray:
    """Split a non-negative number into 32-bit limbs, the lowest first."""
    return np.frombuffer(value.to_bytes(4 * n_limbs, "little"), dtype="<u4").astype(np.uint32)


def common_factor(coefficients: Sequence[Dyadic]) -> int:
    """Return the greatest odd integer that divides the mantissa of every coefficient."""
    return gcd(*(coefficient.mantissa for coefficient in coefficients))


def segment_sums(numbers: Fixed, index: np.ndarray, segment: int) -> Fixed:
    """Split `index` into consecutive runs of `segment` entries, and return the sum of `numbers[index]` over each run.

    The length of `index` must be a multiple of `segment`; this is not checked.
    """
    extra = segment.bit_length() // LIMB + 1
    total = np.zeros((len(index) // segment, numbers.limbs.shape[1] + extra), dtype=np.uint32)
    _add_segments(total, numbers.limbs, index, segment)
    return _trim(Fixed(total, numbers.frac_bits))


def divide(numbers: Fixed, divisor: int) -> Fixed | None:
    """Divide all numbers exactly by a positive integer. Return None if a quotient is not a dyadic rational."""
    assert divisor > 0
    twos = (divisor & -divisor).bit_length() - 1
    odd = divisor >> twos
    quotients = numbers.limbs.copy()
    if odd > 1:
        # q = v/odd in two's complement: multiply by the inverse of odd modulo 2^bits, then check q · odd = v
        n_bits = LIMB * quotients.shape[1]
        inverse = pow(odd, -1, 1 << n_bits)
        quotients = np.zeros_like(numbers.limbs)
        _add_products_wrapping(quotients, numbers.limbs, _limbs_of(inverse, n_bits // LIMB))
        check = linear_combination(len(numbers), [(Dyadic.of(odd), Fixed(quotients, 0))], Dyadic(0, 0))
        if not _equal(check, Fixed(numbers.limbs, 0)):
            return None
    return Fixed(quotients, numbers.frac_bits + twos)


def _equal(left: Fixed, right: Fixed) -> bool:
    a, b = _trim(left), _trim(right)
    return a.frac_bits == b.frac_bits and a.limbs.shape == b.limbs.shape and bool((a.limbs == b.limbs).all())


def _trim(numbers: Fixed) -> Fixed:
    """Remove the high limbs (32-bit digits) that only repeat the sign in every number, and the low limbs that are zero in every
    number.
    """
    limbs = numbers.limbs
    low, high = _needed_limbs(limbs)
    if low == 0 and high == limbs.shape[1]:
        return numbers
    return Fixed(np.ascontiguousarray(limbs[:, low:high]), numbers.frac_bits - LIMB * low)


def _in_threads(kernel: Callable[..., None], n_rows: int, *arguments: object) -> None:
    """Split the rows into ranges, and run `kernel(start, stop, *arguments)` on each range in its own thread.

    More rows use more threads. A few rows are one range, which runs in the calling thread.
    """
    if n_rows < 2 * _ROWS_WORTH_A_THREAD:
        kernel(0, n_rows, *arguments)
        return
    n_threads = _thread_count()
    n_parts = min(n_threads, n_rows // _ROWS_WORTH_A_THREAD)
    cuts = [n_rows * part // n_parts for part in range(n_parts + 1)]
    pool = _threads(n_threads)
    jobs = [pool.submit(kernel, start, stop, *arguments) for start, stop in pairwise(cuts)]
    for job in jobs:
        job.result()


def _thread_count() -> int:
    """Return PyTorch's number of threads, which `--threads` sets.

    If PyTorch is not loaded, the number is computed without it, because loading takes seconds.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else os.cpu_count() or 1


@cache
def _threads(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="byheart-limbs")


if hasattr(os, "register_at_fork"):  # a forked process inherits the pool object but not its threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


@njit(cache=True, nogil=True)
def _add_multiples(
    start: int, stop: int, total: np.ndarray, limbs: np.ndarray, factor: int, subtract: bool, offset: int
) -> None:
    """Compute total[i] ±= factor · limbs[i] · 2^(32·offset) for a factor of one limb (32 bits) and start <= i < stop.

    Numbers are in two's complement and are sign-extended before they are multiplied. So the result is correct modulo 2^(32·n) for
    the n limbs of a number in `total`.
    """
    n_in, n_out = limbs.shape[1], total.shape[1]
    mask = np.uint64(_FULL)
    half = np.uint64(LIMB)
    times = np.uint64(factor)
    for i in range(start, stop):
        fill = mask if (limbs[i, n_in - 1] >> np.uint32(LIMB - 1)) != 0 else np.uint64(0)
        carry = np.uint64(0)
        borrow = np.uint64(0)
        for k in range(n_out - offset):
            carry += times * (np.uint64(limbs[i, k]) if k < n_in else fill)
            digit = carry & mask
            carry >>= half
            old = np.uint64(total[i, k + offset])
            if subtract:
                new = old - digit - borrow
                borrow = (new >> half) & np.uint64(1)
            else:
                new = old + digit + borrow
                borrow = new >> half
            total[i, k + offset] = np.uint32(new & mask)


@njit(cache=True, nogil=True)
def _add_products(
    start: int,
    stop: int,
    total: np.ndarray,
    limbs: np.ndarray,
    factor: np.ndarray,
    subtract: bool,
    offset: int,
) -> None:
    """Compute total[i] ±= factor · limbs[i] · 2^(32·offset) for start <= i < stop. `factor` holds the limbs of a natural number."""
    n_in, n_out, n_factor = limbs.shape[1], total.shape[1], len(factor)
    mask = np.uint64(_FULL)
    half = np.uint64(LIMB)
    for i in range(start, stop):
        negative = (limbs[i, n_in - 1] >> np.uint32(LIMB - 1)) != 0
        flip = negative != subtract
        if flip:  # total - p = ~(~total + p)
            for k in range(n_out):
                total[i, k] = ~total[i, k]
        borrow = np.uint64(1)  # |v| = ~v + 1 for a negative v
        for k in range(n_in):
            digit = np.uint64(limbs[i, k])
            if negative:
                digit = (digit ^ mask) + borrow
                borrow = digit >> half
                digit &= mask
            if digit == 0:
                continue
            carry = np.uint64(0)
            at = offset + k
            for j in range(n_factor):
                carry += digit * np.uint64(factor[j]) + np.uint64(total[i, at])
                total[i, at] = np.uint32(carry & mask)
                carry >>= half
                at += 1
            while carry != 0 and at < n_out:
                carry += np.uint64(total[i, at])
                total[i, at] = np.uint32(carry & mask)
                carry >>= half
                at += 1
        if flip:
            for k in range(n_out):
                total[i, k] = ~total[i, k]


@njit(cache=True, nogil=True)
def _add_products_wrapping(total: np.ndarray, limbs: np.ndarray, factor: np.ndarray) -> None:
    """Compute total[i] += factor · limbs[i] modulo 2^(32·n) for unsigned numbers of n limbs (32-bit digits)."""
    n_limbs = limbs.shape[1]
    mask = np.uint64(_FULL)
    half = np.uint64(LIMB)
    for i in range(len(limbs)):
        for k in range(n_limbs):
            digit = np.uint64(limbs[i, k])
            carry = np.uint64(0)
            for j in range(n_limbs - k):
                carry += digit * np.uint64(factor[j]) + np.uint64(total[i, k + j])
                total[i, k + j] = np.uint32(carry & mask)
                carry >>= half


@njit(cache=True, nogil=True)
def _add_segments(total: np.ndarray, limbs: np.ndarray, index: np.ndarray, segment: int) -> None:
    """Split `index` into segments of `segment` entries. For each entry i of segment s, add limbs[i], sign-extended, to total[s]."""
    n_in, n_out = limbs.shape[1], total.shape[1]
    mask = np.uint64(_FULL)
    half = np.uint64(LIMB)
    for i in range(len(index)):
        row = index[i]
        negative = (limbs[row, n_in - 1] >> np.uint32(LIMB - 1)) != 0
        fill = mask if negative else np.uint64(0)
        carry = np.uint64(0)
        for k in range(n_out):
            digit = np.uint64(limbs[row, k]) if k < n_in else fill
            carry += digit + np.uint64(total[i // segment, k])
            total[i // segment, k] = np.uint32(carry & mask)
            carry >>= half


@njit(cache=True, nogil=True)
def _needed_limbs(limbs: np.ndarray) -> tuple[int, int]:
    """Return (low, high), the range of limbs (32-bit digits) that must be kept: in every row, the limbs before `low` are zero, and
    those from `high` on only repeat the sign.
    """
    n_rows, n_limbs = limbs.shape
    low, high = n_limbs - 1, 1
    for i in range(n_rows):
        k = 0
        while k < low and limbs[i, k] == 0:
            k += 1
        if k < n_limbs - 1 or limbs[i, k] != 0:
            low = min(low, k)
        fill = np.uint32(_FULL) if (limbs[i, n_limbs - 1] >> np.uint32(LIMB - 1)) != 0 else np.uint32(0)
        top = n_limbs
        while (
            top > high
            and limbs[i, top - 1] == fill
            and (((limbs[i, top - 2] >> np.uint32(LIMB - 1)) != 0) == (fill != 0))
        ):
            top -= 1
        high = max(high, top)
    return min(low, high - 1), high


@njit(cache=True, nogil=True)
def _distinct_rows(limbs: np.ndarray, index: np.ndarray, rows: np.ndarray) -> int:
    """Number the distinct rows of `limbs` in order of appearance, and return how many there are.

    The number of each row is written to `index`, and the position of the first row with each number to `rows`. Equal rows are found
    with a hash table that compares whole rows, not only their hashes.
    """
    n_rows, n_limbs = limbs.shape
    size = 1
    while size < 2 * n_rows + 2:
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)
    n_distinct = 0
    for i in range(n_rows):
        code = np.uint64(0x9E3779B97F4A7C15)
        for k in range(n_limbs):
            code = (code ^ np.uint64(limbs[i, k])) * np.uint64(0xFF51AFD7ED558CCD)
            code ^= code >> np.uint64(29)
        slot = np.int64(code & np.uint64(size - 1))
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = n_distinct
                rows[n_distinct] = i
                index[i] = n_distinct
                n_distinct += 1
                break
            same = True
            for k in range(n_limbs):
                if limbs[i, k] != limbs[rows[found], k]:
                    same = False
                    break
            if same:
                index[i] = found
                break
            slot = (slot + 1) & (size - 1)
    return n_distinct
