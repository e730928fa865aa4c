"""What figures will cost on this machine, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byheart.measure.devices import BEST_STACK, choose_device, device_name, free_bytes
from byheart.measure.forecast import PROBE_MODELS, seconds_per_run
from byheart.measure.stack_plan import pack
from byheart.measure.store import Store
from byheart.reproduce.figure import Scale
from byheart.reproduce.runner import group_stages, runs_of, stages_of
from byheart.reproduce.samples import Samples


@dataclass(frozen=True)
class CostEstimate:
    """Runs of a figure, those already stored, and an upper estimate of the time: no model is assumed to pass early."""

    figure: str
    n_runs: int
    n_stored: int
    n_stacks: int
    seconds: float
    device: str


def estimates(
    names: Sequence[str],
    scale: Scale,
    samples: Samples | None,
    store: Store | None,
    *,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> list[CostEstimate]:
    """One estimate per figure, from a few steps of every stack; runs shared with an earlier figure count once."""
    chosen = choose_device(device)
    seen: set[str] = set()
    found = []
    for done, name in enumerate(names):
        if progress is not None:
            progress("timing a few steps of every stack", done, len(names))
        n_runs = n_stored = n_stacks = 0
        seconds = 0.0
        for _, group in group_stages(stages_of([name], scale, samples)):
            runs = [run for run in runs_of(group) if run.key not in seen]
            stored = set() if store is None else store.stored(run.key for run in runs)
            pending = [run for run in runs if run.key not in stored]
            seen |= {run.key for run in runs}
            batches = pack(
                pending,
                memory=free_bytes(chosen),
                most=BEST_STACK[chosen.type],
                device=chosen,
                overhead=group[0].overhead if chosen.type == "cuda" else None,
            )
            n_runs, n_stored, n_stacks = n_runs + len(runs), n_stored + len(stored), n_stacks + len(batches)
            probe = PROBE_MODELS[chosen.type]
            seconds += sum(
                seconds_per_run(batch.runs[-probe:], chosen, n_models=probe) * len(batch.runs)
                for batch in batches
            )
        found.append(CostEstimate(name, n_runs, n_stored, n_stacks, seconds, device_name(chosen)))
    return found
