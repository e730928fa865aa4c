"""The engine ONNX Runtime: each checkpoint is converted to an ONNX graph, which is run on the whole text for each new token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from byheart.errors import UsageError, import_extra
from byheart.export.onnx_graph import GraphBuilder
from byheart.golden.case import Case
from byheart.golden.checkpoint import read_weights
from byheart.golden.engines.engine import LONG_TEXT, Prompts, Session
from byheart.golden.shape import EMBEDDING, EOS, FINAL_NORM, HEAD, Shape
from byheart.records.vocabulary import NumberType

ROWS = 16  # the number of texts in a batch


class OnnxRuntimeEngine:
    """ONNX Runtime in float32 on the CPU."""

    name = "onnxruntime"

    def __init__(self, number_type: NumberType = "float32") -> None:
        if number_type != "float32":
            raise UsageError(
                "the engine onnxruntime is checked in float32 only.\n  Leave out number_type (--number-type)."
            )
        self.number_type: NumberType = number_type
        self.runtime = import_extra("onnxruntime", "onnx", "the engine onnxruntime")

    def open(self, shape: Shape, folder: Path) -> Session:
        content = to_onnx(shape, read_weights(folder)).SerializeToString()
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = 1
        return OnnxSession(
            self.runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        )


class OnnxSession:
    """One loaded graph."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def ways(self) -> Sequence[str]:
        return ("no cache", "right padding")

    def why_not(self, way: str, case: Case) -> str | None:
        return "long texts take too much memory without a cache" if len(case.prompt) > LONG_TEXT else None

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        texts = [list(prompt) for prompt in prompts]
        size = 1 if way == "no cache" else ROWS
        for _ in range(n_new):
            for first in range(0, len(texts), size):
                block = texts[first : first + size]
                longest = max(map(len, block))
                ids = np.array([text + [EOS] * (longest - len(text)) for text in block], dtype=np.int64)
                last = np.array([len(text) - 1 for text in block], dtype=np.int64)
                for text, row in zip(block, self._run(ids, last), strict=True):
                    text.append(int(row.argmax()))
        return [text[-n_new:] for text in texts]

    def logits(self, prompts: Prompts) -> list[list[float]]:
        rows = [self._run(np.array([prompt]), np.array([len(prompt) - 1]))[0] for prompt in prompts]
        return [[float(value) for value in row] for row in rows]

    def _run(self, ids: np.ndarray, last: np.ndarray) -> np.ndarray:
        made: np.ndarray = self.session.run(None, {"inputs": ids, "last": last})[0]
        return made

    def close(self) -> None:
        del self.session


def to_onnx(shape: Shape, weights: dict[str, Tensor]) -> Any:
    """Return the graph that maps token ids `(batch, tokens)` to logits `(batch, vocabulary)`. Its second input `last` is the
    position of the last token of each text.
    """
    return _Graph(shape, weights).model()


