"""A wide feed-forward layer in which few units fire, such as a table: every unit tests the row number, and one matches.

Split what a unit reads into a few strong channels and the others: W1·x + b1 = s + o with |o| <= max|W1, others| · Σ|x, others|.
Where s plus that bound is not positive the unit is 0, in any order of summation, and its other inputs and its outputs
need not be read. The bound is one more column of a small matrix product, and another holds a margin for the rounding
of every sum above: with n terms of magnitudes that add up to M, none is off by more than 2n·ε·M.

For a dual table the strong channels are the digits of the row, and one unit for each token is left; for a chain they are all.
"""

from __future__ import annotations

import numpy as np
import torch

_ENTRIES_AT_ONCE = 1 << 18  # of the small product: two mebibytes, so that it stays in cache
_N_TRIED = 64  # columns on which strong channels are chosen
_MOST_STRONG = 12
_FEW = 1 / 8  # share of the units that may be left to look up; with more the whole layer is computed


class WideLayer:
    """H + W2 ReLU(W1 H + b1) + b2 on a CPU, for the units that can fire."""

    def __init__(
        self,
        reads: list[int],
        writes: list[int],
        w1: torch.Tensor,
        b1: torch.Tensor,
        w2: torch.Tensor,
        b2: torch.Tensor,
    ) -> None:
        """`reads` and `writes` are the channels whose columns of W1 and rows of W2 or b2 are not zero."""
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

    def add_to(self, stream: torch.Tensor) -> None:
        """(m, n_columns), in place."""
        read = stream[self._reads]
        if self._n_strong is None:
            step = max(1, read.shape[1] // _N_TRIED)
            self._n_strong = self._choose_strong(read[:, ::step])
        change = self._change_of_units_left(read) if self._n_strong else None
        stream[self.writes] += (self._change(read) if change is None else change).T

    def strongest_units(self, stream: torch.Tensor) -> torch.Tensor:
        """The unit of each column of (m, n_columns) whose sum W1·x + b1 is largest; any unit where none is positive."""
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
        strongest[columns.numpy()[rising]] = units.numpy()[
            rising
        ]  # of each column the last one, the strongest, stays
        return torch.from_numpy(strongest)

    def _change(self, read: torch.Tensor) -> torch.Tensor:
        """(n_columns, n_writes): what all units add, some columns at a time."""
        step = max(1, _ENTRIES_AT_ONCE // len(self._w1))
        parts = [
            torch.relu_(torch.addmm(self._b1, part.T, self._w1.T)) @ self._w2 + self._b2
            for part in torch.split(read, step, dim=1)
        ]
        return torch.cat(parts)

    def _change_of_units_left(self, read: torch.Tensor) -> torch.Tensor | None:
        """The same from the units that may fire; None where they are many."""
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
        """How many channels to test: those for which testing and looking up cost least on these columns; 0 for none."""
        n_units, n_reads = self._w1.shape
        costs = {0: float(n_units * (n_reads + self._w2.shape[1]))}
        for n_strong in range(1, min(n_reads, _MOST_STRONG) + 1):
            n_left = int((self._bounds(read, n_strong) @ self._test(n_strong) > 0).sum()) / read.shape[1]
            if n_left <= _FEW * n_units:
                costs[n_strong] = n_units * (n_strong + 4.0) + 8 * n_left * (n_reads + self._w2.shape[1])
        return min(costs, key=lambda n_strong: costs[n_strong])

    def _test(self, n_strong: int) -> torch.Tensor:
        """(n_strong + 3, q): strong columns of W1, the bias, the bound of the others, and the magnitude of all."""
        if n_strong not in self._tests:
            strong, others = self._w1[:, :n_strong], self._w1[:, n_strong:].abs()
            bound = others.amax(dim=1, keepdim=True) if others.shape[1] else torch.zeros_like(strong[:, :1])
            bias = self._b1[:, None]
            largest = torch.cat([self._w1, bias], dim=1).abs().amax(dim=1, keepdim=True)
            self._tests[n_strong] = torch.cat([strong, bias, bound, largest], dim=1).T.contiguous()
        return self._tests[n_strong]

    def _bounds(self, read: torch.Tensor, n_strong: int) -> torch.Tensor:
        """(n_columns, n_strong + 3): what the rows of `_test` are multiplied by."""
        sizes = read.abs()
        rest = sizes[n_strong:].sum(dim=0, keepdim=True)
        margin = (sizes.sum(dim=0, keepdim=True) + 1) * self._margin
        return torch.cat([read[:n_strong], torch.ones_like(rest), rest, margin]).T.contiguous()

    def _units_left(self, read: torch.Tensor, n_strong: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(unit, column) of every unit that may fire; None where they are many, or numbers are not finite."""
        test, bounds = self._test(n_strong), self._bounds(read, n_strong)
        n_columns, n_units = len(bounds), test.shape[1]
        height = max(1, _ENTRIES_AT_ONCE // n_units)
        product = bounds.new_empty(min(height, n_columns), n_units)
        found, n_left = [], 0
        for start in range(0, n_columns, height):
            part = bounds[start : start + height]
            sums = torch.mm(part, test, out=product[: len(part)])
            left = np.flatnonzero(~(sums.numpy() <= 0))
            n_left += len(left)
            if n_left > _FEW * n_units * n_columns:
                return None
            found.append(left + start * n_units)
        column, unit = np.divmod(np.concatenate(found), n_units)
        return torch.from_numpy(unit), torch.from_numpy(column)
