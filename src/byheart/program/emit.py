"""Turn a program into a network: each register becomes a channel of the residual stream, and each number of the program becomes a
weight of the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite

import numpy as np

from byheart.errors import InexactWeights
from byheart.network.exact.dyadic import Dyadic, Number, SparseMatrix, Weights
from byheart.network.protocol import COMPUTED_IN
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Layer,
    Precision,
    SumPool,
    Transformer,
)
from byheart.network.transformer.floats import DTYPES
from byheart.network.weight_format import BFLOAT16, Storage
from byheart.program.blocks import (
    Block,
    Column,
    Form,
    Numbers,
    Program,
    RegisterAttention,
    RegisterHead,
    Repeated,
    Step,
    TableBlock,
    TokenTable,
    flat_steps,
)
from byheart.program.storage import storage_of

Cells = Mapping[tuple[int, int], Number]
Lines = Mapping[int, "Column | Sequence[Number]"]


def emit(program: Program, precision: Precision = "exact") -> Transformer:
    """Build the network of a program in the given precision. Channel i of the residual stream holds register i of the program.

    Raises `InexactWeights` if `precision` cannot represent a number of the program without rounding.
    """
    registers, extra = program.registers, program.extra
    inputs = {registers.index(name): require_numbers(numbers) for name, numbers in program.inputs.items()}
    writer = _Writer(COMPUTED_IN[precision])
    network = Transformer(
        w_in=writer.rows("w_in", (len(registers), program.dim), inputs),
        layers=emit_layers(program.steps, registers, COMPUTED_IN[precision]),
        w_out=writer.cells("w_out", (1, len(registers)), {(0, registers.index(program.answer)): 1}),
        seq_len=program.seq_len,
        embedding=None if program.table is None else _embedding(program.table, writer),
        pad=program.pad,
        extra=None if extra is None else writer.rows("extra", (1, program.dim), {0: require_numbers(extra)}),
    )
    if precision == "bfloat16":
        return replace(network, storage=Storage("bfloat16", (BFLOAT16,) * network.spec.n_arrays))
    if precision == "int8":
        n_before = network.spec.n_arrays - 1 - sum(1 for layer in network.layers for _ in layer.parameters())
        return replace(network, storage=storage_of(list(flat_steps(program.steps)), network.layers, n_before))
    return network


def emit_layers(
    steps: Sequence[Step], registers: Sequence[str], precision: Precision = "exact"
) -> tuple[Layer, ...]:
    channel = {name: number for number, name in enumerate(registers)}
    layers: list[Layer] = []
    for step in flat_steps(steps):
        writer = _Writer(precision, f"layers.{len(layers)}.")
        if isinstance(step, SumPool):
            layers.append(step)
        elif isinstance(step, RegisterAttention):
            heads = tuple(_head(head, channel, writer) for head in step.heads)
            layers.append(Attention(heads, step.kind, step.pattern))
        elif isinstance(step, TableBlock):
            layers.append(_table_layer(step, channel, writer))
        else:
            layers.append(_block_layer(step, channel, writer))
    return tuple(layers)


def _block_layer(block: Block, channel: Mapping[str, int], writer: _Writer) -> FeedForward:
    model, hidden = len(channel), block.n_units
    reads: dict[tuple[int, int], Number] = {}
    writes: dict[tuple[int, int], Number] = {}
    for number, unit in enumerate(block.units):
        reads.update({(number, channel[name]): value for name, value in unit.reads.items()})
        writes.update({(channel[name], number): value for name, value in unit.writes.items()})
    return FeedForward(
        writer.cells("w1", (hidden, model), reads),
        writer.bias("b1", hidden, {number: unit.bias for number, unit in enumerate(block.units)}),
        writer.cells("w2", (model, hidden), writes),
        writer.bias("b2", model, {channel[name]: value for name, value in block.adds.items()}),
    )


def _table_layer(block: TableBlock, channel: Mapping[str, int], writer: _Writer) -> FeedForward:
    model, hidden = len(channel), block.n_units
    biases = writer.columns("b1", (hidden, 1), {0: block.biases})
    return FeedForward(
        writer.columns("w1", (hidden, model), {channel[name]: line for name, line in block.reads.items()}),
        biases[:, 0] if isinstance(biases, np.ndarray) else biases,
        writer.rows("w2", (model, hidden), {channel[name]: line for name, line in block.writes.items()}),
        writer.bias("b2", model, {channel[name]: value for name, value in block.adds.items()}),
    )


def _head(head: RegisterHead, channel: Mapping[str, int], writer: _Writer) -> Head:
    shape = (len(head.values), len(channel))

    def rows(forms: Sequence[Form]) -> dict[tuple[int, int], Number]:
        return {(at, channel[name]): value for at, form in enumerate(forms) for name, value in form.items()}

    outputs = {(register, at): value for (at, register), value in rows(head.outputs).items()}
    return Head(
        value=writer.cells("value", shape, rows(head.values)),
        output=writer.cells("output", (shape[1], shape[0]), outputs),
        key=None if head.keys is None else writer.cells("key", shape, rows(head.keys)),
        query=None if head.queries is None else writer.cells("query", shape, rows(head.queries)),
    )


def _embedding(table: TokenTable, writer: _Writer) -> Embedding:
    def matrix(name: str, columns: Sequence[Numbers]) -> Weights:
        numbers = {at: require_numbers(column) for at, column in enumerate(columns)}
        return writer.columns(f"embedding.{name}", (len(numbers[0]), len(numbers)), numbers)

    positions = table.positions
    return Embedding(
        matrix("tokens", table.tokens), None if positions is None else matrix("positions", positions)
    )


def require_numbers(numbers: Numbers) -> Sequence[Number] | np.ndarray:
    assert not isinstance(numbers, Repeated), "a list of type Repeated can only be counted, not built"
    return numbers


@dataclass(frozen=True)
class _Writer:
    """Creates weight matrices in one precision. `where` is a prefix for their names in error messages."""

    precision: Precision
    where: str = ""

    def cells(self, name: str, shape: tuple[int, int], cells: Cells) -> Weights:
        """Return a matrix with the given entries; all others are zero."""
        if self.precision == "exact":
            return SparseMatrix.of(shape, cells)
        array = np.zeros(shape, dtype=DTYPES[self.precision])
        if cells:
            array[tuple(zip(*cells, strict=True))] = self._floats(name, list(cells.values()))
        return array

    def bias(self, name: str, length: int, entries: Mapping[int, Number]) -> Weights:
        """Return a bias: a float vector, or an exact matrix with one column."""
        weights = self.cells(name, (length, 1), {(at, 0): value for at, value in entries.items()})
        return weights[:, 0] if isinstance(weights, np.ndarray) else weights

    def columns(self, name: str, shape: tuple[int, int], lines: Lines) -> Weights:
        """Return a matrix with the given columns; all others are zero."""
        return self.rows(name, shape, lines, by_column=True)

    def rows(self, name: str, shape: tuple[int, int], lines: Lines, by_column: bool = False) -> Weights:
        """Return a matrix with the given rows; all others are zero."""
        length = shape[0] if by_column else shape[1]
        if self.precision == "exact":
            entries: dict[tuple[int, int], Number] = {}
            for at, line in lines.items():
                for place, value in enumerate(_spread(line, length)):
                    entries[(place, at) if by_column else (at, place)] = value
            return SparseMatrix.of(shape, entries)
        array = np.zeros(shape, dtype=DTYPES[self.precision])
        for at, line in lines.items():
            array[(slice(None), at) if by_column else at] = self._floats(name, line)
        return array

    def _floats(self, name: str, numbers: Column | Sequence[Number]) -> np.ndarray:
        """Convert numbers to floats. Raises `InexactWeights` if one of them would be rounded."""
        given = numbers if isinstance(numbers, np.ndarray) else np.array(numbers, dtype=object)
        try:
            with np.errstate(over="ignore"):
                floats = given.astype(DTYPES[self.precision])
        except OverflowError:
            floats = np.full(given.shape, np.inf)
        if np.issubdtype(given.dtype, np.integer):
            same = floats.astype(given.dtype) == given
        elif given.dtype == object:
            same = np.array([_is_same(float(f), n) for f, n in zip(floats.flat, given.flat, strict=True)])
        else:
            same = floats == given
        if not same.all():
            number = Dyadic.of(given.flat[int(np.argmin(same))])
            raise InexactWeights(
                f"an entry of {self.where}{name} needs {number.bits} bits, so {self.precision} cannot represent it.",
                name=f"{self.where}{name}",
                bits=number.bits,
            )
        return np.asarray(floats)


def _spread(line: Column | Sequence[Number], length: int) -> Sequence[Number]:
    """Return the numbers of a row or column as a sequence. A single number is repeated for every entry."""
    if isinstance(line, np.ndarray):
        plain: list[Number] = line.tolist()
        return plain
    return line if isinstance(line, Sequence) else [line] * length


def _is_same(value: float, number: Number) -> bool:
    return isfinite(value) and Fraction(value) == (number.fraction if isinstance(number, Dyadic) else number)
