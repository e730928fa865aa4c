"""Error bounds hold for every grouping of a product, also where sums cancel in one grouping and not in another."""

from __future__ import annotations

import numpy as np

from byheart.network.balls import Rounding


def test_a_product_is_bounded_in_every_grouping() -> None:
    """A(Bx) cancels, but (AB)x has the rounding errors of AB, which grow with |A||B||x|."""
    rng = np.random.default_rng(0)
    arithmetic = Rounding("float32")
    left, right = rng.normal(size=(1, 40)), rng.normal(size=(40, 60))
    vector = np.linalg.svd(right)[2][-1]  # right @ vector = 0
    for found in (
        arithmetic.matmul(left, arithmetic.matmul(right, arithmetic.exact(vector))),
        arithmetic.dot(
            arithmetic.exact(left), arithmetic.dot(arithmetic.exact(right), arithmetic.exact(vector))
        ),
    ):
        magnitudes = np.abs(left) @ np.abs(right) @ np.abs(vector)
        total = (1 + arithmetic.gamma(40)) * (
            1 + arithmetic.gamma(60)
        ) - 1  # of any grouping (Higham, lemma 3.3)
        assert found.radius >= total * magnitudes * (1 - 1e-12)
        assert np.abs(found.value) <= 1e-12


def test_the_size_of_a_sum_does_not_cancel() -> None:
    arithmetic = Rounding("float64")
    one = arithmetic.exact(np.array([1.0]))
    none = arithmetic.add(one, arithmetic.exact(np.array([-1.0])))
    assert (none.value, none.size) == (0.0, 2.0)
    assert none.radius >= 2 * arithmetic.unit
