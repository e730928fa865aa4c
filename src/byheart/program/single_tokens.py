"""One token a sample: what associative memories and hidden layers without attention take."""

from __future__ import annotations

from byheart.errors import AssumptionViolated
from byheart.program.construction import Statistics


def require_one_token(method: str, statistics: Statistics) -> int:
    """The number of distinct tokens to store; refused where samples are vectors or longer than one token."""
    if statistics.vocab is None:
        raise AssumptionViolated(
            f"{method} embeds tokens itself, and these inputs are vectors.\n"
            "  Choose a construction for one vector a sample, such as two-layer-relu.",
            method=method,
        )
    if statistics.seq_len > 1:
        raise AssumptionViolated(
            f"{method} associates one token with one label, and these samples have up to {statistics.seq_len} tokens.\n"
            "  Choose a construction that mixes tokens, such as dana-2024, or make each sample one token.",
            method=method,
            seq_len=statistics.seq_len,
        )
    return statistics.n_samples if statistics.n_contexts is None else statistics.n_contexts
