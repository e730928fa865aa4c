"""Each pass alone: what it computes beforehand is what the network computes, number by number."""

from __future__ import annotations

import weakref
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.retrieval import exactness, key_hash, table_solver
from byheart.construct.retrieval.gadgets import pattern_blocks
from byheart.construct.retrieval.label_reader import WORD_SCALE, label_steps
from byheart.construct.retrieval.layout import LABEL, RetrievalLayout, X, Z, largest_digit_sum
from byheart.construct.retrieval.program import Contents, describe
from byheart.network.size import size_of_network
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.module import run_module
from byheart.program import gf2
from byheart.program.blocks import Block, flat_steps
from byheart.program.count import count
from byheart.program.emit import emit
from tests.construct.retrieval.layouts import CHAIN, LAYOUTS
from tests.examples import examples
from tests.refusal import refused


def _inputs(layout: RetrievalLayout, rng: np.random.Generator, n: int) -> np.ndarray:
    entrance = layout.entrance
    if entrance.kind == "table":
        return rng.integers(0, entrance.n_rows, size=(n, entrance.seq_len))
    return rng.integers(0, 16, size=(n, entrance.seq_len, entrance.dim))


def _bounds(layout: RetrievalLayout) -> tuple[np.ndarray, np.ndarray]:
    dim = layout.entrance.dim
    return np.zeros(dim, dtype=np.int64), np.full(dim, 15, dtype=np.int64)


def _drawn(layout: RetrievalLayout, seed: int) -> key_hash.KeyHash:
    return key_hash.draw(layout, *_bounds(layout), np.random.default_rng(seed))


@pytest.mark.parametrize("name", LAYOUTS)
def test_words_are_within_their_bases_and_nearly_uniform(name: str) -> None:
    layout = LAYOUTS[name]
    inputs = _inputs(layout, np.random.default_rng(1), 4000)
    words = key_hash.evaluate_fields(layout, _drawn(layout, 2), inputs, True)
    for column, word in zip(words.T, layout.hashed_fields, strict=True):
        assert column.min() >= 0
        assert column.max() < word.base
        # false alarm below 1e-6: the mean of 4000 uniform numbers, six deviations, and the bias of a small table
        assert (
            abs(column.mean() - (word.base - 1) / 2) < 6 * word.base / np.sqrt(12 * 4000) + 0.06 * word.base
        )


@pytest.mark.parametrize("name", LAYOUTS)
def test_network_has_the_size_predicted_and_reads_what_the_table_holds(name: str) -> None:
    """Any table will do: the label the network answers is the one `read_labels` computes from sums of words."""
    layout = LAYOUTS[name]
    rng = np.random.default_rng(3)
    hashed = _drawn(layout, 4)
    inputs = _inputs(layout, rng, 60)
    where = layout.addresses(key_hash.evaluate_fields(layout, hashed, inputs, True))
    words = rng.integers(0, 1 << layout.word_bits, size=layout.n_columns)
    table_solver.sign_words(layout, words)
    ids = np.ascontiguousarray(where.rows * layout.n_segments + np.arange(layout.n_segments))
    sums = gf2.sums(ids, where.patterns, layout.n_channels, words)
    centre = exactness.centre_of(layout, sums)
    precision = "float64" if layout.mantissa_bits == 53 else "float32"
    program = describe(layout, Contents(hashed, words, (centre,)))
    network = emit(program, precision)
    found, outline = size_of_network(network), count(describe(layout), precision)
    assert count(program, precision) == found
    assert (outline.parameters_dense, outline.depth, outline.width) == (
        found.parameters_dense,
        found.depth,
        found.width,
    )
    expected = table_solver.read_labels(layout, where, sums) + 1
    encoded = inputs.astype(np.float64) if layout.entrance.kind == "grid" else inputs
    assert run_module(network, encoded, last_only=True).tolist() == expected.tolist()
    for row in range(2):  # the definition, over the rationals
        assert interpret(network, encoded[row])[-1][0] == expected[row]


@examples(200)
@given(data=st.data())
def test_reading_circuit_follows_the_gray_rule(data: st.DataObject) -> None:
    """Exactly, in rationals: any sum of words within the headroom, any plane."""
    total = data.draw(st.integers(0, (2**CHAIN.headroom_bits * 2 << CHAIN.word_bits) - 1))
    plane = data.draw(st.integers(0, CHAIN.n_planes - 1))
    centre = 2**CHAIN.headroom_bits
    stream = dict.fromkeys((*CHAIN.slots, *CHAIN.channels), Fraction(0))
    stream |= {X: Fraction(1), Z: Fraction(plane), CHAIN.channels[0]: Fraction(WORD_SCALE * total)}
    for block in flat_steps(label_steps(CHAIN, [centre])):
        assert isinstance(block, Block)
        after = {name: value + block.adds.get(name, 0) for name, value in stream.items()}
        for unit in block.units:
            hidden = max(0, sum(weight * stream[name] for name, weight in unit.reads.items()) + unit.bias)
            after |= {name: after[name] + weight * hidden for name, weight in unit.writes.items()}
        stream = after
    gray = (total << 1) ^ total
    label = (gray >> (plane * CHAIN.field_bits)) & ((1 << CHAIN.field_bits) - 1)
    assert stream[LABEL] == label + 1


