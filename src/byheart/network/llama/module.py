"""The Llama architecture in plain torch, for machines where transformers is not installed."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from byheart.network.compiled_module import CompiledModule, look_up, own_precision
from byheart.network.llama.architecture import Llama
from byheart.network.llama.spec import EMBEDDING, FINAL_NORM, weight_name


class LlamaModule(CompiledModule):
    """Computes the logits of a Llama. Parameters have the same names as in the checkpoint, for example `model.norm.weight`."""

    def __init__(self, llama: Llama) -> None:
        """Copy the weights into parameters."""
        super().__init__()
        self.spec = llama.spec
        for name, array in llama.weights.items():
            *path, last = name.split(".")
            owner: nn.Module = self
            for part in path:
                if part not in dict(owner.named_children()):
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            owner.register_parameter(last, nn.Parameter(torch.from_numpy(array.copy())))

    def _weight(self, name: str) -> Tensor:
        return self.get_parameter(name)

    def _norm(self, stream: Tensor, name: str) -> Tensor:
        mean = stream.pow(2).mean(-1, keepdim=True)
        return self._weight(name) * (stream * torch.rsqrt(mean + self.spec.norm_eps))

    def forward(
        self, ids: Int[Tensor, "batch seq"], *, asked: Bool[Tensor, "batch seq"] | None = None
    ) -> Float[Tensor, "*positions n_vocab"]:
        """Return the logits at every position of right-padded `ids`, with shape (batch, seq, n_vocab).

        If `asked` is given, return only the logits at the positions where it is true, with shape (n_asked, n_vocab).
        """
        with own_precision(ids):
            return self._logits(ids, asked)

    def _logits(self, ids: Tensor, asked: Tensor | None) -> Tensor:
        spec, tokens = self.spec, self._weight(EMBEDDING)
        stream = look_up(lambda ids: functional.embedding(ids, tokens), ids, len(tokens))
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * torch.tensor(
            spec.frequencies, dtype=torch.float32, device=ids.device
        )
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        for layer in range(spec.n_layers):
            stream = stream + self._attend(layer, stream, cos, sin)
            normed = self._norm(stream, weight_name(layer, "post_attention_layernorm"))
            gate = functional.silu(normed @ self._weight(weight_name(layer, "mlp.gate_proj")).T)
            up = normed @ self._weight(weight_name(layer, "mlp.up_proj")).T
            stream = stream + (gate * up) @ self._weight(weight_name(layer, "mlp.down_proj")).T
        if asked is not None:
            stream = stream[asked]
        return self._norm(stream, FINAL_NORM) @ self._weight(EMBEDDING).T

    def _attend(self, layer: int, stream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        spec = self.spec
        normed = self._norm(stream, weight_name(layer, "input_layernorm"))
        batch, seq, _ = stream.shape

        def heads(part: str, n: int) -> Tensor:
            projected = normed @ self._weight(weight_name(layer, f"self_attn.{part}_proj")).T
            return projected.view(batch, seq, n, spec.head_dim).transpose(1, 2)

        query, key = (_rotate(heads(part, n), cos, sin) for part, n in (("q", spec.n_heads), ("k", 1)))
        scores = query @ key.transpose(-1, -2) / spec.head_dim**0.5
        hidden = torch.ones(seq, seq, dtype=torch.bool, device=stream.device).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        mixed = (weights @ heads("v", 1)).transpose(1, 2).reshape(batch, seq, -1)
        out: Tensor = mixed @ self._weight(weight_name(layer, "self_attn.o_proj")).T
        return out


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin
