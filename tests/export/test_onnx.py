"""The ONNX graph is the network: ONNX Runtime answers as PyTorch does, to the last bit where floats do not round."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.construct.registry import get
from byheart.data import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.errors import InexactWeights, MissingExtra, UsageError
from byheart.export import onnx as export
from byheart.network.exact.dyadic import Dyadic, SparseMatrix
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Layer,
    SumPool,
    Transformer,
)
from byheart.network.transformer.module import run_module
from tests.refusal import refused

onnx = pytest.importorskip("onnx", reason="needs byheart[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs byheart[onnx]")

M = 6


def run_onnx(network: Transformer, inputs: np.ndarray, *, last_only: bool = False) -> np.ndarray:
    content = export.to_onnx(network, last_only=last_only).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    if network.embedding is None:
        inputs = inputs.astype(np.asarray(network.w_in).dtype)
    return np.asarray(session.run(None, {"inputs": inputs})[0])[:, :, 0]


def _whole(rng: np.random.Generator, *shape: int, dtype: type = np.float64) -> np.ndarray:
    """Small whole numbers: sums of them are exact, so any runtime must agree to the last bit."""
    return rng.integers(-3, 4, size=shape).astype(dtype)


def _layer(kind: str, rng: np.random.Generator, dtype: type) -> Layer:
    if kind == "feed-forward":
        parts = [_whole(rng, *shape, dtype=dtype) for shape in ((7, M), (7,), (M, 7), (M,))]
        return FeedForward(*parts)
    if kind == "sum":
        return SumPool()
    pattern = kind if kind in ("gather", "scatter") else "full"
    attention = kind if kind in ("softmax", "hardmax") else "uniform"
    heads = []
    for _ in range(2):
        scored = [_whole(rng, 3, M, dtype=dtype) / 64 for _ in range(2)] if attention != "uniform" else []
        heads.append(Head(_whole(rng, 3, M, dtype=dtype), _whole(rng, M, 3, dtype=dtype) * 8, *scored))
    return Attention(tuple(heads), attention, pattern)


def _network(kinds: tuple[str, ...], *, ids: bool, extra: bool, dtype: type = np.float64) -> Transformer:
    rng = np.random.default_rng(0)
    seq_len = 4 - extra  # four tokens meet in attention: quarters are exact
    embedding = Embedding(_whole(rng, 9, 3, dtype=dtype), _whole(rng, seq_len, 3, dtype=dtype))
    return Transformer(
        _whole(rng, M, 3, dtype=dtype),
        tuple(_layer(kind, rng, dtype) for kind in kinds),
        _whole(rng, 1, M, dtype=dtype),
        seq_len,
        embedding if ids else None,
        None,
        _whole(rng, 1, 3, dtype=dtype) if extra else None,
    )


def _inputs(network: Transformer, n: int = 11) -> np.ndarray:
    rng = np.random.default_rng(1)
    if network.embedding is not None:
        return rng.integers(0, 9, size=(n, network.seq_len))
    return _whole(rng, n, network.seq_len, 3)


EXACT = ("feed-forward", "uniform", "gather", "scatter", "sum")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("kind", EXACT)
def test_whole_numbers_agree_to_the_last_bit(kind: str, ids: bool, extra: bool, dtype: type) -> None:
    network = _network(("feed-forward", kind, "feed-forward"), ids=ids, extra=extra, dtype=dtype)
    inputs = _inputs(network)
    expected = run_module(network, inputs)
    found = run_onnx(network, inputs)
    assert found.dtype == dtype
    assert (found == expected).all()
    assert np.unique(expected).size > 3
    last = run_onnx(network, inputs, last_only=True)
    assert last.shape == (len(inputs), 1)
    assert (last[:, 0] == expected[:, -1]).all()


@pytest.mark.parametrize("kind", ["softmax", "hardmax"])
def test_scored_attention_agrees_up_to_rounding(kind: str) -> None:
    """Exponentials and thirds are rounded: a few units in the last place of numbers near the largest in the sum."""
    network = _network(("feed-forward", kind, "feed-forward"), ids=True, extra=False)
    expected = run_module(network, _inputs(network))
    found = run_onnx(network, _inputs(network))
    assert np.abs(found - expected).max() <= 2.0**-40 * np.abs(expected).max()


CASES = {
    "grid": grid_vectors(400, seed=5),
    "tokens": random_tokens(400, n_vocab=60, seed=5),
    "ragged": random_tokens(300, n_vocab=40, seq_len=6, min_len=1, seed=5),
    "set": random_tokens(300, n_vocab=40, seq_len=5, task="set", seed=5),
    "seq-to-seq": random_tokens(100, n_vocab=40, seq_len=4, task="seq-to-seq", seed=5),
}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "float64") for name in CASES),
        *((name, precision) for name in ("grid", "tokens") for precision in ("float32", "int8", "bfloat16")),
    ],
)
def test_retrieval_answers_alike_to_the_last_bit(name: str, precision: str) -> None:
    """At every token that carries a label; elsewhere sums may exceed what was proved to fit the mantissa."""
    data = CASES[name]
    memoriser = (
        get("retrieval").build(data, {"precision": precision}, np.random.default_rng(0), None).memoriser
    )
    encoded = memoriser.encode(data.inputs)
    last_only = data.task != "seq-to-seq"
    expected = run_module(memoriser.network, encoded, last_only=last_only)
    assert (expected.reshape(-1) == data.labels + 1).all()
    assert (
        run_onnx(memoriser.network, encoded, last_only=last_only).reshape(expected.shape) == expected
    ).all()


def test_one_changed_weight_is_seen() -> None:
    """The comparison can fail: half a unit more on the bias of one unit, and the runtimes part."""
    data: Dataset = random_tokens(200, n_vocab=40, seed=5)
    memoriser = get("retrieval").build(data, {}, np.random.default_rng(0), None).memoriser
    encoded = memoriser.encode(data.inputs)
    expected = run_module(memoriser.network, encoded, last_only=True)
    at = max(n for n, layer in enumerate(memoriser.network.layers) if isinstance(layer, FeedForward))
    layer = memoriser.network.layers[at]
    assert isinstance(layer, FeedForward)
    np.asarray(layer.b1)[0] += 0.5
    assert (run_onnx(memoriser.network, encoded, last_only=True)[:, 0] != expected).any()


def test_written_whole(tmp_path: Path) -> None:
    network = _network(("uniform",), ids=True, extra=False)
    export.save_onnx(network, tmp_path / "model.onnx", last_only=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]
    onnx.checker.check_model(str(tmp_path / "model.onnx"))
    with refused(UsageError, "path"):
        export.save_onnx(network, tmp_path / "model.onnx" / "model.onnx")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]


def test_refuses_what_it_cannot_export(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, long = (SparseMatrix((1, 1), {(0, 0): Dyadic(value, 0)}) for value in (1, 2**60 + 1))
    export.to_onnx(Transformer(whole, (), whole, 2))
    with pytest.raises(InexactWeights):
        export.to_onnx(Transformer(whole, (), long, 2))
    with pytest.raises(UsageError):
        export.to_onnx(bh.compile({"a": "1", "b": "2"}, method="llama", check=False).network)
    network = _network(("uniform",), ids=True, extra=False)
    monkeypatch.setattr(export, "_MOST_BYTES", 100)
    with refused(UsageError, n_bytes=1080):
        export.to_onnx(network)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with refused(MissingExtra, package="onnx", extra="onnx", purpose="the ONNX export"):
        export.to_onnx(network)


def test_one_graph_takes_any_batch() -> None:
    network = _network(("feed-forward", "uniform"), ids=True, extra=True)
    content = export.to_onnx(network).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = _inputs(network, 64)
    expected = run_module(network, inputs)
    for n in (1, 3, 64):
        assert (session.run(None, {"inputs": inputs[:n]})[0][:, :, 0] == expected[:n]).all()
