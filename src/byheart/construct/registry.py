"""The registry of constructions: the data that each accepts, its estimated size, and how it is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from byheart.data.dataset import Dataset, Task
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError, did_you_mean
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.process.memory_limit import require_memory
from byheart.process.package_loading import imports_told
from byheart.process.progress import Progress, part_of
from byheart.program.construction import Construction, Plan
from byheart.records.reader import read_values

Result = TypeVar("Result")
LOADING, N_MODULES = 0.25, 1100
"""Estimates for the progress display: the share of planning time that importing torch and numba takes, and the number of modules
that they load."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a construction that has none."""


@dataclass(frozen=True)
class Example:
    """Small data and options that a construction accepts, for the contract tests."""

    data: Dataset
    options: Mapping[str, object] = field(default_factory=dict)


ESTIMATED = {"n_samples": 10**18, "seq_len": 2**24, "n_classes": 2**62, "vocab": 2**40, "dim": 2**16}
"""For some properties of a data shape, the largest value for which sizes are estimated.

Parameters are counted in machine integers, which could overflow for larger values.
"""


@dataclass(frozen=True)
class Method:
    """A construction, with its name and everything the registry knows about it.

    options     a frozen dataclass of its options, each with a default. If the construction supports several
                precisions, one of the options is `precision`.
    size_of     (shape, options) -> Size: the estimated size for data of that shape. It uses only the shape and takes less than a
                second for 10^12 samples. Raises `AssumptionViolated` if the construction accepts no data of that shape.
    plan        (data, options, rng, progress) -> Plan: all decisions for these data, before the network is built. The plan's
                size is exactly that of the network. Raises `AssumptionViolated` if the construction does not accept the data.
    example     small data and options that the construction accepts
    usual       precision -> the options to try, the best first, if the caller gives none of them
    page        the page of the documentation that describes it
    verifying   approximate share of the time of `compile` that is spent on checking every sample
    statements  ids of the statements it realises (see `byheart theorems`)
    """

    name: str
    source: str
    tasks: tuple[Task, ...]
    precisions: tuple[Precision, ...]
    size_of: Callable[[DataShape, Any], Size]
    plan: Callable[[Dataset, Any, np.random.Generator, Progress | None], Plan]
    options: type = NoOptions
    example: Callable[[], Example] | None = None
    page: str | None = None
    statements: tuple[str, ...] = ()
    verifying: float = 0.5
    usual: Callable[[Precision], tuple[Mapping[str, object], ...]] = lambda precision: ({},)

    def usual_options(
        self, given: Mapping[str, object], precision: Precision
    ) -> tuple[dict[str, object], ...]:
        """Return the sets of options to try, the best first.

        If `given` sets one of the construction's usual options, only `given` is tried. Otherwise, each set of usual options is
        tried together with `given`.
        """
        choices = self.usual(precision)
        if any(name in given for choice in choices for name in choice):
            return (dict(given),)
        return tuple({**choice, **given} for choice in choices)

    def first_that_fits(
        self,
        attempt: Callable[[dict[str, object]], Result],
        precision: Precision,
        given: Mapping[str, object] | None = None,
    ) -> tuple[Result, dict[str, object]]:
        """Call `attempt` with each set of `usual_options` in turn until it does not raise `AssumptionViolated`. Return its result
        and those options. If every call raises this error, raise the last one.
        """
        *others, last = self.usual_options(given or {}, precision)
        for options in others:
            with suppress(AssumptionViolated):
                return attempt(options), options
        return attempt(last), last

    def fitting_options(
        self, shape: DataShape, precision: Precision, given: Mapping[str, object]
    ) -> dict[str, object]:
        """Try the sets of options that `usual_options` returns, in this order. Return the first with which the construction
        accepts data of this shape. Raises `AssumptionViolated` if there is none.
        """
        _, options = self.first_that_fits(
            lambda each: self.estimate(shape, each, precision), precision, given
        )
        return options

    def read_options(self, given: Mapping[str, object], precision: Precision | None = None) -> Any:
        """Convert the options `given` to the construction's own dataclass. Raises `UsageError` if an option is wrong.

        If the construction has an option `precision` and the argument `precision` is not None, the argument replaces the value in
        `given`.
        """
        chosen = dict(given)
        for name, value in chosen.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{self.name}: {name} is {value}; it must be a finite number.", option=name)
        if precision is not None and any(each.name == "precision" for each in fields(self.options)):
            chosen["precision"] = precision
        return read_values(chosen, self.options, self.name, noun="option")

    def estimate(
        self, shape: DataShape, given: Mapping[str, object] | None = None, precision: Precision | None = None
    ) -> Size:
        """Return the estimated size for data of this shape with the options `given`. Raises
        `AssumptionViolated` if a number of the shape is larger than its limit in `ESTIMATED`, or if the construction
        accepts no data of this shape.
        """
        for name, most in ESTIMATED.items():
            if (getattr(shape, name) or 0) > most:
                raise AssumptionViolated(
                    f"{name} is {getattr(shape, name):,}, but sizes are estimated only up to {name} = {most:,}.",
                    name=name,
                    most=most,
                )
        return self.size_of(shape, self.read_options(given or {}, precision))

    def require_memory(self, shape: DataShape, options: Any) -> None:
        """Raise `OverMemoryLimit` if, by the estimated size, the weights take more memory than the limit (`memory_limit`).

        Constructions that support the precision `exact` are not checked, because exact weights are stored as sparse matrices.
        """
        if "exact" not in self.precisions:
            with suppress(AssumptionViolated):  # `plan` reports this error with more detail
                require_memory(
                    f"{self.name} with these sizes", 8 * self.size_of(shape, options).parameters_dense
                )

    def build(
        self,
        data: Dataset,
        given: Mapping[str, object],
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> Construction:
        """Plan `data` with the options `given`, and build the network."""
        return self.plan(data, self.read_options(given), rng, progress).emit(progress)


def deferred_plan(module: str, function: str = "plan", **fixed: object) -> Callable[..., Plan]:
    """Return a `plan` that imports `function` of `module` only when it is called, so that estimating a size does not import
    torch."""

    def plan(data: Dataset, options: Any, rng: np.random.Generator, progress: Progress | None) -> Plan:
        with imports_told(progress and part_of(progress, 0.0, LOADING), N_MODULES):
            make = getattr(import_module(module), function)
        found: Plan = make(data, options, rng, progress and part_of(progress, LOADING, 1.0), **fixed)
        return found

    return plan


_MODULES = {
    "kajitsuka-sato-2025": "byheart.construct.kajitsuka_sato_2025.theorem",
    "kajitsuka-sato-2025-bits": "byheart.construct.kajitsuka_sato_2025.limited_bits",
    "kajitsuka-sato-2025-sparse": "byheart.construct.kajitsuka_sato_2025.sparse",
    "two-layer-relu": "byheart.construct.two_layer_relu.theorem",
    "vardi-2022": "byheart.construct.vardi_2022.theorem",
    "park-2021": "byheart.construct.park_2021.theorem",
    "kim-2023": "byheart.construct.kim_2023.theorem",
    "kajitsuka-sato-2023": "byheart.construct.kajitsuka_sato_2023.theorem",
    "retrieval": "byheart.construct.retrieval",
    "madden-2024": "byheart.construct.madden_2024",
    "madden-2024-averaging": "byheart.construct.madden_2024.token_averaging",
    "dana-2024": "byheart.construct.dana_2024.size",
    "mahdavi-2023": "byheart.construct.mahdavi_2023.theorem",
    "linear-memory": "byheart.construct.linear_memory.theorem",
    "attention-as-mlp": "byheart.construct.attention_as_mlp.theorem",
    "llama": "byheart.construct.llama",
}
"""The module that defines the `METHOD` of each construction."""


def names() -> tuple[str, ...]:
    return tuple(_MODULES)


def get(name: str) -> Method:
    """Return the construction called `name`. Its module is imported at this point."""
    if name not in _MODULES:
        raise UsageError(
            f"there is no method `{name}`.{did_you_mean(name, ['auto', *_MODULES])}\n"
            f"  Choose one of: auto, {', '.join(_MODULES)}.",
            method=name,
        )
    method = import_module(_MODULES[name]).METHOD
    assert isinstance(method, Method)
    return method


def candidates(
    name: str, precision: Precision, shape: DataShape, options: Mapping[str, object] | None = None
) -> tuple[Method, ...]:
    """Return the method `name` if it supports this task and precision. For "auto", return all methods that accept data of this
    shape with this precision and these options, the one with the smallest estimated size first. Raises `UsageError` if there is
    none.
    """
    methods = [get(each) for each in (names() if name == "auto" else (name,))]
    fitting = [method for method in methods if shape.task in method.tasks and precision in method.precisions]
    if not fitting:
        offers = "\n".join(
            f"    {method.name}: tasks {', '.join(method.tasks)}; precision {', '.join(method.precisions)}"
            for method in methods
        )
        raise UsageError(
            f"{'no construction supports' if name == 'auto' else f'{name} does not support'} task `{shape.task}` "
            f"with precision `{precision}`. Available:\n{offers}",
            task=shape.task,
            precision=precision,
        )
    if name != "auto":
        return tuple(fitting)  # planning the data shows whether the method accepts them
    sizes = {}
    for method in fitting:
        try:
            sizes[method.name] = method.estimate(shape, options, precision).parameters_dense
        except (AssumptionViolated, UsageError):  # the method does not accept these data or options
            continue
    if not sizes:
        raise UsageError(
            f"no construction for task `{shape.task}` and precision `{precision}` accepts this data set"
            f"{' with these options' if options else ''}; tried {', '.join(method.name for method in fitting)}.",
            task=shape.task,
            precision=precision,
        )
    taking = (method for method in fitting if method.name in sizes)
    return tuple(sorted(taking, key=lambda method: sizes[method.name]))
