"""The networks a model may be: KS25's Transformers, which answer with a number, and those that answer with logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from byheart.network.attention_only.architecture import AttentionOnly
from byheart.network.decoder.architecture import Decoder
from byheart.network.transformer.architecture import Transformer

if TYPE_CHECKING:
    from torch import nn

LogitNetwork: TypeAlias = Decoder | AttentionOnly
Network: TypeAlias = Transformer | LogitNetwork


def logits_of(
    network: LogitNetwork,
    encoded: np.ndarray,
    *,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Logits (n_samples, n_outputs) of the native forward pass."""
    if isinstance(network, Decoder):
        from byheart.network.decoder.module import decoder_logits

        return decoder_logits(network, encoded, device=device, progress=progress)
    from byheart.network.attention_only.module import attention_only_logits

    return attention_only_logits(network, encoded, device=device, progress=progress)


def logit_module(network: LogitNetwork) -> nn.Module:
    """The network as a `torch.nn.Module` with ordinary parameters."""
    if isinstance(network, Decoder):
        from byheart.network.decoder.module import to_decoder_module

        return to_decoder_module(network)
    from byheart.network.attention_only.module import to_attention_only_module

    return to_attention_only_module(network)
