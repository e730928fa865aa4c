"""Programs: networks described by named registers, before they have weight matrices.

A register is one channel of the residual stream. A block is one feed-forward layer (KS25 eq. 3). Each of its units reads some
registers, applies ReLU, and adds multiples of the result to some registers. All units of a block read the values that the
registers had before the block. In the paper, each layer replaces the values. Here, each layer only adds to the residual stream, so
a register that is no longer needed must be cleared: z ← z - ReLU(z) sets z >= 0 to zero.

`emit` turns a program into a network, and `count` computes the size of that network. A program can be counted before the data set
exists: `Repeat` stores how often a block occurs, and `typical(bits)` represents any number of `bits` bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from byheart.network.exact.dyadic import Dyadic, Number
from byheart.network.transformer.architecture import AttentionKind, Pattern, SumPool

Form: TypeAlias = Mapping[str, Number]
"""A linear form: the coefficient of each register, by name."""


@dataclass(frozen=True)
class Unit:
    """Adds writes[r] · ReLU(Σ reads[s] · s + bias) to every register r."""

    reads: Form
    bias: Number
    writes: Form


def clear(*registers: str) -> tuple[Unit, ...]:
    """Return one unit per register, which sets it to zero. The register must not hold a negative number."""
    return tuple(Unit({register: 1}, 0, {register: -1}) for register in registers)


def threshold(register: str, least: int, writes: Form, hold: Form | None = None) -> tuple[Unit, Unit]:
    """Return two units that add `writes` if the integer z in `register` is at least `least`.

    They compute ReLU(z - least + 1) - ReLU(z - least), which is 0 or 1.

    `hold` is a linear form that is added to z. A sufficiently negative value keeps the threshold from firing.
    """
    reads = {register: 1, **(hold or {})}
    return Unit(reads, 1 - least, dict(writes)), Unit(reads, -least, negate(writes))


@dataclass(frozen=True)
class Block:
    """One feed-forward layer: its units, and constants that it adds to registers (`adds`).

    part  the purpose of the layer, for display
    wide  the names of arrays that an int8 network stores as float32, because their numbers depend on the data
    """

    units: Sequence[Unit]
    adds: Form = field(default_factory=dict)
    part: str = ""
    wide: tuple[str, ...] = ("b1",)

    @property
    def n_units(self) -> int:
        return len(self.units)


Blocks: TypeAlias = tuple[Block, ...]

Column: TypeAlias = "Number | np.ndarray"
"""A number for each unit of a table: an array with one number per unit, or a single number for all units."""


@dataclass(frozen=True, eq=False)
class TableBlock:
    """One feed-forward layer of many units. It is a `Block` whose numbers are stored in arrays, with one entry per unit."""

    n_units: int
    reads: Mapping[str, Column]
    biases: Column
    writes: Mapping[str, Column]
    adds: Form = field(default_factory=dict)
    part: str = ""


@dataclass(frozen=True)
class RegisterHead:
    """An attention head with one or more channels.

    Channel c of a token's value is the linear form values[c]. The attending token adds outputs[c] times the attention-weighted
    sum of that channel to its registers. Uniform attention has no keys and no queries.
    """

    values: Sequence[Form]
    outputs: Sequence[Form]
    keys: Sequence[Form] | None = None
    queries: Sequence[Form] | None = None


@dataclass(frozen=True)
class RegisterAttention:
    heads: tuple[RegisterHead, ...]
    kind: AttentionKind = "uniform"
    pattern: Pattern = "full"
    part: str = ""


@dataclass(frozen=True)
class Repeat:
    """A sequence of steps, repeated `times` times."""

    times: int
    steps: tuple[Step, ...]


Step: TypeAlias = Block | TableBlock | RegisterAttention | SumPool | Repeat
Steps: TypeAlias = "Sequence[Step]"


Numbers: TypeAlias = "Repeated | Sequence[Number] | np.ndarray"
"""A list of numbers. A `range` of any length is counted without being expanded."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Embedding tables, which turn token ids into input vectors.

    Coordinate c of the vector of token a at position k is tokens[c][a] + positions[c][k]. If order does not matter, `positions` is
    None, and the coordinate is tokens[c][a].
    """

    tokens: Sequence[Numbers]
    positions: Sequence[Numbers] | None = None


@dataclass(frozen=True)
class Repeated:
    """Stands for a list of `length` numbers whose size is counted but which is never built. The non-zero `number` occurs in it
    `times` times, and all other entries are zero. The order of the entries is not given, because it does not affect the size.
    """

    number: Number
    times: int
    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True, eq=False)
class Program:
    """A whole network: how the input enters registers, the steps of the computation, and the register that holds the answer.

    inputs  for each register that is filled from the input, its row of the matrix w_in: one coefficient per input coordinate
    table   the tables that turn token ids into input vectors; None if the input is vectors already
    pad     the id that pads short sequences
    extra   the vector of an additional token placed before every sequence; None if there is none
    """

    registers: Sequence[str]
    inputs: Mapping[str, Numbers]
    steps: Sequence[Step]
    answer: str
    seq_len: int
    table: TokenTable | None = None
    pad: int | None = None
    extra: Numbers | None = None

    @property
    def model_width(self) -> int:
        return len(self.registers)

    @property
    def dim(self) -> int:
        return max(map(len, self.inputs.values()))


def flat_steps(steps: Iterable[Step]) -> Iterator[Block | TableBlock | RegisterAttention | SumPool]:
    """Yield one step per layer, with every `Repeat` expanded."""
    for step in steps:
        if isinstance(step, Repeat):
            for _ in range(step.times):
                yield from flat_steps(step.steps)
        else:
            yield step


def typical(bits: int) -> Dyadic:
    """Return an integer of `bits` bits, as a placeholder for any such number when weights are counted."""
    return Dyadic(1, bits - 1)


def typical_fraction(bits: int) -> Dyadic:
    """Return a number below 1 with `bits` bits after the binary point, as a placeholder for any such number when weights are
    counted.
    """
    return Dyadic(1, -bits)


def mean_of_ends(first: int, last: int, steps_of: Callable[[int], tuple[Step, ...]]) -> tuple[Step, ...]:
    """Return placeholder steps for counting the total size of steps_of(first), …, steps_of(last). Never build a network from them.

    From each steps_of(i) to steps_of(i + 1), the number of weight bits must change by the same amount, and all other sizes must be
    equal. The mean size is then the mean of the two ends. So half of the items are replaced by steps_of(first), and the other half
    by steps_of(last). If the number of items is even, the total is exact. If it is odd, steps_of(first) occurs once more than
    steps_of(last), and the total of the weight bits is wrong by half of the difference between their weight bits.
    """
    n_steps = abs(last - first) + 1
    if n_steps < 2:
        return steps_of(first)
    return Repeat(n_steps - n_steps // 2, steps_of(first)), Repeat(n_steps // 2, steps_of(last))


def negate(form: Form) -> dict[str, Number]:
    return {name: -value for name, value in form.items()}


def head(value: Form, output: Form, key: Form | None = None, query: Form | None = None) -> RegisterHead:
    """Return an attention head with one channel."""
    scores = (None if form is None else (form,) for form in (key, query))
    return RegisterHead((value,), (output,), *scores)


def side_by_side(*runs: Sequence[Block]) -> Blocks:
    """Return blocks that run several sequences of blocks in parallel, on different registers.

    Shorter sequences start later, so that all end together.
    """
    merged: list[Block] = []
    for blocks in zip_longest(*(reversed(run) for run in runs)):
        present = [block for block in blocks if block is not None]
        units = tuple(unit for block in present for unit in block.units)
        merged.append(Block(units, {name: value for block in present for name, value in block.adds.items()}))
    return tuple(reversed(merged))
