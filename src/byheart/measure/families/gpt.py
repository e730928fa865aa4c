"""A small standard GPT: learned positions, pre-normalised causal attention and GELU layers, final normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import gelu

from byheart.measure.families.config import ModelConfig, SizeField
from byheart.measure.families.family import Family
from byheart.measure.families.initial import normal
from byheart.measure.families.inputs import (
    Inputs,
    Tables,
    Weights,
    embed_tokens,
    per_model,
    take_places,
    take_rows,
)
from byheart.measure.matmul import bmm
from byheart.measure.parameter_block import Shapes
from byheart.measure.training_set import TrainingSet

EPSILON = 1e-5  # epsilon of the normalisation, the framework's default
SCALE = 0.02  # standard deviation of initial weights, as in GPT-2


class SmallGPTFamily(Family):
    """A GPT with `n_layers` pre-normalised blocks. The answer is the output at the last token of each context."""

    name = "gpt"
    source = "Radford et al. 2019, untied embeddings"
    size_fields = (
        SizeField("dim", None, 1, "width of the residual stream"),
        SizeField("n_layers", None, 0, "number of blocks"),
        SizeField("n_heads", None, 1, "heads per block"),
        SizeField("head_dim", None, 1, "width of a head"),
        SizeField("hidden_width", None, 1, "hidden units per block"),
    )

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shapes of the weights.

        The weights of blocks have a leading axis of blocks, and maps are stored as (inputs, outputs).
        """
        dim, n_layers, n_heads, head_dim, hidden = (
            model.sizes[k] for k in ("dim", "n_layers", "n_heads", "head_dim", "hidden_width")
        )
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (training_set.n_vocab, dim),
            "positions": (training_set.seq_len, dim),
            "norm1": (n_layers, 1, dim),
            "norm1_bias": (n_layers, 1, dim),
            "norm2": (n_layers, 1, dim),
            "norm2_bias": (n_layers, 1, dim),
        }
        for name in ("query", "key", "value"):
            shapes |= {
                name: (n_layers, dim, n_heads, head_dim),
                f"{name}_bias": (n_layers, 1, n_heads, head_dim),
            }
        return shapes | {
            "output": (n_layers, n_heads, head_dim, dim),
            "output_bias": (n_layers, 1, dim),
            "up": (n_layers, dim, hidden),
            "up_bias": (n_layers, 1, hidden),
            "down": (n_layers, hidden, dim),
            "down_bias": (n_layers, 1, dim),
            "norm": (1, dim),
            "norm_bias": (1, dim),
            "unembedding": (dim, training_set.n_classes),
        }

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw weight matrices and embeddings from N(0, 0.02²). The gains of norms are one, and biases are zero."""
        shapes = self.shapes(model, training_set)
        weights = {}
        for name, shape in shapes.items():
            if name.endswith("_bias"):
                weights[name] = torch.zeros(shape, dtype=torch.float64)
            elif name.startswith("norm"):
                weights[name] = torch.ones(shape, dtype=torch.float64)
            else:
                weights[name] = normal(generator, shape, SCALE)
        return weights

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return the tokens, the position of each context's last token, the causal mask, each model's width without padding, the
        mask of that padding, and each model's scale of attention scores.
        """
        assert inputs.tokens is not None
        seq_len = inputs.tokens.shape[2]
        dims = per_model(models, "dim", inputs)
        inside = torch.arange(int(dims.max()), device=inputs.device) < dims.view(-1, 1)
        future = torch.ones(seq_len, seq_len, dtype=torch.bool, device=inputs.device).triu(1)
        return {
            "tokens": inputs.tokens,
            "end": inputs.lengths - 1,
            # every table has an axis of models; here it has length one, for all models
            "future": future.unsqueeze(0),
            "dim": dims.view(-1, 1, 1),
            "inside": inside.to(inputs.dtype).unsqueeze(1),
            "scale": per_model(models, "head_dim", inputs).rsqrt().view(-1, 1, 1),
        }

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        tokens, end = take_rows(tables["tokens"], rows), take_rows(tables["end"], rows)
        placed = embed_tokens(weights["embedding"], tokens) + weights["positions"].unsqueeze(1)
        stream = placed.flatten(1, 2)
        names = [name for name in weights if name not in _OUTSIDE]
        for block in zip(*(weights[name].unbind(1) for name in names), strict=True):
            stream = _block(dict(zip(names, block, strict=True)), tables, stream, tokens.shape[1])
        answer = take_places(stream.view_as(placed), end)
        return bmm(_normalise(answer, weights["norm"], weights["norm_bias"], tables), weights["unembedding"])


_OUTSIDE = frozenset({"embedding", "positions", "norm", "norm_bias", "unembedding"})


def _normalise(stream: Tensor, gain: Tensor, bias: Tensor, tables: Tables) -> Tensor:
    """Apply layer normalisation over the width of each model. The padding of narrower models does not count."""
    mean = stream.sum(dim=2, keepdim=True) / tables["dim"]
    centred = (stream - mean) * tables["inside"]
    variance = centred.square().sum(dim=2, keepdim=True) / tables["dim"]
    return centred * torch.rsqrt(variance + EPSILON) * gain + bias


def _block(weights: Weights, tables: Tables, stream: Tensor, n_rows: int) -> Tensor:
    n_models, n_places, _ = stream.shape
    seq_len = n_places // n_rows
    n_heads, head_dim = weights["query"].shape[2:]
    normed = _normalise(stream, weights["norm1"], weights["norm1_bias"], tables)

    def heads(name: str) -> Tensor:
        maps, bias = weights[name].flatten(2), weights[f"{name}_bias"].flatten(2)
        split = (bmm(normed, maps) + bias).view(n_models, n_rows, seq_len, n_heads, head_dim)
        return split.transpose(2, 3).reshape(-1, seq_len, head_dim)  # (n_models · n_rows · n_heads, ...)

    queries = heads("query").reshape(n_models, -1, seq_len * head_dim) * tables["scale"]
    scores = torch.bmm(queries.view(-1, seq_len, head_dim), heads("key").transpose(1, 2))
    shares = torch.softmax(scores.masked_fill(tables["future"], -torch.inf), dim=2)
    mixed = torch.bmm(shares, heads("value")).view(n_models, n_rows, n_heads, seq_len, head_dim)
    mixed = mixed.transpose(2, 3).reshape(n_models, n_places, n_heads * head_dim)
    stream = stream + bmm(mixed, weights["output"].flatten(1, 2)) + weights["output_bias"]
    normed = _normalise(stream, weights["norm2"], weights["norm2_bias"], tables)
    hidden = gelu(bmm(normed, weights["up"]) + weights["up_bias"])
    return stream + bmm(hidden, weights["down"]) + weights["down_bias"]
