"""Programs: networks described by named registers, before they have weight matrices.

Registers are the channels of the residual stream. A block is one feed-forward layer (KS25 eq. 3): every unit reads some
registers, applies ReLU, and adds multiples of the result to some registers. All units of a block read the values from
before the block. What the paper does by composing plain layers is done here by adding, and what must be forgotten is
subtracted: a register z >= 0 is cleared by z ← z - ReLU(z).

`emit` turns a program into a network; `count` computes its size from the same description. A description that is only
counted may be of data that do not exist yet: `Repeat` says how often blocks occur, `typical(bits)` is a number of that many bits.
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
"""A linear form: a multiple of each register named."""


@dataclass(frozen=True)
class Unit:
    """Adds writes[r] · ReLU(Σ reads[s] · s + bias) to every register r."""

    reads: Form
    bias: Number
    writes: Form


def clear(*registers: str) -> tuple[Unit, ...]:
    """Units that set registers to zero, provided they are not negative."""
    return tuple(Unit({register: 1}, 0, {register: -1}) for register in registers)


def threshold(register: str, least: int, writes: Form, hold: Form | None = None) -> tuple[Unit, Unit]:
    """Add `writes` if the whole number in `register` is at least `least`: ReLU(z - least + 1) - ReLU(z - least) is 0 or 1.

    `hold` adds other registers to what is read, which can keep the threshold from firing.
    """
    reads = {register: 1, **(hold or {})}
    return Unit(reads, 1 - least, dict(writes)), Unit(reads, -least, negate(writes))


@dataclass(frozen=True)
class Block:
    """One feed-forward layer: units side by side, and constants added to registers. `part` says what it is for.

    wide  arrays that a network of precision int8 stores as float32: those whose numbers depend on the data
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
"""One number for every unit of a table: an array of them, or a single number that all units share."""


@dataclass(frozen=True, eq=False)
class TableBlock:
    """One feed-forward layer of many units, one per row: like a `Block`, but written by columns.

    Unit a adds writes[r][a] · ReLU(Σ reads[s][a] · s + biases[a]) to every register r.
    """

    n_units: int
    reads: Mapping[str, Column]
    biases: Column
    writes: Mapping[str, Column]
    adds: Form = field(default_factory=dict)
    part: str = ""


@dataclass(frozen=True)
class RegisterHead:
    """An attention head: channel c carries values[c] of a token, and adds outputs[c] times that to the token that attends.

    Uniform attention has no keys and no queries.
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
    """The same steps `times` over."""

    times: int
    steps: tuple[Step, ...]


Step: TypeAlias = Block | TableBlock | RegisterAttention | SumPool | Repeat
Steps: TypeAlias = "Sequence[Step]"


Numbers: TypeAlias = "Repeated | Sequence[Number] | np.ndarray"
"""A list of numbers; a `range` of any length is counted without listing it."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Columns that turn a token id, and its position where order matters, into the vector that enters."""

    tokens: Sequence[Numbers]
    positions: Sequence[Numbers] | None = None


@dataclass(frozen=True)
class Repeated:
    """`times` copies of a non-zero number, and zeros up to `length`, in any order: only for counting."""

    number: Number
    times: int
    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True, eq=False)
class Program:
    """A whole network: vectors or token ids enter registers, steps work on them, one register is the answer.

    inputs  for each register that input enters, its multiple of every coordinate (E_in)
    table   how token ids become vectors; None where vectors enter
    pad     the id that pads short sequences
    extra   the vector of an extra token before every sequence
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
    """One step for every layer: repeats written out."""
    for step in steps:
        if isinstance(step, Repeat):
            for _ in range(step.times):
                yield from flat_steps(step.steps)
        else:
            yield step


def typical(bits: int) -> Dyadic:
    """A whole number of `bits` bits, as an example of all of them."""
    return Dyadic(1, bits - 1)


def typical_fraction(bits: int) -> Dyadic:
    """A number below 1 with `bits` bits after the point, as an example of all of them."""
    return Dyadic(1, -bits)


def mean_of_ends(first: int, last: int, steps_of: Callable[[int], tuple[Step, ...]]) -> tuple[Step, ...]:
    """For counting: steps_of(first), …, steps_of(last), whose weights change by as many bits from each to the next.

    Their mean is that of the two ends, so half of them are counted as the first, and half as the last.
    """
    n_steps = abs(last - first) + 1
    if n_steps < 2:
        return steps_of(first)
    return Repeat(n_steps - n_steps // 2, steps_of(first)), Repeat(n_steps // 2, steps_of(last))


def negate(form: Form) -> dict[str, Number]:
    return {name: -value for name, value in form.items()}


def head(value: Form, output: Form, key: Form | None = None, query: Form | None = None) -> RegisterHead:
    """A head of one channel."""
    scores = (None if form is None else (form,) for form in (key, query))
    return RegisterHead((value,), (output,), *scores)


def side_by_side(*runs: Sequence[Block]) -> Blocks:
    """Runs of blocks on different registers at once, so that all end with the same block."""
    merged: list[Block] = []
    for blocks in zip_longest(*(reversed(run) for run in runs)):
        present = [block for block in blocks if block is not None]
        units = tuple(unit for block in present for unit in block.units)
        merged.append(Block(units, {name: value for block in present for name, value in block.adds.items()}))
    return tuple(reversed(merged))
