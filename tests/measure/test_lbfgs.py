"""L-BFGS finds minima, every model at its own pace."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from byheart.measure.families import ModelConfig
from byheart.measure.lbfgs import StackedLBFGS
from byheart.measure.recipe import PassRule, Training
from byheart.measure.stack import make_stack
from byheart.measure.trainer import train
from tests.measure.problems import pairs


def rosenbrock(flat: Tensor) -> tuple[Tensor, Tensor]:
    flat = flat.detach().requires_grad_()
    x, y = flat[:, ::2], flat[:, 1::2]
    losses = (100 * (y - x**2) ** 2 + (1 - x) ** 2).sum(dim=1)
    (grad,) = torch.autograd.grad(losses.sum(), flat)
    return losses.detach(), grad


def test_rosenbrock_from_many_starts() -> None:
    generator = torch.Generator().manual_seed(0)
    start = 2 * torch.randn(20, 6, generator=generator, dtype=torch.float64)
    optimiser = StackedLBFGS(start, rosenbrock, history=10)
    optimiser.run(200)
    torch.testing.assert_close(optimiser.flat, torch.ones_like(start), rtol=0, atol=1e-6)


def test_losses_never_rise() -> None:
    generator = torch.Generator().manual_seed(1)
    optimiser = StackedLBFGS(
        torch.randn(8, 10, generator=generator, dtype=torch.float64), rosenbrock, history=5
    )
    before = optimiser.loss
    for _ in range(60):
        optimiser.run(1)
        assert bool((optimiser.loss <= before).all())
        before = optimiser.loss


def test_neighbours_do_not_matter() -> None:
    generator = torch.Generator().manual_seed(2)
    start = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    together, alone = StackedLBFGS(start, rosenbrock, 5), StackedLBFGS(start[2:3], rosenbrock, 5)
    for _ in range(30):
        together.run(1)
        alone.run(1)
        assert torch.equal(together.flat[2:3], alone.flat)


def test_frozen_models_stay_and_taken_ones_go_on() -> None:
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    optimiser, plain = StackedLBFGS(start, rosenbrock, 5), StackedLBFGS(start, rosenbrock, 5)
    optimiser.run(10)
    plain.run(30)
    optimiser.freeze([0])
    held = optimiser.flat[0].clone()
    optimiser.run(10)
    assert torch.equal(optimiser.flat[0], held)
    kept = torch.tensor([1, 3])
    optimiser.take(optimiser.flat[kept], kept)
    optimiser.run(10)
    assert torch.equal(optimiser.flat, plain.flat[kept])


def test_a_wall_of_infinities_is_backed_away_from() -> None:
    def walled(flat: Tensor) -> tuple[Tensor, Tensor]:
        losses = torch.where(flat[:, 0] > 0, flat[:, 0] - torch.log(flat[:, 0]), torch.nan)
        return losses, torch.where(flat > 0, 1 - 1 / flat, torch.nan)

    optimiser = StackedLBFGS(torch.tensor([[5.0], [0.01], [100.0]], dtype=torch.float64), walled, history=5)
    optimiser.run(60)
    torch.testing.assert_close(optimiser.flat, torch.ones(3, 1, dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_2500_bigrams_are_memorised_by_30_heads() -> None:
    """DPC24's task with H = 30, d = d_h = 10 (13,020 parameters; Theorem 1 asks for 249 heads), five seeds."""
    model = ModelConfig("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 30})
    stack = make_stack([model] * 5, [pairs(50, seed) for seed in range(5)], range(5))
    plan = Training(steps=1500, optimiser="lbfgs", record_every=20, stop=PassRule("accuracy", 1.0))
    outcomes = train(stack, [plan] * 5)
    assert [outcome.measured["accuracy"] for outcome in outcomes] == [1.0] * 5
    assert outcomes[0].n_parameters == 13_020
