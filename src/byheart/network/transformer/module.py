"""The network as a `torch.nn.Module` with ordinary parameters, which can be inspected, fine-tuned or moved to a GPU.

It imports nothing from the code that constructs networks.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from byheart.errors import UsageError
from byheart.network.batches import run_in_batches
from byheart.network.compiled_module import CompiledModule, look_up, own_precision
from byheart.network.protocol import COMPUTED_IN
from byheart.network.transformer.architecture import Attention, FeedForward, Precision, Transformer
from byheart.network.transformer.floats import as_floats
from byheart.process.progress import Progress


class FeedForwardModule(nn.Module):
    """Computes H + W2 ReLU(W1 H + b1) + b2, where H is the residual stream (KS25 eq. 3)."""

    def __init__(self, layer: FeedForward) -> None:
        super().__init__()
        parts = (nn.Parameter(torch.tensor(weights)) for _, weights in layer.parameters())
        self.w1, self.b1, self.w2, self.b2 = parts

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, m) to (batch, seq, m)."""
        hidden = torch.relu_(nn.functional.linear(stream, self.w1, self.b1))
        return stream + nn.functional.linear(hidden, self.w2, self.b2)


class AttentionModule(nn.Module):
    """Computes Z + Σ_h W_O W_V Z A_h, where Z is the residual stream (KS25 eqs. 2, 12 and 39).

    A_h holds the attention weights of head h. The first axis of each parameter is the head."""

    def __init__(self, layer: Attention, n_tokens: int) -> None:
        """Create the parameters: `output` of shape (heads, m, s), and `value`, `key` and `query` of shape (heads, s, m).

        Here s is the size of a head, which must be the same for all heads, and m is the width of the residual stream.

        Uniform attention has no keys and queries. It averages over `n_tokens` tokens.
        """
        super().__init__()
        self.kind, self.pattern = layer.kind, layer.pattern
        self.value, self.output = _stack(layer, "value"), _stack(layer, "output")
        self.key = self.query = None
        if layer.kind != "uniform":
            self.key, self.query = _stack(layer, "key"), _stack(layer, "query")
        # This is a tensor because GPUs and compilers turn division by a constant into multiplication by its rounded reciprocal.
        n = torch.tensor(float(n_tokens), dtype=self.value.dtype)
        self.n_tokens: torch.Tensor
        self.register_buffer("n_tokens", n, persistent=False)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        if self.pattern == "scatter":
            values = torch.einsum("hsm,bm->bhs", self.value, stream[:, 0])
            return stream + torch.einsum("hms,bhs->bm", self.output, values)[:, None]
        values = torch.einsum("hsm,bnm->bhns", self.value, stream)
        if self.kind == "uniform":
            # the sum comes first, so that integers stay integers; W_O may include the factor n
            mixed = values.sum(dim=2, keepdim=True)
            change = torch.einsum("hms,bhns->bnm", self.output, mixed) / self.n_tokens
            if self.pattern == "gather":
                others = torch.einsum("hms,bhs->bm", self.output, values[:, :, 0])[:, None]
                return torch.cat([stream[:, :1] + change, stream[:, 1:] + others], dim=1)
            return stream + change
        assert self.key is not None
        assert self.query is not None
        keys = torch.einsum("hsm,bnm->bhns", self.key, stream)
        queries = torch.einsum("hsm,bnm->bhns", self.query, stream)
        scores = torch.einsum("bhks,bhqs->bhqk", keys, queries)
        if self.kind == "softmax":
            mixture = torch.softmax(scores, dim=-1)
        else:
            largest = (scores == scores.amax(dim=-1, keepdim=True)).to(scores.dtype)
            mixture = largest / largest.sum(dim=-1, keepdim=True)
        return stream + torch.einsum("hms,bhqk,bhks->bqm", self.output, mixture, values)


def _stack(layer: Attention, part: str) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.stack([getattr(head, part) for head in layer.heads])))


class SumPoolModule(nn.Module):
    """Replaces all tokens by a single one, their sum Σ_k Z_k."""

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        return stream.sum(dim=1, keepdim=True)


