"""MFT24's decoder as a `torch.nn.Module` with ordinary parameters.

This file imports nothing beyond torch and numpy at run time apart from the architecture itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from byheart.network.decoder.architecture import Activation, Decoder, SelfAttention

ACTIVATIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": torch.tanh,
    "gelu": nn.functional.gelu,
    "arctan": torch.atan,
    "silu": nn.functional.silu,
}


class SelfAttentionModule(nn.Module):
    """Self-attention at the last token; every other token and the last one itself are seen (MFT24 eq. 2)."""

    def __init__(
        self, key: torch.Tensor, query: torch.Tensor, value: torch.Tensor, output: torch.Tensor
    ) -> None:
        """Wrap weights (heads, d, d1), (heads, d, d1), (heads, d, d0) and (heads, d0, d)."""
        super().__init__()
        self.key, self.query = nn.Parameter(key), nn.Parameter(query)
        self.value, self.output = nn.Parameter(value), nn.Parameter(output)

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """(batch, seq, d) and which of them are tokens, to (batch, d)."""
        query = torch.einsum("bd,hdk->bhk", tokens[:, -1], self.query)
        carried = torch.einsum("bhk,hdk->bhd", query, self.key)
        scores = torch.einsum("bhd,bnd->bhn", carried, tokens)
        shares = torch.softmax(scores.masked_fill(~seen.unsqueeze(1), -torch.inf), dim=-1)
        mixed = torch.einsum("bhn,bnd->bhd", shares, tokens)
        return torch.einsum("bhd,hdv,hve->be", mixed, self.value, self.output)


class TokenAveragingModule(nn.Module):
    """Σ_t u_t z_t over the tokens of a context (MFT24 Theorem 6)."""

    def __init__(self, shares: torch.Tensor) -> None:
        """Wrap the weight of each position."""
        super().__init__()
        self.shares = nn.Parameter(shares)

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """(batch, seq, d) and which of them are tokens, to (batch, d)."""
        weights = self.shares[positions_of(seen)] * seen
        return torch.einsum("bn,bnd->bd", weights, tokens)


def positions_of(seen: torch.Tensor) -> torch.Tensor:
    """The position of every token counted from the first, 0 for the filling before it."""
    return (seen.cumsum(dim=1) - 1).clamp(min=0)


class DecoderModule(nn.Module):
    """Vᵀψ(Wᵀ mixing(z + u) + b) (MFT24 eq. 2, Theorem 7)."""

    def __init__(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor | None,
        mixing: SelfAttentionModule | TokenAveragingModule,
        hidden: tuple[torch.Tensor, torch.Tensor],
        logits: torch.Tensor,
        activation: Activation,
    ) -> None:
        """Wrap the parts; `hidden` is (W, b)."""
        super().__init__()
        self.tokens = nn.Embedding(tokens.shape[0], tokens.shape[1], _weight=tokens)
        self.positions = None if positions is None else nn.Parameter(positions)
        self.mixing = mixing
        self.hidden, self.bias = nn.Parameter(hidden[0]), nn.Parameter(hidden[1])
        self.logits = nn.Parameter(logits)
        self.activation = activation

    def mix(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (batch, seq) to what the mixing layer gives, (batch, d)."""
        seen = ids < self.tokens.num_embeddings
        vectors: torch.Tensor = self.tokens(ids.clamp(max=self.tokens.num_embeddings - 1))
        if self.positions is not None:
            vectors = vectors + self.positions[positions_of(seen)]
        mixed: torch.Tensor = self.mixing(vectors, seen)
        return mixed

    def features(self, mixed: torch.Tensor) -> torch.Tensor:
        """What the neurons make of the mixed tokens: (batch, d) to (batch, m)."""
        return ACTIVATIONS[self.activation](torch.addmm(self.bias, mixed, self.hidden))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids (batch, seq), filled up on the left, to logits (batch, n_outputs)."""
        return self.features(self.mix(ids)) @ self.logits


def to_decoder_module(decoder: Decoder) -> DecoderModule:
    """`decoder` as a PyTorch module in its own float type."""

    def tensor(weights: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(weights))

    mixing: SelfAttentionModule | TokenAveragingModule
    if isinstance(decoder.mixing, SelfAttention):
        mixing = SelfAttentionModule(*(tensor(weights) for _, weights in decoder.mixing.parameters()))
    else:
        mixing = TokenAveragingModule(tensor(decoder.mixing.shares))
    return DecoderModule(
        tensor(decoder.tokens),
        None if decoder.positions is None else tensor(decoder.positions),
        mixing,
        (tensor(decoder.hidden), tensor(decoder.bias)),
        tensor(decoder.logits),
        decoder.activation,
    )
