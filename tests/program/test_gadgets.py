"""Lemmas G.2 to G.6, each on random inputs, through the exact interpreter."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from byheart.program.gadgets import (
    SCRATCH,
    KeyedExtraction,
    PackedRegister,
    extract_bits,
    interval_bump,
    subset_lookup,
    unit_bump,
)
from byheart.theorems import checks
from tests.examples import examples

from .programs import run, run_all

quarters = st.integers(-400, 400).map(lambda k: Fraction(k, 4))


@checks("KS25-L G.2")
@examples(300)
@given(st.integers(0, 60), st.integers(0, 20), quarters, st.integers(1, 2**200))
def test_interval_bump(low: int, length: int, x: Fraction, height: int) -> None:
    high = low + length
    after = run([interval_bump("x", low, high, {"y": height})], {"x": x, "y": 5})
    assert after["x"] == x
    if low <= x <= high:
        assert after["y"] == 5 + height
    elif x <= low - Fraction(1, 2) or x >= high + Fraction(1, 2):
        assert after["y"] == 5
    else:  # on a slope: strictly between
        assert 5 < after["y"] < 5 + height


@st.composite
def spaced_numbers(draw: st.DrawFn, max_size: int = 9) -> list[Fraction]:
    """Ascending numbers, at least 2, at least 2 apart."""
    gaps = draw(st.lists(st.integers(8, 40), min_size=1, max_size=max_size))
    numbers, x = [], Fraction(draw(st.integers(0, 11)), 4)
    for gap in gaps:
        x += Fraction(gap, 4)
        numbers.append(x)
    return numbers


@checks("KS25-L G.3")
@examples(60)
@given(spaced_numbers(), st.integers(1, 4), st.data())
def test_subset_lookup(numbers: list[Fraction], group_size: int, data: st.DataObject) -> None:
    groups = [numbers[at : at + group_size] for at in range(0, len(numbers), group_size)]
    words = [{"w": 10 + j, "u": 2**90 + j} for j in range(len(groups))]
    program = subset_lookup("x", groups, words)
    assert len(program) == len(groups)
    for j, group in enumerate(groups):
        for after in run_all(program, [{"x": x} for x in group]):
            assert (after["w"], after["u"]) == (10 + j, 2**90 + j)
    unknown = data.draw(st.integers(0, int(4 * numbers[-1]) + 40).map(lambda k: Fraction(k, 4)))
    if all(abs(unknown - x) >= 2 for x in numbers):
        after = run(program, {"x": unknown})
        assert (after["w"], after["u"]) in [(0, 0), *((w["w"], w["u"]) for w in words)]


def triangle(z: Fraction) -> Fraction:
    """Telgarsky's ψ, as the paper writes it."""
    relu = lambda v: max(Fraction(0), v)  # noqa: E731 - mirrors the formula
    return relu(relu(2 * z) - relu(4 * z - 2))


@checks("KS25-L G.4")
@examples(60)
@given(st.integers(1, 24), st.data())
def test_extract_bits(n_bits: int, data: st.DataObject) -> None:
    x = data.draw(st.integers(0, 2**n_bits - 1))
    first = data.draw(st.integers(1, n_bits))
    last = data.draw(st.integers(first, n_bits))
    packed = PackedRegister("a", "b", n_bits)
    high, low = (Fraction(x, 2**n_bits) + Fraction(1, 2 ** (n_bits + shift)) for shift in (1, 2))
    for _ in range(first - 1):
        high, low = triangle(high), triangle(low)
    after = run(extract_bits(packed, first, last, "out"), {"a": high, "b": low, "out": 3})
    for _ in range(last - first + 1):
        high, low = triangle(high), triangle(low)
    assert (after["a"], after["b"]) == (high, low)
    assert after["out"] - 3 == int(format(x, f"0{n_bits}b")[first - 1 : last], 2)


@checks("KS25-L G.5")
@examples(60)
@given(quarters, st.integers(0, 60))
def test_unit_bump(x: Fraction, y: int) -> None:
    after = run([unit_bump("x", "y", {"hit": 1})], {"x": x, "y": y})
    if y <= x <= y + 1:
        assert after["hit"] == 1
    elif x >= y + Fraction(3, 2) or x <= y - Fraction(1, 2):
        assert after["hit"] == 0
    else:
        assert 0 < after["hit"] < 1


@checks("KS25-L G.6")
@examples(60)
@given(spaced_numbers(max_size=5), st.integers(1, 9), st.integers(0, 2), st.data())
def test_keyed_extraction(
    numbers: list[Fraction], value_bits: int, n_empty: int, data: st.DataObject
) -> None:
    keys = data.draw(st.permutations([int(x // 1) for x in numbers])) + [0] * n_empty
    values = [data.draw(st.integers(1, 2**value_bits - 1)) for _ in numbers] + [0] * n_empty
    key_bits = max(keys).bit_length()
    n = len(keys)
    packed_keys = int("".join(format(key, f"0{key_bits}b") for key in keys), 2)
    packed_values = int("".join(format(value, f"0{value_bits}b") for value in values), 2)
    program = KeyedExtraction(
        "x", PackedRegister("u", "u2", n * key_bits), PackedRegister("w", "w2", n * value_bits), n, "y"
    ).blocks()
    assert len(program) == n * (max(key_bits, value_bits) + 2) + 1
    start = {
        "u": Fraction(packed_keys, 2 ** (n * key_bits)),
        "w": Fraction(packed_values, 2 ** (n * value_bits)),
        "y": 0,
    }
    for x, after in zip(numbers, run_all(program, [{**start, "x": x} for x in numbers]), strict=True):
        assert after["y"] == values[keys.index(int(x // 1))]
        assert all(after[name] == 0 for name in SCRATCH)
    unknown = data.draw(st.integers(8, int(4 * numbers[-1]) + 40).map(lambda k: Fraction(k, 4)))
    if all(abs(unknown - Fraction(1, 2) - key) > 1 for key in keys):
        assert run(program, {**start, "x": unknown})["y"] == 0
