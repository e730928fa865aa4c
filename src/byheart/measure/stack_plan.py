"""Group runs into stacks. The runs of a stack can train together, have similar sizes, and fit into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch

from byheart.measure.families import family_of
from byheart.measure.model_memory import DTYPES, bytes_per_model
from byheart.measure.parameter_block import ParameterBlock
from byheart.measure.records import Record, Run, versions
from byheart.measure.sources import training_set_of
from byheart.measure.stack import Stack, make_stack
from byheart.measure.trainer import Outcome
from byheart.process.devices import device_name

# The fixed cost of a step, in parameters: with fewer parameters in a stack, starting operations takes most of the time.
OVERHEAD = {"cpu": 20_000, "cuda": 2_000_000}


@dataclass(frozen=True)
class Batch:
    """Runs that train as one stack, and the memory that they are expected to take."""

    runs: tuple[Run, ...]
    n_bytes: int


def pack(
    runs: Sequence[Run],
    *,
    memory: int,
    most: int,
    device: torch.device | None = None,
    measure: Callable[[Run], int] | None = None,
    overhead: int | None = None,
) -> list[Batch]:
    """Divide runs into stacks (runs that train together) of at most `memory` bytes and `most` models.

    Models are padded to the size of the largest in their stack, so models of similar size are grouped. The grouping minimises the
    number of parameters, including padding, plus `overhead` for every stack.

    `overhead` is the fixed cost of a stack, in parameters. Pass it if the device's default is far from the real cost, as for deep
    models with large frozen tables: their steps consist of many operations on few trained weights.

    `measure` returns the number of bytes that a run takes; the default is `bytes_per_model`. A run that needs more than `memory` by
    itself gets its own stack, so that no other run is affected if its training fails.
    """
    measure = measure or (
        lambda run: bytes_per_model(run.model, training_set_of(run.data), run.training, device)
    )
    overhead = OVERHEAD["cpu" if device is None else device.type] if overhead is None else overhead
    groups: dict[tuple[object, ...], dict[tuple[tuple[str, tuple[int, ...]], ...], list[Run]]] = {}
    n_rows: dict[str, int] = {}
    for run in runs:
        n_rows[run.key] = training_set_of(run.data).n_rows
        groups.setdefault(_group(run), {}).setdefault(tuple(_shapes(run).items()), []).append(run)
    batches = []
    for (name, *_), group in groups.items():
        n_together = most if family_of(str(name)).is_stacked else 1
        kinds = sorted(group.items(), key=lambda kind: sum(math.prod(shape) for _, shape in kind[0]))
        for segment in _segments(
            [dict(shapes) for shapes, _ in kinds], [len(same) for _, same in kinds], n_together, overhead
        ):
            members = [run for _, same in kinds[segment] for run in same]
            # all models are padded to about the size of the largest, and all training sets to the length of the longest
            largest = kinds[segment][-1][1][0]
            longest = max([largest, *members], key=lambda run: n_rows[run.key])
            heavy = {run.key: run for run in (largest, replace(largest, data=longest.data))}
            heaviest = max(1, *map(measure, heavy.values()))
            size = max(1, min(n_together, memory // heaviest))
            for start in range(0, len(members), size):
                chosen = tuple(members[start : start + size])
                batches.append(Batch(chosen, heaviest * len(chosen)))
    return batches


def stack_of(runs: Sequence[Run], device: torch.device) -> Stack:
    """Return a stack of the runs, each with its own training set and seed, in the number type of their training."""
    return make_stack(
        [run.model for run in runs],
        [training_set_of(run.data) for run in runs],
        [run.seed for run in runs],
        device=device,
        dtype=DTYPES[runs[0].training.dtype],
    )


def record_of(run: Run, outcome: Outcome, device: torch.device) -> Record:
    """Return the record of a run that has just ended on `device`."""
    found = {name: value for name, value in vars(outcome).items() if name != "weights"}
    return Record(
        key=run.key,
        config=run.config,
        n_samples=training_set_of(run.data).n_samples,
        device=device_name(device),
        versions=versions(),
        created=datetime.now(UTC).isoformat(),
        **found,
    )


def _segments(
    shapes: list[dict[str, tuple[int, ...]]], counts: list[int], most: int, overhead: int
) -> list[slice]:
    """Split a list of model sizes (`shapes`, sorted) into groups of neighbours. Return a slice of the list for each group.

    The split minimises the cost: the number of parameters, including padding, plus `overhead` for every stack. The models of a
    group train in one or more stacks of at most `most` models. `counts` holds the number of models of each size.
    """
    best = [(0.0, 0)]  # entry k is for the first k sizes: their cost, and where their last group begins
    for end in range(1, len(shapes) + 1):
        widest: dict[str, tuple[int, ...]] = shapes[end - 1]
        n_models, choices = 0, []
        for start in range(end - 1, -1, -1):
            padded = ParameterBlock.of([shapes[start], widest])
            widest = dict(zip(padded.names, padded.shapes, strict=True))
            n_models += counts[start]
            cost = n_models * padded.n_flat + math.ceil(n_models / most) * overhead
            choices.append((best[start][0] + cost, start))
        best.append(min(choices))
    segments, end = [], len(shapes)
    while end > 0:
        start = best[end][1]
        segments.append(slice(start, end))
        end = start
    return segments[::-1]


def _group(run: Run) -> tuple[object, ...]:
    training_set = training_set_of(run.data)
    options = tuple(sorted(run.model.options.items()))
    ends = (training_set.loss, training_set.read, training_set.n_vocab > 0, training_set.seq_len)
    return (run.model.family, options, tuple(_shapes(run)), run.training.stack_key, ends)


def _shapes(run: Run) -> dict[str, tuple[int, ...]]:
    family = family_of(run.model.family)
    return dict(family.shapes(run.model, training_set_of(run.data)))
