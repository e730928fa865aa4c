"""From a program to a network: every register a channel, every weight exactly the number described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite

import numpy as np

from byheart.errors import InexactWeights
from byheart.network.exact.dyadic import Dyadic, Number, SparseMatrix, Weights
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
from byheart.program.blocks import (
    Block,
    Column,
    Form,
    Numbers,
    Program,
    Progression,
    RegisterAttention,
    RegisterHead,
    Repeated,
    Step,
    TableBlock,
    TokenTable,
    flat_steps,
)


def emit(program: Program, precision: Precision = "exact") -> Transformer:
    """The network of a program, with weights of one kind; channel i holds registers[i].

    Floats are refused (`InexactWeights`) where a number described is not a number of that type.
    """
    registers = program.registers
    inputs = {registers.index(name): listed(numbers) for name, numbers in program.inputs.items()}
    dim = max(len(numbers) for numbers in inputs.values())
    extra = program.extra
    return Transformer(
        w_in=_matrix((len(registers), dim), {}, inputs, 0, precision),
        layers=emit_layers(program.steps, registers, precision),
        w_out=_matrix((1, len(registers)), {(0, registers.index(program.answer)): 1}, {}, 0, precision),
        seq_len=program.seq_len,
        embedding=None if program.table is None else _embedding(program.table, precision),
        pad=program.pad,
        extra=None if extra is None else _matrix((1, dim), {}, {0: listed(extra)}, 0, precision),
    )


def emit_layers(
    steps: Sequence[Step], registers: Sequence[str], precision: Precision = "exact"
) -> tuple[Layer, ...]:
    """The layers of some steps."""
    channel = {name: number for number, name in enumerate(registers)}
    layers: list[Layer] = []
    for step in flat_steps(steps):
        if isinstance(step, SumPool):
            layers.append(step)
        elif isinstance(step, RegisterAttention):
            heads = tuple(_head(head, channel, precision) for head in step.heads)
            layers.append(Attention(heads, step.kind, step.pattern))
        else:
            layers.append(_feed_forward(step, channel, precision))
    return tuple(layers)


def _feed_forward(block: Block | TableBlock, channel: Mapping[str, int], precision: Precision) -> FeedForward:
    model, hidden = len(channel), block.n_units
    adds = {(channel[name], 0): value for name, value in block.adds.items()}
    b2 = _matrix((model, 1), adds, {}, 1, precision)
    if isinstance(block, TableBlock):
        reads = {channel[name]: column for name, column in block.reads.items()}
        writes = {channel[name]: column for name, column in block.writes.items()}
        w1 = _matrix((hidden, model), {}, reads, 1, precision)
        b1 = _matrix((hidden, 1), {}, {0: block.biases}, 1, precision)
        return _biased(w1, b1, _matrix((model, hidden), {}, writes, 0, precision), b2)
    first: dict[tuple[int, int], Number] = {}
    second: dict[tuple[int, int], Number] = {}
    for number, unit in enumerate(block.units):
        first.update({(number, channel[name]): value for name, value in unit.reads.items()})
        second.update({(channel[name], number): value for name, value in unit.writes.items()})
    biases = {(number, 0): unit.bias for number, unit in enumerate(block.units)}
    return _biased(
        _matrix((hidden, model), first, {}, 0, precision),
        _matrix((hidden, 1), biases, {}, 0, precision),
        _matrix((model, hidden), second, {}, 0, precision),
        b2,
    )


def _biased(w1: Weights, b1: Weights, w2: Weights, b2: Weights) -> FeedForward:
    """The block; biases of floats are vectors, exact ones matrices of one column."""
    if isinstance(b1, np.ndarray) and isinstance(b2, np.ndarray):
        return FeedForward(w1, b1[:, 0], w2, b2[:, 0])
    return FeedForward(w1, b1, w2, b2)


def _head(head: RegisterHead, channel: Mapping[str, int], precision: Precision) -> Head:
    def rows(forms: Sequence[Form]) -> dict[tuple[int, int], Number]:
        return {(at, channel[name]): value for at, form in enumerate(forms) for name, value in form.items()}

    wide, tall = (len(head.values), len(channel)), (len(channel), len(head.outputs))
    outputs = {(register, at): value for (at, register), value in rows(head.outputs).items()}
    return Head(
        value=_matrix(wide, rows(head.values), {}, 0, precision),
        output=_matrix(tall, outputs, {}, 0, precision),
        key=None if head.keys is None else _matrix(wide, rows(head.keys), {}, 0, precision),
        query=None if head.queries is None else _matrix(wide, rows(head.queries), {}, 0, precision),
    )


def _embedding(table: TokenTable, precision: Precision) -> Embedding:
    def matrix(columns: Sequence[Numbers]) -> Weights:
        numbers = {at: listed(column) for at, column in enumerate(columns)}
        return _matrix((len(numbers[0]), len(numbers)), {}, numbers, 1, precision)

    return Embedding(matrix(table.tokens), None if table.positions is None else matrix(table.positions))


def listed(numbers: Numbers) -> Sequence[Number] | np.ndarray:
    """The numbers one by one."""
    assert not isinstance(numbers, Repeated), "these numbers stand for others, and are only counted"
    if isinstance(numbers, Progression):
        return [numbers.first + numbers.difference * at for at in range(numbers.length)]
    return numbers


def _matrix(
    shape: tuple[int, int],
    cells: Mapping[tuple[int, int], Number],
    lines: Mapping[int, Column | Sequence[Number]],
    axis: int,
    precision: Precision,
) -> Weights:
    """The matrix with these cells, and with whole lines: rows for axis 0, columns for axis 1."""
    if precision == "exact":
        entries = dict(cells)
        for at, line in lines.items():
            length = shape[1 - axis]
            numbers = line.tolist() if isinstance(line, np.ndarray) else line
            for place, value in enumerate(numbers if isinstance(numbers, Sequence) else [numbers] * length):
                entries[(at, place) if axis == 0 else (place, at)] = value
        return SparseMatrix.of(shape, entries)
    array = np.zeros(shape, dtype=DTYPES[precision])
    for index, value in cells.items():
        array[index] = _as_floats(np.array(value, dtype=object), precision)
    for at, line in lines.items():
        numbers = line if isinstance(line, np.ndarray) else np.array(line, dtype=object)
        array[(at, slice(None)) if axis == 0 else (slice(None), at)] = _as_floats(numbers, precision)
    return array


def _as_floats(numbers: np.ndarray, precision: Precision) -> np.ndarray:
    """The same numbers as floats; refused where one would have to be rounded."""
    try:
        with np.errstate(over="ignore"):
            floats = numbers.astype(DTYPES[precision])
    except OverflowError as error:
        raise InexactWeights(
            f"a weight of this program is beyond {precision}.", precision=precision
        ) from error
    if np.issubdtype(numbers.dtype, np.integer):
        same = floats.astype(numbers.dtype) == numbers
    elif numbers.dtype == object:
        same = np.array([_same(float(f), n) for f, n in zip(floats.flat, numbers.flat, strict=True)])
    else:
        same = floats == numbers
    if not same.all():
        raise InexactWeights(f"a weight of this program is not a {precision} number.", precision=precision)
    return np.asarray(floats)


def _same(value: float, number: Number) -> bool:
    return isfinite(value) and Fraction(value) == (number.fraction if isinstance(number, Dyadic) else number)
