"""Export one-layer networks with logits as ONNX graphs: the decoder of MFT24 and the attention-only Transformer of DPC24.

Like the PyTorch module, the graph takes token ids (batch, seq) or vectors (batch, seq, d) and gives logits (batch,
n_outputs). If the network accepts sequences of different lengths, the caller pads shorter ones on the left with the id `pad`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from byheart.errors import UsageError
from byheart.export.onnx_graph import END, GraphBuilder
from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.decoder.architecture import Decoder, SelfAttention

if TYPE_CHECKING:
    from onnx import ModelProto


class LogitGraph(GraphBuilder):
    """The parts that the graphs of decoders and attention-only networks share: look up token vectors, and let the last token attend
    to tokens in every head.

    Each method adds nodes to the graph and returns the name of their result.
    """

    def look_up(self, tokens: np.ndarray) -> str:
        """Add nodes that look up the input ids in the table `tokens`, and return the name of the result, (batch, seq, d).

        Padding gets an arbitrary vector, which is masked later.
        """
        known = self.node("Min", "inputs", self.whole("last_token", [len(tokens) - 1]))
        return self.node("Gather", self.weight("embedding.tokens", tokens), known)

    def last(self, vectors: str) -> str:
        """Add nodes for the vector of the last token, (batch, 1, 1, d), and return the name of the result."""
        return self.node("Unsqueeze", self.tokens(vectors, -1, END), self.whole("heads", [1]))

    def attend(
        self,
        last: str,
        others: str,
        heads: tuple[np.ndarray, np.ndarray],
        filling: str | None,
        zero_token: bool = False,
    ) -> str:
        """Add nodes for the weighted average of `others` that the last token receives in each head, (batch, heads, 1, d).

        Return the name of the result.

        last, others: names of the vector of the last token, (batch, 1, 1, d), and of the vectors to attend to, (batch, seq, d).
        heads: W_Q with shape (heads, d, k) and W_K with shape (heads, k, d), where k is the size of a query.
        filling: the name of a mask that is true at padding, (batch, seq); None if there is no padding.
        zero_token: whether the last token also attends to a token with score 0 and value 0.
        """
        query, key = heads
        asked = self.node("MatMul", last, self.weight("query", query))
        carried = self.node("MatMul", asked, self.weight("key", key))
        across = self.node("Unsqueeze", others, self.whole("head", [1]))
        scores = self.node("MatMul", carried, self.node("Transpose", across, perm=[0, 1, 3, 2]))
        if filling is not None:
            hidden = self.node("Unsqueeze", filling, self.whole("head.and.query", [1, 2]))
            scores = self.node("Where", hidden, self.number("never", -np.inf), scores)
        if zero_token:  # a token with score 0 and value 0
            scores = self.node("Pad", scores, self.whole("zero_token", [0, 0, 0, 0, 0, 0, 0, 1]))
        shares = self.node("Softmax", scores, axis=-1)
        if zero_token:
            ends = [
                self.whole(f"zero_token.{name}", [at]) for name, at in (("from", 0), ("to", -1), ("axis", 3))
            ]
            shares = self.node("Slice", shares, *ends)
        return self.node("MatMul", shares, across)

    def sum_heads(self, mixed: str, value: np.ndarray, output: np.ndarray) -> str:
        """Add nodes that multiply the average `mixed` of each head by the head's value and output matrices, and sum over the heads.

        Return the name of the result, (batch, out).
        """
        values = self.node("MatMul", mixed, self.weight("value", value))
        each = self.node("MatMul", values, self.weight("output", output))
        return self.node("ReduceSum", each, self.whole("heads.and.query", [1, 2]), keepdims=0)


def attention_only_model(network: AttentionOnly) -> ModelProto:
    """Return the graph of W_U (x_S + Σ_h W_O W_V A_h), DPC24 eqs. 1-2.

    The vector of the last token is x_S, and A_h is the weighted average of token vectors in head h, which has its own W_O and
    W_V (output and value matrices). W_U is the unembedding. If the network has no skip connection, x_S is not added.
    """
    graph = LogitGraph(network.unembedding.dtype)
    vectors, filling = "inputs", None
    if network.embedding is not None:
        positions = graph.weight("embedding.positions", network.positions)
        vectors = graph.node("Add", graph.look_up(network.tokens), positions)
    last = graph.last(vectors)
    others = vectors if network.sees_itself else graph.tokens(vectors, 0, -1)
    if network.pad is not None:  # shorter sequences are allowed only if the last token attends to itself
        filling = graph.node("GreaterOrEqual", "inputs", graph.whole("pad", [network.pad]))
    heads = network.query.transpose(0, 2, 1), network.key
    mixed = graph.attend(last, others, heads, filling, network.zero_token)
    stream = graph.sum_heads(mixed, network.value.transpose(0, 2, 1), network.output.transpose(0, 2, 1))
    if network.skip:
        stream = graph.node("Add", stream, graph.node("Squeeze", last, graph.whole("one.token", [1, 2])))
    graph.node("MatMul", stream, graph.weight("unembedding", network.unembedding.T), name="outputs")
    has_ids = network.embedding is not None
    shape = [network.seq_len] if has_ids else [network.seq_len, network.dim]
    return graph.finish(has_ids, shape, [network.n_outputs])


def decoder_model(network: Decoder) -> ModelProto:
    """Return the graph of Vᵀψ(Wᵀ mixing(z + u) + b), MFT24 eq. 2.

    The embeddings of tokens and positions are z and u, the activation function is ψ, and `mixing` is attention or averaging.
    W, b and V are the hidden weights, biases and output weights of the feed-forward part.
    """
    graph = LogitGraph(network.hidden.dtype)
    pad = graph.whole("pad", [network.pad])
    seen = graph.node("Cast", graph.node("Less", "inputs", pad), to=graph.onnx.TensorProto.INT64)
    counted = graph.node("CumSum", seen, graph.scalar("along", 1))
    before = graph.node("Sub", counted, graph.whole("one", [1]))
    # the position of every token, counted from the first
    place = graph.node("Max", before, graph.whole("zero", [0]))
    vectors = graph.look_up(network.tokens)
    if isinstance(network.mixing, SelfAttention):
        assert network.positions is not None
        positions = graph.node("Gather", graph.weight("embedding.positions", network.positions), place)
        vectors = graph.node("Add", vectors, positions)
        filling = graph.node("GreaterOrEqual", "inputs", pad)
        heads = network.mixing.query, network.mixing.key.transpose(0, 2, 1)
        last = graph.last(vectors)
        attended = graph.attend(last, vectors, heads, filling)
        mixed = graph.sum_heads(attended, network.mixing.value, network.mixing.output)
        if network.mixing.has_skip:
            mixed = graph.node("Add", mixed, graph.node("Squeeze", last, graph.whole("one.token", [1, 2])))
    else:
        given = graph.node("Gather", graph.weight("mixing.shares", network.mixing.shares), place)
        number = graph.onnx.helper.np_dtype_to_tensor_dtype(graph.dtype)
        shares = graph.node("Mul", given, graph.node("Cast", seen, to=number))
        row = graph.node("Unsqueeze", shares, graph.whole("row", [1]))
        mixed = graph.node("Squeeze", graph.node("MatMul", row, vectors), graph.whole("one.row", [1]))
    neurons = graph.node("MatMul", mixed, graph.weight("hidden", network.hidden))
    active = _activate(graph, graph.node("Add", neurons, graph.weight("bias", network.bias)), network)
    graph.node("MatMul", active, graph.weight("logits", network.logits), name="outputs")
    return graph.finish(True, [network.seq_len], [network.n_outputs])


def _activate(graph: LogitGraph, neurons: str, network: Decoder) -> str:
    if network.activation == "tanh":
        return graph.node("Tanh", neurons)
    if network.activation == "silu":
        return graph.node("Mul", neurons, graph.node("Sigmoid", neurons))
    if graph.dtype == np.float64:
        raise UsageError(
            f"ONNX runtimes have no {network.activation} in float64.\n"
            "  Compile with --precision float32, or with --set activation=tanh.",
            activation=network.activation,
        )
    if network.activation == "arctan":
        return graph.node("Atan", neurons)
    spread = graph.node("Erf", graph.node("Div", neurons, graph.number("root", sqrt(2))))
    half = graph.node("Mul", neurons, graph.number("half", 0.5))
    return graph.node("Mul", half, graph.node("Add", spread, graph.number("unit", 1)))


LOGIT_MODELS: dict[str, Callable[[Any], ModelProto]] = {
    "attention-only": attention_only_model,
    "decoder": decoder_model,
    "averaging-decoder": decoder_model,
}
"""For each family of networks whose answer is the class with the largest logit, the function that builds the ONNX model."""
