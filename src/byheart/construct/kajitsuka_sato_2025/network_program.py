"""The networks of KS25 as programs, E_out ∘ F2 ∘ (attention or pooling) ∘ F1 ∘ E_in.

A program is built for a data set or, to count its parameters, from the shape of the data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from byheart.construct.kajitsuka_sato_2025.contextual_mapping import ContextualMapping
from byheart.construct.kajitsuka_sato_2025.lookup_split import Entrance, LookupSplit, MappingNumbers, Tuning
from byheart.data.dataset import Dataset, Task
from byheart.data.shape import DataShape
from byheart.network.transformer.architecture import SumPool
from byheart.program.blocks import (
    Block,
    Numbers,
    Program,
    RegisterAttention,
    Repeated,
    Step,
    TokenTable,
    Unit,
    clear,
    head,
    typical,
)
from byheart.program.distinct_tokens import table_of_shape
from byheart.program.lookup import ANSWER, LOOKUP, PACKED, X, memorise_points, weigh_tokens
from byheart.program.projection import LineMap, Projection, typical_line, typical_map
from byheart.theorems import realises

SUM = "sum"
REGISTERS = (*LOOKUP, SUM)
"""The channels of the residual stream, in order. If `Tuning.has_maps` is False, one for each coordinate of vectors follows."""


@realises("KS25-R4.3")
@dataclass(frozen=True, eq=False)
class NetworkParts:
    """The parts of a network. They come from a data set or, if parameters are only counted, from typical numbers.

    Unless `tuning.has_maps` is False, only the input matrix E_in and the extra token have a side of length d, the dimension of the
    tokens. So the number of parameters contains the term 10·d (11·d with an extra token), and otherwise depends on d only
    logarithmically (KS25 Remark 4.3).

    token_line    the map that sends vectors to a line; for token ids the identity, because `table` already holds values on the line
    first         F1, which computes the weight φ of the token (Lemma B.3), without its first block
    context_line  the map that sends φ of the token, its value and the sum of φ to a line; for sets it maps only the sum
    second        F2, which computes the label of the context (Lemma C.1), without its first block
    extra         the vector of an extra token that collects the sum (Remark 4.5)
    tuning        the free choices. With softmax attention, keys and queries are zero. If `tuning.has_maps` is False, the
                  coordinates of vectors enter as channels, and the first block projects them (Remark 3.1): E_in and E_out copy,
                  and every block has d more channels
    """

    task: Task
    seq_len: int
    entrance: Entrance
    table: TokenTable | None
    pad: int | None
    token_line: LineMap
    first: Sequence[Step]
    context_line: LineMap
    second: Sequence[Step]
    extra: Numbers | None
    tuning: Tuning

    def program(self) -> Program:
        registers, inputs = self._entering()
        shift = []
        if self.entrance == "vectors":
            coordinates = registers[len(REGISTERS) :]
            shift = [
                self._shift() if self.tuning.has_maps else Block((self.token_line.unit(coordinates, X),))
            ]
        steps = [*shift, *self.first, *self._mixing(), self._context_block(), *self.second]
        return Program(registers, inputs, steps, ANSWER, self.seq_len, self.table, self.pad, self.extra)

    def _entering(self) -> tuple[tuple[str, ...], dict[str, Numbers]]:
        """Return all registers, and for each register that receives the input, the coefficients of the input coordinates."""
        if self.entrance == "table":
            return REGISTERS, {X: (1, 0), ANSWER: (0, 1)}
        dim = len(self.token_line.coefficients)
        if self.tuning.has_maps or self.entrance == "line":
            return REGISTERS, {X: self.token_line.coefficients}
        coordinates = tuple(f"input {at}" for at in range(dim))
        copies: dict[str, Numbers] = {
            name: tuple(int(at == other) for other in range(dim)) for at, name in enumerate(coordinates)
        }
        return (*REGISTERS, *coordinates), copies

    def _shift(self) -> Block:
        """Return the block that replaces the token's value x by ReLU(x + offset).

        The input matrix E_in is linear and cannot add the offset. The terms -ReLU(x) + ReLU(-x) remove the old x.
        """
        plain = (Unit({X: 1}, 0, {X: -1}), Unit({X: -1}, 0, {X: 1}))
        return Block((Unit({X: 1}, self.token_line.offset, {X: 1}), *plain))

    def _mixing(self) -> tuple[Step, ...]:
        """Return the steps that sum the token weights φ over the sequence.

        Sets are pooled. For sequences of n tokens, W_O·W_V is scaled by n, which turns the mean of attention into a sum
        (erratum 8).
        """
        if self.task == "set":
            return (SumPool(),)
        is_sparse = self.extra is not None
        total = head({ANSWER: 1}, {SUM: self.seq_len + is_sparse})
        if self.tuning.attention == "softmax":
            # every score is 0, so every weight is exp(0) / (n · exp(0)) = 1/n: softmax is the average (eq. 39)
            zero = replace(total, keys=({},), queries=({},))
            return (RegisterAttention((zero,), kind="softmax"),)
        if not is_sparse:
            return (RegisterAttention((total,)),)
        # the extra token has φ = 0; it gathers the sum of the other tokens, and then every token reads the sum from it
        copy = head({SUM: 1}, {SUM: 1})
        return RegisterAttention((total,), pattern="gather"), RegisterAttention((copy,), pattern="scatter")

    def _context_block(self) -> Block:
        """Return the block that maps a context to its value on a line, and clears what earlier blocks left in the registers.

        Values on the line are at least 2, so ReLU does not change them.
        """
        context = (ANSWER,) if self.task == "set" else (ANSWER, X, SUM)
        return Block((self.context_line.unit(context, X), *clear(X, ANSWER, *PACKED)))


def network_program(mapping: ContextualMapping, data: Dataset, split: LookupSplit, tuning: Tuning) -> Program:
    """Build the network that maps each context to its number in `mapping`, and looks up the label of this number."""
    tokens, line = mapping.tokens, mapping.token_line
    table, extra = tokens.table, extra_token(line) if tuning.attention == "sparse" else None
    if split.entrance == "table":
        # a second column of the table holds φ and replaces the network F1 (Theorem E.1)
        assert table is not None
        assert isinstance(data.vocab, int)
        weights = [0] * (data.vocab + (tokens.pad is not None))
        for token, weight in mapping.weights.items():
            weights[int(line.values[token] - 2) // 2] = weight  # token a has the value 2a + 2
        table = TokenTable((*table.tokens, weights))
        extra = None if extra is None else (*extra, 0)
    first = () if split.entrance == "table" else weigh_tokens(line.values, mapping.weights, split.first)
    return NetworkParts(
        data.task,
        data.seq_len,
        split.entrance,
        table,
        tokens.pad,
        line,
        first,
        mapping.context_line,
        memorise_points(mapping.labels, split.second),
        extra,
        tuning,
    ).program()


def extra_token(line: Projection) -> tuple[int, ...]:
    """Return the vector of the extra token, which is added to every sequence and must have the token weight 0.

    `line` maps this vector to a number that exceeds the values of all tokens by at least 2. So the lookup that
    computes token weights (Lemma C.1) returns 0 for it.

    If there is only one distinct token, all coefficients of `line` may be 0. But then counts distinguish no sequences, so all token
    weights are 0, and any vector works.
    """
    axis = next((at for at, value in enumerate(line.coefficients) if value), None)
    if axis is None:
        return (0,) * len(line.coefficients)
    coefficient, beyond = line.coefficients[axis], max(line.values) + 2 - line.offset
    # an integer with the right sign, so that coefficient · entry >= beyond
    entry = ceil(abs(beyond) / abs(coefficient)) * (1 if coefficient > 0 else -1)
    return tuple(entry if at == axis else 0 for at in range(len(line.coefficients)))


def network_outline(shape: DataShape, numbers: MappingNumbers, split: LookupSplit, tuning: Tuning) -> Program:
    """Return the program that `network_program` would build for data of this shape, so that its parameters can be counted."""
    table, dim = table_of_shape(shape), shape.dim or 1
    if split.entrance == "table":
        assert table is not None
        assert shape.vocab is not None
        weights = Repeated(typical(numbers.weighting_bits), numbers.n_weights, shape.vocab + shape.ragged)
        table, dim = TokenTable((*table.tokens, weights)), 2
    return NetworkParts(
        shape.task,
        shape.seq_len,
        split.entrance,
        table,
        None,
        typical_line(shape, numbers.token_bits),
        () if split.first is None else split.first.outline(),
        typical_map(1 if shape.task == "set" else 3, numbers.context_bits),
        split.second.outline(),
        Repeated(typical(numbers.token_bits), 1, dim) if tuning.attention == "sparse" else None,
        tuning,
    ).program()
