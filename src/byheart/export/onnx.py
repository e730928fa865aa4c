"""A network as an ONNX graph: the same weights, run by any ONNX runtime.

The graph takes `inputs`, token ids (batch, seq) or vectors (batch, seq, d), and gives `outputs` (batch, seq, n_outputs) as the
PyTorch module does. It is written node by node from the architecture, so nothing is traced and no weight is rounded.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from byheart.errors import MissingExtra, UsageError
from byheart.network.protocol import Network
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Layer, SumPool, Transformer
from byheart.network.transformer.floats import as_floats

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18
IR_VERSION = 9  # what runtimes of 2023 and later read
_MOST_BYTES = 2**31 - 2**20  # a protocol buffer holds less than 2 GiB
_END = 2**62


def to_onnx(network: Network, *, last_only: bool = False) -> ModelProto:
    """`network` as an ONNX model with every weight at its exact value; with `last_only` only the last token's output.

    Raises `InexactWeights` if a weight is not a float, and `UsageError` for networks that answer with logits or are too large for
    one file.
    """
    if network.spec.family != "transformer":
        raise UsageError(
            "the ONNX export takes networks that answer with the number of a class, not with logits."
        )
    transformer = cast(Transformer, network)
    floats = as_floats(transformer) if network.precision == "exact" else transformer
    n_bytes = sum(np.asarray(weights).nbytes for _, weights in floats.parameters())
    if n_bytes > _MOST_BYTES:
        raise UsageError(
            f"the weights take {n_bytes / 2**30:.1f} GiB; one ONNX file holds less than 2 GiB.\n"
            "  Run the PyTorch module instead.",
            n_bytes=n_bytes,
        )
    return _Graph(floats, last_only).model()


def save_onnx(network: Network, path: Path, *, last_only: bool = False) -> None:
    """Write `network` as an ONNX file, whole or not at all."""
    content = to_onnx(network, last_only=last_only).SerializeToString()
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror or error}.", path=str(path)) from error


def _divides(n: int, weights: np.ndarray) -> bool:
    """Whether every weight over n is a float of the same type, exactly."""
    return all(
        Fraction(float(value / weights.dtype.type(n))) * n == Fraction(float(value))
        for value in np.unique(weights)
    )


class _Graph:
    """The nodes and weights gathered while walking through a network whose weights are floats."""

    def __init__(self, network: Transformer, last_only: bool) -> None:
        try:
            import onnx
        except ImportError:
            raise MissingExtra("onnx", "onnx", "the ONNX export") from None
        self.onnx = onnx
        self.network, self.last_only = network, last_only
        self.dtype = np.asarray(network.w_in).dtype
        self.n_tokens = network.seq_len + (network.extra is not None)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def model(self) -> ModelProto:
        """The whole graph, checked."""
        network, helper, types = self.network, self.onnx.helper, self.onnx.TensorProto
        number = types.DOUBLE if self.dtype == np.float64 else types.FLOAT
        has_ids = network.takes_ids
        shape = ["batch", network.seq_len] if has_ids else ["batch", network.seq_len, network.dim]
        stream = self._enter()
        for at, layer in enumerate(network.layers):
            stream = self._layer(f"layers.{at}", stream, layer)
        pooled = any(isinstance(layer, SumPool) for layer in network.layers)
        if not pooled and (self.last_only or network.extra is not None):
            stream = self._tokens(stream, -1 if self.last_only else 1, _END)
        n_answers = 1 if pooled or self.last_only else network.seq_len
        self._node("MatMul", stream, self._weight("w_out", np.asarray(network.w_out).T), name="outputs")
        graph = helper.make_graph(
            self.nodes,
            "byheart",
            [helper.make_tensor_value_info("inputs", types.INT64 if has_ids else number, shape)],
            [
                helper.make_tensor_value_info(
                    "outputs", number, ["batch", n_answers, int(network.w_out.shape[0])]
                )
            ],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model: ModelProto = helper.make_model(
            graph, producer_name="byheart", opset_imports=[opset], ir_version=IR_VERSION
        )
        self.onnx.checker.check_model(model)
        return model

    def _enter(self) -> str:
        """Embedding, positions, the extra token, and the way into the residual stream."""
        network, vectors = self.network, "inputs"
        if network.embedding is not None:
            table = self._weight("embedding.tokens", np.asarray(network.embedding.tokens))
            vectors = self._node("Gather", table, vectors)
            if network.embedding.positions is not None:
                positions = self._weight("embedding.positions", np.asarray(network.embedding.positions))
                vectors = self._node("Add", vectors, positions)
        if network.extra is not None:
            batch = self._node("Shape", "inputs", start=0, end=1)
            shape = self._node("Concat", batch, self._whole("extra.shape", [1, network.dim]), axis=0)
            extra = self._node("Expand", self._weight("extra", np.asarray(network.extra)), shape)
            vectors = self._node("Concat", extra, vectors, axis=1)
        return self._node("MatMul", vectors, self._weight("w_in", np.asarray(network.w_in).T))

    def _layer(self, name: str, stream: str, layer: Layer) -> str:
        if isinstance(layer, FeedForward):
            hidden = self._node("Relu", self._affine(f"{name}.1", stream, layer.w1, layer.b1))
            return self._node("Add", stream, self._affine(f"{name}.2", hidden, layer.w2, layer.b2))
        if isinstance(layer, Attention):
            return self._attention(name, stream, layer)
        return self._node("ReduceSum", stream, self._whole(f"{name}.axis", [1]), keepdims=1)

    def _attention(self, name: str, stream: str, layer: Attention) -> str:
        """As the PyTorch module: uniform attention sums first, so integers stay integers, and divides by n.

        Runtimes turn a division by a constant into a product with its rounded reciprocal, so n is taken out of the output
        weights beforehand wherever they are multiples of it.
        """
        plain = outputs = [np.asarray(head.output) for head in layer.heads]
        averages = layer.kind == "uniform" and layer.pattern != "scatter"
        if averages and all(_divides(self.n_tokens, weights) for weights in outputs):
            outputs, averages = [weights / self.dtype.type(self.n_tokens) for weights in outputs], False
        changes = [
            self._matmul(f"{name}.{at}.output", self._mix(f"{name}.{at}", stream, layer, head), weights)
            for at, (head, weights) in enumerate(zip(layer.heads, outputs, strict=True))
        ]
        change = changes[0] if len(changes) == 1 else self._node("Sum", *changes)
        if averages:
            change = self._node("Div", change, self._number(f"{name}.n_tokens", self.n_tokens))
        if layer.pattern == "gather":
            first = self._node("Add", self._tokens(stream, 0, 1), change)
            read = [
                self._matmul(
                    f"{name}.{at}.others",
                    self._matmul(f"{name}.{at}.first", self._tokens(stream, 0, 1), np.asarray(head.value)),
                    weights,
                )
                for at, (head, weights) in enumerate(zip(layer.heads, plain, strict=True))
            ]
            given = read[0] if len(read) == 1 else self._node("Sum", *read)
            others = self._node("Add", self._tokens(stream, 1, _END), given)
            return self._node("Concat", first, others, axis=1)
        return self._node("Add", stream, change)

    def _mix(self, name: str, stream: str, layer: Attention, head: Head) -> str:
        """The values each token gets from the others."""
        read = self._tokens(stream, 0, 1) if layer.pattern == "scatter" else stream
        values = self._matmul(f"{name}.value", read, np.asarray(head.value))
        if layer.pattern == "scatter":
            return values
        if layer.kind == "uniform":
            return self._node("ReduceSum", values, self._whole(f"{name}.axis", [1]), keepdims=1)
        keys = self._matmul(f"{name}.key", stream, np.asarray(head.key))
        queries = self._matmul(f"{name}.query", stream, np.asarray(head.query))
        scores = self._node("MatMul", queries, self._node("Transpose", keys, perm=[0, 2, 1]))
        if layer.kind == "softmax":
            return self._node("MatMul", self._node("Softmax", scores, axis=-1), values)
        axis = self._whole(f"{name}.axis", [-1])
        largest = self._node("Equal", scores, self._node("ReduceMax", scores, axis, keepdims=1))
        ones = self._node("Cast", largest, to=self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype))
        shares = self._node("Div", ones, self._node("ReduceSum", ones, axis, keepdims=1))
        return self._node("MatMul", shares, values)

    def _tokens(self, stream: str, first: int, end: int) -> str:
        parts = {"first": first, "end": end, "axis": 1}
        at = len(self.nodes)
        return self._node(
            "Slice", stream, *(self._whole(f"slice.{at}.{name}", [value]) for name, value in parts.items())
        )

    def _affine(self, name: str, stream: str, weights: Any, bias: Any) -> str:
        shifted = self._weight(f"{name}.bias", np.asarray(bias).reshape(-1))
        return self._node("Add", self._matmul(f"{name}.weight", stream, np.asarray(weights)), shifted)

    def _matmul(self, name: str, stream: str, weights: np.ndarray) -> str:
        return self._node("MatMul", stream, self._weight(name, weights.T))

    def _weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _whole(self, name: str, values: list[int]) -> str:
        return self._weight(name, np.array(values, dtype=np.int64))

    def _number(self, name: str, value: float) -> str:
        return self._weight(name, np.array(value, dtype=self.dtype))

    def _node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        made = name or f"{kind}.{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [made], name=made, **attributes))
        return made
