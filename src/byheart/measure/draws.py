"""Draw random numbers that depend only on (seed, step, position).

A model therefore draws the same batches whether it trains alone or in a stack, on a CPU or on a GPU. Such numbers can also be drawn
in a CUDA graph, where one stateful generator per model would be impossible.
"""

from __future__ import annotations

import torch
from torch import Tensor

# splitmix64 (Steele, Lea & Flood 2014), written as signed 64-bit integers, whose products wrap.
_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def _shift_right(bits: Tensor, amount: int) -> Tensor:
    return (bits >> amount) & ((1 << (64 - amount)) - 1)


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift_right(bits, 30)) * _MIX_1
    bits = (bits ^ _shift_right(bits, 27)) * _MIX_2
    return bits ^ _shift_right(bits, 31)


def draw_places(n_draws: int, device: torch.device | str = "cpu") -> Tensor:
    """Return one fixed integer for each sample of a batch, (n_draws,). `draw_rows` turns these integers into random rows.

    They are computed in advance, because a compiled step cannot compute them.
    """
    return (torch.arange(n_draws, dtype=torch.int64, device=device) + 1) * _GAMMA


def draw_rows(seeds: Tensor, step: Tensor, places: Tensor, n_rows: Tensor) -> Tensor:
    """Choose at random which rows of its training set each model uses at `step`. Return row numbers, (n_models, n_draws).

    `seeds` and `n_rows` have shape (n_models, 1), and `places` comes from `draw_places`. A row number is a random 32-bit integer,
    multiplied by n_rows, divided by 2^32 and rounded down. Rows are therefore not exactly uniform, but the relative bias is below
    n_rows / 2^32.
    """
    stream = _mix(seeds * _GAMMA + 1)
    bits = _mix(_mix(stream + step * _GAMMA) + places)
    return (_shift_right(bits, 32) * n_rows) >> 32
