"""The parts of a run's configuration that the training engine reads: the training options of a model, and the rule that decides
whether it passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

from byheart.errors import UsageError

Metric = Literal["loss", "gap", "relative_gap", "accuracy"]
LEAST = {"steps": 1, "warmup": 0, "batch": 0, "history": 1, "record_every": 0, "tail": 0}
SHARED = (
    "steps", "optimiser", "schedule", "batch", "reduction", "dtype", "history", "record_interval", "tail"
)  # fmt: skip
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True)
class PassRule:
    """A model passes if its `metric` is good enough: accuracy must be at least `threshold`, any other metric below `threshold`."""

    metric: Metric
    threshold: float

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise UsageError(
                f"no metric `{self.metric}`; a pass rule can use: {', '.join(METRICS)}.", metric=self.metric
            )
        if not math.isfinite(self.threshold):
            raise UsageError(
                f"the threshold of a pass rule must be a finite number; got {self.threshold}.",
                threshold=self.threshold,
            )

    def holds(self, measured: Mapping[str, float]) -> bool:
        """Return whether these measurements pass. NaN never passes."""
        value = measured[self.metric]
        return value >= self.threshold if self.metric == "accuracy" else value < self.threshold

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.metric == 'accuracy' else '<'} {self.threshold:g}"


@dataclass(frozen=True)
class Training:
    """The training options of one model. `batch` = 0 means that every step uses all samples."""

    steps: int
    learning_rate: float = 1e-3
    optimiser: Literal["adam", "adamw", "lbfgs"] = "adam"
    warmup: int = 0
    schedule: Literal["constant", "cosine"] = "constant"
    weight_decay: float = 0.0
    batch: int = 0
    reduction: Literal["mean", "sum"] = "mean"
    dtype: Literal["float32", "float64"] = "float32"
    history: int = 20  # number of pairs in the history of L-BFGS
    record_every: int = 0  # 0 means 100 to 200 points, or fewer if there are fewer steps
    tail: int = 0  # final steps over which `accuracy_tail` is averaged
    stop: PassRule | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value, allowed = getattr(self, name), get_args(hint)
            if get_origin(hint) is Literal and value not in allowed:
                raise UsageError(f"`{name}` must be one of {', '.join(allowed)}; got {value!r}.", name=name)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(
                    f"`{name}` must be a whole number of at least {least}; got {value!r}.", name=name
                )
        if not 0 < self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf:
            raise UsageError(
                f"`learning_rate` must be positive, `weight_decay` must be at least 0, and both must be finite;"
                f" got {self.learning_rate!r} and {self.weight_decay!r}.",
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
            )
        if self.weight_decay and self.optimiser != "adamw":
            raise UsageError(
                f"`weight_decay` needs the optimiser adamw; got {self.optimiser!r}.", optimiser=self.optimiser
            )
        if self.optimiser == "lbfgs" and self.batch:
            raise UsageError("L-BFGS needs all samples at every step: set batch = 0.")

    @property
    def stack_key(self) -> tuple[object, ...]:
        """Return the options that must be equal for all models that train together in one stack."""
        return tuple(getattr(self, name) for name in SHARED)

    @property
    def record_interval(self) -> int:
        """Number of steps between two points of the training curve."""
        return self.record_every or max(1, self.steps // 100)
