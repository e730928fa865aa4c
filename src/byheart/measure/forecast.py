"""What a sweep will cost, before it starts: runs, stacks, memory, time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from byheart.measure.devices import BEST_STACK, choose_device, device_name, free_bytes
from byheart.measure.records import Run
from byheart.measure.specification import Specification
from byheart.measure.stack_plan import pack, stack_of
from byheart.measure.steppers import make_stepper
from byheart.measure.store import Store

PROBE_MODELS = {"cpu": 4, "cuda": 256}


@dataclass(frozen=True)
class Forecast:
    """Numbers of runs and stacks, expected memory of the largest stack, and an upper estimate of the time.

    The time is measured on three steps of one stack per group and assumes that no model passes early; it excludes tuning and
    search, whose number of runs depends on what they find, except for the ceilings given here.
    """

    n_runs: int
    n_stored: int
    n_stacks: int
    largest_stack_bytes: int
    available_bytes: int
    seconds: float
    device: str
    n_search_runs: int | None
    n_tuning_runs: int | None


def forecast(
    specification: Specification, store: Store | None, *, device: str = "auto", most: int | None = None
) -> Forecast:
    """An estimate from a few steps of every stack."""
    chosen = choose_device(device)
    runs = specification.runs
    stored = store.stored_keys(run.key for run in runs) if store is not None else set()
    pending = [run for run in runs if run.key not in stored]
    batches = pack(
        pending,
        memory=free_bytes(chosen),
        most=most or specification.budget.max_stack or BEST_STACK[chosen.type],
        device=chosen,
    )
    per_probe = PROBE_MODELS[chosen.type]
    seconds = sum(
        seconds_per_run(batch.runs[-per_probe:], chosen, n_models=per_probe) * len(batch.runs)
        for batch in batches
    )
    search, tuning = specification.search, specification.tuning
    levels = None
    if search is not None:
        span = search.high - search.low
        levels = (2 + span.bit_length()) * len(specification.points) * len(specification.seeds)
    return Forecast(
        n_runs=len(runs),
        n_stored=len(stored),
        n_stacks=len(batches),
        largest_stack_bytes=max((batch.n_bytes for batch in batches), default=0),
        available_bytes=free_bytes(chosen),
        seconds=seconds,
        device=device_name(chosen),
        n_search_runs=levels,
        n_tuning_runs=None if tuning is None else tuning.trials * len(runs),
    )


def seconds_per_run(runs: Sequence[Run], device: torch.device, *, n_models: int) -> float:
    """Time one of these runs takes in a stack of `n_models`, from a few steps of the first of them."""
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