def test_solved_tables_read_back_as_their_labels() -> None:
    rng = np.random.default_rng(5)
    layout = CHAIN
    inputs = _inputs(layout, rng, 150)
    labels = rng.integers(0, 8, size=150)
    for seed in range(50):
        where = layout.addresses(key_hash.evaluate_fields(layout, _drawn(layout, seed), inputs, True))
        table = table_solver.solve(layout, where, labels, rng)
        if isinstance(table, table_solver.SolvedTable):
            assert (table_solver.read_labels(layout, where, table.sums) == labels).all()
            assert table.words.max() < 1 << layout.word_bits
            return
    pytest.fail("no draw of fifty could be solved")


def test_planes_that_are_solved_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors of a plane are large. Only those of the plane that is being solved and of the planes ahead may be alive."""
    made: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []
    factor, solve = gf2.factor, gf2.solve

    def noting_factor(*arguments: Any) -> Any:
        found = factor(*arguments)
        made.append(weakref.ref(found[1]))
        return found

    def noting_solve(*arguments: Any) -> Any:
        alive.append(sum(each() is not None for each in made))
        return solve(*arguments)

    monkeypatch.setattr(table_solver, "_THREADS", 1)
    monkeypatch.setattr(gf2, "factor", noting_factor)
    monkeypatch.setattr(gf2, "solve", noting_solve)
    layout = replace(CHAIN, n_planes=12)
    rng = np.random.default_rng(5)
    inputs = _inputs(layout, rng, 100)
    where = layout.addresses(key_hash.evaluate_fields(layout, _drawn(layout, 0), inputs, True))
    table_solver.solve(layout, where, rng.integers(0, 8, size=100), rng)
    assert len(made) > 4
    assert max(alive) <= 2


def test_dependent_equations_are_reported_with_their_plane() -> None:
    layout = CHAIN
    inputs = np.zeros((2, 4), dtype=np.int64)
    where = layout.addresses(key_hash.evaluate_fields(layout, _drawn(layout, 0), inputs, True))
    assert where.n_duplicates == 1
    found = table_solver.solve(layout, where, np.array([0, 1]), np.random.default_rng(0))
    assert isinstance(found, table_solver.Dependent)
    assert found.n_reduced < found.n_equations


@examples(100)
@given(choices=st.lists(st.integers(2, 12), min_size=1, max_size=4))
def test_digit_sums_bound_every_partial_sum(choices: list[int]) -> None:
    bound = largest_digit_sum(tuple(choices))
    groups = [choices[0], *(choice - 1 for choice in choices[1:])]
    channels = [f"channel {number}" for number in range(sum(groups))]
    field = [range(len(choices))]
    z = np.arange(int(np.prod(choices)))
    for block in pattern_blocks(groups, choices, field, [Z], 1, channels, None, [1]):
        terms = np.array([u.writes[Z] * np.maximum(u.reads[Z] * z + u.bias, 0) for u in block.units])
        weight = abs(int(block.units[0].writes[Z]))
        for part in (np.maximum(terms, 0), np.maximum(-terms, 0)):
            assert part.sum(axis=0).max() <= bound * (weight & -weight)
        z = z + terms.sum(axis=0)
    assert (z == 0).all()


def test_a_sum_beyond_the_headroom_is_refused() -> None:
    layout = CHAIN
    hashed = _drawn(layout, 0)
    words = np.zeros(layout.n_columns, dtype=np.int64)
    far = np.array([0, 9 << layout.word_bits])
    with refused(exactness.NotExactInFloats, field=147457):
        exactness.margins(layout, hashed, words, far, 0, 0)


def test_a_margin_beyond_the_mantissa_is_refused() -> None:
    layout = CHAIN
    words = np.zeros(layout.n_columns, dtype=np.int64)
    found = exactness.margins(layout, _drawn(layout, 0), words, np.zeros(1, dtype=np.int64), 0, 0)
    exactness.require_exact(found, 53)
    with refused(exactness.NotExactInFloats, name="entrance"):
        exactness.require_exact(found, 4)
