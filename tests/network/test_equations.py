"""The second evaluators, written from the equations, agree with the modules up to the rounding they bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.decoder.architecture import Activation, Decoder, SelfAttention, TokenAveraging
from byheart.network.families import Network
from byheart.network.protocol import Evaluation
from byheart.network.transformer.architecture import Attention, Embedding, FeedForward, Head, Transformer

Floats = Literal["float64", "float32"]


def decoder(precision: Floats, activation: Activation, averages: bool) -> tuple[Decoder, np.ndarray]:
    rng = np.random.default_rng(3)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(precision)

    mixing = (
        TokenAveraging(draw(5))
        if averages
        else SelfAttention(*(draw(2, 4, 3) for _ in range(3)), draw(2, 3, 4))
    )
    embedding = Embedding(draw(7, 4), None if averages else draw(5, 4))
    ids = rng.integers(0, 7, size=(20, 5))
    for row, length in zip(ids, rng.integers(1, 6, size=20), strict=True):
        row[: 5 - length] = 7  # padding
    return Decoder(embedding, mixing, draw(4, 6), draw(6), draw(6, 9), activation), ids


def attention_only(precision: Floats, **flags: bool) -> tuple[AttentionOnly, np.ndarray]:
    rng = np.random.default_rng(4)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(precision)

    network = AttentionOnly(
        Embedding(draw(7, 4), draw(5, 4)),
        draw(2, 3, 4),
        draw(2, 3, 4),
        draw(2, 2, 4),
        draw(2, 4, 2),
        draw(9, 4),
        5,
        **flags,
    )
    ids = rng.integers(0, 7, size=(20, 5))
    if network.ragged:
        ids[:5, :3] = 7
    return network, ids


CASES = [
    *(decoder("float64", name, False) for name in ("tanh", "gelu", "arctan", "silu")),
    decoder("float32", "gelu", False),
    decoder("float64", "tanh", True),
    decoder("float32", "silu", True),
    attention_only("float64"),
    attention_only("float32", ragged=True),
    attention_only("float64", skip=False, sees_itself=False),
    attention_only("float64", zero_token=True),
]


@pytest.mark.parametrize(("network", "encoded"), CASES)
def test_the_module_lies_within_the_bound_on_rounding(network: Network, encoded: np.ndarray) -> None:
    native, found = network.compute_logits(encoded), network.bound_logits(encoded)
    apart = np.abs(native - found.value)
    assert (apart <= 2 * found.radius).all()
    unit = 2.0**-24 if network.precision == "float32" else 2.0**-53
    assert found.radius.max() < 1e7 * unit  # a bound that would excuse everything is none
    assert (
        network.answer(encoded, "abcdefghi", Evaluation("equations"))[:, 0] == native.argmax(axis=1)
    ).all()


@pytest.mark.parametrize(("network", "encoded"), CASES)
def test_a_module_that_computes_something_else_is_found(network: Network, encoded: np.ndarray) -> None:
    module = network.module()
    with torch.no_grad():
        name, weights = max(module.named_parameters(), key=lambda item: item[1].numel())
        weights += 1e-3 if network.precision == "float64" else 0.3
        changed = module(torch.from_numpy(encoded)).numpy()
    found = network.bound_logits(encoded)
    assert (np.abs(changed - found.value) > 2 * found.radius).any(axis=1).all(), name


def test_a_transformer_with_softmax_is_looked_at_twice() -> None:
    rng = np.random.default_rng(5)
    heads = tuple(
        Head(*(rng.standard_normal(shape) for shape in ((2, 4), (4, 2), (2, 4), (2, 4)))) for _ in range(2)
    )
    layers = (
        Attention(heads, "softmax"),
        FeedForward(*(rng.standard_normal(shape) for shape in ((6, 4), (6,), (4, 6), (4,)))),
    )
    network = Transformer(rng.standard_normal((4, 3)), layers, rng.standard_normal((1, 4)), 5)
    from byheart.network.transformer.equations import first_outputs
    from byheart.network.transformer.module import run_module

    vectors = rng.standard_normal((7, 5, 3))
    assert network.second_backend == "equations"
    np.testing.assert_allclose(
        first_outputs(network, vectors, last_only=False), run_module(network, vectors), rtol=1e-12
    )
    extra = replace(network, extra=rng.standard_normal((1, 3)))
    np.testing.assert_allclose(
        first_outputs(extra, vectors, last_only=True)[:, 0],
        run_module(extra, vectors, last_only=True),
        rtol=1e-12,
    )
