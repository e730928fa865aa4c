"""MFT24: golden numbers worked out by hand, inverses, and the entropy of a corpus."""

from __future__ import annotations

from fractions import Fraction
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import madden_2024 as mft
from byheart.bounds.madden_2024 import DecoderShape
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples

# The architecture of the paper's experiment: embedding 16, one head of size 16, contexts of at most 9 tokens, and
# for 1,000 stories a vocabulary of 690; m = 512 is the widest of its grid.
PAPER = DecoderShape(dim=16, n_heads=1, key_dim=16, value_dim=16, hidden_width=512, vocab=690, seq_len=9)


@checks("MFT24-L1")
def test_lemma_1_by_hand() -> None:
    # GPT-2 small: k = 124,439,808, ω = 50,257: 124,439,808 / 50,256 = 2,476.1...
    bound = mft.lemma_1(124_439_808, 50_257)
    assert (bound.value, bound.kind, bound.quantity) == (2476, "upper", "contexts")
    # TinyStories: n = 2,637 contexts, ω = 690: 2,637 · 689 = 1,816,893
    assert mft.lemma_1_parameters(2637, 690).value == 1_816_893


@checks("MFT24-T1", "MFT24-Tab1")
def test_theorem_1_by_hand_at_tinystories() -> None:
    # n = 2,637 contexts, ω = 690: (n - 1)(ω - 1)² / (2ω - 1) = 2,636 · 474,721 / 1,379 = 1,251,364,556 / 1,379
    # = 907,443.47..., so at least 907,444 parameters.
    bound = mft.theorem_1_parameters(2637, 690)
    assert (bound.value, bound.kind, bound.quantity) == (907_444, "lower", "parameters")
    # back again: (2 + 1/689) · 907,444 / 689 + 1 = 1379/689 · 1317.04... + 1 = 2,637.001...; one parameter less falls short
    assert mft.theorem_1(907_444, 690).value == 2637
    assert mft.theorem_1(907_443, 690).value == 2636


@checks("MFT24-T1", "MFT24-L1")
@given(st.integers(1, 10**15), st.integers(2, 10**9))
@examples(200)
def test_bounds_on_contexts_and_on_parameters_are_inverse(n_contexts: int, vocab: int) -> None:
    for forward, backward in (
        (mft.lemma_1_parameters, mft.lemma_1),
        (mft.theorem_1_parameters, mft.theorem_1),
    ):
        needed = int(forward(n_contexts, vocab).value)
        assert backward(needed, vocab).value >= n_contexts
        assert needed == 0 or backward(needed - 1, vocab).value < n_contexts


@checks("MFT24-T5", "MFT24-T7")
def test_theorems_5_and_7_by_hand() -> None:
    assert mft.theorem_5(PAPER).value == 512
    assert mft.theorem_7(512).value == 512
    # n = 3 contexts, ω = 5, T = 2, every dimension 1: output 3·5, hidden 3·2, attention 2·(1 + 1), embeddings 5 + 2 = 32
    assert mft.theorem_5_parameters(3, 5, 2).value == 32
    assert mft.theorem_5_parameters(3, 5, 2).value == DecoderShape(1, 1, 1, 1, 3, 5, 2).parameters
    # token averaging has no attention matrices: 28; with 7 labels in place of 5, 6 more
    assert mft.theorem_7_parameters(3, 5, 2).value == 28
    assert mft.theorem_7_parameters(3, 5, 2, n_outputs=7).value == 34


@checks("MFT24-eq3")
def test_equation_3_by_hand_at_the_papers_architecture() -> None:
    # 1 + 18/689 + 2·(16 + 16)·16/(689·512) + (690 + 9)·16/(689·512)
    # = 1 + 18/689 + (1,024 + 11,184)/352,768 = (352,768 + 9,216 + 12,208)/352,768 = 374,192/352,768 = 1.0607...
    bound = mft.equation_3(PAPER)
    assert bound.value == Fraction(374_192, 352_768)
    assert bound.kind == "exact"


@checks("MFT24-eq3")
@given(*[st.integers(1, 10**4)] * 5, st.integers(2, 10**6), st.integers(1, 10**6))
@examples(200)
def test_equation_3_is_the_ratio_of_the_two_bounds(
    dim: int, n_heads: int, key_dim: int, value_dim: int, hidden: int, vocab: int, seq_len: int
) -> None:
    shape = DecoderShape(dim, n_heads, key_dim, value_dim, hidden, vocab, seq_len)
    assert mft.equation_3(shape).value == Fraction(shape.parameters, (vocab - 1) * hidden)


@checks("MFT24-L2")
def test_lemma_2_by_hand() -> None:
    # one context seen 4 times, followed by a, a, b, c: H = 4 ln 4 - 2 ln 2 = 6 ln 2 = 4.1588...; another seen twice,
    # always followed by the same token, adds 0
    bound = mft.lemma_2([4, 2], [2, 1, 1, 2])
    assert abs(float(bound.value) - 6 * log(2)) < 1e-15
    assert bound.value <= Fraction("4.15888308335967185650339272874905940845300080616158")
    assert mft.lemma_2([3, 5], [3, 5]).value == 0


@checks("MFT24-L2")
@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=6), min_size=1, max_size=8))
@examples(200)
def test_lemma_2_is_the_entropy_rounded_down(rows: list[list[int]]) -> None:
    totals = [sum(row) for row in rows]
    cells = [count for row in rows for count in row]
    near = sum(-c * log(c / t) for row, t in zip(rows, totals, strict=True) for c in row)
    value = mft.lemma_2(totals, cells).value
    assert float(value) == pytest.approx(near, rel=1e-12, abs=1e-9)
    # uniform predictions over the tokens seen can only do worse
    uniform = sum(t * log(len(row)) for row, t in zip(rows, totals, strict=True))
    assert float(value) <= uniform + 1e-9


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ImpossibleSize):
        mft.lemma_2([4], [1, 2])
    with pytest.raises(ImpossibleSize):
        mft.lemma_2([0], [0])
    with pytest.raises(ImpossibleSize):
        mft.lemma_1(10, 1)
