"""Export a network as an ONNX graph, for any ONNX runtime.

Like the PyTorch module, the graph takes `inputs`, which are token ids (batch, seq) or vectors (batch, seq, d), and
gives `outputs` (batch, seq, n_outputs) or logits (batch, n_outputs). It is built node by node from the architecture,
without tracing, and no weight is rounded.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from byheart.errors import UsageError
from byheart.export.onnx_graph import END, GraphBuilder
from byheart.export.onnx_logits import LOGIT_MODELS
from byheart.files.whole_file import check_file_target, write_whole
from byheart.network.protocol import Network
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Layer, SumPool, Transformer
from byheart.network.transformer.floats import as_floats

if TYPE_CHECKING:
    from onnx import ModelProto

_MOST_BYTES = 2**31 - 2**20  # a protocol buffer must be smaller than 2 GiB


def to_onnx(network: Network, *, last_only: bool = False) -> ModelProto:
    """Convert `network` to an ONNX model without rounding any weight.

    With `last_only`, the ONNX model outputs only the result of the last token.

    Raise `InexactWeights` if floats cannot represent all weights exactly, and `UsageError` for a Llama, for a network that is too
    large for one file, or if runtimes lack its activation function in float64.
    """
    family = network.spec.family
    if family not in ("transformer", *LOGIT_MODELS):
        raise UsageError(
            f"byheart cannot export a model of the family {family} to ONNX.\n"
            "  Its folder is a standard checkpoint, which other tools can convert. For llama.cpp, use "
            "--to gguf.",
            family=family,
        )
    floats = as_floats(cast(Transformer, network)) if network.precision == "exact" else network
    n_bytes = sum(np.asarray(weights).nbytes for _, weights in floats.parameters())
    if n_bytes > _MOST_BYTES:
        raise UsageError(
            f"the weights take {n_bytes / 2**30:.1f} GiB, but an ONNX file must be smaller than 2 GiB.\n"
            "  Run the PyTorch module instead.",
            n_bytes=n_bytes,
        )
    if family in LOGIT_MODELS:
        return LOGIT_MODELS[family](floats)
    return _Graph(cast(Transformer, floats), last_only).model()


def save_onnx(network: Network, path: Path, *, last_only: bool = False) -> None:
    """Write `network` as an ONNX file, atomically."""
    check_file_target(path)
    content = to_onnx(network, last_only=last_only).SerializeToString()
    write_whole(path, lambda file: file.write(content))


def _divides(n: int, weights: np.ndarray) -> bool:
    """Return whether every weight divided by n is exactly a float of the same type."""
    return all(
        Fraction(float(value / weights.dtype.type(n))) * n == Fraction(float(value))
        for value in np.unique(weights)
    )


class _Graph(GraphBuilder):
    """The graph of a Transformer whose weights are floats."""

    def __init__(self, network: Transformer, last_only: bool) -> None:
        super().__init__(np.asarray(network.w_in).dtype)
        self.network, self.last_only = network, last_only
        self.n_tokens = network.seq_len + (network.extra is not None)

    def model(self) -> ModelProto:
        network = self.network
        stream = self._enter()
        for at, layer in enumerate(network.layers):
            stream = self._layer(f"layers.{at}", stream, layer)
        pooled = any(isinstance(layer, SumPool) for layer in network.layers)
        if not pooled and (self.last_only or network.extra is not None):
            stream = self.tokens(stream, -1 if self.last_only else 1, END)
        n_answers = 1 if pooled or self.last_only else network.seq_len
        self.node("MatMul", stream, self.weight("w_out", np.asarray(network.w_out).T), name="outputs")
        shape = [network.seq_len] if network.takes_ids else [network.seq_len, network.dim]
        return self.finish(network.takes_ids, shape, [n_answers, int(network.w_out.shape[0])])

    def _enter(self) -> str:
        """Add the nodes for embedding, positions, the extra first token (if there is one) and the matrix `w_in`."""
        network, vectors = self.network, "inputs"
        if network.embedding is not None:
            table = self.weight("embedding.tokens", np.asarray(network.embedding.tokens))
            vectors = self.node("Gather", table, vectors)
            if network.embedding.positions is not None:
                positions = self.weight("embedding.positions", np.asarray(network.embedding.positions))
                vectors = self.node("Add", vectors, positions)
        if network.extra is not None:
            batch = self.node("Shape", "inputs", start=0, end=1)
            shape = self.node("Concat", batch, self.whole("extra.shape", [1, network.dim]), axis=0)
            extra = self.node("Expand", self.weight("extra", np.asarray(network.extra)), shape)
            vectors = self.node("Concat", extra, vectors, axis=1)
        return self.node("MatMul", vectors, self.weight("w_in", np.asarray(network.w_in).T))

    def _layer(self, name: str, stream: str, layer: Layer) -> str:
        if isinstance(layer, FeedForward):
            hidden = self.node("Relu", self._affine(f"{name}.1", stream, layer.w1, layer.b1))
            return self.node("Add", stream, self._affine(f"{name}.2", hidden, layer.w2, layer.b2))
        if isinstance(layer, Attention):
            return self._attention(name, stream, layer)
        return self.node("ReduceSum", stream, self.whole(f"{name}.axis", [1]), keepdims=1)

    def _attention(self, name: str, stream: str, layer: Attention) -> str:
        """Add the nodes of an attention layer.

        As in the PyTorch module, uniform attention first adds the vectors of all n tokens, so that integers stay integers. It
        then divides the sum by n.

        A runtime may multiply by the rounded reciprocal of a constant instead of dividing by it. This function avoids this rounding
        if every output weight divided by n is exactly a float: it then divides the weights by n before the export.
        """
        plain = outputs = [np.asarray(head.output) for head in layer.heads]
        averages = layer.kind == "uniform" and layer.pattern != "scatter"
        if averages and all(_divides(self.n_tokens, weights) for weights in outputs):
            outputs, averages = [weights / self.dtype.type(self.n_tokens) for weights in outputs], False
        changes = [
            self.matmul(f"{name}.{at}.output", self._mix(f"{name}.{at}", stream, layer, head), weights)
            for at, (head, weights) in enumerate(zip(layer.heads, outputs, strict=True))
        ]
        change = changes[0] if len(changes) == 1 else self.node("Sum", *changes)
        if averages:
            change = self.node("Div", change, self.number(f"{name}.n_tokens", self.n_tokens))
        if layer.pattern == "gather":
            first = self.node("Add", self.tokens(stream, 0, 1), change)
            read = [
                self.matmul(
                    f"{name}.{at}.others",
                    self.matmul(f"{name}.{at}.first", self.tokens(stream, 0, 1), np.asarray(head.value)),
                    weights,
                )
                for at, (head, weights) in enumerate(zip(layer.heads, plain, strict=True))
            ]
            given = read[0] if len(read) == 1 else self.node("Sum", *read)
            others = self.node("Add", self.tokens(stream, 1, END), given)
            return self.node("Concat", first, others, axis=1)
        return self.node("Add", stream, change)

    def _mix(self, name: str, stream: str, layer: Attention, head: Head) -> str:
        """Add the nodes that compute, for one head, what each token receives from the tokens that it attends to."""
        read = self.tokens(stream, 0, 1) if layer.pattern == "scatter" else stream
        values = self.matmul(f"{name}.value", read, np.asarray(head.value))
        if layer.pattern == "scatter":
            return values
        if layer.kind == "uniform":
            return self.node("ReduceSum", values, self.whole(f"{name}.axis", [1]), keepdims=1)
        keys = self.matmul(f"{name}.key", stream, np.asarray(head.key))
        queries = self.matmul(f"{name}.query", stream, np.asarray(head.query))
        scores = self.node("MatMul", queries, self.node("Transpose", keys, perm=[0, 2, 1]))
        if layer.kind == "softmax":
            return self.node("MatMul", self.node("Softmax", scores, axis=-1), values)
        axis = self.whole(f"{name}.axis", [-1])
        largest = self.node("Equal", scores, self.node("ReduceMax", scores, axis, keepdims=1))
        ones = self.node("Cast", largest, to=self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype))
        shares = self.node("Div", ones, self.node("ReduceSum", ones, axis, keepdims=1))
        return self.node("MatMul", shares, values)

    def _affine(self, name: str, stream: str, weights: Any, bias: Any) -> str:
        shifted = self.weight(f"{name}.bias", np.asarray(bias).reshape(-1))
        return self.node("Add", self.matmul(f"{name}.weight", stream, np.asarray(weights)), shifted)
