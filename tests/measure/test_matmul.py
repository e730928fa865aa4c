"""Products in pieces, as a GPU takes them, are the same products."""

from __future__ import annotations

import pytest
import torch

from byheart.measure.matmul import PIECE, bmm, in_pieces


@pytest.mark.parametrize("n_inner", [1, PIECE - 1, PIECE, 3 * PIECE, 3 * PIECE + 7])
@pytest.mark.parametrize("n_batch", [1, 3])
def test_a_product_in_pieces_is_the_product(n_batch: int, n_inner: int) -> None:
    generator = torch.Generator().manual_seed(0)
    # whole numbers, so that sums in any order are equal
    left = torch.randint(-50, 50, (n_batch, 8, n_inner), generator=generator).double()
    right = torch.randint(-50, 50, (n_batch, 2, n_inner), generator=generator).double().transpose(1, 2)
    assert torch.equal(in_pieces(left, right), torch.bmm(left, right))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_and_a_cpu_take_the_same_gradient_over_many_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(2, 8, 2, generator=generator, dtype=torch.float64)
    tokens = torch.randn(2, 2, 100_001, generator=generator, dtype=torch.float64)
    gradients = []
    for device in ("cpu", "cuda"):
        weights = maps.to(device).requires_grad_()
        bmm(weights, tokens.to(device)).square().sum().backward()
        assert weights.grad is not None
        gradients.append(weights.grad.cpu())
    assert torch.allclose(gradients[0], gradients[1], rtol=1e-12)
