"""Find equal rows among millions of rows, exactly.

Rows are sorted by a 64-bit hash and then compared word by word with their neighbours, so that the result does not
depend on the hash. If two different rows have the same hash, all rows are compared as byte strings in a dictionary
instead.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Int, UInt64

Words = Int[np.ndarray, " n_words"]
Offsets = Int[np.ndarray, " n_offsets"]
RowIds = Int[np.ndarray, " n_rows"]
Pairs = Int[np.ndarray, " n_pairs"]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_WORDS = 1 << 22  # rows are hashed in blocks, to limit the additional memory

LONG_ROWS = 64
"""If rows have at least this many words (64-bit integers) on average, they are copied row by row. For such rows, this is faster
than copying word by word, and it needs no array of indices.
"""


def group_rows(words: Words, offsets: Offsets) -> RowIds:
    """Number the rows; row i is `words[offsets[i]:offsets[i + 1]]`.

    Equal rows get equal numbers, in order of first appearance.

    Together, the rows must contain all words, without gaps between them.
    """
    n_rows = offsets.size - 1
    if n_rows <= 0:
        return np.zeros(0, dtype=np.int64)
    words = np.ascontiguousarray(words, dtype=np.int64)
    hashes = _row_hashes(words, offsets)
    order = np.argsort(hashes, kind="stable")
    same_hash = hashes[order[1:]] == hashes[order[:-1]]
    later = np.flatnonzero(same_hash) + 1
    if not _rows_equal(words, offsets, order[later - 1], order[later]):
        return _group_by_bytes(words, offsets)
    group_in_order = np.concatenate([[0], np.cumsum(~same_hash)])
    # the sort is stable, so this is the smallest index
    first_row = order[np.flatnonzero(np.concatenate([[True], ~same_hash]))]
    rank = np.empty(first_row.size, dtype=np.int64)
    rank[np.argsort(first_row)] = np.arange(first_row.size)
    ids = np.empty(n_rows, dtype=np.int64)
    ids[order] = rank[group_in_order]
    return ids


def number_values(values: Int[np.ndarray, " n_values"]) -> Int[np.ndarray, " n_values"]:
    """Number the values. Equal values get equal numbers, in order of first appearance."""
    largest = int(values.max(initial=-1))
    if largest < values.size and values.min(initial=0) >= 0:  # a table is quicker than sorting
        first_of = np.full(largest + 1, values.size)
        # for a repeated value, the last assignment stays
        first_of[values[::-1]] = np.arange(values.size)[::-1]
        table = np.empty(largest + 1, dtype=np.int64)
        table[np.argsort(first_of, kind="stable")] = np.arange(largest + 1)
        return np.asarray(table[values])
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse]


def pair_ids(left: Pairs, right: Pairs) -> Pairs:
    """Number the pairs (left[i], right[i]) of non-negative integers.

    Equal pairs get equal numbers, in order of first appearance.
    """
    width = int(right.max(initial=0)) + 1
    if (int(left.max(initial=0)) + 1) * width < 2**63:
        return number_values(left * width + right)
    words = np.stack([left, right], axis=1).reshape(-1)
    return group_rows(words, np.arange(len(left) + 1) * 2)


def representatives(ids: Int[np.ndarray, " n_items"]) -> Int[np.ndarray, " n_groups"]:
    """Return the index of the first item of every group. `ids` holds the group of each item; groups are numbered from 0 without
    gaps.
    """
    first = np.full(int(ids.max(initial=-1)) + 1, ids.size, dtype=np.int64)
    np.minimum.at(first, ids, np.arange(ids.size))
    return first


def flat_ranges(starts: RowIds, sizes: RowIds) -> Words:
    """For each row i, return the indices `starts[i]` to `starts[i] + sizes[i] - 1`, one row after the other, in one array."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes))


def gather_ranges(words: Words, starts: RowIds, sizes: RowIds) -> Int[np.ndarray, " n_gathered"]:
    """For each row i, return `words[starts[i]:starts[i] + sizes[i]]`, one row after the other, in one new read-only array."""
    if sizes.sum() < LONG_ROWS * sizes.size or not sizes.size:
        gathered = np.asarray(words[flat_ranges(starts, sizes)])
    else:
        rows = zip(starts.tolist(), sizes.tolist(), strict=True)
        gathered = np.concatenate([words[start : start + size] for start, size in rows])
    gathered.flags.writeable = False
    return gathered


def sort_within_rows(words: Words, offsets: Offsets) -> Words:
    """Sort the words within each row. Words must be non-negative."""
    lengths = np.diff(offsets)
    rows = np.repeat(np.arange(lengths.size), lengths)
    width = int(words.max(initial=0)) + 1
    if lengths.size * width < 2**63:  # one integer key holds row and word
        return np.sort(rows * width + words) - rows * width
    return words[np.lexsort((words, rows))]


def _row_hashes(words: Words, offsets: Offsets) -> UInt64[np.ndarray, " n_rows"]:
    n_rows = offsets.size - 1
    lengths = np.diff(offsets)
    hashes = np.zeros(n_rows, dtype=np.uint64)
    row = 0
    while row < n_rows:
        last = int(np.searchsorted(offsets, offsets[row] + _BLOCK_WORDS, side="right")) - 1
        last = min(max(last, row + 1), n_rows)
        begin, end = int(offsets[row]), int(offsets[last])
        position = flat_ranges(np.zeros(last - row, dtype=np.int64), lengths[row:last])
        with np.errstate(over="ignore"):
            salted = words[begin:end].view(np.uint64) + (position.astype(np.uint64) + np.uint64(1)) * _GOLDEN
            running = np.zeros(end - begin + 1, dtype=np.uint64)
            np.cumsum(mix(salted), out=running[1:])
            bounds = offsets[row : last + 1] - begin
            hashes[row:last] += running[bounds[1:]] - running[bounds[:-1]]
        row = last
    return hashes


def mix(words: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """Mix the bits of each word with the finaliser of splitmix64, so that sums of different words are equal only by chance."""
    with np.errstate(over="ignore"):
        mixed = words + _GOLDEN
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _rows_equal(words: Words, offsets: Offsets, left: Pairs, right: Pairs) -> bool:
    """Return whether row left[k] equals row right[k] for every k."""
    lengths = np.diff(offsets)
    if not np.array_equal(lengths[left], lengths[right]):
        return False
    width = int(lengths[0])
    if (lengths == width).all():  # gathering whole rows is far faster than gathering single words
        table = words[: lengths.size * width].reshape(lengths.size, width)
        step = max(1, _BLOCK_WORDS // max(width, 1))
        blocks = range(0, left.size, step)
        return all(np.array_equal(table[left[k : k + step]], table[right[k : k + step]]) for k in blocks)
    return np.array_equal(
        words[flat_ranges(offsets[left], lengths[left])], words[flat_ranges(offsets[right], lengths[right])]
    )


def _group_by_bytes(words: Words, offsets: Offsets) -> RowIds:
    raw = words.tobytes()
    bounds = (offsets * words.itemsize).tolist()
    numbers: dict[bytes, int] = {}
    ids = [numbers.setdefault(raw[begin:end], len(numbers)) for begin, end in pairwise(bounds)]
    return np.array(ids, dtype=np.int64)
