"""Train a stack (models that train together) in rounds, and measure its models after each round.

Each model can stop early, and finished models are removed from the stack.

The result of a model depends only on its own configuration and seed, up to the rounding of matrix products, and not on
the other models of the stack.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from byheart.errors import UsageError
from byheart.measure.families import Inputs
from byheart.measure.objective import measure, require_batches
from byheart.measure.recipe import Training
from byheart.measure.records import Status
from byheart.measure.stack import Stack, StackTargets
from byheart.measure.steppers import Engine, Stepper, make_stepper

DIVERGED = 100.0  # a final loss above this many times the initial loss (at least 1) counts as diverged
TAIL_SAMPLES = 20  # at most this many evaluations are added in the final `tail` steps


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one model. `seconds` is its share of the stack's time."""

    status: Status
    steps: int
    measured: dict[str, float]
    curve_steps: np.ndarray
    curve: dict[str, np.ndarray]
    n_parameters: int
    seconds: float
    weights: dict[str, Tensor] | None = None


@dataclass(frozen=True)
class Moment:
    """The progress of the models that are training together in one stack."""

    step: int
    n_steps: int
    n_active: int
    n_models: int
    best_loss: float
    model_steps_per_second: float


def has_diverged(first_loss: float, loss: float) -> bool:
    """Return whether training diverged: the loss is NaN, or above 100 times the initial loss (or above 100, if that is more)."""
    return not loss <= DIVERGED * max(first_loss, 1.0)


def train(
    stack: Stack,
    trainings: Sequence[Training],
    *,
    engine: Engine = "auto",
    keep_weights: bool = False,
    n_threads: int = 1,
    on_finish: Callable[[int, Outcome], None] | None = None,
    on_moment: Callable[[Moment], None] | None = None,
) -> list[Outcome]:
    """Train every model of `stack`. Return one outcome per model, in the order of the stack.

    `on_finish(model, outcome)` is called as soon as the training of a model ends, and `on_moment` after each measurement.

    Models may differ in learning rate, warm-up, weight decay and pass rule; all other options must be equal.

    On a CPU, each step uses `n_threads` threads. With small matrices, a second thread costs more time than it saves, especially on
    a busy machine. To use more cores, run several processes that share one store.
    """
    if len({t.stack_key for t in trainings}) != 1:
        raise UsageError(
            "models that train together may differ only in learning rate, warm-up, weight decay and pass rule (the metric and "
            "threshold that a model must reach)."
        )
    plan = trainings[0]
    if plan.batch:
        require_batches(stack)
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        return _Loop(stack, tuple(trainings), engine, keep_weights, on_finish, on_moment).run()
    finally:
        torch.set_num_threads(before)


