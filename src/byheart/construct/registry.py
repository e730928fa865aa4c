"""The registry of constructions: what each one takes, how large it gets, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.data.dataset import Dataset, Task
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.architecture import Precision
from byheart.network.counting import Size
from byheart.network.memory import Memory, Progress


@dataclass(frozen=True)
class Assumption:
    """One hypothesis of a theorem, as found on this data."""

    statement: str
    holds: bool
    detail: str


@dataclass(frozen=True, eq=False)
class Construction:
    """Data compiled to weights, with what was assumed and what was chosen on the way."""

    memory: Memory
    method: str
    theorem: str
    assumptions: tuple[Assumption, ...]
    theorem_size: TheoremSize | None
    notes: Mapping[str, object] = field(default_factory=dict)
    statistics: Statistics | None = None  # those `size_of` gives the built size for


@dataclass(frozen=True)
class Statistics:
    """What the size of a construction depends on. Numbers that only a look at the data can tell may be None.

    n_contexts     distinct labelled contexts, at most n_samples
    n_words        words whose counts tell the sequences apart (KS25 Lemma B.1)
    token_bits     bits of the largest projected token (KS25 Lemma C.2)
    weighting_bits bits of the largest word weight (KS25 Lemma B.2)
    context_bits   bits of the largest projected context
    n_folds, n_segments, n_buckets, n_fields
                   the parts of Park et al. (2021): folds, overlaid segments, words, and fields of a word
    """

    n_samples: int
    seq_len: int
    n_classes: int
    dim: int | None = None
    vocab: int | None = None
    ordered: bool = False
    ragged: bool = False
    n_contexts: int | None = None
    n_words: int | None = None
    token_bits: int | None = None
    weighting_bits: int | None = None
    context_bits: int | None = None
    task: Task = "next-token"
    n_folds: int | None = None
    n_segments: int | None = None
    n_buckets: int | None = None
    n_fields: int | None = None


Build = Callable[[Dataset, Mapping[str, object], np.random.Generator, Progress | None], Construction]
"""(data, options, rng, progress). A method that offers several precisions finds the one asked for in options["precision"]."""


@dataclass(frozen=True)
class Method:
    """A construction by name."""

    name: str
    source: str
    tasks: tuple[Task, ...]
    precisions: tuple[Precision, ...]
    size_of: Callable[[Statistics], Size]
    build: Build


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
    "two-layer-relu": "byheart.construct.two_layer_relu",
    "vardi-2022": "byheart.construct.vardi_2022",
    "park-2021": "byheart.construct.park_2021",
    "kim-2023": "byheart.construct.kim_2023",
    "kajitsuka-sato-2023": "byheart.construct.kajitsuka_sato_2023",
    "retrieval": "byheart.construct.retrieval",
    "madden-2024": "byheart.construct.madden_2024",
    "madden-2024-averaging": "byheart.construct.madden_2024.averaging",
    "dana-2024": "byheart.construct.dana_2024",
    "mahdavi-2023": "byheart.construct.mahdavi_2023",
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


def choose(name: str, task: Task, precision: Precision, statistics: Statistics) -> Method:
    """The method `name`, or for "auto" the smallest that offers the task and the precision."""
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
            sizes[method.name] = method.size_of(statistics).parameters_dense
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
    return min((method for method in fitting if method.name in sizes), key=lambda method: sizes[method.name])


def statistics_of(data: Dataset) -> Statistics:
    """What is known about `data` before building."""
    lengths = getattr(data.inputs, "lengths", None)
    ragged = lengths is not None and len(lengths) > 0 and int(lengths.min()) != int(lengths.max())
    return Statistics(
        data.n_samples,
        data.seq_len,
        data.n_classes,
        data.dim,
        data.vocab,
        data.ordered,
        ragged,
        task=data.task,
    )
