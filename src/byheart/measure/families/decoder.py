"""The one-layer decoder of Madden, Fox and Thrampoulidis 2024 (MFT24): embedding, sinusoidal positions, one causal head with
biases, and one hidden layer.

It has no residual connection and no normalisation. With width 16, m hidden units and a vocabulary of ω tokens, it has (m + 17)(ω
+ 17) + 799 parameters.

Only the answer at the last position of a context is needed, so the head is evaluated for one query per distinct context. Scores are
computed as (Kᵀq)·x instead of q·(Kx), for query q, key map K and token vector x, and the value map is applied after averaging.
Therefore, the key and the value of an individual token are never computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import gelu

from byheart.measure.families.config import ModelConfig, OptionField, SizeField
from byheart.measure.families.family import Family
from byheart.measure.families.initial import normal, uniform
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


class OneLayerDecoderFamily(Family):
    """A decoder with an embedding, one causal head, one hidden layer of `hidden_width` units, and logits."""

    name = "one-layer-decoder"
    source = "MFT24 section 7 and its code"
    size_fields = (
        SizeField("hidden_width", None, 1, "hidden units m"),
        SizeField("dim", 16, 1, "embedding width d"),
    )
    option_fields = (
        OptionField(
            "attention",
            ("trained", "frozen"),
            "frozen: the head and the embedding keep their initial weights",
        ),
    )

    def shapes(self, model: ModelConfig, training_set: TrainingSet) -> Shapes:
        """Return the shapes of the weights. Maps are stored as (inputs, outputs)."""
        dim, hidden = model.sizes["dim"], model.sizes["hidden_width"]
        shapes: dict[str, tuple[int, ...]] = {"embedding": (training_set.n_vocab, dim)}
        for name in ("query", "key", "value", "output"):
            shapes |= {name: (dim, dim), f"{name}_bias": (1, dim)}
        return shapes | {
            "hidden": (dim, hidden),
            "hidden_bias": (1, hidden),
            "logits": (hidden, training_set.n_classes),
            "logits_bias": (1, training_set.n_classes),
        }

    def initial(
        self, model: ModelConfig, training_set: TrainingSet, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw weights as PyTorch does by default: a standard normal embedding, and maps and biases uniform between ±1/√fan_in."""
        shapes = self.shapes(model, training_set)
        weights = {"embedding": normal(generator, shapes["embedding"])}
        for name in ("query", "key", "value", "output", "hidden", "logits"):
            fan_in = shapes[name][0]
            weights[name] = uniform(generator, shapes[name], fan_in)
            weights[f"{name}_bias"] = uniform(generator, shapes[f"{name}_bias"], fan_in)
        return weights

    def frozen_names(self, model: ModelConfig, training_set: TrainingSet) -> frozenset[str]:
        """Return the names of the weights that are not trained. If the option `attention` is `trained`, there are none.

        Otherwise, these are the embedding and the attention head, as in the authors' second experiment.
        """
        if model.options["attention"] == "trained":
            return frozenset()
        maps = ("query", "key", "value", "output")
        return frozenset({"embedding", *maps, *(f"{name}_bias" for name in maps)})

    def tables(self, models: Sequence[ModelConfig], inputs: Inputs) -> Tables:
        """Return the tokens, the position of each context's last token, the mask of the padding after it, the positional vectors
        for each model's width, and each model's scale of attention scores.
        """
        assert inputs.tokens is not None
        seq_len = inputs.tokens.shape[2]
        widest = max(model.sizes["dim"] for model in models)
        positions = torch.zeros(len(models), seq_len, widest, dtype=torch.float64)
        for number, model in enumerate(models):
            positions[number, :, : model.sizes["dim"]] = sinusoids(seq_len, model.sizes["dim"])
        beyond = torch.arange(seq_len, device=inputs.device) >= inputs.lengths.unsqueeze(2)
        return {
            "tokens": inputs.tokens,
            "end": inputs.lengths - 1,
            "beyond": beyond,
            "positions": positions.to(inputs.device, inputs.dtype),
            "scale": per_model(models, "dim", inputs).rsqrt().view(-1, 1, 1),
        }

    def outputs(self, weights: Weights, tables: Tables, rows: Tensor | None) -> Tensor:
        tokens, end, beyond = (take_rows(tables[name], rows) for name in ("tokens", "end", "beyond"))
        placed = embed_tokens(weights["embedding"], tokens) + tables["positions"].unsqueeze(1)
        own = take_places(placed, end)

        def linear(name: str, vectors: Tensor) -> Tensor:
            return bmm(vectors, weights[name]) + weights[f"{name}_bias"]

        query = linear("query", own) * tables["scale"]
        carried = bmm(query, weights["key"].transpose(1, 2))
        # q·b_K is the same for every token of a context; it is kept so that the model equals that of the paper
        offset = (query * weights["key_bias"]).sum(dim=2, keepdim=True)
        scores = (placed * carried.unsqueeze(2)).sum(dim=3) + offset
        shares = torch.softmax(scores.masked_fill(beyond, -torch.inf), dim=2)
        mixed = (placed * shares.unsqueeze(3)).sum(dim=2)
        answer = linear("output", linear("value", mixed))
        return linear("logits", gelu(linear("hidden", answer)))


def sinusoids(seq_len: int, dim: int) -> Tensor:
    """Return positional vectors in float64: sines in even and cosines in odd columns, wavelengths from 2π to under 10000·2π."""
    place = torch.arange(seq_len, dtype=torch.float64).view(-1, 1)
    pair = torch.arange(dim, dtype=torch.float64) // 2
    angle = place * torch.exp(-math.log(10000.0) * 2 * pair / dim)
    return torch.where(torch.arange(dim) % 2 == 0, torch.sin(angle), torch.cos(angle))
