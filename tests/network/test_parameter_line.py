"""KS25 Theorem B.3 along a line of parameters: degrees and cells as its proof says, patterns as the network gives them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from byheart.bounds.enclosures import log2
from byheart.bounds.vc_dimension import log2_sign_patterns
from byheart.errors import AssumptionViolated
from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.parameter_line import count_on_line
from byheart.theorems import checks

N, LENGTH, DIM = 2, 2, 1


def _network(rng: np.random.Generator, n_blocks: int, n_heads: int, model: int, hidden: int) -> Transformer:
    def matrix(*shape: int) -> SparseMatrix:
        return SparseMatrix.from_array(rng.integers(-2, 3, shape))

    layers: list[Attention | FeedForward] = []
    for _ in range(n_blocks):
        heads = tuple(
            Head(matrix(1, model), matrix(model, 1), matrix(1, model), matrix(1, model))
            for _ in range(n_heads)
        )
        layers += [
            Attention(heads, "hardmax"),
            FeedForward(matrix(hidden, model), matrix(hidden, 1), matrix(model, hidden), matrix(model, 1)),
        ]
    return Transformer(matrix(model, DIM), tuple(layers), matrix(1, model), LENGTH)


def _at(start: Transformer, direction: Transformer, t: Fraction) -> Transformer:
    def mix(a: SparseMatrix, b: SparseMatrix) -> SparseMatrix:
        values = a.toarray() + t * b.toarray()
        return SparseMatrix.of(a.shape, dict(np.ndenumerate(values)))

    layers: list[Attention | FeedForward] = []
    for one, two in zip(start.layers, direction.layers, strict=True):
        if isinstance(one, FeedForward):
            layers.append(
                FeedForward(*(mix(getattr(one, n), getattr(two, n)) for n in ("w1", "b1", "w2", "b2")))
            )
        else:
            names = ("value", "output", "key", "query")
            heads = tuple(
                Head(*(mix(getattr(a, n), getattr(b, n)) for n in names))
                for a, b in zip(one.heads, two.heads, strict=True)
            )
            layers.append(Attention(heads, "hardmax"))
    return replace(
        start,
        w_in=mix(start.w_in, direction.w_in),
        layers=tuple(layers),
        w_out=mix(start.w_out, direction.w_out),
    )


def _signs(network: Transformer, sequences: np.ndarray) -> tuple[int, ...]:
    outputs = [token[0] for each in sequences for token in interpret(network, each)]
    return tuple((value > 0) - (value < 0) for value in outputs)


@checks("KS25-T4.3", "KS25-T B.3")
@pytest.mark.parametrize(
    ("seed", "n_blocks", "n_heads", "model", "hidden"),
    [(0, 1, 1, 2, 2), (1, 1, 2, 2, 2), (2, 1, 2, 1, 3), (3, 2, 1, 1, 1)],
)
def test_degrees_cells_and_patterns_are_those_of_the_proof(
    seed: int, n_blocks: int, n_heads: int, model: int, hidden: int
) -> None:
    rng = np.random.default_rng(seed)
    start, direction = (_network(rng, n_blocks, n_heads, model, hidden) for _ in range(2))
    sequences = rng.choice(np.arange(-4, 5), N * LENGTH, replace=False).reshape(N, LENGTH, DIM).astype(float)
    found = count_on_line(start, direction, sequences)
    before = 1
    for number, layer in enumerate(found.layers):
        block = number // 2 + 1
        if layer.kind == "Attention":
            assert layer.decision_degree <= 8 * block - 4  # below (77)
            assert layer.degree <= 4 * (block - 1) + 3
            n_polynomials = LENGTH**3 * n_heads * N  # (78), those that are zero included
        else:
            assert layer.decision_degree <= 4 * block  # below (82)
            assert layer.degree <= 4 * block + 1  # property 3
            n_polynomials = LENGTH * hidden * N
        assert layer.n_polynomials <= n_polynomials
        # (79) and (84) with one variable: in every cell at most so many parts, gaps and roots each counted once
        most = 2 * n_polynomials * max(1, layer.decision_degree) + 1
        assert before <= layer.n_cells <= before * most
        before = layer.n_cells
    assert found.output_degree <= 4 * n_blocks + 2  # (88)
    allowed = log2(before).high + log2_sign_patterns(N * LENGTH, 4 * n_blocks + 2, 1)
    assert log2(len(found.sign_vectors)).low <= allowed  # (89)
    # every pattern that the network itself shows is among them
    points = [Fraction(p, q) for q in (1, 2, 3, 7) for p in range(-6 * q, 6 * q + 1)]
    dyadic = [point for point in points if point.denominator in (1, 2)]
    seen = {_signs(_at(start, direction, point), sequences) for point in dyadic}
    assert seen <= found.sign_vectors
    assert len(seen) > 1


@checks("KS25-T B.3")
def test_every_pattern_of_a_line_is_found() -> None:
    """x ↦ t x on the token 1 and the token -2: the signs are (-, +), (0, 0), (+, -)."""
    one, zero = SparseMatrix.of((1, 1), {(0, 0): 1}), SparseMatrix.of((1, 1), {})
    start = Transformer(one, (), zero, 1)
    direction = Transformer(zero, (), one, 1)
    found = count_on_line(start, direction, np.array([[[1.0]], [[-2.0]]]))
    assert found.sign_vectors == {(-1, 1), (0, 0), (1, -1)}


def test_other_layers_are_refused() -> None:
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    network = Transformer(one, (Attention((Head(one, one),), "uniform"),), one, 1)
    with pytest.raises(AssumptionViolated):
        count_on_line(network, network, np.array([[[1.0]]]))
