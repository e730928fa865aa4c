"""Arrays in few bits: what is stored is what comes back, and what would be rounded is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import InexactWeights
from byheart.network.weight_format import (
    BFLOAT16,
    FLOAT32,
    FORMATS,
    WeightFormat,
    granularity,
    smallest_format,
)
from tests.examples import examples


@examples(60)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    bits=st.integers(1, 24),
    scale=st.sampled_from(["one", "rows", "columns"]),
    seed=st.integers(0, 10**6),
)
def test_the_smallest_format_gives_the_same_numbers_back(
    rows: int, columns: int, bits: int, scale: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = {"one": (1, 1), "rows": (rows, 1), "columns": (1, columns)}[scale]
    weights = np.ldexp(rng.integers(-(1 << bits), 1 << bits, (rows, columns)), rng.integers(-20, 20, shape))
    weights = weights.astype(np.float32)
    form = smallest_format(weights)
    numbers, exponents = form.encode("w", weights)
    assert (form.decode(numbers, exponents) == weights).all()
    n_exponents = 0 if exponents is None else exponents.nbytes
    assert form.n_bits(weights.shape) == 8 * (numbers.nbytes + n_exponents)
    assert form.n_bits(weights.shape) <= FLOAT32.n_bits(weights.shape)
    if bits <= 7:  # numbers of 8 bits with a sign, whatever scales they share
        assert form.numbers == "int8" or form.n_bits(weights.shape) <= WeightFormat("int8", scale).n_bits(
            weights.shape
        )


def test_channels_with_scales_of_their_own_stay_short() -> None:
    weights = np.array([[1.0, 1024.0, 0.0], [-127.0, -65536.0, 0.0]], dtype=np.float32).repeat(50, axis=0)
    assert smallest_format(weights) == WeightFormat("int8", "columns")
    assert smallest_format(weights.T) == WeightFormat("int8", "rows")


def test_minus_128_fits_and_128_does_not() -> None:
    form = WeightFormat("int8", "one")
    numbers, _ = form.encode("w", np.array([-128.0, 1.0], dtype=np.float32))
    assert numbers.tolist() == [-128, 1]
    with pytest.raises(InexactWeights):
        form.encode("w", np.array([128.0, 1.0], dtype=np.float32))


@pytest.mark.parametrize("weight", [2.0**-140, 2.0**-127, 3 * 2.0**126])
def test_a_scale_that_does_not_fit_its_8_bits_is_not_chosen(weight: float) -> None:
    weights = np.array([[weight, 0.0]], dtype=np.float32)
    form = smallest_format(weights)
    numbers, exponents = form.encode("w", weights)
    assert (form.decode(numbers, exponents) == weights).all()
    assert (form == FLOAT32) == (weight == 2.0**-140)


def test_bfloat16_keeps_the_upper_half_of_a_float32_and_refuses_the_rest() -> None:
    short = np.array([1.0, -255.0, 2.0**100, 0.0], dtype=np.float32)
    numbers, exponents = BFLOAT16.encode("w", short)
    assert exponents is None
    assert numbers.dtype == np.uint16
    assert (BFLOAT16.decode(numbers, None) == short).all()
    with pytest.raises(InexactWeights):
        BFLOAT16.encode("w", np.array([257.0], dtype=np.float32))


def test_granularity_is_the_lowest_bit() -> None:
    assert granularity(np.array([6.0, 0.75, -8.0])).tolist() == [1, -2, 3]


def test_every_format_is_known_by_its_text() -> None:
    assert all(str(form) == text for text, form in FORMATS.items())
