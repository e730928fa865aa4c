"""DPC24's attention-only Transformer as a `torch.nn.Module` with ordinary parameters.

This file imports nothing beyond torch and numpy at run time apart from the architecture itself.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from byheart.network.attention_only.architecture import AttentionOnly


class AttentionOnlyModule(nn.Module):
    """W_U (x_S + Σ_h W_O W_V A_h), the attention of the last token alone (DPC24 eqs. 1-2)."""

    def __init__(
        self,
        embedding: tuple[torch.Tensor, torch.Tensor] | None,
        heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
        unembedding: torch.Tensor,
        *,
        skip: bool,
        sees_itself: bool,
        zero_token: bool = False,
    ) -> None:
        """Wrap (tokens, positions), (query, key, value, output) and the unembedding."""
        super().__init__()
        self.tokens: nn.Embedding | None = None
        self.positions: nn.Parameter | None = None
        if embedding is not None:
            tokens, positions = embedding
            self.tokens = nn.Embedding(tokens.shape[0], tokens.shape[1], _weight=tokens)
            self.positions = nn.Parameter(positions)
        self.query, self.key, self.value, self.output = map(nn.Parameter, heads)
        self.unembedding = nn.Parameter(unembedding)
        self.skip, self.sees_itself, self.zero_token = skip, sees_itself, zero_token

    def vectors(self, inputs: torch.Tensor) -> torch.Tensor:
        """Ids (batch, S) or vectors (batch, S, d) to x (batch, S, d)."""
        if self.tokens is None:
            return inputs.to(self.unembedding.dtype)
        assert self.positions is not None
        found: torch.Tensor = self.tokens(inputs.clamp(max=self.tokens.num_embeddings - 1)) + self.positions
        return found

    def attend(self, inputs: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """A, the attention before output: inputs and their vectors (batch, S, d) to (batch, H, d)."""
        others = x if self.sees_itself else x[:, :-1]
        query = torch.einsum("bd,hkd->bhk", x[:, -1], self.query)
        carried = torch.einsum("bhk,hkd->bhd", query, self.key)
        scores = carried @ others.transpose(1, 2)
        if self.tokens is not None:
            filling = inputs[:, : others.shape[1]] >= self.tokens.num_embeddings
            scores = scores.masked_fill(filling.unsqueeze(1), -torch.inf)
        if not self.zero_token:
            return torch.softmax(scores, dim=-1) @ others
        shares = torch.softmax(torch.nn.functional.pad(scores, (0, 1)), dim=-1)
        return shares[..., :-1] @ others

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """[x_S; W_V A]: the last token and what every head makes of the sequence, (batch, d + H·d_v)."""
        x = self.vectors(inputs)
        values = torch.einsum("bhd,hvd->bhv", self.attend(inputs, x), self.value)
        return torch.cat([x[:, -1], values.flatten(1)], dim=1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, S) or vectors (batch, S, d) to logits (batch, n_outputs)."""
        dim = self.query.shape[2]
        features = self.features(inputs)
        stream: torch.Tensor = features[:, dim:] @ self.output.transpose(1, 2).flatten(0, 1)
        if self.skip:
            stream = stream + features[:, :dim]
        return stream @ self.unembedding.T


def to_attention_only_module(network: AttentionOnly) -> AttentionOnlyModule:
    """`network` as a PyTorch module in its own float type."""

    def tensor(weights: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(weights))

    return AttentionOnlyModule(
        None if network.embedding is None else (tensor(network.tokens), tensor(network.positions)),
        (tensor(network.query), tensor(network.key), tensor(network.value), tensor(network.output)),
        tensor(network.unembedding),
        skip=network.skip,
        sees_itself=network.sees_itself,
        zero_token=network.zero_token,
    )
