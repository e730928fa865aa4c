"""MFT24 at d = 1: contexts told apart on a line, and neurons that are steps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.madden_2024.certified_injectivity import certify_injectivity
from byheart.construct.madden_2024.context_vectors import draw_mixing, injectivity, mixed_contexts
from byheart.construct.madden_2024.step_solution import SATURATION, solve_by_steps
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.decoder.architecture import Decoder
from byheart.network.transformer.floats import DTYPES
from byheart.program.targets import NextTokenTargets
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

from .story_data import document_targets

KINDS = ("attention", "averaging")


def front_of(
    targets: NextTokenTargets, kind: str, seed: int = 0, precision: str = "float64"
) -> tuple[Decoder, np.ndarray]:
    contexts = targets.contexts
    rng = np.random.default_rng(seed)
    front = draw_mixing(
        kind,
        contexts.n_vocab,
        contexts.max_len,
        1,
        targets.n_outputs,
        rng,
        precision=precision,
    )
    return front, contexts.pad(front.pad, front.seq_len)


@checks("MFT24-T4", "MFT24-T6")
@pytest.mark.parametrize("kind", KINDS)
def test_all_contexts_of_three_tokens_up_to_length_four_are_told_apart(kind: str) -> None:
    every = [np.stack(np.meshgrid(*[range(3)] * n, indexing="ij"), -1).reshape(-1, n) for n in range(1, 5)]
    rng = np.random.default_rng(0)
    front = draw_mixing(kind, 3, 4, 1, 2, rng)
    encoded = np.concatenate(
        [np.pad(rows, ((0, 0), (4 - rows.shape[1], 0)), constant_values=3) for rows in every]
    )
    assert len(encoded) == 3 + 9 + 27 + 81
    found = injectivity(front, encoded)
    assert found.holds
    assert found.min_gap > 0
    assert found.min_abs > 0.1  # z and u are positive
    # the theorems speak of distinct contexts: a repeated one is a gap of zero
    assert not injectivity(front, encoded[[0, 0, 1]]).holds


@checks("MFT24-T4", "MFT24-T6")
@pytest.mark.parametrize("kind", KINDS)
def test_for_all_contexts_of_three_tokens_it_is_proved_and_so_for_almost_all_embeddings(kind: str) -> None:
    pytest.importorskip("flint", reason="needs python-flint; runs where the extra `ranks` is installed")
    every = [np.stack(np.meshgrid(*[range(3)] * n, indexing="ij"), -1).reshape(-1, n) for n in range(1, 5)]
    encoded = np.concatenate(
        [np.pad(rows, ((0, 0), (4 - rows.shape[1], 0)), constant_values=3) for rows in every]
    )
    front = draw_mixing(kind, 3, 4, 1, 2, np.random.default_rng(0))
    found = certify_injectivity(front, encoded)
    assert found.holds
    assert found.n_contexts == 3 + 9 + 27 + 81
    assert found.bits == (0 if kind == "averaging" else 256)
    assert not certify_injectivity(front, encoded[[0, 0, 1]]).holds
    # two tokens with one embedding: contexts that differ in them alone have one image, which no precision tells apart
    equal = replace(front, embedding=replace(front.embedding, tokens=front.tokens[[0, 0, 1]]))
    assert not certify_injectivity(equal, encoded).holds
    wide = draw_mixing(kind, 3, 4, 2, 2, np.random.default_rng(0))
    with pytest.raises(UsageError):
        certify_injectivity(wide, encoded)


@checks("MFT24-T4", "MFT24-skip", "MFT24-base")
@pytest.mark.parametrize(("has_skip", "base"), [(True, None), (False, Fraction(2)), (True, Fraction(1, 3))])
def test_skip_connections_and_other_bases_of_softmax_change_nothing(
    has_skip: bool, base: Fraction | None
) -> None:
    pytest.importorskip("flint", reason="needs python-flint; runs where the extra `ranks` is installed")
    every = [np.stack(np.meshgrid(*[range(3)] * n, indexing="ij"), -1).reshape(-1, n) for n in range(1, 4)]
    encoded = np.concatenate(
        [np.pad(rows, ((0, 0), (4 - rows.shape[1], 0)), constant_values=3) for rows in every]
    )
    front = draw_mixing("attention", 3, 4, 1, 2, np.random.default_rng(0), has_skip=has_skip)
    assert certify_injectivity(front, encoded, base=base).holds
    # base 1 weighs all tokens alike: then the order of tokens is seen through positions alone, and "ab" may meet "ba"
    assert not certify_injectivity(front, encoded, base=Fraction(1)).holds


@checks("MFT24-T4", "MFT24-T6")
@pytest.mark.parametrize("kind", KINDS)
def test_the_images_that_are_certified_are_those_of_the_network(kind: str) -> None:
    """Images zero and apart as the network computes them: a token of embedding 0 alone has the image 0 under averaging."""
    front = draw_mixing(kind, 3, 2, 1, 2, np.random.default_rng(0))
    tokens = front.tokens.copy()
    tokens[0] = 0.0 if kind == "averaging" else -front.positions[0]
    zero = replace(front, embedding=replace(front.embedding, tokens=tokens))
    encoded = np.array([[3, 0], [3, 1], [3, 2]])
    assert mixed_contexts(zero, encoded)[0, 0] == 0
    pytest.importorskip("flint", reason="needs python-flint; runs where the extra `ranks` is installed")
    assert not certify_injectivity(zero, encoded).holds
    assert certify_injectivity(zero, encoded[1:]).holds


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_those_of_the_formulas(kind: str) -> None:
    rng = np.random.default_rng(1)
    front = draw_mixing(kind, 5, 3, 1, 2, rng)
    z = front.tokens[:, 0]
    context = np.array([4, 0, 2])
    if kind == "attention":
        assert front.positions is not None
        x = z[context] + front.positions[:, 0]
        weights = np.exp(x * x[-1])
        expected = x @ weights / weights.sum()
    else:
        expected = front.mixing.shares @ z[context]
    assert mixed_contexts(front, context[None, :])[0, 0] == pytest.approx(expected, rel=1e-14)


@checks("MFT24-T5", "MFT24-T7", "MFT24-Def1")
@examples(200)
@given(
    n_contexts=st.integers(1, 12),
    n_outputs=st.integers(2, 5),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_logits_on_any_contexts_are_reached_exactly(
    n_contexts: int, n_outputs: int, kind: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(4**4)[:n_contexts]
    rows = np.stack([(ids // 4**place) % 4 for place in range(4)], axis=1)
    front = draw_mixing(kind, 4, 4, 1, n_outputs, rng)
    wanted = rng.normal(0, 10, (n_contexts, n_outputs))
    try:
        steps = solve_by_steps(front, rows, wanted)
    except AssumptionViolated:
        return  # an unlucky draw, refused with a reason
    assert steps.decoder.hidden_width == n_contexts  # m = n
    assert steps.grid_bits is not None
    assert np.abs(steps.targets - wanted).max() <= 2.0 ** -(steps.grid_bits + 1)
    assert (steps.decoder.compute_logits(rows) == steps.targets).all()


@checks("MFT24-T5", "MFT24-T7")
@pytest.mark.parametrize("kind", KINDS)
def test_distributions_are_reached_to_the_last_digit(kind: str) -> None:
    targets = document_targets()
    front, encoded = front_of(targets, kind)
    steps = solve_by_steps(front, encoded, targets.logits(40.0))
    divergence = targets.divergences(steps.decoder.compute_logits(encoded))
    assert 0 < divergence.max() < 1e-15
    assert targets.gap_nats(divergence) < 1e-12


def test_order_of_summation_changes_nothing() -> None:
    targets = document_targets(seed=3)
    front, encoded = front_of(targets, "averaging")
    decoder = solve_by_steps(front, encoded, targets.logits(40.0)).decoder
    order = np.random.default_rng(0).permutation(decoder.hidden_width)
    shuffled = Decoder(
        decoder.embedding,
        decoder.mixing,
        decoder.hidden[:, order],
        decoder.bias[order],
        decoder.logits[order],
        decoder.activation,
    )
    assert (decoder.compute_logits(encoded) == shuffled.compute_logits(encoded)).all()


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_tanh_is_one_to_the_last_bit_from_saturation_on(precision: str) -> None:
    import torch

    start = torch.tensor(SATURATION[precision], dtype=getattr(torch, precision))
    for x in (start, 2 * start, 1e6 * start):
        assert torch.tanh(x) == 1
        assert torch.tanh(-x) == -1
    assert torch.tanh(start / 2.5) < 1  # so the limit is not far below


def test_images_that_lie_too_close_are_refused() -> None:
    targets = document_targets(n_documents=400, n_vocab=30)
    front, encoded = front_of(targets, "attention", precision="float32")
    assert front.tokens.dtype == DTYPES["float32"]
    with refused(AssumptionViolated, min_gap=3.814697265625e-06, needed=1.501189717600937e-05):
        solve_by_steps(front, encoded, targets.logits(22.0))
