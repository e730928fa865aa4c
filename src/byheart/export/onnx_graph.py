"""Build ONNX graphs from nodes and weights, without changing any weight, and check the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from byheart.errors import import_extra

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 18
IR_VERSION = 9  # supported by runtimes of 2023 and later
END = 2**62
"""The end of a slice that goes up to the last element."""


class GraphBuilder:
    """Collects the nodes and weights of a network whose weights are floats of one type."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.onnx = import_extra("onnx", "onnx", "the ONNX export")
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def finish(self, has_ids: bool, inputs: list[int], outputs: list[int]) -> ModelProto:
        """Return the ONNX model, after checking it.

        has_ids: whether the inputs are token ids; otherwise they are vectors.
        inputs, outputs: the shapes of the inputs and outputs, without the batch axis, which may have any size.
        """
        helper, types = self.onnx.helper, self.onnx.TensorProto
        number = types.DOUBLE if self.dtype == np.float64 else types.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "byheart",
            [helper.make_tensor_value_info("inputs", types.INT64 if has_ids else number, ["batch", *inputs])],
            [helper.make_tensor_value_info("outputs", number, ["batch", *outputs])],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model: ModelProto = helper.make_model(
            graph, producer_name="byheart", opset_imports=[opset], ir_version=IR_VERSION
        )
        self.onnx.checker.check_model(model)
        return model

    def tokens(self, stream: str, first: int, end: int) -> str:
        parts = {"first": first, "end": end, "axis": 1}
        at = len(self.nodes)
        return self.node(
            "Slice", stream, *(self.whole(f"slice.{at}.{name}", [value]) for name, value in parts.items())
        )

    def matmul(self, name: str, stream: str, weights: np.ndarray) -> str:
        return self.node("MatMul", stream, self.weight(name, weights.T))

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def whole(self, name: str, values: list[int]) -> str:
        return self.weight(name, np.array(values, dtype=np.int64))

    def scalar(self, name: str, value: int) -> str:
        return self.weight(name, np.array(value, dtype=np.int64))

    def number(self, name: str, value: float) -> str:
        return self.weight(name, np.array(value, dtype=self.dtype))

    def node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        made = name or f"{kind}.{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [made], name=made, **attributes))
        return made
