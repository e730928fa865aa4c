"""Units of SwiGLU blocks, written into a checkpoint's tensors.

A register is a named column of the residual stream. A unit computes two integers a and b from registers, and adds ReLU(a) · b to
registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from byheart.network.exact.dyadic import Number
from byheart.network.llama.spec import EMBEDDING, LlamaSpec, weight_name
from byheart.program.blocks import TableBlock, Unit

SLOPE = 128.0
PIN_BITS = 40
"""The n pinned columns of the residual stream hold the constant 2^40·√(d/n), for width d. RMSNorm is then the identity as long as
Σ x² < 2^(2·40)·d·2^-25, for the numbers x in the other columns. The other columns hold integers below 2^24."""


@dataclass(frozen=True)
class ProductUnit:
    """A unit whose output is multiplied by the value of the register `times`."""

    unit: Unit
    times: str


class BlockWriter:
    """The tensors of a checkpoint that is being built, and the number of units used so far in each layer."""

    def __init__(self, spec: LlamaSpec, columns: Mapping[str, int]) -> None:
        """Set all weights to zero, except those that fill the constant columns and those that make the norms in the layers the
        identity.

        `columns` maps registers to columns of the residual stream.
        """
        self.spec, self.columns = spec, columns
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
        """Return the number of unused units of `layer`."""
        return self.spec.inner - self.used[layer]

    def add(self, layer: int, *units: Unit | ProductUnit) -> None:
        """Write units into the next unused positions of a layer."""
        for each in units:
            unit, times = (each.unit, each.times) if isinstance(each, ProductUnit) else (each, None)
            self.add_table(layer, TableBlock(1, unit.reads, unit.bias, unit.writes), times)

    def add_table(
        self, layer: int, block: TableBlock, times: str | Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Write the units of `block` into a layer.

        If `times` names a register, the output of each unit is multiplied by this register. If `times` maps registers to arrays
        of weights, the output of unit i is multiplied by the sum of the registers, each times entry i of its array.

        SiLU(128·z)/128 equals ReLU(z) for integers z, in the floats of the checkpoint. Constants come from the pinned column, which
        always has the same value.
        """
        here = slice(self.used[layer], self.used[layer] + block.n_units)
        assert here.stop <= self.spec.inner, f"layer {layer} is full"
        gate, up, down = (self[layer, f"mlp.{part}_proj"] for part in ("gate", "up", "down"))
        for register, weights in block.reads.items():
            gate[here, self.columns[register]] = SLOPE * _floats(weights)
        gate[here, 0] = SLOPE * _floats(block.biases) / self.pin
        if times is None:
            up[here, 0] = 1 / (SLOPE * self.pin)
        else:
            for register, weights in ({times: 1} if isinstance(times, str) else times).items():
                up[here, self.columns[register]] = _floats(weights) / SLOPE
        for register, weights in block.writes.items():
            down[self.columns[register], here] = _floats(weights)
        self.used[layer] = here.stop


def _floats(numbers: Number | np.ndarray) -> np.ndarray:
    return np.asarray(numbers, dtype=np.float64)


def mirror_units(register: str, m: int, turns: int) -> Iterator[Unit]:
    """Return units that fold a register into the range 0 to m by `turns` reflections (see `window_hash.mirror`)."""
    for turn in range(1, turns + 1):
        yield Unit({register: 1}, -m * turn, {register: -2 if turn % 2 else 2})


def square_unit(register: str, square: str) -> ProductUnit:
    """Return the unit that adds the square of a register to `square`. The register must not be negative."""
    return ProductUnit(Unit({register: 1}, 0, {square: 1}), register)


def spread_units(register: str, m: int, n_folds: int, square: str) -> Iterator[Unit]:
    """Return units that fold a register with values below m·n_folds into the range 0 to m - 1, and update its square in `square`.

    The fold changes direction at each multiple m·t, by two units ReLU(v + 1) and ReLU(v). Here v is the value before the fold,
    minus m·t. If v >= 0, these units change the result of the earlier turns:
    - if t is odd, from m + v to m - 1 - v, and so the square by (m - 1 - v)² - (m + v)² = -(2m - 1)·((v + 1) + v)
    - if t is even, from -1 - v to v, and so the square by v² - (1 + v)² = -((v + 1) + v)
    """
    for turn in range(1, n_folds):
        down = turn % 2 == 1
        for shift in (1, 0):
            writes = {register: -1 if down else 1, square: -(2 * m - 1) if down else -1}
            yield Unit({register: 1}, shift - m * turn, writes)


def table_rows(register: str, square: str, first: int, n: int, into: str) -> TableBlock:
    """Return one unit for each of `n` table rows, whose numbers begin at `first`.

    A unit adds 1 to the register `into` if `register` holds the number of the unit's row, else 0. For the value J of `register` and
    the row a, the unit is ReLU(2aJ - J² + 1 - a²) = ReLU(1 - (J - a)²). The register `square` must hold J².
    """
    a = first + np.arange(n)
    return TableBlock(n, {register: 2 * a, square: -1}, 1 - a * a, {into: 1})


def pinned_count(hidden: int) -> int:
    """Return how many columns of a residual stream of width `hidden` hold a constant: one if `hidden` is a power of four, else
    two.
    """
    return 1 if (hidden.bit_length() - 1) % 2 == 0 else 2
