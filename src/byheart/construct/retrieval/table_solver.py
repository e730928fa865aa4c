"""Compute table words whose sums encode every label.

A key is a distinct context. Let y be the sum of the words that a key reads, and y_b bit b of this sum, with y_{-1} = 0. The reading
circuit sees Gray bits: label bit i of a key in plane p (the p-th bit field of the words) is y_b xor y_{b-1} with
b = p·field_bits + i (see `label_reader`). Planes are solved from the lowest bit up. The planes of rare labels come last, and only
keys with such labels have equations there. When bit b is solved, all lower bits are known, so the sum of the words so far gives
y_{b-1} and the carry into bit b. The remaining condition is linear over GF(2): the parity of bit b over the words read is
label_i xor y_{b-1} xor carry.

During solving, words are split into limbs of 52 bits, so that words of any length can be added in machine integers. In a network
that computes in floats, a word has one limb.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Shaped

from byheart.construct.retrieval.addresses import Addresses
from byheart.construct.retrieval.label_code import join_labels, read_numbers, split_labels
from byheart.construct.retrieval.layout import RetrievalLayout
from byheart.process.package_loading import kernels_told
from byheart.process.progress import Progress, part_of, report
from byheart.program import gf2

FACTORING = (
    18  # preparing the equations of a plane takes about this many times as long as solving for one bit
)
_KERNELS = 8  # the same for loading the kernels
N_PASSES = 650  # compiler passes when the kernels are compiled, the first time on a machine
_TICK_SECONDS = 0.2
_Factors = tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_THREADS = 2
_ALIVE_BYTES = 1 << 30  # the most memory for planes that are kept after elimination
_LIMB_BITS = 52  # a sum of up to 2^11 limbs fits into a signed 64-bit integer


@dataclass(frozen=True, eq=False)
class SolvedTable:
    """Solved words (table entries), and their sums.

    words   flattened array with the axes (row, table, channel)
    sums    y, the sum of the words, for every key

    Both arrays hold Python integers (dtype object) if words have more than 52 bits.
    """

    words: Shaped[np.ndarray, " n_columns"]
    sums: Shaped[np.ndarray, " n_keys"]


@dataclass(frozen=True)
class Dependent:
    """The result of `solve` if an equation depends on the others, so the tables of this random hash cannot store the labels.

    plane        the number of the plane (bit field of the words) to which this equation belongs
    n_equations  the number of equations of this plane
    n_reduced    how many of them were reduced before the dependent one was found
    """

    plane: int
    n_equations: int
    n_reduced: int


@dataclass(frozen=True, eq=False)
class _Plane:
    """The equations of one plane (bit field of the words). There is one equation for each key that has a number in this plane.

    start, n_bits   the first bit of the plane, and the number of its bits
    numbers         for each key, the number to store
    keys            for each key, its index among all keys
    rows, patterns  for each key, the words that it reads: their rows, and in each row the selected channels, as bits
    n_words         the number of 64-bit machine words that the widest equation spans, with one bit for each table word
    """

    start: int
    n_bits: int
    numbers: np.ndarray
    keys: np.ndarray
    rows: np.ndarray
    patterns: np.ndarray
    n_words: int


def solve(
    layout: RetrievalLayout,
    where: Addresses,
    labels: Int[np.ndarray, " n_keys"],
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> SolvedTable | Dependent:
    """Compute the words (entries) of the tables, such that every key (labelled context) reads its label. If that is impossible,
    return `Dependent`, which names the plane (bit field of the words) whose equations are linearly dependent.

    Bits that no key needs are random. An unknown input therefore reads random bits, which rarely contain the pattern of reject
    bits that every known input reads.
    """
    limbs = np.zeros((-(-layout.word_bits // _LIMB_BITS), layout.n_columns), dtype=np.int64)
    planes = _planes(layout, where, labels)
    n_free = (layout.n_columns >> 6) + 1
    bytes_each = max((16 * len(plane.keys) * plane.n_words for plane in planes), default=0)
    ahead = max(1, min(_THREADS, torch.get_num_threads(), _ALIVE_BYTES // max(1, bytes_each)))
    with ThreadPoolExecutor(ahead) as pool:
        reached = np.zeros((len(planes), 1), dtype=np.int64)

        def factor(number: int) -> _Factors:
            plane = planes[number]
            sizes = (layout.n_channels, layout.n_columns, plane.n_words)
            found: _Factors = gf2.factor(plane.rows, plane.patterns, *sizes, reached[number])
            return found

        n_done, n_steps = _KERNELS, sum(FACTORING + plane.n_bits for plane in planes) + _KERNELS
        if progress and planes and len(planes[0].keys):
            _compile_kernels(layout, planes[0], limbs, part_of(progress, 0.0, n_done / n_steps))
        # a future keeps its result, so each is dropped before the next plane is prepared
        pending = deque(pool.submit(factor, number) for number in range(min(ahead, len(planes))))
        for number, plane in enumerate(planes):
            prepared = pending.popleft()
            if progress is not None:
                factoring = part_of(progress, n_done / n_steps, (n_done + FACTORING) / n_steps)
                _watch(prepared, reached[number], len(plane.keys), factoring)
            n_reduced, *factors = prepared.result()
            n_done += FACTORING
            report(progress, n_done, n_steps)
            if n_reduced < len(plane.keys):
                return Dependent(number, len(plane.keys), n_reduced)
            if number + ahead < len(planes):
                pending.append(pool.submit(factor, number + ahead))
            so_far = _Sum(plane.rows, plane.patterns, layout.n_channels, limbs)
            for i in range(plane.n_bits):
                bit = plane.start + i
                parity = ((plane.numbers >> i) & 1) ^ so_far.bits_at(bit)
                free = rng.integers(0, 2**64, size=n_free, dtype=np.uint64)
                found = gf2.solve(parity.astype(np.uint8), *factors, free).astype(np.int64)
                limbs[bit // _LIMB_BITS] += found << bit % _LIMB_BITS
                n_done += 1
                report(progress, n_done, n_steps)
    sign_words(layout, limbs[-1])
    ids = _row_ids(layout, where.rows)
    sums = [gf2.sums(ids, where.patterns, layout.n_channels, limb) for limb in limbs]
    return SolvedTable(_join_limbs(list(limbs)), _join_limbs(sums))


def _watch(future: Future[_Factors], reached: np.ndarray, n_equations: int, progress: Progress) -> None:
    """Until `future` is done, report how many equations have been reduced so far: `reached[0]` of `n_equations`."""
    while not wait([future], timeout=_TICK_SECONDS).done:
        progress(int(reached[0]), n_equations)


def _compile_kernels(layout: RetrievalLayout, plane: _Plane, limbs: np.ndarray, progress: Progress) -> None:
    """Run every kernel on one equation, so that the progress bar moves while numba compiles them.

    The first time on a machine, this takes some seconds per kernel.
    """
    rows, patterns, reached = plane.rows[:1], plane.patterns[:1], np.zeros(1, dtype=np.int64)
    with kernels_told(progress, N_PASSES):
        sizes = (layout.n_channels, layout.n_columns, plane.n_words)
        n_reduced, *factors = gf2.factor(rows, patterns, *sizes, reached)
        if n_reduced == 1:
            free = np.zeros((layout.n_columns >> 6) + 1, dtype=np.uint64)
            gf2.solve(np.zeros(1, dtype=np.uint8), *factors, free)
        gf2.sums(rows, patterns, layout.n_channels, limbs[0])
    progress(1, 1)


def sign_words(layout: RetrievalLayout, highest: Int[np.ndarray, " n_columns"]) -> None:
    """Subtract 2^word_bits from words whose highest bit is set, in the tables whose words are signed.

    `highest` holds the highest limb (52-bit piece) of every word and is changed in place.
    """
    n_bits = (layout.word_bits - 1) % _LIMB_BITS + 1
    words = highest.reshape(layout.n_rows, layout.n_segments, layout.n_channels)[
        :, : layout.n_signed_segments
    ]
    words -= (words >> (n_bits - 1)) << n_bits


class _Sum:
    """For each of several keys, the sum of the words that it reads.

    The sums are computed one limb (52 bits) after the other, from the lowest up, while the bits of the words are still being
    determined.
    """

    def __init__(self, rows: np.ndarray, patterns: np.ndarray, n_channels: int, limbs: np.ndarray) -> None:
        self._equations = (rows, patterns, n_channels)
        self._limbs = limbs
        self._at = 0  # limbs below this one are final; only their carry and the highest bit of the last of them are kept
        self._carried = np.zeros(len(rows), dtype=np.int64)
        self._below = np.zeros(len(rows), dtype=np.int64)

    def bits_at(self, bit: int) -> Int[np.ndarray, " n_keys"]:
        """Return one bit for each key: y_{b-1} xor the carry into bit b. Here b is `bit`, y is the sum of the words that the key
        reads, and y_{b-1} is bit b - 1 of y.

        The bits b of these words must have the parity (label bit) xor (returned bit), as explained at the top of this module.
        """
        at, place = divmod(bit, _LIMB_BITS)
        while self._at < at:
            total = self._total()
            self._carried, self._below = total >> _LIMB_BITS, (total >> (_LIMB_BITS - 1)) & 1
            self._at += 1
        total = self._total()
        below = (total >> (place - 1)) & 1 if place else self._below
        return np.asarray(below ^ ((total >> place) & 1))

    def _total(self) -> np.ndarray:
        return np.asarray(self._carried + gf2.sums(*self._equations, self._limbs[self._at]))


def _join_limbs(limbs: list[np.ndarray]) -> np.ndarray:
    """Combine limbs, the lowest first, into numbers. Each limb counts 2^52 times as much as the one before it. If a limb is 2^52
    or more, the excess is carried to the next.
    """
    if len(limbs) == 1:
        return limbs[0]
    total = np.zeros(len(limbs[0]), dtype=object)
    for number, limb in enumerate(limbs):
        total += limb.astype(object) << number * _LIMB_BITS
    return total


def _row_ids(
    layout: RetrievalLayout, rows: Int[np.ndarray, "n_keys n_segments"]
) -> Int[np.ndarray, "n_keys n_segments"]:
    """Return a number for each row that a key reads, one row in each table: row · n_segments + table. Neighbouring rows get close
    numbers.
    """
    return np.ascontiguousarray(rows * layout.n_segments + np.arange(layout.n_segments))


def _planes(layout: RetrievalLayout, where: Addresses, labels: Int[np.ndarray, " n_keys"]) -> list[_Plane]:
    """Return the equations of each plane (bit field of the words). Within a plane, they are sorted by the first row that they
    involve.
    """
    ids = _row_ids(layout, where.rows)
    first = ids.min(axis=1)
    planes = []
    split = split_labels(labels, layout.rare_fields)
    for field, own, (numbers, reaches) in zip(layout.label_fields, where.planes.T, split, strict=True):
        order = np.lexsort((first, own))
        order = order[reaches[order]]
        bounds = np.searchsorted(own[order], np.arange(field.n_planes + 1))
        for plane in range(field.n_planes):
            keys = order[bounds[plane] : bounds[plane + 1]]
            rows = ids[keys]
            span = int((rows.max(axis=1) - rows.min(axis=1)).max(initial=0)) + 1
            start, n_words = field.start + plane * field.n_bits, span * layout.n_channels // 64 + 2
            planes.append(
                _Plane(start, field.n_bits, numbers[keys], keys, rows, where.patterns[keys], n_words)
            )
    return planes


def read_labels(
    layout: RetrievalLayout, where: Addresses, sums: Shaped[np.ndarray, " n_keys"]
) -> Int[np.ndarray, " n_keys"]:
    """Return each key's label, as the last layers of the network read it from the sum of the key's words."""
    return join_labels(read_numbers(layout.label_fields, where.planes, sums), layout.rare_fields)
