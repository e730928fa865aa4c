"""Draw the weights of a golden checkpoint at random, so that every answer depends on every weight of the layers.

Except in checkpoints for long texts, no entry is zero and no two rows are equal. Matrices are scaled so that attention scores have
a spread of about `SHARPNESS`, and each block adds to the residual stream a vector about as large as the stream. The stream is so
small (`STREAM`) that a wrong epsilon of the norms changes answers.

In checkpoints for long texts (`n_needles` above 0), most tokens are fillers whose keys are zero, and a few are needles with much
higher scores. Needles 32,000 tokens back can still get most of the attention of a head, although RoPE rotates their keys by the
whole distance.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from byheart.golden.shape import BOS, EMBEDDING, EOS, FINAL_NORM, HEAD, Shape

STREAM = 1 / 32
SHARPNESS = 1.5
LOGIT = 2.5  # the standard deviation of logits


def draw_weights(shape: Shape) -> dict[str, Tensor]:
    """Return the tensors of the checkpoint under their standard names, in its number type."""
    rng = np.random.default_rng([shape.seed, shape.n_layers, shape.hidden])

    def normal(*size: int, spread: float) -> Tensor:
        values = rng.standard_normal(size)
        return torch.from_numpy(values * spread + np.copysign(spread / 16, values))

    def norm_weight(size: int, middle: float = 1.0) -> Tensor:
        return torch.from_numpy(rng.uniform(0.6, 1.4, size) * middle)

    weights: dict[str, Tensor] = {}
    embedding = normal(shape.vocab, shape.hidden, spread=STREAM)
    for layer in range(shape.n_layers):
        at = f"model.layers.{layer}"
        weights[f"{at}.input_layernorm.weight"] = norm_weight(shape.hidden)
        weights[f"{at}.post_attention_layernorm.weight"] = norm_weight(shape.hidden)
        for name, (n_out, n_in) in shape.linears().items():
            spread = n_in**-0.5
            if name.endswith(("q_proj", "k_proj")):
                spread *= SHARPNESS**0.5
            elif name.endswith("o_proj"):
                spread *= 3 * STREAM
            elif name.endswith("down_proj"):
                spread *= 4 * STREAM
            elif name.endswith(("gate_proj", "up_proj")):
                spread *= 1.5
            weights[f"{at}.{name}.weight"] = normal(n_out, n_in, spread=spread)
            if shape.has_bias and name.endswith(("q_proj", "k_proj", "v_proj")):
                weights[f"{at}.{name}.bias"] = normal(n_out, spread=0.5)
        if shape.has_qk_norm:
            for name in ("q_norm", "k_norm"):
                weights[f"{at}.self_attn.{name}.weight"] = norm_weight(shape.head_dim, SHARPNESS**0.5)
    if shape.n_needles:
        _make_needles(shape, weights, embedding)
    weights[f"{EMBEDDING}.weight"] = embedding
    head = shape.hidden**-0.5
    weights[f"{FINAL_NORM}.weight"] = norm_weight(
        shape.hidden, LOGIT * head / STREAM if shape.is_tied else LOGIT
    )
    if not shape.is_tied:
        weights[f"{HEAD}.weight"] = normal(shape.vocab, shape.hidden, spread=head)
    return {name: value.to(getattr(torch, shape.dtype)) for name, value in weights.items()}


def fillers(shape: Shape) -> range:
    """Return the ids of the filler tokens of a checkpoint for long texts. Most tokens of such a text are fillers, whose keys are
    zero.
    """
    return range(2 + shape.n_needles, 2 + 2 * shape.n_needles)


def _make_needles(shape: Shape, weights: dict[str, Tensor], embedding: Tensor) -> None:
    """Set the keys of the fillers and of the two special tokens to zero, and turn all other tokens into needles (tokens with high
    attention scores).

    For this, keys read only columns 0 to 7 of the residual stream. In these columns, the embeddings of the fillers and of the
    special tokens are set to zero.
    """
    quiet = [BOS, EOS, *fillers(shape)]
    n_columns = 8
    embedding[quiet, :n_columns] = 0.0
    for layer in range(shape.n_layers):
        at = f"model.layers.{layer}.self_attn"
        keys = weights[f"{at}.k_proj.weight"]
        keys[:, n_columns:] = 0.0
        keys *= 8.0
