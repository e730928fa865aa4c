"""Move the parameters of a hard-attention Transformer along a line, and divide the line into cells on which the outputs of the
Transformer are polynomials, as in the proof of KS25 Theorem B.3.

The parameters are start + t * direction for a real number t. The tokens that hardmax selects depend on t, and so do the ReLU units
that are active. Both change only where certain polynomials in t change their sign. Between the roots of these polynomials, and at
each root, every number in the network is a polynomial in t. A root is stored as an interval that contains no other root of its
polynomial, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations, pairwise

import numpy as np

from byheart.errors import AssumptionViolated
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.exact.polynomials import (
    Polynomial,
    Root,
    add,
    between,
    compare_roots,
    multiply,
    polynomial,
    roots_of_all,
    scale,
    sign,
    value_at,
)
from byheart.network.transformer.architecture import Attention, FeedForward, Transformer
from byheart.theorems import realises

Token = list[Polynomial]
Stream = list[list[Token]]
"""The residual stream as polynomials in t: one list of entries for each token of each sequence."""

Matrix = list[list[Polynomial]]


@dataclass(frozen=True)
class Cell:
    """A part of the line of real numbers t: the open interval between the roots `left` and `right`.

    If `is_point` is true, the part is a single root, and both ends are this root. If an end is None, the interval is unbounded on
    that side. `stream` holds the numbers of the residual stream as polynomials in t, for each sequence and token.
    """

    left: Root | None
    right: Root | None
    stream: Stream
    is_point: bool = False

    def signs(self, polynomials: Sequence[Polynomial]) -> tuple[int, ...]:
        """Return the sign of each polynomial on this part of the line. If the part is an interval, no polynomial may have a root
        in it.
        """
        if self.is_point:
            assert self.left is not None
            return tuple(self.left.sign_of(each) for each in polynomials)
        point = between(self.left, self.right)
        return tuple(sign(value_at(each, point)) for each in polynomials)

    def split(self, polynomials: Sequence[Polynomial]) -> list[Cell]:
        """Split the cell into parts on which no polynomial changes its sign."""
        if self.is_point:
            return [self]
        roots = [root for root in roots_of_all(polynomials) if self._holds(root)]
        cells = [Cell(root, root, self.stream, is_point=True) for root in roots]
        gaps = [Cell(a, b, self.stream) for a, b in pairwise([self.left, *roots, self.right])]
        return [*gaps, *cells]

    def _holds(self, root: Root) -> bool:
        return (self.left is None or compare_roots(self.left, root) < 0) and (
            self.right is None or compare_roots(root, self.right) < 0
        )


@dataclass(frozen=True)
class LayerCount:
    """Counts for one layer. `kind` is the name of its class. A cell is a part of the line on which the numbers of the residual
    stream are polynomials.

    n_polynomials    the number of polynomials whose signs decide which tokens hardmax selects, or which ReLU units are active.
                     It is the same in every cell before the layer
    n_cells          the number of cells after the layer
    decision_degree  the largest degree of the polynomials that `n_polynomials` counts
    degree           the largest degree of the outputs of the layer
    """

    kind: str
    n_polynomials: int
    n_cells: int
    decision_degree: int
    degree: int


@dataclass(frozen=True)
class LineCount:
    """The result of `count_on_line`: the counts for each layer (see `LayerCount`), the largest degree of the network's outputs as
    polynomials, and the sign vectors that occur on the line. The outputs are the first entry of `w_out` for every token. A sign
    vector holds the sign of each output. The number of sign vectors is K in KS25 eq. (70).
    """

    layers: tuple[LayerCount, ...]
    output_degree: int
    sign_vectors: frozenset[tuple[int, ...]]


@realises("KS25-T4.3", "KS25-T B.3")
def count_on_line(start: Transformer, direction: Transformer, sequences: np.ndarray) -> LineCount:
    """Let t move the parameters of a network along the line start + t * direction. Divide the real numbers t into cells on which
    the outputs are polynomials in t. Return the numbers of cells, the largest degrees, and the sign vectors of the outputs.

    Source:   KS25 eqs. (70) to (89), restricted to a line in parameter space. The polynomials have W = 1 variable, t.
    Assumes:  two exact networks of one shape, with hard attention and feed-forward layers, and without an embedding or an
              extra token; `sequences` (N, n, d) of floats.
    """
    stream: Stream = [
        [
            _times(_matrix(start.w_in, direction.w_in), [polynomial([Fraction(float(x))]) for x in token])
            for token in each
        ]
        for each in sequences
    ]
    cells, counts = [Cell(None, None, stream)], []
    for first, second in zip(start.layers, direction.layers, strict=True):
        made: list[Cell] = []
        n_polynomials = decision_degree = 0
        for cell in cells:
            if isinstance(first, FeedForward) and isinstance(second, FeedForward):
                deciding = _inputs_of_units(first, second, cell.stream)
                made += [_after_units(part, first, second, deciding) for part in cell.split(deciding)]
            elif isinstance(first, Attention) and isinstance(second, Attention) and first.kind == "hardmax":
                scores = _scores(first, second, cell.stream)
                deciding = _differences(scores)
                made += [_after_heads(part, first, second, scores) for part in cell.split(deciding)]
            else:
                raise AssumptionViolated(
                    "both networks must consist of hard attention and feed-forward layers, in the same order."
                )
            n_polynomials = len(deciding)
            decision_degree = max(decision_degree, _degree(deciding))
        cells = made
        degree = max(_degree(token) for cell in cells for each in cell.stream for token in each)
        kind = type(first).__name__
        counts.append(LayerCount(kind, n_polynomials, len(cells), decision_degree, degree))
    head = _matrix(start.w_out, direction.w_out)[:1]
    vectors, output_degree = set(), 0
    for cell in cells:
        outputs = [_times(head, token)[0] for each in cell.stream for token in each]
        output_degree = max(output_degree, _degree(outputs))
        vectors |= {part.signs(outputs) for part in cell.split(outputs)}
    return LineCount(tuple(counts), output_degree, frozenset(vectors))


def _degree(polynomials: Sequence[Polynomial]) -> int:
    return max((len(each) - 1 for each in polynomials), default=0)


def _fractions(weights: Weights) -> np.ndarray:
    return weights.toarray() if isinstance(weights, SparseMatrix) else np.atleast_2d(weights.T).T


def _matrix(start: Weights, direction: Weights) -> Matrix:
    """Return start + t * direction, entry by entry."""
    pairs = zip(_fractions(start).tolist(), _fractions(direction).tolist(), strict=True)
    return [[polynomial([Fraction(a), Fraction(b)]) for a, b in zip(*rows, strict=True)] for rows in pairs]


def _dot(left: Sequence[Polynomial], right: Sequence[Polynomial]) -> Polynomial:
    return reduce(add, (multiply(a, b) for a, b in zip(left, right, strict=True)), ())


def _times(matrix: Matrix, token: Token) -> Token:
    return [_dot(row, token) for row in matrix]


def _inputs_of_units(first: FeedForward, second: FeedForward, stream: Stream) -> list[Polynomial]:
    w1, b1 = _matrix(first.w1, second.w1), _matrix(first.b1, second.b1)
    return [
        add(value, bias[0])
        for each in stream
        for token in each
        for value, bias in zip(_times(w1, token), b1, strict=True)
    ]


def _after_units(cell: Cell, first: FeedForward, second: FeedForward, inputs: list[Polynomial]) -> Cell:
    w2, b2 = _matrix(first.w2, second.w2), _matrix(first.b2, second.b2)
    signs, at = cell.signs(inputs), 0
    stream: Stream = []
    for each in cell.stream:
        stream.append([])
        for token in each:
            end = at + first.hidden_width
            active = [value if s > 0 else () for value, s in zip(inputs[at:end], signs[at:end], strict=True)]
            change = [add(value, bias[0]) for value, bias in zip(_times(w2, active), b2, strict=True)]
            stream[-1].append([add(a, b) for a, b in zip(token, change, strict=True)])
            at = end
    return Cell(cell.left, cell.right, stream, cell.is_point)


def _scores(first: Attention, second: Attention, stream: Stream) -> list[list[list[list[Polynomial]]]]:
    """Return all attention scores, as polynomials in t. They are nested by head, sequence, attending token and attended token."""
    found = []
    for a, b in zip(first.heads, second.heads, strict=True):
        key, query = (_matrix(*_both(getattr(a, name), getattr(b, name))) for name in ("key", "query"))
        found.append(
            [
                [[_dot(_times(key, read), _times(query, reader)) for read in each] for reader in each]
                for each in stream
            ]
        )
    return found


def _both(first: Weights | None, second: Weights | None) -> tuple[Weights, Weights]:
    """Return both arrays. Neither can be None, because hard attention always has keys and queries."""
    assert first is not None
    assert second is not None
    return first, second


def _differences(scores: list[list[list[list[Polynomial]]]]) -> list[Polynomial]:
    return [
        add(a, scale(-1, b))
        for head in scores
        for each in head
        for row in each
        for a, b in combinations(row, 2)
    ]


def _after_heads(
    cell: Cell, first: Attention, second: Attention, scores: list[list[list[list[Polynomial]]]]
) -> Cell:
    stream = [[list(token) for token in each] for each in cell.stream]
    for number, (a, b) in enumerate(zip(first.heads, second.heads, strict=True)):
        value, output = _matrix(a.value, b.value), _matrix(a.output, b.output)
        for i, each in enumerate(cell.stream):
            for k, row in enumerate(scores[number][i]):
                best = [
                    at
                    for at, mine in enumerate(row)
                    if min(cell.signs([add(mine, scale(-1, other)) for other in row])) >= 0
                ]
                share = Fraction(1, len(best))
                mean = [
                    scale(share, reduce(add, column))
                    for column in zip(*(each[at] for at in best), strict=True)
                ]
                change = _times(output, _times(value, mean))
                stream[i][k] = [add(x, y) for x, y in zip(stream[i][k], change, strict=True)]
    return Cell(cell.left, cell.right, stream, cell.is_point)
