"""Vectorised hard attention against the interpreter (KS25 eqs. 1 and 12)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.exact.limbs import Fixed
from byheart.network.protocol import Evaluation
from byheart.network.transformer import evaluator
from byheart.network.transformer.evaluator import evaluate
from byheart.network.transformer.interpreter import Interpreter, interpret
from byheart.theorems import checks
from tests.examples import examples

from .networks import sparse


@st.composite
def hard_networks(draw: st.DrawFn) -> tuple[Transformer, np.ndarray]:
    """Hard attention heads of size 1 or 2 between feed-forward layers, on few distinct tokens: many ties."""
    model, dim, seq_len = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    layers: list[FeedForward | Attention] = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.sampled_from([1, 1, 1, 2]))
        parts = {name: sparse(draw, (size, model), bits=40) for name in ("value", "key", "query")}
        head = Head(output=sparse(draw, (model, size), bits=40), **parts)
        layers.append(Attention((head,), "hardmax"))
        hidden = draw(st.integers(1, 2))
        layers.append(
            FeedForward(
                sparse(draw, (hidden, model), bits=40),
                sparse(draw, (hidden, 1), bits=40),
                sparse(draw, (model, hidden), bits=40),
                sparse(draw, (model, 1), bits=40),
            )
        )
    network = Transformer(
        sparse(draw, (model, dim), bits=10), tuple(layers), sparse(draw, (1, model), bits=10), seq_len
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return network, rng.integers(-1, 3, size=(4, seq_len, dim)).astype(np.float64)


@checks("KS25-eq1", "KS25-eq12")
@examples(300)
@given(hard_networks())
def test_hard_attention_equals_the_interpreter(case: tuple[Transformer, np.ndarray]) -> None:
    network, encoded = case
    expected = [token[0] for sequence in encoded for token in interpret(network, sequence)]
    assert evaluate(network, encoded).all() == expected


def one_head(value: int = 1, key: int = 1, query: int = 1) -> Transformer:
    """Two channels: the token, and a one; token k receives what its largest key holds."""
    entry = {name: SparseMatrix.of((1, 2), {(0, 0): v}) for name, v in (("key", key), ("query", query))}
    head = Head(SparseMatrix.of((1, 2), {(0, 0): value}), SparseMatrix.of((2, 1), {(1, 0): 1}), **entry)
    w_in = SparseMatrix.of((2, 1), {(0, 0): 1})
    return Transformer(w_in, (Attention((head,), "hardmax"),), SparseMatrix.of((1, 2), {(0, 1): 1}), 3)


def test_the_sign_of_the_query_decides() -> None:
    sequences = np.array([[[1.0], [-2.0], [5.0]]])
    # tokens 1 and 5 ask for the largest key, -2 for the smallest
    assert evaluate(one_head(), sequences).all() == [5, -2, 5]


def test_no_fractions_are_needed_for_equal_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the equations were asked")

    monkeypatch.setattr(evaluator, "exact_outputs", refuse)
    tied = np.array([[[2.0], [2.0], [1.0]]])
    assert evaluate(one_head(), tied).all() == [2, 2, 2]
    with pytest.raises(AssertionError):
        evaluate(one_head(key=0), tied)  # all keys tie, with different values


def test_the_second_evaluator_never_is_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    network, tied = one_head(key=0), np.array([[[2.0], [4.0], [6.0]]])  # all keys tie, with different values
    how = Evaluation("exact")
    assert network.answer(tied, ["a", "b", "c", "d"], how).tolist() == [[3]]

    def broken(*_: object) -> list[Fraction]:
        return [Fraction(1)] * 3

    monkeypatch.setattr(Interpreter, "outputs", broken)
    assert network.answer(tied, ["a", "b", "c", "d"], how).tolist() == [[3]]
    again = Evaluation(network.second_backend)
    assert network.answer(tied, ["a", "b", "c", "d"], again).tolist() != [[3]]


@examples(200)
@given(st.lists(st.integers(-(2**90), 2**90), min_size=1, max_size=20))
def test_ranks_and_signs(values: list[int]) -> None:
    numbers = Fixed.from_fractions([Fraction(value, 8) for value in values])
    distinct = sorted(set(values))
    assert numbers.ranks().tolist() == [distinct.index(value) for value in values]
    assert numbers.signs().tolist() == [(value > 0) - (value < 0) for value in values]
