"""Batched matrix products whose results are written wide.

On a CPU a product with 10 columns costs three to four times one with 10 rows and the same work, because rows are what
vector registers hold. Forward and backward passes here write Cᵀ where C is narrow and its transpose is not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

WIDE = 32  # columns from which a plain product is as fast


def _product(left: Tensor, right: Tensor) -> Tensor:
    n_rows, n_columns = left.shape[1], right.shape[2]
    if left.device.type != "cpu" or n_columns >= WIDE or n_columns >= n_rows:
        return torch.bmm(left, right)
    return torch.bmm(right.transpose(1, 2), left.transpose(1, 2)).transpose(1, 2)


class _WideProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return _product(left, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,) = grads
        left, right = ctx.saved_tensors
        needs_left, needs_right = ctx.needs_input_grad
        return (
            _product(grad, right.transpose(1, 2)) if needs_left else None,
            _product(left.transpose(1, 2), grad) if needs_right else None,
        )


def bmm(left: Tensor, right: Tensor) -> Tensor:
    """(batch, m, k) times (batch, k, n), as torch.bmm."""
    if left.device.type != "cpu":
        return torch.bmm(left, right)
    product: Tensor = _WideProduct.apply(left, right)  # type: ignore[no-untyped-call]
    return product
