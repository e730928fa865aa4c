"""Estimated sizes of all constructions.

For a small data set, the construction makes its plan, which gives the exact size. For a larger data set, the size is estimated from
its shape.
"""

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
"""If a data set has at most this many labels, the sizes of its models are computed exactly. For more labels, they are estimated
as for random data of the same shape.
"""


def require_offer(method: Method, task: str, precision: Precision | None) -> None:
    """Raise `UsageError` if the construction does not support the task or the precision."""
    if task not in method.tasks:
        raise UsageError(
            f"the method supports {', '.join(method.tasks)}, but the task is {task}.",
            tasks=method.tasks,
            task=task,
        )
    if precision is not None and precision not in method.precisions:
        raise UsageError(
            f"the method builds {', '.join(method.precisions)} weights, but {precision} was requested.",
            precisions=method.precisions,
            precision=precision,
        )


def size_on(
    method: Method,
    data: Dataset,
    precision: Precision | None = None,
    options: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Size:
    """Return the size that a construction would have for these data, options and seed. This makes its plan, for which some
    constructions already compute the weights.
    """
    require_offer(method, data.task, precision)
    chosen = method.read_options(options or {}, precision or method.precisions[0])
    return method.plan(data, chosen, np.random.default_rng(seed), None).size


def usual_estimate(
    method: Method, shape: DataShape, precision: Precision | None = None
) -> tuple[Size, dict[str, object]]:
    """Return the estimated size of the network that `compile --method` would build for data of this shape, and the options that
    this command would choose.
    """
    chosen = precision or method.precisions[0]
    return method.first_that_fits(lambda options: method.estimate(shape, options, precision=chosen), chosen)


def estimates_for_data(
    data: Dataset, methods: Sequence[str] | None = None, seed: int = 0
) -> Iterator[Estimate | NotApplicable]:
    """Yield the size of every construction on `data`, in the first precision that the construction supports.

    Sizes are exact if there are at most `MOST_PLANNED` labels. For a construction that does not accept the data, yield the reason.
    """
    if data.n_labels > MOST_PLANNED:
        return estimates_for_shape(DataShape.of(data), methods)

    def size(method: Method) -> tuple[Size, dict[str, object]]:
        def planned(options: dict[str, object]) -> Size:
            return size_on(method, data, options=options, seed=seed)

        return method.first_that_fits(planned, method.precisions[0])

    return _estimates(methods, size, is_planned=True)


def estimates_for_shape(
    shape: DataShape, methods: Sequence[str] | None = None
) -> Iterator[Estimate | NotApplicable]:
    """Yield the estimated size of every construction on data of this shape, in the first precision that the construction
    supports.
    """

    def size(method: Method) -> tuple[Size, dict[str, object]]:
        require_offer(method, shape.task, None)
        return usual_estimate(method, shape)

    return _estimates(methods, size, is_planned=False)


def estimates_for_plan(shape: DataShape) -> Iterator[Estimate | NotApplicable]:
    """Yield the estimates of `estimates_for_shape`. For a construction that can choose between several sets of options, also
    yield an estimate with the last set that it would try, if the first estimate is for another set.

    The last set of options of `retrieval` has no reject bits (bits that recognise unknown inputs), so the second estimate of
    `retrieval` is its smallest size.
    """
    for found in estimates_for_shape(shape):
        yield found
        method = get(found.name)
        plainest = method.usual(method.precisions[0])[-1]
        if isinstance(found, Estimate) and found.options != plainest:
            size = method.estimate(shape, plainest)
            counts = int(size.parameters_dense), int(size.stored_bits)
            yield Estimate(method.name, method.precisions[0], *counts, is_planned=False, options=plainest)


def _estimates(
    methods: Sequence[str] | None,
    size_of: Callable[[Method], tuple[Size, dict[str, object]]],
    is_planned: bool,
) -> Iterator[Estimate | NotApplicable]:
    for method in map(get, names() if methods is None else methods):
        try:
            size, options = size_of(method)
        except ByheartError as refusal:
            yield NotApplicable(method.name, "", str(refusal))
        else:
            counts = int(size.parameters_dense), int(size.stored_bits)
            yield Estimate(method.name, method.precisions[0], *counts, is_planned, options)
