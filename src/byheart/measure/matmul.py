"""Compute batched matrix products in the form that is fastest on the device.

On a CPU, a product whose result has only 10 columns takes three to four times as long as one whose result has 10 rows and that
needs the same number of operations, because vector registers hold parts of rows. Therefore, if the result C has fewer columns
than rows and fewer than `WIDE`, its transpose Cᵀ is computed instead, in the forward and backward passes.

On a GPU, a small result with a very long inner dimension uses only a few processors. An example is the gradient of a
linear map W in a product W·X, if X has very many columns (tokens). This gradient is computed as a sum of many short products
instead.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

WIDE = 32  # from this many columns on, a plain product is as fast
LONG, PIECE = 32_768, 1_024  # the inner dimension from which a product is split, and that of its pieces


def _product(left: Tensor, right: Tensor) -> Tensor:
    n_rows, n_columns = left.shape[1], right.shape[2]
    if left.device.type != "cpu":
        is_long = left.shape[2] >= LONG and n_rows * n_columns < PIECE
        return in_pieces(left, right) if is_long else torch.bmm(left, right)
    if n_columns >= WIDE or n_columns >= n_rows:
        return torch.bmm(left, right)
    return torch.bmm(right.transpose(1, 2), left.transpose(1, 2)).transpose(1, 2)


def in_pieces(left: Tensor, right: Tensor) -> Tensor:
    """Compute a product as a sum over pieces of the inner dimension. The pieces of equal size are multiplied in one batched
    product, and the remainder in another.
    """
    n_pieces = left.shape[2] // PIECE
    whole = n_pieces * PIECE

    def cut(matrix: Tensor) -> Tensor:
        n_batch, n_rows, _ = matrix.shape
        pieces = matrix[:, :, :whole].reshape(n_batch, n_rows, n_pieces, PIECE).transpose(1, 2)
        return pieces.reshape(n_batch * n_pieces, n_rows, PIECE)

    across = right.transpose(1, 2)
    products = torch.bmm(cut(left), cut(across).transpose(1, 2))
    rest = torch.bmm(left[:, :, whole:], right[:, whole:])
    return products.view(left.shape[0], n_pieces, *rest.shape[1:]).sum(1) + rest


class _Product(torch.autograd.Function):
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
    """Multiply (batch, m, k) by (batch, k, n), like torch.bmm."""
    if left.device.type != "cpu" and right.shape[2] < LONG:
        return torch.bmm(left, right)
    product: Tensor = _Product.apply(left, right)  # type: ignore[no-untyped-call]  # torch states no types here
    return product
