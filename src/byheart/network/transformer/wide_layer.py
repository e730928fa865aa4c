"""A wide feed-forward layer in which few units fire. An example is a table: each unit compares the row number with its own number,
and one unit matches.

The channels that a unit reads are split into a few strong ones, which have the largest weights, and the others. This splits the sum
W1·x + b1 into s + o, where o is the contribution of the other channels. |o| is at most the largest magnitude of the unit's weights
for these channels, times the sum of the magnitudes of their values. If s plus this bound is not positive, the unit is 0 in any
order of summation, and neither its other inputs nor its output weights need to be read. One small matrix product computes this
test for all units. For each unit it adds up one term for each strong channel, one for b1, one for the bound, and one for a margin
that covers rounding errors. The rounding error of a sum of n terms whose magnitudes add up to M is at most 2n·ε·M, where ε is the
machine epsilon.

In the layout `dual table` of the construction `retrieval`, the strong channels are the digits of the row number, and for each token
only one unit remains after the test. In the layout `chain`, all channels are strong. The same row numbers occur again and again.
Therefore a cache stores which units remain for which values of the strong channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

_ENTRIES_AT_ONCE = 1 << 18  # of the small product: two mebibytes, so that it stays in cache
_N_TRIED = 64  # columns used to choose the strong channels; because steps are rounded, up to twice as many
_MOST_STRONG = 12
_ROOM = 1.0625  # cached units remain valid for bounds up to this factor above the largest one seen
_FEW = 1 / 8  # the most units, as a share, that are computed separately; above it the whole layer is computed


class WideLayer:
    """Computes H + W2 ReLU(W1 H + b1) + b2 on a CPU. H is the residual stream, with one column per token.

    If only few units can fire, the other units are not computed.
    """

    def __init__(
        self,
        reads: list[int],
        writes: list[int],
        w1: torch.Tensor,
        b1: torch.Tensor,
        w2: torch.Tensor,
        b2: torch.Tensor,
    ) -> None:
        """Prepare the layer. It reads the channels `reads` (those with non-zero columns of W1), and adds to the channels `writes`
        (those with non-zero rows of W2 or b2).
        """
        self.writes = writes
        strength = w1[:, reads].abs().amax(dim=0)
        order = torch.argsort(strength, descending=True, stable=True)
        self._reads = torch.tensor(reads, device=w1.device)[order]
        self._w1, self._b1 = w1[:, self._reads].contiguous(), b1.contiguous()
        self._w2 = w2[writes].T.contiguous()  # (q, n_writes)
        self._b2 = b2[writes]
        self._margin = 2 * (len(reads) + 1) * float(torch.finfo(w1.dtype).eps)
        self._n_strong: int | None = len(reads) if len(reads) <= 4 else None
        self._tests: dict[int, torch.Tensor] = {}
        self._tests_of_units: dict[int, torch.Tensor] = {}
        self._known: dict[int, _KnownColumns] = {}

    def add_to(self, stream: torch.Tensor) -> None:
        """Add the layer's output in place to the residual stream, which has one row per channel and one column per token."""
        read = stream[self._reads]
        if self._n_strong is None:
            step = max(1, read.shape[1] // _N_TRIED)
            self._n_strong = self._choose_strong(read[:, ::step])
        change = self._change_of_units_left(read) if self._n_strong else None
        stream[self.writes] += (self._change(read) if change is None else change).T

    def strongest_units(self, stream: torch.Tensor) -> torch.Tensor:
        """For each column x of `stream`, return the unit with the largest value in W1·x + b1; any unit if no value is positive."""
        read = stream[self._reads]
        n_strong = self._n_strong or self._choose_strong(read[:, :: max(1, read.shape[1] // _N_TRIED)])
        found = self._units_left(read, n_strong) if n_strong else None
        if found is None:
            step = max(1, _ENTRIES_AT_ONCE // len(self._w1))
            parts = torch.split(read, step, dim=1)
            return torch.cat([torch.addmm(self._b1, part.T, self._w1.T).argmax(dim=1) for part in parts])
        units, columns = found
        sums = (self._w1[units] * read.T[columns]).sum(dim=1) + self._b1[units]
        rising = np.argsort(sums.numpy(), kind="stable")
        strongest = np.zeros(read.shape[1], dtype=np.int64)
        # for each column the last unit, the strongest, is kept
        strongest[columns.numpy()[rising]] = units.numpy()[rising]
        return torch.from_numpy(strongest)

    def _change(self, read: torch.Tensor) -> torch.Tensor:
        """Return what the layer adds to the channels that it writes, with shape (n_columns, n_writes).

        A column of `read` belongs to one token. The columns are processed in chunks.
        """
        step = max(1, _ENTRIES_AT_ONCE // len(self._w1))
        parts = [
            torch.relu_(torch.addmm(self._b1, part.T, self._w1.T)) @ self._w2 + self._b2
            for part in torch.split(read, step, dim=1)
        ]
        return torch.cat(parts)

    def _change_of_units_left(self, read: torch.Tensor) -> torch.Tensor | None:
        """Return the same as `_change`, but compute only the units that may fire (see `_units_left`).

        Return None if too many units may fire for this to be faster.
        """
        assert self._n_strong is not None
        found = self._units_left(read, self._n_strong)
        if found is None:
            return None
        units, columns = found
        fired = (self._w1[units] * read.T[columns]).sum(dim=1) + self._b1[units]
        change = read.new_zeros(read.shape[1], len(self.writes))
        change.index_add_(0, columns, self._w2[units] * fired.relu_()[:, None])
        return change.add_(self._b2)

    def _choose_strong(self, read: torch.Tensor) -> int:
        """Return the number of strong channels (those with the largest weights) for which the layer costs least on `read`.

        First, a test reads only the strong channels and finds the units that may fire. Then only these units are computed. With
        more strong channels, the test costs more, but fewer units remain. Return 0 if it is cheapest to compute all units.
        """
        n_units, n_reads = self._w1.shape
        costs = {0: float(n_units * (n_reads + self._w2.shape[1]))}
        for n_strong in range(1, min(n_reads, _MOST_STRONG) + 1):
            n_left = int((self._bounds(read, n_strong) @ self._test(n_strong) > 0).sum()) / read.shape[1]
            if n_left <= _FEW * n_units:
                costs[n_strong] = n_units * (n_strong + 4.0) + 8 * n_left * (n_reads + self._w2.shape[1])
        return min(costs, key=lambda n_strong: costs[n_strong])

    def _test(self, n_strong: int) -> torch.Tensor:
        """Return the matrix (n_strong + 3, q) that tests which of the q units may fire. Column i belongs to unit i.

        It holds the unit's weights for the `n_strong` strong channels (those with the largest weights), its bias, the largest
        magnitude of its other weights, and the largest magnitude of all its weights and the bias.
        """
        if n_strong not in self._tests:
            strong, others = self._w1[:, :n_strong], self._w1[:, n_strong:].abs()
            bound = others.amax(dim=1, keepdim=True) if others.shape[1] else torch.zeros_like(strong[:, :1])
            bias = self._b1[:, None]
            largest = torch.cat([self._w1, bias], dim=1).abs().amax(dim=1, keepdim=True)
            self._tests[n_strong] = torch.cat([strong, bias, bound, largest], dim=1).T.contiguous()
        return self._tests[n_strong]

    def _test_of_units(self, n_strong: int) -> torch.Tensor:
        """Return the transpose of the matrix of `_test`, which tests which units may fire. It has one row per unit."""
        if n_strong not in self._tests_of_units:
            self._tests_of_units[n_strong] = self._test(n_strong).T.contiguous()
        return self._tests_of_units[n_strong]

    def _bounds(self, read: torch.Tensor, n_strong: int) -> torch.Tensor:
        """Return the matrix (n_columns, n_strong + 3) that is multiplied by the result of `_test`.

        Row i belongs to column i of `read`. It holds the values of the strong channels, 1, the sum of the magnitudes in all other
        channels, and the factor by which a unit's largest weight is multiplied to bound the unit's rounding errors.
        """
        sizes = read.abs()
        rest = sizes[n_strong:].sum(dim=0, keepdim=True)
        margin = (sizes.sum(dim=0, keepdim=True) + 1) * self._margin
        return torch.cat([read[:n_strong], torch.ones_like(rest), rest, margin]).T.contiguous()

    def _units_left(self, read: torch.Tensor, n_strong: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Find the units that may fire. Return two arrays of equal length: the units, and the column of `read` for each of them.

        Return None if too many may fire.
        """
        test, bounds = self._test(n_strong), self._bounds(read, n_strong)
        known = self._units_known(bounds, n_strong) if torch.isfinite(bounds).all() else None
        found = _units_of(bounds, test) if known is None else known
        if found is None:
            return None
        units, columns = (
            torch.from_numpy(found[0]),
            torch.from_numpy(np.repeat(np.arange(len(bounds)), found[1])),
        )
        if known is not None:  # the cached units are for larger bounds, so check them again
            left = (bounds[columns] * self._test_of_units(n_strong)[units]).sum(dim=1) > 0
            units, columns = units[left], columns[left]
        return units, columns

    def _units_known(self, bounds: torch.Tensor, n_strong: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Look up in the cache which hidden units may fire. Return these units, first those of the first token, then those of the
        second, and so on, and return their number for each token.

        `bounds` is the result of `_bounds`, with one row per token. The keys of the cache are the values of a token in the strong
        channels (those with the largest weights). Values that are not in the cache are added to it first. Return None if caching
        does not save time, or if different values have the same hash.
        """
        limits, strong = bounds[:, n_strong + 1 :].amax(dim=0), bounds[:, :n_strong].numpy()
        known = self._known.get(n_strong)
        if known is None or bool((limits > known.limits).any()):
            known = _KnownColumns.none(_ROOM * limits, strong[:0])
        if known.n_columns > 4 * len(self._w1):  # the values are not row numbers
            return None
        missing = known.find_missing(strong)
        if len(missing):
            new = torch.cat([bounds[missing, : n_strong + 1], known.limits.expand(len(missing), 2)], dim=1)
            units = _units_of(new, self._test(n_strong))
            if units is None:  # the bounds exclude too few units
                self._known.pop(n_strong, None)
                return None
            known = self._known[n_strong] = known.with_columns(strong[missing], *units)
        return known.units_of(strong)


@dataclass(frozen=True, eq=False)
class _KnownColumns:
    """A cache of the units that may fire. Its keys are the values of the strong channels (those with the largest weights).

    It is valid as long as the bounds on the other channels and on rounding errors do not exceed `limits`. The units for the values
    `strong[i]`, whose hash is `hashes[i]`, are the `counts[i]` entries of `units` that begin at index `firsts[i]`.

    Batches run in parallel and share the cache. Therefore it is never modified: new entries create a new cache. If two threads do
    this at once, one of the new caches is lost.
    """

    limits: torch.Tensor
    strong: np.ndarray  # (n_known, n_strong), in the order of `hashes`
    hashes: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray
    units: np.ndarray

    @classmethod
    def none(cls, limits: torch.Tensor, strong: np.ndarray) -> _KnownColumns:
        """Return an empty cache. `strong` must be an array of shape (0, number of strong channels)."""
        counts = np.zeros(0, dtype=np.int64)
        return cls(limits, strong, np.zeros(0, dtype=np.uint64), counts, counts, counts)

    @property
    def n_columns(self) -> int:
        """The number of entries of the cache. Each entry belongs to one combination of values of the strong channels (those with
        the largest weights).
        """
        return len(self.hashes)

    def find_missing(self, strong: np.ndarray) -> np.ndarray:
        """Return the indices of rows of `strong` whose values are not in the cache. Of several equal rows, only one is returned.
        Values are compared by their hashes.

        Each row holds the values of one token in the strong channels (those with the largest weights).
        """
        hashes = _hashes(strong)
        at = np.searchsorted(self.hashes, hashes)
        is_known = np.append(self.hashes, np.uint64(0))[at] == hashes
        is_known &= at < self.n_columns
        missing = np.flatnonzero(~is_known)
        return missing[np.unique(hashes[missing], return_index=True)[1]]

    def with_columns(self, strong: np.ndarray, units: np.ndarray, counts: np.ndarray) -> _KnownColumns:
        """Return a cache with additional entries, one for each row of `strong`.

        A row holds the values of one token in the strong channels (those with the largest weights). `units` lists the units that
        may fire, entry by entry, and `counts` how many each entry has.
        """
        hashes = np.concatenate([self.hashes, _hashes(strong)])
        firsts = np.concatenate([self.firsts, len(self.units) + np.cumsum(counts) - counts])
        order = np.argsort(hashes, kind="stable")
        return replace(
            self,
            strong=np.concatenate([self.strong, strong])[order],
            hashes=hashes[order],
            counts=np.concatenate([self.counts, counts])[order],
            firsts=firsts[order],
            units=np.concatenate([self.units, units]),
        )

    def units_of(self, strong: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the cached units for the rows of `strong`, row by row, and how many units each row has.

        Each row holds the values of one token in the strong channels (those with the largest weights), and the cache must have an
        entry for it. Return None if a row differs from the entry with the same hash.
        """
        at = np.searchsorted(self.hashes, _hashes(strong))
        if not (self.strong[at] == strong).all():
            return None
        counts = self.counts[at]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        return self.units[np.repeat(self.firsts[at], counts) + within], counts


def _hashes(strong: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(strong).view(f"u{strong.itemsize}").astype(np.uint64)
    hashes = np.zeros(len(strong), dtype=np.uint64)
    for column in bits.T:
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _units_of(bounds: torch.Tensor, test: torch.Tensor) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the hidden units that may fire, first those of the first token, then those of the second, and so on, and return
    their number for each token. Return None if too many may fire.

    `bounds` is the result of `WideLayer._bounds`, with one row per token, and `test` that of `WideLayer._test`.
    """
    n_columns, n_units = len(bounds), test.shape[1]
    height = max(1, _ENTRIES_AT_ONCE // n_units)
    product = bounds.new_empty(min(height, n_columns), n_units)
    units, counts, n_left = [], [], 0
    for start in range(0, n_columns, height):
        part = bounds[start : start + height]
        sums = torch.mm(part, test, out=product[: len(part)])
        column, unit = np.divmod(np.flatnonzero(~(sums.numpy() <= 0)), n_units)
        n_left += len(unit)
        if n_left > _FEW * n_units * n_columns:
            return None
        units.append(unit)
        counts.append(np.bincount(column, minlength=len(part)))
    return np.concatenate(units), np.concatenate(counts)
