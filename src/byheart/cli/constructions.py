"""What the constructions say of their size for a problem, in the form the bounds take."""

from __future__ import annotations

from collections.abc import Callable

from byheart.bounds import Problem
from byheart.construct.registry import Method, get, names
from byheart.data.shape import DataShape
from byheart.errors import UsageError
from byheart.network.size import Size


def construction_sizes() -> dict[str, Callable[[Problem], Size]]:
    """For each construction a function from a problem to the size it would have, without building it."""
    return {name: _size_of(get(name)) for name in names()}


def _size_of(method: Method) -> Callable[[Problem], Size]:
    def size_of(problem: Problem) -> Size:
        if problem.task not in method.tasks:
            raise UsageError(f"it offers {', '.join(method.tasks)}, and the task is {problem.task}")
        return method.estimate(
            DataShape(
                n_samples=problem.n_samples,
                seq_len=problem.seq_len
                + (problem.task == "distribution"),  # of a problem, the longest context
                n_classes=problem.n_classes,
                dim=problem.dim,
                vocab=problem.vocab,
                ordered=problem.ordered,
                n_contexts=problem.n_contexts,
                task=problem.task,
            )
        )

    return size_of
