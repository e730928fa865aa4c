"""Run blocks on given register values, through the exact interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from byheart.network import Embedding, SparseMatrix, Transformer
from byheart.network.transformer.interpreter import interpret
from byheart.program.blocks import Block
from byheart.program.emit import emit_layers

Registers = Mapping[str, Fraction | int]


def run(blocks: Sequence[Block], start: Registers) -> dict[str, Fraction]:
    """The registers after the blocks. Registers not in `start` begin at zero."""
    return run_all(blocks, [start])[0]


def run_all(blocks: Sequence[Block], starts: Sequence[Registers]) -> list[dict[str, Fraction]]:
    """The same from several starts."""
    names = {name for start in starts for name in start}
    for block in blocks:
        names |= set(block.adds)
        for unit in block.units:
            names |= set(unit.reads) | set(unit.writes)
    registers = sorted(names)
    m = len(registers)
    identity = SparseMatrix.of((m, m), {(i, i): 1 for i in range(m)})
    # one token for each start, embedded as that state: exact for any dyadic number, which floats are not
    table = SparseMatrix.of(
        (len(starts), m),
        {(at, i): start.get(name, 0) for at, start in enumerate(starts) for i, name in enumerate(registers)},
    )
    network = Transformer(identity, emit_layers(blocks, registers), identity, 1, Embedding(table))
    states = [interpret(network, np.array([at]))[0] for at in range(len(starts))]
    return [dict(zip(registers, state, strict=True)) for state in states]
