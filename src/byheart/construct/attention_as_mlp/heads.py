"""Attention heads as neurons (Huben & Morris 2023): one masked head of size 1 computes one SiLU unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

GELU_SLOPE = 1.702
"""GELU(x) is SiLU(1.702 x)/1.702 up to 0.0203."""

RELU_ERROR = 0.2785
"""|ReLU(x) - SiLU(βx)/β| is at most this over β."""


@dataclass(frozen=True, eq=False)
class HeadsAsNeurons:
    """Σ_h SiLU(v_h·x) w_h by attention: every token sees itself and a bias token, the zero vector.

    A token carries a last coordinate f = 1, the bias token f = 0. Head h has W_QK = v_h e_fᵀ, so a token's score for itself is
    v_h·x and for the bias token 0; its value v_h·x, written along w_h, is weighed by softmax(v_h·x, 0) = sigmoid(v_h·x).
    """

    directions: Float[np.ndarray, "n_heads dim"]  # v_h, the neuron's bias its last entry
    outputs: Float[np.ndarray, "n_heads n_outputs"]  # w_h

    @property
    def parameters(self) -> int:
        """Query, key, value and output of every head, dense: 3(d + 1) + n_outputs numbers each, d + 1 = dim."""
        n_heads, dim = self.directions.shape
        return int(n_heads * (3 * dim + self.outputs.shape[1]))

    def attend_masked(self, tokens: torch.Tensor) -> torch.Tensor:
        """(n_tokens, dim) with f last, to (n_tokens, n_outputs): each token masked to itself and the bias token."""
        v = torch.from_numpy(self.directions).to(tokens.dtype)
        own = tokens @ v.T  # the score for itself, and its value
        scores = torch.stack([own, torch.zeros_like(own)], dim=-1)
        values = torch.stack([own, torch.zeros_like(own)], dim=-1)
        mixed = (torch.softmax(scores, dim=-1) * values).sum(dim=-1)
        return mixed @ torch.from_numpy(self.outputs).to(tokens.dtype)

    def attend_unmasked(self, tokens: torch.Tensor, penalty: float) -> torch.Tensor:
        """The same without a mask: one-hot positions let W_QK subtract `penalty` from every forbidden score.

        Off by about n·e^(-penalty + largest score).
        """
        v = torch.from_numpy(self.directions).to(tokens.dtype)
        n_tokens = len(tokens)
        with_bias = torch.cat([tokens, torch.zeros_like(tokens[:1])])
        values = with_bias @ v.T  # (n + 1, H)
        scores = (tokens @ v.T).T.unsqueeze(2) * with_bias[
            :, -1
        ]  # (H, query, key): v·x_query for tokens, 0 for the bias
        forbidden = torch.ones(n_tokens, n_tokens + 1, dtype=tokens.dtype)
        forbidden[:, :n_tokens] -= torch.eye(n_tokens, dtype=tokens.dtype)
        forbidden[:, n_tokens] = 0
        shares = torch.softmax(scores - penalty * forbidden, dim=2)
        mixed = torch.einsum("hqk,kh->qh", shares, values)
        return mixed @ torch.from_numpy(self.outputs).to(tokens.dtype)


def with_flag(vectors: Float[np.ndarray, "n_tokens dim"]) -> torch.Tensor:
    """Tokens with the coordinate f = 1 that the bias token lacks."""
    return torch.from_numpy(np.concatenate([vectors, np.ones((len(vectors), 1))], axis=1))


def heads_for_layer(
    hidden: Float[np.ndarray, "dim width"],
    bias: Float[np.ndarray, " width"],
    outputs: Float[np.ndarray, "width n_outputs"],
    *,
    slope: float = 1.0,
) -> HeadsAsNeurons:
    """The hidden layer Σ_k ψ(W_kᵀx + b_k) V_k as heads, for ψ(x) = SiLU(βx)/β with β = `slope`.

    β = 1 is SiLU itself, exactly; `GELU_SLOPE` stands for GELU, a large β for ReLU.
    """
    directions = slope * np.concatenate([hidden, bias[None, :]]).T
    return HeadsAsNeurons(np.ascontiguousarray(directions), np.asarray(outputs / slope))
