"""Estimate the cost of runs before they start: memory, time, and the number of stacks (groups of runs that train together).

Sweeps and the papers' figures use the same estimate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from byheart.measure.model_memory import BEST_STACK
from byheart.measure.records import Run
from byheart.measure.specification import Specification
from byheart.measure.stack_plan import pack, stack_of
from byheart.measure.steppers import make_stepper
from byheart.measure.store import Store
from byheart.process.devices import choose_device, device_name, free_bytes

PROBE_MODELS = {"cpu": 4, "cuda": 256}
MOST_PROBE_BYTES = 1 << 30  # larger models are not timed, because this alone would take minutes


@dataclass(frozen=True)
class Forecast:
    """The expected cost of a specification: runs, stacks (groups of runs that train together), memory and time.

    The time is an upper estimate: it is computed from a few timed steps of every stack, as if no model stopped early. It
    leaves out `n_untimed` runs, which are too large to time on this machine.

    Each step of a search or tuning depends on earlier results, so its runs cannot be listed in advance. `n_search_runs` and
    `n_tuning_runs` are therefore upper limits, and stored runs are not subtracted from them. The time and memory of every run of
    a search are estimated for the largest value of the searched field.
    """

    n_runs: int
    n_stored: int
    n_stacks: int
    n_untimed: int
    largest_stack_bytes: int
    available_bytes: int
    seconds: float
    device: str
    n_search_runs: int | None
    n_tuning_runs: int | None


@dataclass(frozen=True)
class Cost:
    """The cost of some runs. `n_runs` counts all of them, and `n_stored` those that are in the store and cost nothing.

    `n_stacks` counts the stacks (groups of runs that train together). `n_untimed` counts runs that are too large to time on this
    machine, and `seconds` leaves them out.
    """

    n_runs: int
    n_stored: int
    n_stacks: int
    n_untimed: int
    largest_stack_bytes: int
    seconds: float


def cost_of(
    runs: Sequence[Run],
    store: Store | None,
    device: torch.device,
    *,
    most: int | None = None,
    overhead: int | None = None,
) -> Cost:
    """Estimate the cost of the runs that are not in `store`. Time a few steps of every stack, but not of stacks of large models.

    A stack is a group of at most `most` runs that train together. `overhead` is the fixed cost of a stack (see `stack_plan.pack`).
    """
    stored = store.stored_keys(run.key for run in runs) if store is not None else set()
    batches = pack(
        [run for run in runs if run.key not in stored],
        memory=free_bytes(device),
        most=most or BEST_STACK[device.type],
        device=device,
        overhead=overhead,
    )
    per_probe = PROBE_MODELS[device.type]
    timed = [batch for batch in batches if batch.n_bytes <= MOST_PROBE_BYTES * len(batch.runs)]
    seconds = sum(
        seconds_per_run(batch.runs[-per_probe:], device, n_models=per_probe) * len(batch.runs)
        for batch in timed
    )
    return Cost(
        n_runs=len(runs),
        n_stored=len(stored),
        n_stacks=len(batches),
        n_untimed=sum(len(batch.runs) for batch in batches) - sum(len(batch.runs) for batch in timed),
        largest_stack_bytes=max((batch.n_bytes for batch in batches), default=0),
        seconds=seconds,
    )


def forecast(
    specification: Specification, store: Store | None, *, device: str = "auto", most: int | None = None
) -> Forecast:
    """Estimate the cost of the runs of a specification. For search and tuning, the numbers of runs are upper limits."""
    chosen = choose_device(device)
    search, tuning = specification.search, specification.tuning
    cost = cost_of(
        specification.runs,
        store if search is None and tuning is None else None,
        chosen,
        most=most or specification.budget.max_stack,
    )
    per_search = 1 if search is None else 2 + (search.high - search.low - 1).bit_length()
    n_trials = 1 if tuning is None else tuning.trials
    n_searched = per_search * cost.n_runs
    return Forecast(
        n_runs=cost.n_runs,
        n_stored=cost.n_stored,
        n_stacks=cost.n_stacks,
        n_untimed=cost.n_untimed,
        largest_stack_bytes=cost.largest_stack_bytes,
        available_bytes=free_bytes(chosen),
        seconds=cost.seconds * per_search * n_trials,
        device=device_name(chosen),
        n_search_runs=None if search is None else n_searched,
        n_tuning_runs=None if tuning is None else n_trials * n_searched,
    )


def seconds_per_run(runs: Sequence[Run], device: torch.device, *, n_models: int) -> float:
    """Time a few steps, and return the seconds per run if the first `n_models` of these runs train together in one stack."""
    chosen = list(runs[:n_models])
    stack = stack_of(chosen, device)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        stepper = make_stepper(stack, [run.training for run in chosen], "eager")
        stepper.run(1)
        start = time.perf_counter()
        stepper.run(2)
        if device.type == "cuda":
            torch.cuda.synchronize()
        step = (time.perf_counter() - start) / 2
    finally:
        torch.set_num_threads(before)
    return step * chosen[0].training.steps / len(chosen)
