"""What the constructions take, as estimates: planned for the data themselves where they are few, else from their shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from byheart.bounds.bound import Estimate, NotApplicable
from byheart.construct.registry import Method, get, names
from byheart.data.dataset import Dataset
from byheart.data.shape import DataShape
from byheart.errors import ByheartError, UsageError
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision

MOST_PLANNED = 300
"""Data of more labels are not planned for: their estimate is that of random data of their shape."""


def require_offer(method: Method, task: str, precision: Precision | None) -> None:
    """Refuse a task or a precision that the construction does not have."""
    if task not in method.tasks:
        raise UsageError(f"it offers {', '.join(method.tasks)}, and the task is {task}.")
    if precision is not None and precision not in method.precisions:
        raise UsageError(f"it builds {', '.join(method.precisions)} weights, and {precision} is asked for.")


def size_on(
    method: Method,
    data: Dataset,
    precision: Precision | None = None,
    options: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Size:
    """The size that `compile` would build for these data, options and seed, without emitting the network."""
    require_offer(method, data.task, precision)
    chosen = method.read_options(options or {}, precision or method.precisions[0])
    return method.plan(data, chosen, np.random.default_rng(seed), None).size


def estimates_for_data(
    data: Dataset, methods: Sequence[str] | None = None, seed: int = 0
) -> Iterator[Estimate | NotApplicable]:
    """What every construction takes on `data`, in the precision it offers first; exactly, where there are few labels."""
    if data.n_labels > MOST_PLANNED:
        return estimates_for_shape(DataShape.of(data), methods)
    return _estimates(methods, lambda method: size_on(method, data, seed=seed), is_planned=True)


def estimates_for_shape(
    shape: DataShape, methods: Sequence[str] | None = None
) -> Iterator[Estimate | NotApplicable]:
    """What every construction would probably take on data of this shape, in the precision it offers first."""

    def size(method: Method) -> Size:
        require_offer(method, shape.task, None)
        return method.estimate(shape, precision=method.precisions[0])

    return _estimates(methods, size, is_planned=False)


def _estimates(
    methods: Sequence[str] | None, size_of: Callable[[Method], Size], is_planned: bool
) -> Iterator[Estimate | NotApplicable]:
    for method in map(get, names() if methods is None else methods):
        try:
            size = size_of(method)
        except ByheartError as refusal:
            yield NotApplicable(method.name, "", str(refusal))
        else:
            counts = int(size.parameters_dense), int(size.stored_bits)
            yield Estimate(method.name, method.precisions[0], *counts, is_planned)
