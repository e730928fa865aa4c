"""One token a sample: what associative memories and hidden layers without attention take."""

from __future__ import annotations

import numpy as np

from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated
from byheart.network.attention_only.architecture import AttentionOnly


def require_one_token(method: str, shape: DataShape) -> tuple[int, int]:
    """The number of token ids and of distinct tokens to store; refused where samples are vectors or longer than one token."""
    if shape.vocab is None:
        raise AssumptionViolated(
            f"{method} embeds tokens itself, and these inputs are vectors.\n"
            "  Choose a construction for one vector a sample, such as two-layer-relu.",
            method=method,
        )
    if shape.seq_len > 1:
        raise AssumptionViolated(
            f"{method} associates one token with one label, and these samples have up to {shape.seq_len} tokens.\n"
            "  Choose a construction that mixes tokens, such as dana-2024, or make each sample one token.",
            method=method,
            seq_len=shape.seq_len,
        )
    return shape.vocab, shape.context_count


def count_wrong(network: AttentionOnly, tokens: np.ndarray, next_tokens: np.ndarray) -> int:
    """How many tokens the network, run natively, follows by another one than `next_tokens` says."""
    return int((network.compute_logits(tokens[:, None]).argmax(axis=1) != next_tokens).sum())
