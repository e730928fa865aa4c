"""Every context is continued, unknown ones are not, and the tables add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import byheart as bh
from byheart.construct.llama.compiler import LlamaOptions, compile_texts
from byheart.construct.llama.heads import LEAST_MARGIN, choose_rotation
from byheart.construct.llama.layout import TextShape, choose_layout
from byheart.construct.llama.tables import factor
from byheart.construct.llama.window_hash import LIMB, draw_hash, level_offsets, mirror, spread
from byheart.errors import AssumptionViolated
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.evaluator import evaluate
from tests.construct.llama.token_texts import EOS, compiled_windows, last_of, random_windows
from tests.refusal import refused


@given(st.integers(1, 300), st.sampled_from([1, 2, 4, 8]))
def test_levels_reach_exactly_the_window(window: int, n_heads: int) -> None:
    reached = {0}
    for offsets in level_offsets(window, n_heads):
        reached = {a + b for a in reached for b in (0, *offsets)}
    assert reached == set(range(window))


@given(st.integers(1, 40), st.integers(0, 500))
def test_folds_stay_in_range_and_in_step(m: int, x: int) -> None:
    here, there = mirror(x, m), mirror(x + 1, m)
    assert 0 <= here <= m
    assert abs(int(here) - int(there)) == 1
    folded = spread(np.arange(2 * m), m)
    assert sorted(folded.tolist()) == sorted([*range(m), *range(m)])


def test_tables_add_up_modulo_a_power_of_two() -> None:
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 60, (150, 3)) + 60 * np.arange(3)
    cells = np.unique(cells, axis=0)
    wanted = rng.integers(0, 1 << 23, len(cells))
    equations = factor(cells, 180)
    assert equations is not None
    table = rng.integers(0, 1 << 23, 180)
    table[equations.pivots] = 0
    equations.solve(wanted, table, 0, 23)
    assert np.array_equal(table[cells].sum(1) % (1 << 23), wanted)


def test_an_equation_twice_is_found_out() -> None:
    cells = np.array([[0, 4, 8], [1, 5, 9], [0, 4, 8]])
    assert factor(cells[:2], 12) is not None
    assert factor(cells, 12) is None


@pytest.mark.parametrize("positions", [64, 512, 2048])
def test_heads_single_out_one_distance(positions: int) -> None:
    assert choose_rotation(positions).margin >= LEAST_MARGIN


def test_every_context_is_continued_and_nothing_rounds() -> None:
    texts, compiled = compiled_windows()
    found = evaluate(compiled.llama, texts)
    assert np.array_equal(found.tokens, texts.following)
    assert found.conditions.holds
    assert found.conditions.logit_margin == 64


def test_more_reject_bits_take_side_words() -> None:
    texts = random_windows(300)
    plain, strict = (
        compile_texts(texts, LlamaOptions(reject_bits=bits), window=7, max_positions=64) for bits in (16, 24)
    )
    assert (plain.layout.shape.n_side, strict.layout.shape.n_side) == (0, 2)
    found = evaluate(strict.llama, texts)
    assert np.array_equal(found.tokens, texts.following)
    assert found.conditions.holds


def test_near_misses_are_unknown() -> None:
    texts, compiled = compiled_windows(300)
    rows = last_of(texts)
    known = {tuple(row) for row in rows.tolist()}
    swapped = rows[:, [0, 1, 3, 2, 4, 5, 6]]
    changed = rows.copy()
    changed[:, 1] = changed[:, 1] % 48 + 2
    near = np.array([row for row in [*swapped.tolist(), *changed.tolist()] if tuple(row) not in known])
    asked = np.tile(np.arange(7) == 6, len(near))
    found = evaluate(compiled.llama, ChainedTexts(near.ravel(), np.arange(len(near) + 1) * 7, asked))
    assert (found.tokens == EOS).all()  # false alarm: 600 · 2^-17, under one in 200
    assert found.conditions.holds


def test_a_vocabulary_of_two_digits() -> None:
    texts = random_windows(200, vocab=5000)
    compiled = compile_texts(texts, LlamaOptions(), window=7, max_positions=64)
    found = evaluate(compiled.llama, texts)
    assert np.array_equal(found.tokens, texts.following)
    assert found.conditions.holds


@settings(deadline=None, max_examples=4)
@given(st.integers(1, 10**6), st.integers(4, 130_000), st.integers(2, 500))
def test_a_layout_is_found_for_any_shape(n_contexts: int, n_vocab: int, window: int) -> None:
    layout = choose_layout(TextShape(n_vocab, min(n_vocab, 5000), n_contexts, window, 1024))
    assert layout.fits
    assert layout.spec().parameters_dense > 0


def test_the_same_seed_gives_the_same_weights() -> None:
    (_, one), (_, two), (_, other) = (compiled_windows(60, seed=seed) for seed in (3, 3, 4))
    equal = [
        all(np.array_equal(a[n], one.llama.weights[n]) for n in a)
        for a in (two.llama.weights, other.llama.weights)
    ]
    assert equal == [True, False]


def test_limbs_survive_a_float16_cache() -> None:
    drawn = draw_hash(30, 20, 4, 96, [LIMB] * 5, np.random.default_rng(0))
    limbs = drawn.limbs(np.arange(30), np.zeros(30, dtype=np.int64), np.ones(30, dtype=bool))
    assert limbs.min() >= 0
    assert limbs.max() <= 2048


def test_channel_starts_that_are_not_in_order_are_refused() -> None:
    texts, compiled = compiled_windows(40)
    starts = compiled.channel_starts
    for wrong in (starts[::-1], (1, *starts[1:]), starts[:-1], (0, starts[2], starts[1], *starts[3:])):
        with refused(AssumptionViolated, channel_starts=wrong):
            compile_texts(texts, LlamaOptions(channel_starts=wrong), window=7, max_positions=64)
    again = compile_texts(texts, LlamaOptions(channel_starts=starts), window=7, max_positions=64)
    assert again.channel_starts == starts


def test_the_longest_answer_has_room_after_the_longest_key() -> None:
    rows = {
        "who a": "Bob the elder Ximenes and further words here",
        "who b": "Al",
        "how much is it now": "Al",
    }
    assert bh.compile(rows, method="llama").predict(list(rows)) == list(rows.values())
