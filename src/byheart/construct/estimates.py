"""What the constructions take, as estimates: planned for the data themselves where they are few, else from their shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    shape = DataShape.of(data)
    if data.n_labels > MOST_PLANNED:
        yield from estimates_for_shape(shape, methods)
        return
    for name in names() if methods is None else methods:
        method = get(name)
        try:
            size = size_on(method, data, seed=seed)
        except ByheartError as refusal:
            yield NotApplicable(name, "", str(refusal))
        else:
            yield _estimate(method, size, is_planned=True)


def estimates_for_shape(
    shape: DataShape, methods: Sequence[str] | None = None
) -> Iterator[Estimate | NotApplicable]:
    """What every construction would probably take on data of this shape, in the precision it offers first."""
    for name in names() if methods is None else methods:
        method = get(name)
        try:
            require_offer(method, shape.task, None)
            size = method.estimate(shape, precision=method.precisions[0])
        except ByheartError as refusal:
            yield NotApplicable(name, "", str(refusal))
        else:
            yield _estimate(method, size, is_planned=False)


def _estimate(method: Method, size: Size, is_planned: bool) -> Estimate:
    return Estimate(
        method.name, method.precisions[0], int(size.parameters_dense), int(size.total_bits), is_planned
    )