@dataclass(eq=False)
class _Loop:
    """The state of one call of `train`."""

    stack: Stack
    trainings: tuple[Training, ...]
    engine: Engine
    keep_weights: bool
    on_finish: Callable[[int, Outcome], None] | None
    on_moment: Callable[[Moment], None] | None

    def __post_init__(self) -> None:
        self.stepper: Stepper = make_stepper(self.stack, self.trainings, self.engine)
        # the models that are still in the stack, by their original index
        self.members = list(range(len(self.trainings)))
        self.running = set(self.members)
        self.curves: list[list[dict[str, float]]] = [[] for _ in self.trainings]
        self.tails: list[list[float]] = [[] for _ in self.trainings]
        self.outcomes: dict[int, Outcome] = {}
        self.seconds = [0.0 for _ in self.trainings]
        self.clock = time.perf_counter()
        self.last_step = 0

    def run(self) -> list[Outcome]:
        plan, done = self.trainings[0], 0
        self._look(0)
        for target in _milestones(plan):
            if not self.running:
                break
            self.stepper.run(target - done)
            done = target
            self._look(done)
        return [self.outcomes[model] for model in range(len(self.trainings))]

    def _look(self, step: int) -> None:
        """Measure all models, record the results, and remove the models that are finished."""
        plan = self.trainings[0]
        values = {name: column.tolist() for name, column in measure(self.stack, self.stepper.flat).items()}
        before, self.clock = self.clock, time.perf_counter()
        elapsed = self.clock - before
        for slot, model in enumerate(self.members):
            if model not in self.running:
                continue
            now = {name: column[slot] for name, column in values.items()}
            self.seconds[model] += elapsed / len(self.running)
            is_record = step % plan.record_interval == 0 or step == plan.steps
            if is_record:
                self.curves[model].append({"step": step, **now})
            if step > plan.steps - plan.tail:
                self.tails[model].append(now["accuracy"])
            rule = self.trainings[model].stop
            if not math.isfinite(now["loss"]):
                self._finish(slot, model, "diverged", step, now)
            elif rule is not None and rule.holds(now):
                self._finish(slot, model, "passed", step, now)
            elif step == plan.steps:
                diverged = has_diverged(self.curves[model][0]["loss"], now["loss"])
                self._finish(slot, model, "diverged" if diverged else "done", step, now)
        if self.on_moment is not None and elapsed > 0:
            losses = [loss for loss in values["loss"] if math.isfinite(loss)]
            rate = len(self.members) * (step - self.last_step) / elapsed
            best, n_models = min(losses, default=math.nan), len(self.trainings)
            self.on_moment(Moment(step, plan.steps, len(self.running), n_models, best, rate))
        self.last_step = step
        self.running -= set(self.outcomes)
        self._compact()

    def _finish(self, slot: int, model: int, status: Status, step: int, now: dict[str, float]) -> None:
        if self.tails[model]:
            now = now | {"accuracy_tail": float(np.mean(self.tails[model]))}
        points = self.curves[model]
        if not points or points[-1]["step"] != step:
            points.append({"step": step, "loss": now["loss"], "accuracy": now["accuracy"]})
        outcome = Outcome(
            status=status,
            steps=step,
            measured=now,
            curve_steps=np.array([point["step"] for point in points], dtype=np.int64),
            curve={name: np.array([point[name] for point in points]) for name in ("loss", "accuracy")},
            n_parameters=self.stack.n_parameters(slot),
            seconds=self.seconds[model],
            weights=self.stack.layout.unpack(self.stepper.flat.detach(), slot) if self.keep_weights else None,
        )
        self.outcomes[model] = outcome
        if self.on_finish is not None:
            self.on_finish(model, outcome)

    def _compact(self) -> None:
        """Remove finished models from the stack.

        If the steps are captured or compiled, a smaller stack must be captured or compiled again. In this case, finished models are
        only frozen (no longer trained) until at least half of the stack's models are finished. Then they are removed.
        """
        ended = [slot for slot, model in enumerate(self.members) if model not in self.running]
        if not ended or not self.running:
            return
        if self.stepper.is_fixed and len(self.running) > len(self.members) / 2:
            self.stepper.freeze(ended)
            return
        kept = [slot for slot, model in enumerate(self.members) if model in self.running]
        self.members = [self.members[slot] for slot in kept]
        self.stack = take(self.stack, kept)
        self.stepper = self.stepper.take(self.stack, kept)


def take(stack: Stack, models: Sequence[int]) -> Stack:
    """Return a stack that contains only `models` (positions in `stack`), with the same padding."""
    index = torch.tensor(models, device=stack.device)

    def some(value: Any) -> Any:
        """Select the entries that belong to `models`. `value` is a tensor with one entry per model, or holds such tensors.
        Anything else is returned unchanged.
        """
        if isinstance(value, Tensor):
            return value[index] if value.dim() and value.shape[0] == len(stack.models) else value
        if isinstance(value, tuple):
            return tuple(value[model] for model in models)
        if isinstance(value, dict):
            return {name: some(item) for name, item in value.items()}
        return replace(value, **some(vars(value))) if isinstance(value, Inputs | StackTargets) else value

    return replace(stack, **some({**vars(stack), "layout": stack.layout.take(models)}))


def _milestones(plan: Training) -> list[int]:
    """Return the steps after which models are measured: the steps of the training curve and the last step.

    If `plan.tail` is not 0, some of the last `plan.tail` steps are added. The mean of all accuracies that are measured during the
    last `plan.tail` steps becomes `accuracy_tail`.
    """
    points = set(range(plan.record_interval, plan.steps, plan.record_interval)) | {plan.steps}
    if plan.tail:
        start = max(plan.steps - plan.tail, 0)
        points |= {int(point) for point in np.linspace(start, plan.steps, TAIL_SAMPLES + 1)[1:]}
    return sorted(points - {0})
