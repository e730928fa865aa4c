"""The registry of constructions: what each one takes, how large it gets, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np

from byheart.data.dataset import Dataset, Task
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.memory import Progress
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.program.construction import Construction, Statistics

Build = Callable[[Dataset, Mapping[str, object], np.random.Generator, Progress | None], Construction]
"""(data, options, rng, progress). A method that offers several precisions finds the one asked for in options["precision"]."""


@dataclass(frozen=True)
class Method:
    """A construction by name.

    size_of  the size without building. Of the statistics that a construction reports (`Construction.statistics`), exactly
             the size it has; of those known before the data are seen, what random data of that shape would have.
    """

    name: str
    source: str
    tasks: tuple[Task, ...]
    precisions: tuple[Precision, ...]
    size_of: Callable[[Statistics], Size]
    build: Build


def require_known(method: str, options: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse options that `method` does not have."""
    known = sorted(known)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"{method} has no option {', '.join(unknown)}; it has {', '.join(known)}.")


def deferred(module: str, function: str = "memorise", **fixed: object) -> Build:
    """A `Build` that imports `function` of `module` when it is called, so that a size costs no import of torch."""

    def build(
        data: Dataset, options: Mapping[str, object], rng: np.random.Generator, progress: Progress | None
    ) -> Construction:
        built = getattr(import_module(module), function)(
            data=data, options=options, rng=rng, progress=progress, **fixed
        )
        assert isinstance(built, Construction)
        return built

    return build


_MODULES = {
    "kajitsuka-sato-2025": "byheart.construct.kajitsuka_sato_2025",
    "kajitsuka-sato-2025-bits": "byheart.construct.kajitsuka_sato_2025.limited_bits",
    "kajitsuka-sato-2025-sparse": "byheart.construct.kajitsuka_sato_2025.sparse",
    "two-layer-relu": "byheart.construct.two_layer_relu.theorem",
    "vardi-2022": "byheart.construct.vardi_2022.theorem",
    "park-2021": "byheart.construct.park_2021",
    "kim-2023": "byheart.construct.kim_2023",
    "kajitsuka-sato-2023": "byheart.construct.kajitsuka_sato_2023",
    "retrieval": "byheart.construct.retrieval",
    "madden-2024": "byheart.construct.madden_2024",
    "madden-2024-averaging": "byheart.construct.madden_2024.token_averaging",
    "dana-2024": "byheart.construct.dana_2024",
    "mahdavi-2023": "byheart.construct.mahdavi_2023",
    "linear-memory": "byheart.construct.linear_memory",
    "attention-as-mlp": "byheart.construct.attention_as_mlp",
}


def names() -> tuple[str, ...]:
    """The names of all constructions."""
    return tuple(_MODULES)


def get(name: str) -> Method:
    """The construction called `name`; its module is imported only now."""
    if name not in _MODULES:
        raise UsageError(
            f"there is no method `{name}`.\n  Choose one of: auto, {', '.join(_MODULES)}.", method=name
        )
    method = import_module(_MODULES[name]).METHOD
    assert isinstance(method, Method)
    return method


def candidates(name: str, task: Task, precision: Precision, statistics: Statistics) -> tuple[Method, ...]:
    """The method `name` alone, or for "auto" all that offer the task and the precision, the smallest first."""
    methods = [get(each) for each in (names() if name == "auto" else (name,))]
    fitting = [method for method in methods if task in method.tasks and precision in method.precisions]
    if not fitting:
        offers = "\n".join(
            f"    {method.name}: tasks {', '.join(method.tasks)}; precision {', '.join(method.precisions)}"
            for method in methods
        )
        raise UsageError(
            f"no construction offers task `{task}` with precision `{precision}`"
            f"{'' if name == 'auto' else f' under the name `{name}`'}. What there is:\n{offers}",
            task=task,
            precision=precision,
        )
    sizes = {}
    for method in fitting:
        try:
            sizes[method.name] = method.size_of(replace(statistics, precision=precision)).parameters_dense
        except AssumptionViolated:  # made for other data, such as one vector per sample
            if name != "auto":
                raise
    if not sizes:
        raise UsageError(
            f"no construction of task `{task}` and precision `{precision}` takes these data; tried "
            f"{', '.join(method.name for method in fitting)}.",
            task=task,
            precision=precision,
        )
    taking = (method for method in fitting if method.name in sizes)
    return tuple(sorted(taking, key=lambda method: sizes[method.name]))
