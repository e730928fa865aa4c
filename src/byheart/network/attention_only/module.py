"""DPC24's attention-only Transformer as a `torch.nn.Module` with ordinary parameters.

It imports nothing from the code that constructs networks.
"""

from __future__ import annotations

import torch
from torch import nn

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.compiled_module import CompiledModule, look_up, own_precision


class AttentionOnlyModule(CompiledModule):
    """Computes the logits W_U (x_S + Σ_h W_O W_V A_h) of DPC24 eqs. 1-2.

    The vector of the last token is x_S, and A_h is the weighted average of the vectors to which head h attends. `AttentionOnly`
    explains the other symbols.
    """

    def __init__(self, network: AttentionOnly) -> None:
        super().__init__()
        self.tokens: nn.Embedding | None = None
        self.positions: nn.Parameter | None = None
        if network.embedding is not None:
            tokens = torch.tensor(network.tokens)
            self.tokens = nn.Embedding(len(tokens), network.dim, _weight=tokens)
            self.positions = nn.Parameter(torch.tensor(network.positions))
        heads = (network.query, network.key, network.value, network.output)
        self.query, self.key, self.value, self.output = (nn.Parameter(torch.tensor(part)) for part in heads)
        self.unembedding = nn.Parameter(torch.tensor(network.unembedding))
        self.skip, self.sees_itself = network.skip, network.sees_itself
        self.zero_token = network.zero_token

    def vectors(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the vectors x (batch, S, d) of all tokens. The inputs are ids (batch, S) or already vectors (batch, S, d)."""
        if self.tokens is None:
            return inputs.to(self.unembedding.dtype)
        assert self.positions is not None
        table, pad = self.tokens, self.tokens.num_embeddings
        return look_up(lambda ids: table(ids - (ids == pad).to(ids.dtype)), inputs, pad + 1) + self.positions

    def attend(self, inputs: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return A, the weighted average of the vectors `x` (batch, S, d) in each head: (batch, H, d).

        `inputs` shows which tokens are padding.
        """
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
        """Return [x_S; W_V A], the last token and the output of every head, (batch, d + H·d_v)."""
        x = self.vectors(inputs)
        values = torch.einsum("bhd,hvd->bhv", self.attend(inputs, x), self.value)
        return torch.cat([x[:, -1], values.flatten(1)], dim=1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map token ids (batch, S) or vectors (batch, S, d) to logits (batch, n_outputs)."""
        dim = self.query.shape[2]
        with own_precision(inputs):
            features = self.features(inputs)
            stream: torch.Tensor = features[:, dim:] @ self.output.transpose(1, 2).flatten(0, 1)
            if self.skip:
                stream = stream + features[:, :dim]
            return stream @ self.unembedding.T
