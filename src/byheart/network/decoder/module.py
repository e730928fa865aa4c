"""MFT24's decoder as a `torch.nn.Module` with ordinary parameters.

It imports nothing from the code that constructs networks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from byheart.network.compiled_module import CompiledModule, look_up, own_precision
from byheart.network.decoder.architecture import Activation, Decoder, SelfAttention, TokenAveraging

ACTIVATIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": torch.tanh,
    "gelu": nn.functional.gelu,
    "arctan": torch.atan,
    "silu": nn.functional.silu,
}


class SelfAttentionModule(nn.Module):
    """Self-attention at the last token, which attends to every token including itself (MFT24 eq. 2)."""

    def __init__(self, mixing: SelfAttention) -> None:
        super().__init__()
        parts = (mixing.key, mixing.query, mixing.value, mixing.output)
        self.key, self.query, self.value, self.output = (nn.Parameter(torch.tensor(part)) for part in parts)
        self.has_skip = mixing.has_skip

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, seq, d) to (batch, d). `seen` is true at tokens that are not padding."""
        query = torch.einsum("bd,hdk->bhk", tokens[:, -1], self.query)
        carried = torch.einsum("bhk,hdk->bhd", query, self.key)
        scores = torch.einsum("bhd,bnd->bhn", carried, tokens)
        shares = torch.softmax(scores.masked_fill(~seen.unsqueeze(1), -torch.inf), dim=-1)
        mixed = torch.einsum("bhn,bnd->bhd", shares, tokens)
        values = torch.einsum("bhd,hdv->bhv", mixed, self.value)
        attended = torch.einsum("bhv,hve->be", values, self.output)
        return attended + tokens[:, -1] if self.has_skip else attended


class TokenAveragingModule(nn.Module):
    """Computes Σ_t u_t z_t, a weighted average of the token vectors z_t of a context (MFT24 Theorem 6)."""

    def __init__(self, mixing: TokenAveraging) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.tensor(mixing.shares))

    def forward(self, tokens: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        weights = self.shares[positions_of(seen)] * seen
        return torch.einsum("bn,bnd->bd", weights, tokens)


def positions_of(seen: torch.Tensor) -> torch.Tensor:
    """Return the position of every token, counted from the first one. `seen` is true at tokens that are not padding; padding gets
    position 0.
    """
    return (seen.cumsum(dim=1) - 1).clamp(min=0)


class DecoderModule(CompiledModule):
    """Computes the logits Vᵀψ(Wᵀ mixing(z + u) + b) of MFT24 eq. 2 and Theorem 7. `Decoder` explains the symbols."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.tokens = nn.Embedding(decoder.pad, decoder.dim, _weight=torch.tensor(decoder.tokens))
        positions, mixing = decoder.positions, decoder.mixing
        self.positions = None if positions is None else nn.Parameter(torch.tensor(positions))
        self.mixing: SelfAttentionModule | TokenAveragingModule
        if isinstance(mixing, SelfAttention):
            self.mixing = SelfAttentionModule(mixing)
        else:
            self.mixing = TokenAveragingModule(mixing)
        self.hidden, self.bias = (nn.Parameter(torch.tensor(part)) for part in (decoder.hidden, decoder.bias))
        self.logits = nn.Parameter(torch.tensor(decoder.logits))
        self.activation = decoder.activation

    def mix(self, ids: torch.Tensor) -> torch.Tensor:
        """Map ids (batch, seq) to the output of the mixing layer, (batch, d)."""
        pad = self.tokens.num_embeddings
        seen = ids < pad
        vectors = look_up(lambda ids: self.tokens(ids - (ids == pad).to(ids.dtype)), ids, pad + 1)
        if self.positions is not None:
            vectors = vectors + self.positions[positions_of(seen)]
        mixed: torch.Tensor = self.mixing(vectors, seen)
        return mixed

    def features(self, mixed: torch.Tensor) -> torch.Tensor:
        """Map the mixed tokens (batch, d) to the outputs of the neurons (batch, m)."""
        return ACTIVATIONS[self.activation](torch.addmm(self.bias, mixed, self.hidden))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map token ids (batch, seq), padded on the left, to logits (batch, n_outputs)."""
        with own_precision(ids):
            return self.features(self.mix(ids)) @ self.logits
