"""The size of a program, from the description that `emit` turns into a network, without building the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from byheart.network.exact.dyadic import Dyadic, Number
from byheart.network.size import FLOAT_BITS, Size
from byheart.network.transformer.architecture import Precision, SumPool
from byheart.program import blocks


@dataclass(frozen=True)
class WeightCount:
    """Numbers that are not zero: how many, their bits in all, and the bits of the longest (KS25 section 3.3)."""

    count: int = 0
    bits: int = 0
    longest: int = 0

    def __add__(self, other: WeightCount) -> WeightCount:
        return WeightCount(self.count + other.count, self.bits + other.bits, max(self.longest, other.longest))

    def times(self, n_copies: int) -> WeightCount:
        return WeightCount(n_copies * self.count, n_copies * self.bits, self.longest if n_copies else 0)


NO_WEIGHTS = WeightCount()


@dataclass(frozen=True)
class StepCount:
    """What some steps add to a network: entries of matrices, weights that are not zero, layers, and the widest layer."""

    dense: int = 0
    weights: WeightCount = NO_WEIGHTS
    depth: int = 0
    width: int = 0

    def __add__(self, other: StepCount) -> StepCount:
        return StepCount(
            self.dense + other.dense,
            self.weights + other.weights,
            self.depth + other.depth,
            max(self.width, other.width),
        )

    def times(self, n_copies: int) -> StepCount:
        width = self.width if n_copies else 0
        return StepCount(n_copies * self.dense, self.weights.times(n_copies), n_copies * self.depth, width)


def count(program: blocks.Program, precision: Precision = "exact") -> Size:
    """The size of the network that `emit` makes of `program`."""
    steps = count_steps(program.steps, program.model_width, precision)
    columns = [*program.inputs.values(), *_columns(program.table)]
    if program.extra is not None:
        columns.append(program.extra)
    weights = steps.weights + _total(count_numbers(column, precision) for column in columns)
    weights += WeightCount(1, 1, 1)  # E_out copies one register
    n_dense, width = _entries_outside(program) + steps.dense, max(program.model_width, steps.width)
    if precision == "exact":
        return Size(n_dense, weights.count, steps.depth, width, weights.longest, weights.bits)
    word = FLOAT_BITS[precision]
    return Size(n_dense, weights.count, steps.depth, width, word, word * n_dense)


def count_dense(program: blocks.Program) -> int:
    """Entries of all weight matrices, without a look at the weights: blocks that make their units when asked make none."""
    return _entries_outside(program) + sum(_entries(step, program.model_width) for step in program.steps)


def _entries_outside(program: blocks.Program) -> int:
    """Entries of what is before and after the layers."""
    n_entries = (program.dim + 1) * program.model_width + sum(map(blocks.length, _columns(program.table)))
    return n_entries + (0 if program.extra is None else program.dim)


def _entries(step: blocks.Step, model_width: int) -> int:
    if isinstance(step, blocks.Repeat):
        return step.times * sum(_entries(each, model_width) for each in step.steps)
    if isinstance(step, SumPool):
        return 0
    if isinstance(step, blocks.RegisterAttention):
        return model_width * sum(1 for _ in _head_forms(step))
    return 2 * model_width * step.n_units + step.n_units + model_width


def count_steps(steps: Iterable[blocks.Step], model_width: int, precision: Precision = "exact") -> StepCount:
    """What some steps add to a network whose residual stream is `model_width` wide."""
    return sum((_count_step(step, model_width, precision) for step in steps), StepCount())


def _count_step(step: blocks.Step, model_width: int, precision: Precision) -> StepCount:
    if isinstance(step, blocks.Repeat):
        return count_steps(step.steps, model_width, precision).times(step.times)
    if isinstance(step, SumPool):
        return StepCount()
    if isinstance(step, blocks.RegisterAttention):
        n_channels = sum(len(head.values) for head in step.heads)
        weights = count_numbers([value for form in _head_forms(step) for value in form.values()], precision)
        return StepCount(_entries(step, model_width), weights, 1, n_channels)
    weights = count_numbers(list(step.adds.values()), precision)
    if isinstance(step, blocks.Block):
        weights += count_numbers(list(_unit_numbers(step)), precision)
    else:
        columns = (*step.reads.values(), step.biases, *step.writes.values())
        weights += _total(_count_column(column, step.n_units, precision) for column in columns)
    return StepCount(_entries(step, model_width), weights, 1, step.n_units)


def _unit_numbers(block: blocks.Block) -> Iterator[Number]:
    for unit in block.units:
        yield from unit.reads.values()
        yield unit.bias
        yield from unit.writes.values()


def _head_forms(step: blocks.RegisterAttention) -> Iterator[blocks.Form]:
    for head in step.heads:
        for forms in (head.values, head.outputs, head.keys or (), head.queries or ()):
            yield from forms


def _count_column(column: blocks.Column, n_units: int, precision: Precision) -> WeightCount:
    if isinstance(column, np.ndarray):
        return count_numbers(column, precision)
    return count_numbers([column], precision).times(n_units)


def _columns(table: blocks.TokenTable | None) -> list[blocks.Numbers]:
    return [] if table is None else [*table.tokens, *(table.positions or ())]


def count_numbers(numbers: blocks.Numbers, precision: Precision = "exact") -> WeightCount:
    """Count numbers that are not zero, and their bits where weights are stored by their bits."""
    if isinstance(numbers, blocks.Progression):
        return count_progression(numbers)
    if isinstance(numbers, blocks.Repeated):
        return count_numbers([numbers.number], precision).times(numbers.times)
    if precision == "exact":
        plain: Iterable[Number] = numbers.ravel().tolist() if isinstance(numbers, np.ndarray) else numbers
        bits = [exact.bits for exact in map(Dyadic.of, plain) if exact.mantissa]
        return WeightCount(len(bits), sum(bits), max(bits, default=0))
    if isinstance(numbers, np.ndarray) and numbers.dtype != object:
        return WeightCount(int(np.count_nonzero(numbers)))
    return WeightCount(sum(bool(number) for number in numbers))


def count_progression(numbers: blocks.Progression) -> WeightCount:
    """Whole numbers that ascend from 0 or above, without listing them.

    A number x has Σ_b [x >= 2^b] bits, so all together have Σ_b #{x >= 2^b}.
    """
    first, difference, n_numbers = numbers.first, numbers.difference, numbers.length
    if n_numbers < 1:
        return NO_WEIGHTS
    if first == 0:
        return count_progression(blocks.Progression(difference, difference, n_numbers - 1))
    last = first + difference * (n_numbers - 1)
    below = (max(0, -(-((1 << b) - first) // difference)) for b in range(last.bit_length()))
    return WeightCount(n_numbers, sum(n_numbers - n_below for n_below in below), last.bit_length())


def _total(parts: Iterable[WeightCount]) -> WeightCount:
    return sum(parts, NO_WEIGHTS)
