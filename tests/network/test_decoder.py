"""The decoder and the attention-only Transformer: the modules against their formulas, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from byheart.bounds.dana_2024 import AttentionOnlyShape
from byheart.bounds.madden_2024 import DecoderShape
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.attention_only.module import AttentionOnlyModule
from byheart.network.decoder.architecture import Decoder, SelfAttention, TokenAveraging
from byheart.network.decoder.module import DecoderModule
from byheart.network.divergence import divergences, log_softmax
from byheart.network.size import size_of_network
from byheart.network.transformer.architecture import Embedding, ShapeMismatch
from byheart.theorems import checks
from tests.examples import examples


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def decoder_of(seed: int, *, averaging: bool = False) -> Decoder:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    vocab, seq_len, dim, heads, key, value, width, outputs = 5, 4, 3, 2, 2, 4, 6, 7
    mixing: SelfAttention | TokenAveraging = TokenAveraging(draw(seq_len))
    if not averaging:
        mixing = SelfAttention(
            draw(heads, dim, key), draw(heads, dim, key), draw(heads, dim, value), draw(heads, value, dim)
        )
    embedding = Embedding(draw(vocab, dim), None if averaging else draw(seq_len, dim))
    return Decoder(embedding, mixing, draw(dim, width), draw(width), draw(width, outputs), "tanh")


def written_out(decoder: Decoder, context: np.ndarray) -> np.ndarray:
    """MFT24 eq. (2), or Theorem 7's h, one context at a time."""
    tokens = decoder.tokens[context]
    if isinstance(decoder.mixing, TokenAveraging):
        mixed = decoder.mixing.shares[: len(context)] @ tokens
    else:
        assert decoder.positions is not None
        x = tokens + decoder.positions[: len(context)]
        mixed = np.zeros(decoder.dim)
        for head in range(len(decoder.mixing.key)):
            scores = x @ decoder.mixing.key[head] @ decoder.mixing.query[head].T @ x[-1]
            mixed += softmax(scores) @ x @ decoder.mixing.value[head] @ decoder.mixing.output[head]
    return np.asarray(np.tanh(mixed @ decoder.hidden + decoder.bias) @ decoder.logits)


@checks("MFT24-eq2")
@examples(200)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 4), averaging=st.booleans())
def test_the_decoder_is_its_formula(seed: int, length: int, averaging: bool) -> None:
    decoder = decoder_of(seed, averaging=averaging)
    context = np.random.default_rng(seed).integers(0, 5, length)
    padded = np.concatenate([np.full(4 - length, decoder.pad), context])[None, :]
    assert np.allclose(
        decoder.compute_logits(padded)[0], written_out(decoder, context), rtol=1e-10, atol=1e-10
    )


def test_sizes_are_those_of_the_paper() -> None:
    decoder = decoder_of(0)
    size = size_of_network(decoder)
    shape = DecoderShape(dim=3, n_heads=2, key_dim=2, value_dim=4, hidden_width=6, vocab=5, seq_len=4)
    # the paper has one vocabulary; ours has two more outputs than tokens
    assert size.parameters_dense == shape.parameters + 6 * 2
    assert size.parameters_dense == sum(p.numel() for p in DecoderModule(decoder).parameters())
    assert (size.depth, size.weight_bits) == (2, 64)


def test_parts_that_do_not_fit_are_refused() -> None:
    decoder = decoder_of(0)
    for part, value in (
        ("bias", np.zeros(5)),
        ("logits", np.zeros((5, 7))),
        ("hidden", np.zeros((2, 6))),
        ("bias", np.zeros(6, np.float32)),
        ("embedding", Embedding(decoder.tokens)),
    ):
        parts = {name: getattr(decoder, name) for name in Decoder.__dataclass_fields__} | {part: value}
        with pytest.raises(ShapeMismatch):
            Decoder(**parts)


def attention_only(
    seed: int, *, skip: bool = True, sees_itself: bool = True, ragged: bool = False
) -> AttentionOnly:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    n, s, d, h, dh = 5, 3, 4, 2, 3
    embedding = Embedding(draw(n, d), draw(s, d))
    heads = (draw(h, dh, d), draw(h, dh, d), draw(h, dh, d), draw(h, d, dh))
    return AttentionOnly(embedding, *heads, draw(n, d), s, skip=skip, sees_itself=sees_itself, ragged=ragged)


