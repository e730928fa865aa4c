"""Run a residual program on given register values, through the exact interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from byheart.network import Embedding, SparseMatrix, Transformer
from byheart.network.transformer.interpreter import interpret
from byheart.program.blocks import Block
from byheart.program.emit import emit_layers


def run(program: Sequence[Block], start: Mapping[str, Fraction | int]) -> dict[str, Fraction]:
    """The registers after the program. Registers not in `start` begin at zero."""
    names = set(start)
    for step in program:
        names |= set(step.adds)
        for unit in step.units:
            names |= set(unit.reads) | set(unit.writes)
    registers = sorted(names)
    m = len(registers)
    identity = SparseMatrix.of((m, m), {(i, i): 1 for i in range(m)})
    # one token whose embedding is the starting state: exact for any dyadic number, which floats are not
    table = SparseMatrix.of(
        (1, m), {(0, i): Fraction(start.get(name, 0)) for i, name in enumerate(registers)}
    )
    network = Transformer(identity, emit_layers(program, registers), identity, 1, Embedding(table))
    (state,) = interpret(network, np.array([0]))
    return dict(zip(registers, state, strict=True))