class TransformerModule(CompiledModule):
    """Computes w_out ∘ layers ∘ w_in (KS25 eq. 4), preceded by the embedding if inputs are token ids."""

    def __init__(self, network: Transformer) -> None:
        """Copy the weights of `network`, which must be floats."""
        super().__init__()
        embedding, extra = network.embedding, network.extra
        positions = None if embedding is None else embedding.positions
        self.extra = None if extra is None else nn.Parameter(torch.tensor(extra))
        self.embedding = None
        if embedding is not None:
            tokens = torch.tensor(embedding.tokens)
            self.embedding = nn.Embedding(tokens.shape[0], tokens.shape[1], _weight=tokens)
        self.positions = None if positions is None else nn.Parameter(torch.tensor(positions))
        self.w_in, self.w_out = (nn.Parameter(torch.tensor(each)) for each in (network.w_in, network.w_out))
        self.layers = nn.ModuleList()
        n_tokens = network.seq_len + (network.extra is not None)
        for layer in network.layers:
            if isinstance(layer, FeedForward):
                self.layers.append(FeedForwardModule(layer))
            elif isinstance(layer, Attention):
                self.layers.append(AttentionModule(layer, n_tokens))
            else:
                self.layers.append(SumPoolModule())
                n_tokens = 1

    def vectors(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the input vectors (batch, seq, d), including the extra token."""
        vectors = inputs
        if self.embedding is not None:
            vectors = look_up(self.embedding, inputs, self.embedding.num_embeddings)
        if self.positions is not None:
            vectors = vectors + self.positions
        if self.extra is not None:
            vectors = torch.cat([self.extra.expand(len(vectors), 1, -1), vectors], dim=1)
        return vectors.to(self.w_in.dtype)

    def _require_fitting(self, inputs: torch.Tensor) -> None:
        """Raise a clear error if inputs have the wrong shape, before they cause an error inside the network."""
        dim = self.w_in.shape[1]
        if self.embedding is None:
            wanted = f"vectors (batch, seq_len, {dim})"
            fits = inputs.ndim == 3 and inputs.shape[2] == dim
        else:
            wanted = "token ids (batch, seq_len), whole numbers"
            fits = inputs.ndim == 2 and not inputs.is_floating_point()
        if not fits:
            raise UsageError(
                f"this module takes {wanted}; got {inputs.dtype} of shape {tuple(inputs.shape)}.",
                wanted=wanted,
                dtype=inputs.dtype,
                shape=inputs.shape,
            )
        if self.positions is not None and inputs.shape[1] != len(self.positions):
            raise UsageError(
                f"this module takes {len(self.positions)} tokens per sequence; got {inputs.shape[1]}.\n"
                "  If model.network.pad is not None, pad shorter sequences on the left with this id. Treat all others as unknown "
                "inputs. model.predict does both.",
                n_positions=len(self.positions),
            )

    def forward(self, inputs: torch.Tensor, last_only: bool = False) -> torch.Tensor:
        """Map token ids (batch, seq) or vectors (batch, seq, d) to outputs (batch, seq, n_outputs).

        With `last_only`, only the output of the last token is needed: the caller must read only `[:, -1]` of the result.
        The feed-forward layers after the last layer that mixes tokens are then computed for the last token only.
        """
        with own_precision(inputs):
            self._require_fitting(inputs)
            return self._outputs(inputs, last_only)

    def _outputs(self, inputs: torch.Tensor, last_only: bool) -> torch.Tensor:
        mixing = [
            number for number, layer in enumerate(self.layers) if not isinstance(layer, FeedForwardModule)
        ]
        n_before = max(mixing, default=-1) + 1
        stream = nn.functional.linear(self.vectors(inputs), self.w_in)
        for number, layer in enumerate(self.layers):
            if last_only and number == n_before:
                stream = stream[:, -1:]
            stream = layer(stream)
        if self.extra is not None and stream.shape[1] > 1:
            stream = stream[:, 1:]
        return nn.functional.linear(stream, self.w_out)


def to_module(network: Transformer, dtype: Precision | None = None) -> TransformerModule:
    """Convert `network` to a PyTorch module in `dtype`, "float64" or "float32". The default is the type in which the network
    computes, or "float64" if it is exact.

    Raises `InexactWeights` if a weight has no exact value in that type, because rounding would change what the network computes.
    """
    precision = dtype or ("float64" if network.precision == "exact" else COMPUTED_IN[network.precision])
    return TransformerModule(as_floats(network, precision))


WORTH_A_PLAN = 2**27
"""If a full forward pass takes at least this many multiplications, an `AnswerPlan` (a reduced pass) saves time.

A few hundred samples of a large network reach this number.
"""


_PREPARED: WeakKeyDictionary[Transformer, dict[tuple[bool, str], tuple[TransformerModule, Any]]] = (
    WeakKeyDictionary()
)
"""For each network, its modules and their `AnswerPlan`s (reduced forward passes), with `last_only` and the device as keys.

They are kept as long as the network exists, so that all pieces of a data set use the same module and plan.
"""


def _prepare(
    network: Transformer, last_only: bool, device: str, is_worth_a_plan: bool
) -> tuple[TransformerModule, Any]:
    """Return the module of a network on a device and, if it saves time, an `AnswerPlan`. If there is a plan, both are cached."""
    from byheart.network.transformer.answer_plan import make_plan

    known = _PREPARED.setdefault(network, {})
    if (last_only, device) not in known:
        module = to_module(network).eval()
        if device != "cpu":
            module = module.to(device)
        plan = make_plan(module, last_only=last_only) if is_worth_a_plan else None
        if plan is None:
            return module, None
        known[last_only, device] = module, plan
    return known[last_only, device]


def run_module(
    network: Transformer,
    encoded: np.ndarray,
    *,
    last_only: bool = False,
    batch_size: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> np.ndarray:
    """Run the native forward pass. Return the first coordinate of each token's output, with shape (n_samples, n_tokens).

    With `last_only`, return it only for the last token, with shape (n_samples,).

    batch_size: the number of samples per batch. By default, `batches` chooses it from the size of the widest layer.
    """
    n_tokens = network.seq_len + (network.extra is not None)
    n_products = len(encoded) * n_tokens * network.spec.parameters_dense
    module, plan = _prepare(network, last_only, device, n_products >= WORTH_A_PLAN)
    widths = [layer.hidden_width for layer in network.layers if isinstance(layer, FeedForward)]
    # the plan holds the residual stream, a copy of what a layer reads, and what it adds; wide layers run in pieces
    numbers = n_tokens * max([3 * network.model_width, *([] if plan and device == "cpu" else widths)])

    def first_outputs(batch: torch.Tensor) -> torch.Tensor:
        vectors = batch if network.takes_ids else batch.to(module.w_in.dtype)
        if plan is not None:
            answers: torch.Tensor = plan(vectors)
            return answers
        outputs: torch.Tensor = module(vectors, last_only=last_only)[:, :, 0]
        return outputs[:, -1] if last_only else outputs

    return run_in_batches(
        first_outputs, encoded, numbers, batch_size=batch_size, device=device, progress=progress
    )
