"""The inputs of a data set: sequences of token ids, which may differ in length, or of real vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from byheart.data.row_groups import LONG_ROWS, flat_ranges, gather_ranges, group_rows, representatives
from byheart.errors import DataError, NonFiniteInput, UsageError
from byheart.process.memory_limit import require_memory

MAX_VOCAB = 2**53
MOSTLY_PADDING = 8
"""Before sequences are padded, the memory that this needs is compared with the limit, but only if the padded table has more than
this many entries for each token of the sequences.
"""


def freeze(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return `array` as a contiguous read-only array of `dtype` that shares no memory with a writable array."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.owndata and not flags.writeable:
        return array
    copy: np.ndarray = np.array(array, dtype=dtype, order="C", copy=True)
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """Sequences of token ids in one flat array. Sequence i is `ids[offsets[i]:offsets[i + 1]]`.

    Ids lie in [0, n_vocab). Offsets start at 0, never decrease, and end at the number of tokens. Both arrays are
    int64 and read-only. A sequence may be empty here; `Dataset` decides whether that is allowed.
    """

    ids: Int[np.ndarray, " n_tokens"]
    offsets: Int[np.ndarray, " n_offsets"]
    n_vocab: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", freeze(self.ids, np.int64))
        object.__setattr__(self, "offsets", freeze(self.offsets, np.int64))
        offsets = self.offsets
        rising = offsets.size > 0 and offsets[0] == 0 and bool((np.diff(offsets) >= 0).all())
        if not rising or offsets[-1] != self.ids.size:
            few = np.array2string(offsets, threshold=6, edgeitems=3)
            raise UsageError(
                "token offsets must not decrease and must go from 0 to the number of tokens, "
                f"{self.ids.size}; got {few}.",
                n_tokens=self.ids.size,
            )
        if self.n_vocab > MAX_VOCAB:
            raise UsageError(
                "a vocabulary may have at most 2^53 ids, so that every id is exact as a "
                f"float; got {self.n_vocab}.",
                n_vocab=self.n_vocab,
            )
        outside = np.flatnonzero((self.ids < 0) | (self.ids >= self.n_vocab))
        if outside.size:
            at = int(outside[0])
            sample = int(np.searchsorted(offsets, at, side="right")) - 1
            problem = f"outside the vocabulary: ids must be below the vocabulary size, {self.n_vocab}."
            if self.ids[at] < 0:
                problem = (
                    "negative.\n"
                    "  Token ids start at 0. To give vectors of whole numbers, use floats or an "
                    "array with three axes."
                )
            raise DataError(
                f"row {sample + 1}: token id {self.ids[at]} at position {at - offsets[sample] + 1} is "
                f"{problem}",
                sample=sample,
                position=int(at - offsets[sample]),
                token=int(self.ids[at]),
                n_vocab=self.n_vocab,
            )

    @classmethod
    def of(
        cls, rows: Sequence[Sequence[int] | np.ndarray] | np.ndarray, n_vocab: int | None = None
    ) -> TokenSequences:
        """Make sequences from a list of rows or a two-dimensional array. By default, `n_vocab` is the largest id plus one."""
        offsets = offsets_of(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
        if isinstance(rows, np.ndarray):
            ids = rows.reshape(-1)
        else:
            ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(offsets[-1]))
        return cls(ids, offsets, int(ids.max(initial=0)) + 1 if n_vocab is None else n_vocab)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, index: int) -> Int[np.ndarray, " seq_len"]:
        """Return the ids of one sequence, as a read-only view."""
        i = _index(index, len(self))
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @cached_property
    def lengths(self) -> Int[np.ndarray, " n_samples"]:
        """Number of tokens in each sequence."""
        return freeze(np.diff(self.offsets), np.int64)

    @property
    def max_len(self) -> int:
        """Length of the longest sequence, or 0 if there are no sequences."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def positions(self) -> Int[np.ndarray, " n_tokens"]:
        """Position of every token within its sequence, from 0."""
        return freeze(flat_ranges(np.zeros(len(self), dtype=np.int64), self.lengths), np.int64)

    def pad(self, pad_id: int, seq_len: int | None = None) -> Int[np.ndarray, "n_samples seq_len"]:
        """Return one row per sequence, padded on the left with `pad_id` to `seq_len` (default: the longest).

        Padding is on the left, so the last token, which carries the label, is always in the last column.
        """
        width = self.max_len if seq_len is None else seq_len
        if width < self.max_len:
            raise UsageError(
                f"cannot pad to length {width}: the longest sequence has {self.max_len} tokens.",
                seq_len=width,
                longest=self.max_len,
            )
        n_bytes = 8 * len(self) * width
        if n_bytes > MOSTLY_PADDING * 8 * self.ids.size:
            longest = f"{width:,} tokens (the longest is sequence {int(self.lengths.argmax()) + 1})"
            require_memory(f"{len(self):,} sequences padded to {longest}", n_bytes)
        table = np.full((len(self), width), pad_id, dtype=np.int64)
        if self.ids.size >= LONG_ROWS * len(self):
            for row, length in enumerate(self.lengths.tolist()):
                table[row, width - length :] = self[row]
            return table
        columns = self.positions + np.repeat(width - self.lengths, self.lengths)
        table[np.repeat(np.arange(len(self)), self.lengths), columns] = self.ids
        return table

    def take(self, indices: Int[np.ndarray, " n_taken"]) -> TokenSequences:
        """Return the chosen sequences, in the order given, with the same vocabulary."""
        lengths = self.lengths[indices]
        ids = gather_ranges(self.ids, self.offsets[:-1][indices], lengths)
        return TokenSequences(ids, offsets_of(lengths), self.n_vocab)


