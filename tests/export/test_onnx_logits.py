"""Networks that answer with logits as ONNX graphs: ONNX Runtime gives the logits of PyTorch, but for rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import byheart as bh
from byheart.data.generators import random_tokens
from byheart.errors import UsageError
from byheart.export.onnx import to_onnx
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.decoder.architecture import Activation, Decoder, SelfAttention, TokenAveraging
from byheart.network.protocol import Network
from byheart.network.transformer.architecture import Embedding

pytest.importorskip("onnx", reason="needs byheart[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs byheart[onnx]")

VOCAB, LENGTH, DIM, HEADS, BATCH = 7, 5, 4, 3, 9


def run_onnx(network: Network, inputs: np.ndarray) -> np.ndarray:
    content = to_onnx(network).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    whole = np.asarray(session.run(None, {"inputs": inputs})[0])
    one = np.asarray(session.run(None, {"inputs": inputs[:1]})[0])
    assert one == pytest.approx(whole[:1], rel=1e-5)  # any number of inputs
    return whole


def run_module(network: Network, inputs: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(network.module()(torch.from_numpy(inputs)))


def weights(*shape: int, dtype: type) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def left_filled_ids(pad: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCAB, (BATCH, LENGTH))
    for row, length in enumerate(rng.integers(1, LENGTH + 1, BATCH)):
        ids[row, : LENGTH - length] = pad
    return ids


def attention_only(takes_ids: bool, dtype: type = np.float64, **traits: bool) -> AttentionOnly:
    embedding = Embedding(weights(VOCAB, DIM, dtype=dtype), weights(LENGTH, DIM, dtype=dtype))
    heads = [weights(HEADS, 2, DIM, dtype=dtype), weights(HEADS, 2, DIM, dtype=dtype) + 1]
    value, output = weights(HEADS, 3, DIM, dtype=dtype), weights(HEADS, DIM, 3, dtype=dtype)
    unembedding = weights(6, DIM, dtype=dtype)
    return AttentionOnly(
        embedding if takes_ids else None, *heads, value, output, unembedding, seq_len=LENGTH, **traits
    )


def decoder(
    attends: bool, activation: Activation, dtype: type = np.float64, *, has_skip: bool = False
) -> Decoder:
    parts = [(HEADS, DIM, 2), (HEADS, DIM, 2), (HEADS, DIM, 3), (HEADS, 3, DIM)]
    mixing = (
        SelfAttention(*(weights(*shape, dtype=dtype) + at for at, shape in enumerate(parts)), has_skip)
        if attends
        else TokenAveraging(weights(LENGTH, dtype=dtype))
    )
    positions = weights(LENGTH, DIM, dtype=dtype) if attends else None
    embedding = Embedding(weights(VOCAB, DIM, dtype=dtype), positions)
    sizes = weights(DIM, 8, dtype=dtype), weights(8, dtype=dtype), weights(8, 6, dtype=dtype)
    return Decoder(embedding, mixing, *sizes, activation)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("takes_ids", "traits"),
    [
        (True, {}),
        (True, {"ragged": True}),
        (True, {"ragged": True, "zero_token": True}),
        (True, {"sees_itself": False, "skip": False}),
        (False, {}),
        (False, {"sees_itself": False, "zero_token": True}),
    ],
)
def test_attention_only(takes_ids: bool, traits: dict[str, bool], dtype: type) -> None:
    network = attention_only(takes_ids, dtype, **traits)
    ids = left_filled_ids(VOCAB if network.ragged else 0)
    inputs = ids if takes_ids else weights(BATCH, LENGTH, DIM, dtype=dtype)
    precise = 1e-12 if dtype == np.float64 else 1e-4
    assert run_onnx(network, inputs) == pytest.approx(run_module(network, inputs), rel=precise, abs=precise)


@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize(
    ("activation", "dtype"),
    [
        ("tanh", np.float64),
        ("silu", np.float64),
        ("tanh", np.float32),
        ("gelu", np.float32),
        ("arctan", np.float32),
    ],
)
def test_decoders(attends: bool, activation: Activation, dtype: type) -> None:
    network, inputs = decoder(attends, activation, dtype), left_filled_ids(VOCAB)
    precise = 1e-12 if dtype == np.float64 else 1e-4
    assert run_onnx(network, inputs) == pytest.approx(run_module(network, inputs), rel=precise, abs=precise)


def test_a_decoder_with_a_skip_connection() -> None:
    network, inputs = decoder(True, "tanh", has_skip=True), left_filled_ids(VOCAB)
    found = run_onnx(network, inputs)
    assert found == pytest.approx(run_module(network, inputs), rel=1e-12, abs=1e-12)
    assert found != pytest.approx(run_module(decoder(True, "tanh"), inputs), rel=1e-6)


def test_a_changed_weight_changes_the_logits() -> None:
    network, inputs = decoder(True, "tanh"), left_filled_ids(VOCAB)
    changed = replace(network, bias=network.bias + 0.1)
    assert run_onnx(changed, inputs) != pytest.approx(run_module(network, inputs), abs=1e-6)


@pytest.mark.parametrize("activation", ["gelu", "arctan"])
def test_what_runtimes_lack_is_refused(activation: Activation) -> None:
    with pytest.raises(UsageError):
        to_onnx(decoder(True, activation))


@pytest.mark.parametrize("method", ["madden-2024", "madden-2024-averaging", "dana-2024"])
def test_a_compiled_memory_answers_in_another_runtime(method: str) -> None:
    data = random_tokens(20, seed=0)
    model = bh.compile(data, method=method, precision="float64")
    inputs = model.memoriser.encode(data.inputs)
    assert (run_onnx(model.network, inputs).argmax(axis=1) == data.labels).all()
