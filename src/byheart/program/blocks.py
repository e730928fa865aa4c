"""Residual ReLU programs: the language the lemmas are written in.

A program works on named registers, the channels of the residual stream. A `Step` is one feed-forward block (KS25 eq. 3):
every unit reads some registers, applies ReLU, and adds multiples of the result to some registers. All units of a
step read the values from before the step. What the paper does by composing plain layers is done here by adding, and
what must be forgotten is subtracted: a register z >= 0 is cleared by z ← z - ReLU(z).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from byheart.network.exact.dyadic import Number, SparseMatrix
from byheart.network.transformer.architecture import FeedForward
from byheart.program.weight_count import Tally, tally


@dataclass(frozen=True)
class Unit:
    """Adds writes[r] · ReLU(Σ reads[s] · s + bias) to every register r."""

    reads: Mapping[str, Number]
    bias: Number
    writes: Mapping[str, Number]


@dataclass(frozen=True)
class Step:
    """One feed-forward block: units side by side, and constants added to registers."""

    units: tuple[Unit, ...]
    shifts: Mapping[str, Number] = field(default_factory=dict)


Program = tuple[Step, ...]


def clear(*registers: str) -> tuple[Unit, ...]:
    """Units that set registers to zero, provided they are not negative."""
    return tuple(Unit({register: 1}, 0, {register: -1}) for register in registers)


def side_by_side(*programs: Program) -> Program:
    """Programs on different registers run at once, so that all end with the same step."""
    merged: list[Step] = []
    for steps in zip_longest(*(reversed(program) for program in programs)):
        present = [step for step in steps if step is not None]
        units = tuple(unit for step in present for unit in step.units)
        merged.append(Step(units, {name: value for step in present for name, value in step.shifts.items()}))
    return tuple(reversed(merged))


def tally_of_steps(steps: Iterable[Step]) -> Tally:
    """The weights of the blocks a program becomes."""
    return tally(
        number
        for step in steps
        for numbers in (
            step.shifts.values(),
            *((*unit.reads.values(), unit.bias, *unit.writes.values()) for unit in step.units),
        )
        for number in numbers
    )


def emit(program: Sequence[Step], registers: Sequence[str]) -> tuple[FeedForward, ...]:
    """The feed-forward blocks of a program; channel i holds registers[i]."""
    return tuple(_block(step, {name: channel for channel, name in enumerate(registers)}) for step in program)


def _block(step: Step, channel: Mapping[str, int]) -> FeedForward:
    model, hidden = len(channel), len(step.units)
    w1: dict[tuple[int, int], Number] = {}
    w2: dict[tuple[int, int], Number] = {}
    for number, unit in enumerate(step.units):
        w1.update({(number, channel[name]): value for name, value in unit.reads.items()})
        w2.update({(channel[name], number): value for name, value in unit.writes.items()})
    return FeedForward(
        SparseMatrix.of((hidden, model), w1),
        SparseMatrix.of((hidden, 1), {(number, 0): unit.bias for number, unit in enumerate(step.units)}),
        SparseMatrix.of((model, hidden), w2),
        SparseMatrix.of((model, 1), {(channel[name], 0): value for name, value in step.shifts.items()}),
    )
