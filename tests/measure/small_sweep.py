"""The specification of a sweep of two small models, as text."""

from __future__ import annotations


def small_sweep(*, n_steps: int, seeds: int = 1, more: str = "") -> str:
    """Attention-only models of one and of two heads; `more` are further sections."""
    return f"""
seeds = {seeds}
[model]
family = "attention-only"
dim = 3
head_dim = "=dim"
n_heads = [1, 2]
[data]
kind = "associations"
n_vocab = 5
[training]
steps = {n_steps}
learning_rate = 1e-2
{more}"""
