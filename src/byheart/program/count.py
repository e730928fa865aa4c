"""The size of a program, computed without building the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from byheart.network.exact.dyadic import Dyadic, Number
from byheart.network.protocol import FLOAT_BITS
from byheart.network.size import NOTHING, WIDEST_BITS, Size
from byheart.network.transformer.architecture import Precision, SumPool
from byheart.program import blocks
from byheart.program.emit import emit_layers
from byheart.program.storage import one_unit, step_bits


def count(program: blocks.Program, precision: Precision = "exact") -> Size:
    """Return the size of the network that `emit` builds from `program`."""
    columns = [*program.inputs.values(), *_columns(program.table)]
    if program.extra is not None:
        columns.append(program.extra)
    total = count_steps(program.steps, program.model_width, precision)
    total += _total(count_numbers(column, precision) for column in columns)
    total += Size(_entries_outside(program), 1, 0, program.model_width, 1, 1)  # E_out copies one register
    if precision == "exact":
        return total
    return replace(total, weight_bits=WIDEST_BITS[precision], total_bits=stored_bits(program, precision))


def stored_bits(program: blocks.Program, precision: Precision) -> int:
    """Return the number of bits that store the program's network: its float weights or, for int8, integers and their scales."""
    if precision != "int8":
        return FLOAT_BITS[precision] * count_dense(program)
    steps = sum(_bits_of_step(step, program.registers) for step in program.steps)
    return FLOAT_BITS["float32"] * _entries_outside(program) + steps


def _bits_of_step(step: blocks.Step, registers: Sequence[str]) -> int:
    if isinstance(step, blocks.Repeat):
        return step.times * sum(_bits_of_step(each, registers) for each in step.steps)
    if isinstance(step, SumPool):
        return 0
    (layer,) = emit_layers((one_unit(step),), registers, "float64")
    return step_bits(step, layer, 0 if isinstance(step, blocks.RegisterAttention) else step.n_units)


def count_dense(program: blocks.Program) -> int:
    """Count the entries of all weight matrices. The weights are not computed, so no unit of `LazyUnits` is created."""
    return _entries_outside(program) + sum(_entries(step, program.model_width) for step in program.steps)


def _entries_outside(program: blocks.Program) -> int:
    """Count the weights outside the layers: the embedding, the extra token, and the maps into and out of the residual stream."""
    n_entries = (program.dim + 1) * program.model_width + sum(map(len, _columns(program.table)))
    return n_entries + (0 if program.extra is None else program.dim)


def _entries(step: blocks.Step, model_width: int) -> int:
    if isinstance(step, blocks.Repeat):
        return step.times * sum(_entries(each, model_width) for each in step.steps)
    if isinstance(step, SumPool):
        return 0
    if isinstance(step, blocks.RegisterAttention):
        return model_width * sum(1 for _ in _head_forms(step))
    return 2 * model_width * step.n_units + step.n_units + model_width


def count_steps(steps: Iterable[blocks.Step], model_width: int, precision: Precision = "exact") -> Size:
    """Return the size that some steps add to a network whose residual stream has `model_width` channels."""
    return _total(_count_step(step, model_width, precision) for step in steps)


def _count_step(step: blocks.Step, model_width: int, precision: Precision) -> Size:
    if isinstance(step, blocks.Repeat):
        return count_steps(step.steps, model_width, precision).times(step.times)
    if isinstance(step, SumPool):
        return NOTHING
    if isinstance(step, blocks.RegisterAttention):
        width = sum(len(head.values) for head in step.heads)
        weights = count_numbers([value for form in _head_forms(step) for value in form.values()], precision)
    else:
        width = step.n_units
        weights = count_numbers(list(step.adds.values()), precision)
        if isinstance(step, blocks.Block):
            weights += count_numbers(list(_unit_numbers(step)), precision)
        else:
            columns = (*step.reads.values(), step.biases, *step.writes.values())
            weights += _total(_count_column(column, step.n_units, precision) for column in columns)
    return weights + Size(_entries(step, model_width), 0, 1, width, 0, 0)


def _unit_numbers(block: blocks.Block) -> Iterator[Number]:
    for unit in block.units:
        yield from unit.reads.values()
        yield unit.bias
        yield from unit.writes.values()


def _head_forms(step: blocks.RegisterAttention) -> Iterator[blocks.Form]:
    for head in step.heads:
        for forms in (head.values, head.outputs, head.keys or (), head.queries or ()):
            yield from forms


def _count_column(column: blocks.Column, n_units: int, precision: Precision) -> Size:
    if isinstance(column, np.ndarray):
        return count_numbers(column, precision)
    return count_numbers([column], precision).times(n_units)


def _columns(table: blocks.TokenTable | None) -> list[blocks.Numbers]:
    return [] if table is None else [*table.tokens, *(table.positions or ())]


def count_numbers(numbers: blocks.Numbers, precision: Precision = "exact") -> Size:
    """Count the numbers that are not zero. If the precision is exact, or if `numbers` is a `range`, count their bits too."""
    if isinstance(numbers, range):
        return count_progression(numbers)
    if isinstance(numbers, blocks.Repeated):
        return count_numbers([numbers.number], precision).times(numbers.times)
    if precision == "exact":
        plain: Iterable[Number] = numbers.ravel().tolist() if isinstance(numbers, np.ndarray) else numbers
        bits = [exact.bits for exact in map(Dyadic.of, plain) if exact.mantissa]
        return _weights(len(bits), max(bits, default=0), sum(bits))
    if isinstance(numbers, np.ndarray) and numbers.dtype != object:
        return _weights(int(np.count_nonzero(numbers)))
    return _weights(sum(bool(number) for number in numbers))


def count_progression(numbers: range) -> Size:
    """Count the non-zero numbers in an ascending range of non-negative integers, and their bits, without expanding the range.

    An integer x has Σ_b [x >= 2^b] bits. So all integers of the range together have Σ_b (number of integers x >= 2^b) bits.
    """
    positive = numbers[1:] if 0 in numbers else numbers
    if not positive:
        return NOTHING
    longest = positive[-1].bit_length()
    below = (max(0, -(-((1 << b) - positive[0]) // positive.step)) for b in range(longest))
    return _weights(len(positive), longest, sum(len(positive) - n_below for n_below in below))


def _weights(n_nonzero: int, longest: int = 0, bits: int = 0) -> Size:
    """Return a `Size` with the number of non-zero weights and their bits (KS25 section 3.3).

    Other sizes, such as the number of matrix entries, are counted elsewhere.
    """
    return Size(0, n_nonzero, 0, 0, longest, bits)


def _total(parts: Iterable[Size]) -> Size:
    return sum(parts, NOTHING)
