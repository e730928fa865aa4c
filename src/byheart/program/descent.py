"""Full-batch L-BFGS in rounds, for small problems whose minimum must be found accurately."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from byheart.network.batches import single_thread


class Descent:
    """L-BFGS with a strong Wolfe line search. `spent` counts the evaluations of the loss."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        evaluate: Callable[[], torch.Tensor],
        *,
        per_round: int,
        history: int,
        n_operations: int = 0,
        least_gradient: float = 0.0,
    ) -> None:
        """Set up the optimiser for `parameters`.

        `evaluate` must return the loss at the current parameters and leave the gradient in their `grad`.
        A round has about `per_round` evaluations. It ends early when no entry of the gradient exceeds `least_gradient` in
        magnitude, or when a step no longer changes any parameter. `history` is the number of past steps from which L-BFGS
        estimates the curvature. `n_operations` is the number
        of multiply-adds of one evaluation; if it is small, torch runs on one thread.
        """
        self.spent = 0
        self._evaluate, self._n_operations = evaluate, n_operations
        self._optimiser = torch.optim.LBFGS(
            list(parameters),
            max_iter=per_round,
            max_eval=per_round,
            history_size=history,
            line_search_fn="strong_wolfe",
            tolerance_grad=least_gradient,
            tolerance_change=0.0,
        )

    def run_round(self) -> None:
        """Run L-BFGS for about `per_round` evaluations. An exception from `evaluate` ends the round and is passed on."""
        with single_thread(self._n_operations):
            self._optimiser.step(self._count)  # type: ignore[no-untyped-call]  # torch states no types here

    def _count(self) -> torch.Tensor:
        self.spent += 1
        return self._evaluate()


def with_gradient(
    parameters: Sequence[torch.Tensor], loss: Callable[[], torch.Tensor]
) -> Callable[[], torch.Tensor]:
    """Wrap `loss` for `Descent`: the returned function also computes the gradient, by automatic differentiation."""

    def evaluate() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]  # torch states no types here
        return value

    return evaluate
