"""What `count` says of a program is what `size_of_network` finds in the network that `emit` makes of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.errors import InexactWeights
from byheart.network import SumPool, size_of_network
from byheart.network.exact.dyadic import Dyadic
from byheart.network.size import NOTHING, Size
from byheart.network.transformer.architecture import FeedForward, Precision
from byheart.program.blocks import (
    Block,
    Program,
    RegisterAttention,
    RegisterHead,
    Repeat,
    Repeated,
    TableBlock,
    TokenTable,
    Unit,
    flat_steps,
    head,
    typical,
    typical_fraction,
)
from byheart.program.count import count, count_numbers, count_progression
from byheart.program.emit import emit, emit_layers
from tests.examples import examples
from tests.refusal import refused

REGISTERS = ("a", "b", "c")
numbers = st.one_of(st.integers(-40, 40), st.integers(-99, 99).map(lambda k: Fraction(k, 32)))
forms = st.dictionaries(st.sampled_from(REGISTERS), numbers, max_size=3)
units = st.builds(Unit, forms, numbers, forms)


def weights(n_nonzero: int, bits: int, longest: int) -> Size:
    return Size(0, n_nonzero, 0, 0, longest, bits)


def progression(first: int, step: int, length: int) -> range:
    return range(first, first + step * length, step)


@st.composite
def tables(draw: st.DrawFn) -> TableBlock:
    n_units = draw(st.integers(1, 5))
    arrays = st.lists(st.integers(-40, 40), min_size=n_units, max_size=n_units).map(np.array)
    columns = st.dictionaries(st.sampled_from(REGISTERS), st.one_of(numbers, arrays), max_size=3)
    return TableBlock(n_units, draw(columns), draw(st.one_of(numbers, arrays)), draw(columns), draw(forms))


@st.composite
def heads(draw: st.DrawFn) -> RegisterHead:
    size = draw(st.integers(1, 3))
    rows = st.lists(forms, min_size=size, max_size=size)
    return RegisterHead(draw(rows), draw(rows))


layers = st.one_of(
    st.builds(Block, st.lists(units, min_size=1, max_size=3), forms),
    tables(),
    st.builds(lambda some: RegisterAttention(tuple(some)), st.lists(heads(), min_size=1, max_size=2)),
    st.just(SumPool()),
)
steps = st.one_of(layers, st.builds(Repeat, st.integers(0, 3), st.lists(layers, max_size=2).map(tuple)))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    dim = draw(st.integers(1, 2))
    rows = st.lists(numbers, min_size=dim, max_size=dim)
    inputs = draw(st.dictionaries(st.sampled_from(REGISTERS), rows, min_size=1))
    table = None
    if draw(st.booleans()):
        line = st.builds(progression, st.integers(0, 9), st.integers(1, 9), st.just(4))
        columns = st.lists(
            st.one_of(line, st.lists(numbers, min_size=4, max_size=4)), min_size=dim, max_size=dim
        )
        table = TokenTable(draw(columns), draw(st.one_of(st.none(), columns)))
    extra = draw(st.one_of(st.none(), rows))
    return Program(REGISTERS, inputs, draw(st.lists(steps, max_size=4)), "b", 4, table, extra=extra)


@pytest.mark.parametrize("precision", ["exact", "float64", "float32"])
@examples(100)
@given(program=programs())
def test_a_program_has_the_size_of_its_network(precision: Precision, program: Program) -> None:
    assert count(program, precision) == size_of_network(emit(program, precision))


def test_one_weight_more_is_noticed() -> None:
    program = Program(REGISTERS, {"a": [1]}, [Block([Unit({"a": 1}, 0, {"b": 1})])], "b", 1)
    more = replace(program, steps=[Block([Unit({"a": 1}, 5, {"b": 1})])])
    assert count(more) != size_of_network(emit(program))


def test_a_table_is_the_same_block_written_by_columns() -> None:
    rows = [Unit({"a": 3, "b": k}, -k, {"c": 2 * k}) for k in range(4)]
    k = np.arange(4)
    table = TableBlock(4, {"a": 3, "b": k}, -k, {"c": 2 * k}, {"a": 7})
    for precision in ("exact", "float64"):
        (left,) = emit_layers([Block(rows, {"a": 7})], REGISTERS, precision)
        (right,) = emit_layers([table], REGISTERS, precision)
        for (_, first), (_, second) in zip(left.parameters(), right.parameters(), strict=True):
            assert first == second if precision == "exact" else np.array_equal(first, second)


def test_repeats_are_written_out() -> None:
    first, second = Block([Unit({}, 1, {"a": 1})]), Block([Unit({}, 2, {"a": 1})])
    inner = Repeat(2, (first, Repeat(1, (second,))))
    assert list(flat_steps([inner, first])) == [first, second, first, second, first]


@pytest.mark.parametrize("number", [2**53 + 1, Fraction(1, 2**1100), 10**400, Dyadic(3, 2000)])
def test_what_is_not_a_float_is_refused(number: int | Fraction | Dyadic) -> None:
    with refused(InexactWeights, "bits", name="layers.0.w1"):
        emit_layers([Block([Unit({"a": number}, 0, {})])], REGISTERS, "float64")


def test_long_integers_of_an_array_are_not_rounded_either() -> None:
    table = TableBlock(2, {"a": np.array([1, 2**53 + 1])}, 0, {})
    with refused(InexactWeights, name="layers.0.w1", bits=54):
        emit_layers([table], REGISTERS, "float64")


def test_exact_biases_are_matrices_and_those_of_floats_vectors() -> None:
    block = Block([Unit({"a": 1}, 2, {"b": 1})])
    for precision, shape in (("exact", (1, 1)), ("float64", (1,))):
        (layer,) = emit_layers([block], REGISTERS, precision)
        assert isinstance(layer, FeedForward)
        assert layer.b1.shape == shape


def test_heads_with_keys_are_counted() -> None:
    layer = RegisterAttention((head({"a": 1}, {"b": 3}, {"a": 1}, {"c": 1}),), "hardmax")
    program = Program(REGISTERS, {"a": [1]}, [layer], "b", 1)
    assert count(program) == size_of_network(emit(program))


def test_numbers_that_stand_for_others() -> None:
    assert count_numbers([typical(7)]) == weights(1, 7, 7)
    assert count_numbers([typical_fraction(7)]) == weights(1, 7, 7)
    assert count_numbers(Repeated(typical(7), 3, 10)) == weights(3, 21, 7)
    with pytest.raises(AssertionError):
        emit(Program(REGISTERS, {"a": Repeated(1, 1, 2)}, [], "b", 1))


def test_weights_are_counted_without_zeros() -> None:
    assert count_numbers([0, 1, -6, 0.375]) == weights(3, 1 + 3 + 3, 3)
    assert count_numbers([2, 3]).times(2) + count_numbers([16]) == weights(5, 8 + 5, 5)
    assert count_numbers([7]).times(0) == NOTHING


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 60))
def test_progressions_are_counted_without_listing_them(first: int, step: int, length: int) -> None:
    listed = [first + step * at for at in range(length)]
    assert count_progression(progression(first, step, length)) == count_numbers(listed)