@checks("DPC24-eq1", "DPC24-eq2")
@examples(200)
@given(
    seed=st.integers(0, 2**32 - 1), skip=st.booleans(), sees_itself=st.booleans(), length=st.integers(1, 3)
)
def test_attention_only_is_its_formula(seed: int, skip: bool, sees_itself: bool, length: int) -> None:
    ragged = length < 3
    network = attention_only(seed, skip=skip, sees_itself=sees_itself or ragged, ragged=ragged)
    tokens = np.random.default_rng(seed).integers(0, 5, length)
    x = network.tokens[tokens] + network.positions[3 - length :]
    stream = x[-1].copy() if skip else np.zeros(4)
    seen = x if network.sees_itself else x[:-1]
    for h in range(2):
        scores = seen @ network.key[h].T @ network.query[h] @ x[-1]
        stream += network.output[h] @ network.value[h] @ (softmax(scores) @ seen)
    padded = np.concatenate([np.full(3 - length, 5), tokens])[None, :]
    found = network.compute_logits(padded)[0]
    assert np.allclose(found, network.unembedding @ stream, rtol=1e-10, atol=1e-10)


def test_attention_only_has_the_size_of_the_paper() -> None:
    network = attention_only(0)
    size = size_of_network(network)
    assert size.parameters_dense == AttentionOnlyShape(5, 3, 4, 3, 2).parameters
    assert size.parameters_dense == sum(p.numel() for p in AttentionOnlyModule(network).parameters())
    assert (size.depth, size.width) == (1, 6)


@examples(200)
@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(0, 1e-6))
def test_divergences_are_right_and_never_negative(seed: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(5), 3)
    p[:, 0] = 0
    p /= p.sum(axis=1, keepdims=True)
    rows, columns = np.nonzero(p)
    logits = rng.normal(0, 3, (3, 5))
    found = divergences(rows, columns, p[rows, columns], logits)
    log_q = log_softmax(logits)
    assert found == pytest.approx((p[:, 1:] * (np.log(p[:, 1:]) - log_q[:, 1:])).sum(axis=1), rel=1e-9)
    near = np.where(p > 0, np.log(np.where(p > 0, p, 1)), -800.0)
    near[:, 1] += shift
    tiny = divergences(rows, columns, p[rows, columns], near)
    assert (tiny >= 0).all()
    # second order in the shift
    assert tiny == pytest.approx(p[:, 1] * (1 - p[:, 1]) * shift**2 / 2, rel=1e-2, abs=1e-29)


class LargestArray(TorchDispatchMode):
    """Notes the number of entries of the largest array that any operation returns."""

    n_entries = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.n_entries = max(self.n_entries, result.numel())
        return result


@pytest.mark.parametrize(("n_heads", "seq_len", "dim"), [(1, 12, 9), (10, 12, 2), (10, 2, 12)])
def test_the_largest_layer_is_the_largest_array_of_a_sample(n_heads: int, seq_len: int, dim: int) -> None:
    """Batches are chosen by this number, so a smaller one would fill the memory."""
    n_tokens, n_samples = 5, 64
    rows, columns = np.ones((n_heads, 1, dim)), np.ones((n_heads, dim, 1))
    embedding = Embedding(np.ones((n_tokens, dim)), np.ones((seq_len, dim)))
    attention = AttentionOnly(embedding, rows, rows, rows, columns, np.ones((3, dim)), seq_len)
    mixing = SelfAttention(columns, columns, columns, rows)
    decoder = Decoder(embedding, mixing, np.ones((dim, 4)), np.ones(4), np.ones((4, 3)), "tanh")
    for network in (attention, decoder):
        ids = torch.zeros((n_samples, seq_len), dtype=torch.long)
        module = network.module()
        with torch.no_grad(), LargestArray() as seen:
            module(ids)
        assert seen.n_entries <= n_samples * network.largest_layer