class _Graph(GraphBuilder):
    def __init__(self, shape: Shape, weights: dict[str, Tensor]) -> None:
        super().__init__(np.dtype(np.float32))
        self.shape, self.tensors = shape, weights

    def array(self, name: str) -> np.ndarray:
        return self.tensors[f"{name}.weight"].float().numpy()

    def model(self) -> Any:
        helper, types, shape = self.onnx.helper, self.onnx.TensorProto, self.shape
        table = self.weight("embedding", self.array(EMBEDDING))
        x = self.node("Gather", table, "inputs")
        self._positions()
        for layer in range(shape.n_layers):
            x = self._layer(x, f"model.layers.{layer}")
        x = self.node("GatherND", x, self._last(), batch_dims=1)
        normed = self._norm(x, FINAL_NORM)
        turned = (
            self.node("Transpose", table, perm=[1, 0])
            if shape.is_tied
            else self.weight("head", self.array(HEAD).T)
        )
        self.node("MatMul", normed, turned, name="outputs")
        ids = helper.make_tensor_value_info("inputs", types.INT64, ["batch", "tokens"])
        last = helper.make_tensor_value_info("last", types.INT64, ["batch"])
        outputs = helper.make_tensor_value_info("outputs", types.FLOAT, ["batch", shape.vocab])
        graph = helper.make_graph(self.nodes, "byheart golden", [ids, last], [outputs], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        self.onnx.checker.check_model(made)
        return made

    def _last(self) -> str:
        return self.node("Unsqueeze", "last", self.whole("last.axis", [1]))

    def _positions(self) -> None:
        """Add the nodes for the cosines and sines of RoPE, `(tokens, pairs)`, and for the attention mask, `(tokens, tokens)`."""
        n = self.node("Gather", self.node("Shape", "inputs"), self.scalar("one", 1))
        at = self.node("Range", self.scalar("zero", 0), n, self.scalar("step", 1))
        column = self.node("Unsqueeze", at, self.whole("column", [1]))
        row = self.node("Unsqueeze", at, self.whole("row", [0]))
        distance = self.node("Sub", column, row)
        hidden = self.node("Less", distance, self.scalar("no distance", 0))
        if self.shape.window is not None:
            far = self.node("GreaterOrEqual", distance, self.scalar("window", self.shape.window))
            hidden = self.node("Or", hidden, far)
        self.mask = self.node("Where", hidden, self.number("minus", -1e30), self.number("nothing", 0.0))
        frequencies = self.weight("frequencies", self.shape.frequencies().float().numpy()[None])
        angles = self.node("Mul", self.node("Cast", column, to=self.onnx.TensorProto.FLOAT), frequencies)
        self.cos, self.sin = self.node("Cos", angles), self.node("Sin", angles)

    def _norm(self, x: str, name: str) -> str:
        axis = self.whole(f"{name}.axis", [-1])
        mean = self.node("ReduceMean", self.node("Mul", x, x), axis, keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(f"{name}.epsilon", self.shape.norm_eps)))
        return self.node("Mul", self.node("Div", x, root), self.weight(f"{name}.weight", self.array(name)))

    def _linear(self, x: str, name: str) -> str:
        y = self.matmul(f"{name}.weight", x, self.array(name))
        bias = self.tensors.get(f"{name}.bias")
        return y if bias is None else self.node("Add", y, self.weight(f"{name}.bias", bias.float().numpy()))

    def _heads(self, x: str, name: str, n_heads: int, norm: str | None) -> str:
        split = self.whole(f"{name}.split", [0, 0, n_heads, self.shape.head_dim])
        heads = self.node("Reshape", self._linear(x, name), split)
        if norm is not None:
            heads = self._norm(heads, norm)
        return self.node("Transpose", heads, perm=[0, 2, 1, 3])

    def _rotate(self, x: str) -> str:
        at, half = len(self.nodes), self.shape.head_dim // 2
        sizes = self.whole(f"halves.{at}", [half, half])
        first, second = f"first.{at}", f"second.{at}"
        self.nodes.append(self.onnx.helper.make_node("Split", [x, sizes], [first, second], axis=-1))
        left = self.node("Sub", self.node("Mul", first, self.cos), self.node("Mul", second, self.sin))
        right = self.node("Add", self.node("Mul", second, self.cos), self.node("Mul", first, self.sin))
        return self.node("Concat", left, right, axis=-1)

    def _layer(self, x: str, at: str) -> str:
        shape = self.shape
        normed = self._norm(x, f"{at}.input_layernorm")
        norms = {
            name: f"{at}.self_attn.{name}" if shape.has_qk_norm else None for name in ("q_norm", "k_norm")
        }
        queries = self._rotate(self._heads(normed, f"{at}.self_attn.q_proj", shape.n_heads, norms["q_norm"]))
        keys = self._rotate(self._heads(normed, f"{at}.self_attn.k_proj", shape.n_kv_heads, norms["k_norm"]))
        values = self._heads(normed, f"{at}.self_attn.v_proj", shape.n_kv_heads, None)
        group = self.whole(f"{at}.groups", [head // shape.group for head in range(shape.n_heads)])
        keys, values = self.node("Gather", keys, group, axis=1), self.node("Gather", values, group, axis=1)
        products = self.node("MatMul", queries, self.node("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.node("Mul", products, self.number(f"{at}.scale", shape.head_dim**-0.5))
        shares = self.node("Softmax", self.node("Add", scores, self.mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        flat = self.node("Reshape", mixed, self.whole(f"{at}.flat", [0, 0, shape.n_heads * shape.head_dim]))
        x = self.node("Add", x, self._linear(flat, f"{at}.self_attn.o_proj"))
        normed = self._norm(x, f"{at}.post_attention_layernorm")
        gate, up = self._linear(normed, f"{at}.mlp.gate_proj"), self._linear(normed, f"{at}.mlp.up_proj")
        active = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.node("Add", x, self._linear(self.node("Mul", active, up), f"{at}.mlp.down_proj"))
