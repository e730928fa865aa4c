"""The registry of constructions: what each one takes, how large it gets, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module

import numpy as np

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.construct.tally import Tally
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
    n_folds, n_segments, n_buckets
                   the parts of Park et al. (2021): folds, overlaid segments, words
    n_fields       fields of a word (Park et al. 2021; KS25 Theorem F.1, where it is the most a word may have)
    precision      the kind of weights; what the construction offers first if None
    n_projections, reject_bits, word_bits
                   of retrieval: projections that real vectors are quantised in, bits that turn strangers away, longest number
    numbers        the numbers of the data that become weights, by kind: how many are not zero, and their bits. Each kind is
                   named by the construction that writes it, which also knows how often a number is written.
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
    precision: Precision | None = None
    n_projections: int | None = None
    reject_bits: int = 0
    word_bits: int | None = None
    numbers: Mapping[str, Tally] | None = None


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
