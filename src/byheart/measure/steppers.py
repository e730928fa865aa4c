"""Run training steps: eagerly, as a captured CUDA graph, compiled, or by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from byheart.measure.draws import draw_places
from byheart.measure.lbfgs import StackedLBFGS
from byheart.measure.objective import total_losses, training_losses
from byheart.measure.optimisers import Adam
from byheart.measure.recipe import Training
from byheart.measure.stack import Stack

Engine = Literal["auto", "eager", "graph", "compile"]

# Compiling takes 10 to 25 s and makes steps 1.2 to 2.2 times faster, on a GPU as on a CPU: worthwhile from
# about this many steps.
COMPILE_FROM_STEPS = 20_000

# Processes that share a GPU take turns, with one captured graph per turn, and a graph with many operations
# takes milliseconds. To avoid waiting most of the time, long trainings capture several steps at once, up to
# about this many logits and steps.
TURN_LOGITS, TURN_STEPS = 600_000_000, 50


class Stepper(Protocol):
    """An object that trains the weights of a stack (models that train together)."""

    @property
    def flat(self) -> Tensor:
        """The weights, one padded row for each model: (n_models, n_flat)."""

    @property
    def is_fixed(self) -> bool:
        """Whether steps are captured in a CUDA graph or compiled. If so, a changed stack must be captured or compiled again."""

    def run(self, steps: int) -> None:
        """Train for this number of further steps."""

    def freeze(self, models: Sequence[int]) -> None:
        """Stop training these models."""

    def take(self, stack: Stack, models: Sequence[int]) -> Stepper:
        """Return a stepper that continues with only these models. Do not use the old stepper afterwards.

        `models` are positions in the old stack. The new `stack` contains only these models.
        """


def make_stepper(stack: Stack, trainings: Sequence[Training], engine: Engine) -> Stepper:
    """Return the stepper for these trainings.

    With the engine `auto`, long trainings are compiled. Short ones use a CUDA graph on a GPU, and eager steps on a CPU. L-BFGS
    always runs eagerly, whatever the engine.
    """
    if trainings[0].optimiser == "lbfgs":
        return LBFGSStepper(stack, trainings[0])
    if engine != "auto":
        return AdamStepper(stack, trainings, engine, falls_back=engine == "compile")
    if trainings[0].steps >= COMPILE_FROM_STEPS:
        return AdamStepper(stack, trainings, "compile", falls_back=True)
    return AdamStepper(stack, trainings, _without_compiling(stack.device))


def _without_compiling(device: torch.device) -> Engine:
    return "graph" if device.type == "cuda" else "eager"


class AdamStepper:
    """Trains with Adam or AdamW.

    With `falls_back`, steps run uncompiled if they cannot be compiled, for example because the machine has no compiler.
    """

    def __init__(
        self, stack: Stack, trainings: Sequence[Training], engine: Engine, *, falls_back: bool = False
    ) -> None:
        """Draw the initial weights."""
        self.plan, self.engine, self.falls_back = trainings[0], engine, falls_back
        self.stack = stack
        self.flat = stack.initial().requires_grad_()
        self.adam = Adam(self.flat.detach(), trainings, stack.mask)
        self.is_fixed = engine != "eager"
        self._prepare()

    def _prepare(self) -> None:
        self.seeds = torch.tensor(self.stack.seeds, device=self.flat.device).view(-1, 1)
        stack, plan = self.stack, self.plan
        places = draw_places(plan.batch, self.flat.device) if plan.batch else None

        def losses(flat: Tensor, seeds: Tensor, step: Tensor) -> Tensor:
            return training_losses(stack, flat, seeds, step, places, plan.reduction).sum()

        self.losses: Callable[[Tensor, Tensor, Tensor], Tensor] = losses
        self.update: Callable[[Tensor], None] = self.adam.update
        self.graph: torch.cuda.CUDAGraph | None = None  # the captured graph of one step
        self.turn_graph: torch.cuda.CUDAGraph | None = None  # the captured graph of `turn` steps
        self.turn = steps_of_turn(stack) if plan.steps >= COMPILE_FROM_STEPS else 1
        if self.engine == "compile":
            # Every stack compiles the code again. After a few times, the framework would silently stop compiling it.
            torch.compiler.reset()
            self.losses = torch.compile(losses, dynamic=False)
            self.update = torch.compile(self.adam.update, dynamic=False)

    def _step(self) -> None:
        loss = self.losses(self.flat, self.seeds, self.adam.step)
        (grad,) = torch.autograd.grad(loss, self.flat)
        with torch.no_grad():
            self.update(grad)

    def _first_step(self) -> None:
        try:
            self._step()
        except Exception:
            if not self.falls_back:
                raise
            self.engine = _without_compiling(self.flat.device)
            self.is_fixed = self.engine != "eager"
            self._prepare()
            self._step()
        self.falls_back = False

    def run(self, steps: int) -> None:
        if self.engine == "eager" or self.flat.device.type != "cuda":
            for _ in range(steps):
                self._first_step() if self.falls_back else self._step()
            return
        if self.graph is None and steps > 0:
            steps -= self._capture(steps)
        if self.turn_graph is not None:
            for _ in range(steps // self.turn):
                self.turn_graph.replay()
            steps %= self.turn
        for _ in range(steps):
            assert self.graph is not None
            self.graph.replay()

    def _capture(self, steps: int) -> int:
        """Capture a CUDA graph of one step and, if a turn has several steps, another graph of one turn.

        A turn consists of the steps that a process makes before another process may use the GPU.

        CUDA needs some ordinary steps before it captures. Make three of them, or `steps` if that is fewer. They are part of the
        training, so return how many were made.
        """
        ordinary = min(3, steps)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch states no types here
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for number in range(ordinary):
                self._first_step() if number == 0 else self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()
        if self.turn > 1:
            self.turn_graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.turn_graph, pool=self.graph.pool()):
                for _ in range(self.turn):
                    self._step()
        return ordinary

    def freeze(self, models: Sequence[int]) -> None:
        """Set the learning rate of these models to zero, in place."""
        self.adam.freeze(models)

    def take(self, stack: Stack, models: Sequence[int]) -> AdamStepper:
        """Keep only these models, with copies of their weights and moments. Change this stepper and return it."""
        index = torch.tensor(models, device=self.flat.device)
        self.stack = stack
        self.flat = self.flat.detach()[index].clone().requires_grad_()
        self.adam.take(self.flat.detach(), index, stack.mask)
        self._prepare()
        return self


def steps_of_turn(stack: Stack) -> int:
    """Return how many steps of a long training of this stack a process makes on a GPU before another process gets its turn."""
    rows = stack.targets.row_weights
    n_logits = rows.numel() * max(training_set.n_classes for training_set in stack.training_sets)
    return max(1, min(TURN_STEPS, TURN_LOGITS // max(n_logits, 1)))


class LBFGSStepper:
    """Trains with full-batch L-BFGS. A step is one evaluation of the loss and its gradient."""

    is_fixed = False

    def __init__(self, stack: Stack, plan: Training) -> None:
        """Draw the initial weights, and compute the loss and its gradient there."""
        self.stack, self.plan = stack, plan
        self.lbfgs = StackedLBFGS(stack.initial(), self._objective, plan.history)

    @property
    def flat(self) -> Tensor:
        """The weights of every model after its last accepted step."""
        return self.lbfgs.flat

    def _objective(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        flat = flat.detach().requires_grad_()
        losses = total_losses(self.stack, flat)
        if self.plan.reduction == "mean":
            losses = losses / self.stack.targets.n_samples
        (grad,) = torch.autograd.grad(losses.sum(), flat)
        if self.stack.mask is not None:
            grad = grad * self.stack.mask
        return losses.detach(), grad

    def run(self, steps: int) -> None:
        self.lbfgs.run(steps)

    def freeze(self, models: Sequence[int]) -> None:
        """Stop training these models. Their weights no longer change."""
        self.lbfgs.freeze(models)

    def take(self, stack: Stack, models: Sequence[int]) -> LBFGSStepper:
        """Keep only these models, with a copy of their state. Change this stepper and return it."""
        index = torch.tensor(models, device=stack.device)
        self.lbfgs.take(self.lbfgs.flat[index], index)
        self.stack = stack
        return self