def as_vectors(array: np.ndarray) -> np.ndarray | None:
    """Return the array with shape (n_samples, seq_len, dim) if it holds vectors, otherwise None.

    Floats with three axes are vectors. Floats with two axes are vectors too, one per sample. Whole numbers with three axes are
    vectors, which are returned as float64. Whole numbers with two axes are token ids.
    """
    if array.dtype.kind == "f" and array.ndim == 2:
        return array[:, None, :]
    if array.ndim != 3 or array.dtype.kind not in "iuf":
        return None
    if array.dtype.kind != "f":
        if array.size and max(int(array.max()), -int(array.min())) > 2**53:
            raise UsageError(
                "the vectors hold whole numbers beyond 2^53, which float64 cannot represent exactly; "
                "scale them first."
            )
        return array.astype(np.float64)
    return array


@dataclass(frozen=True, eq=False)
class VectorSequences:
    """Sequences of real vectors, all of one length and dimension.

    Every finite float64 is a whole number times a power of two, so these inputs are exact. Minus zero is stored as zero
    and all NaNs as the same NaN, so that equal values have equal bits. Non-finite values are allowed here;
    `Dataset.check` reports them and `require_finite` refuses them.
    """

    values: Float[np.ndarray, "n_samples seq_len dim"]

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.ndim != 3 or values.shape[1] == 0 or values.shape[2] == 0:
            raise UsageError(
                "vector inputs must have shape (n_samples, seq_len, dim) with seq_len and dim at least "
                f"1; got {values.shape}.",
                shape=values.shape,
            )
        own = np.add(values, 0.0, dtype=np.float64)  # -0.0 + 0.0 is 0.0
        own[np.isnan(own)] = np.nan
        own.flags.writeable = False
        object.__setattr__(self, "values", own)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def __getitem__(self, index: int) -> Float[np.ndarray, "seq_len dim"]:
        """Return the vectors of one sequence, as a read-only view."""
        return np.asarray(self.values[_index(index, len(self))])

    @property
    def seq_len(self) -> int:
        return int(self.values.shape[1])

    @property
    def dim(self) -> int:
        return int(self.values.shape[2])

    @cached_property
    def lengths(self) -> Int[np.ndarray, " n_samples"]:
        """Number of tokens in each sequence, which is the same for all."""
        return freeze(np.full(len(self), self.seq_len), np.int64)

    @cached_property
    def token_ids(self) -> Int[np.ndarray, "n_samples seq_len"]:
        """A number for each token. Equal vectors get equal numbers, in order of first appearance."""
        words = self.values.reshape(-1).view(np.int64)
        offsets = np.arange(len(self) * self.seq_len + 1) * self.dim
        return freeze(group_rows(words, offsets).reshape(len(self), self.seq_len), np.int64)

    @cached_property
    def distinct_tokens(self) -> Float[np.ndarray, "n_distinct dim"]:
        """The distinct vectors: row t is the token with number t in `token_ids`."""
        flat = self.token_ids.reshape(-1)
        return freeze(self.values.reshape(-1, self.dim)[representatives(flat)], np.float64)

    @cached_property
    def non_finite(self) -> Int[np.ndarray, "n_bad 3"]:
        """(sample, position, coordinate) of every NaN and infinity."""
        return freeze(np.argwhere(~np.isfinite(self.values)), np.int64)

    def require_finite(self, rows: Int[np.ndarray, " n_samples"] | None = None) -> None:
        """Raise `NonFiniteInput` unless every value is finite. The error names the place of the first value that is not.

        The message counts from 1, like row numbers elsewhere. The `facts` of the error count from 0, like indices, except `row`.

        rows: the row (from 1) from which each sample was read; None if sample i came from row i + 1.
        """
        if len(self.non_finite):
            raise self.non_finite_values(rows)

    def non_finite_values(self, rows: Int[np.ndarray, " n_samples"] | None = None) -> NonFiniteInput:
        """Return the error that names the first value that is not finite. There must be at least one such value.

        `rows` are the row numbers of the samples, as in `require_finite`.
        """
        sample, position, coordinate = (int(k) for k in self.non_finite[0])
        row = sample + 1 if rows is None else int(rows[sample])
        value = float(self.values[sample, position, coordinate])
        return NonFiniteInput(
            f"row {row}, position {position + 1}, coordinate {coordinate + 1} is {value} "
            f"(inputs[{row - 1}, {position}, {coordinate}]); "
            f"{len(self.non_finite)} of {self.values.size} values are not finite.\n"
            "  Nothing can be proved about a network on such an input. Repair those samples, or leave "
            "them out with\n"
            '  non_finite="drop" (--non-finite drop).',
            row=row,
            sample=sample,
            position=position,
            coordinate=coordinate,
            value=value,
            n_non_finite=len(self.non_finite),
        )

    def take(self, indices: Int[np.ndarray, " n_taken"]) -> VectorSequences:
        """Return the chosen sequences, in the order given."""
        return VectorSequences(self.values[indices])


Sequences = TokenSequences | VectorSequences


def offsets_of(lengths: Int[np.ndarray, " n_samples"]) -> Int[np.ndarray, " n_offsets"]:
    """Return where each sequence starts if sequences of these lengths are stored one after the other.

    The last item of the result is the total length.
    """
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _index(index: int, size: int) -> int:
    if not -size <= index < size:
        raise IndexError(
            f"there is no sequence {index}: numbers start at 0, and the number of sequences is {size}"
        )
    return index % size
