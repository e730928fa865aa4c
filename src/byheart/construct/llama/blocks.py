"""Units of SwiGLU blocks, written into a checkpoint's tensors: ReLU(whole number) · (whole number), added to columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byheart.network.llama.spec import EMBEDDING, LlamaSpec, weight_name

SLOPE = 128.0
PIN_BITS = 40
"""The norm is the identity while Σ x² < 2^(2·40)·d·2^-25; columns hold whole numbers below 2^24."""


class BlockWriter:
    """The tensors of a checkpoint under construction, and how many units of each layer are taken."""

    def __init__(self, spec: LlamaSpec) -> None:
        """Start from zeros, with every norm set to the identity."""
        self.spec = spec
        self.weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in spec.shapes()}
        self.n_pinned = pinned_count(spec.hidden)
        self.pin = 2.0**PIN_BITS * (spec.hidden / self.n_pinned) ** 0.5
        self.used = [0] * spec.n_layers
        for name, array in self.weights.items():
            if "layernorm" in name:
                array[:] = 2.0**PIN_BITS
        self.weights[EMBEDDING][:, : self.n_pinned] = self.pin

    def __getitem__(self, at: tuple[int, str]) -> np.ndarray:
        return self.weights[weight_name(*at)]

    def free(self, layer: int) -> int:
        """Units of `layer` not taken yet."""
        return self.spec.inner - self.used[layer]

    def unit(
        self,
        layer: int,
        reads: Mapping[int, int],
        bias: int,
        writes: Mapping[int, int],
        times: int | None = None,
    ) -> None:
        """One unit: ReLU(Σ reads + bias), times the column `times` if given, added to the columns of `writes`."""
        u = self.used[layer]
        assert u < self.spec.inner, f"layer {layer} is full"
        gate, up, down = (self[layer, f"mlp.{part}_proj"] for part in ("gate", "up", "down"))
        for column, weight in reads.items():
            gate[u, column] = SLOPE * weight
        gate[u, 0] = SLOPE * bias / self.pin
        if times is None:
            up[u, 0] = 1 / (SLOPE * self.pin)
        else:
            up[u, times] = 1 / SLOPE
        for column, weight in writes.items():
            down[column, u] = weight
        self.used[layer] += 1

    def step(self, layer: int, reads: Mapping[int, int], bias: int, writes: Mapping[int, int]) -> None:
        """Add `writes` where Σ reads + bias >= 0."""
        self.unit(layer, reads, bias + 1, writes)
        self.unit(layer, reads, bias, {column: -weight for column, weight in writes.items()})

    def erase(self, layer: int, column: int, *, signed: bool = False) -> None:
        """Set a column to zero."""
        self.unit(layer, {column: 1}, 0, {column: -1})
        if signed:
            self.unit(layer, {column: -1}, 0, {column: 1})

    def mirror(self, layer: int, column: int, m: int, turns: int) -> None:
        """Fold a column into 0 to m (see `window_hash.mirror`)."""
        for turn in range(1, turns + 1):
            self.unit(layer, {column: 1}, -m * turn, {column: -2 if turn % 2 else 2})

    def spread(self, layer: int, column: int, m: int, n_folds: int, square: int | None = None) -> None:
        """Fold a column with values below m·n_folds into 0 to m - 1, and add the square of the result to `square`.

        Crossing turn t at X = m·t changes the slope by ∓2 over one step, and the square by a linear amount:
        (2m - 1 - x)² - x² = -(2m - 1)·((x - m + 1) + (x - m)), and x² - (x + 1)² = -((x + 1) + x) on the way back up.
        """
        if square is not None:
            self.unit(layer, {column: 1}, 0, {square: 1}, times=column)
        for turn in range(1, n_folds):
            down = turn % 2 == 1
            for shift in (1, 0):
                writes = {column: -1 if down else 1}
                if square is not None:
                    writes[square] = -(2 * m - 1) if down else -1
                self.unit(layer, {column: 1}, shift - m * turn, writes)

    def rows(
        self, layer: int, column: int, square: int, first: int, words: np.ndarray, into: np.ndarray
    ) -> None:
        """Table rows `first`, `first` + 1, ...: where the column holds a, add the a-th row of words to the columns `into`.

        [J = a] = ReLU(2aJ - J² + 1 - a²) = ReLU(1 - (J - a)²).
        """
        u = self.used[layer]
        n = len(words)
        assert u + n <= self.spec.inner
        gate, up, down = (self[layer, f"mlp.{part}_proj"] for part in ("gate", "up", "down"))
        a = first + np.arange(n, dtype=np.float64)
        gate[u : u + n, column] = SLOPE * 2 * a
        gate[u : u + n, square] = -SLOPE
        gate[u : u + n, 0] = SLOPE * (1 - a * a) / self.pin
        up[u : u + n, 0] = 1 / (SLOPE * self.pin)
        down[into, u : u + n] = words.T
        self.used[layer] += n


def pinned_count(hidden: int) -> int:
    """Columns to pin: one where `hidden` is a power of four, else two."""
    return 1 if (hidden.bit_length() - 1) % 2 == 0 else 2
