"""Draw initial weights in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def uniform(generator: torch.Generator, shape: tuple[int, ...], fan_in: float) -> Tensor:
    """Draw uniformly between -1/√fan_in and 1/√fan_in, which is PyTorch's default for linear maps. `fan_in` is at least 1 here."""
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (2 * drawn - 1) / math.sqrt(max(fan_in, 1))


def normal(generator: torch.Generator, shape: tuple[int, ...], scale: float = 1.0) -> Tensor:
    """Draw from a normal distribution with standard deviation `scale`."""
    return torch.randn(shape, generator=generator, dtype=torch.float64) * scale
