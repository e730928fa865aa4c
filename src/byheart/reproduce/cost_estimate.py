"""Estimate how long the runs of figures take, by timing a few training steps of every group of models on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byheart.measure.forecast import cost_of
from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.process.devices import choose_device, device_name
from byheart.reproduce.figure import Scale
from byheart.reproduce.runner import stages_of


@dataclass(frozen=True)
class CostEstimate:
    """For a figure: how many runs it has, how many of them are already stored, and how many seconds the others take.

    Runs that were counted for an earlier figure are not counted again. `n_untimed` counts runs that are too large to time on
    this machine. `seconds` does not include them.
    """

    figure: str
    n_runs: int
    n_stored: int
    n_untimed: int
    seconds: float
    device: str


def estimates(
    names: Sequence[str],
    scale: Scale,
    samples: Samples | None,
    store: Store | None,
    *,
    device: str = "auto",
    on_figure: Callable[[str], None] = lambda name: None,
) -> list[CostEstimate]:
    """Return one estimate per figure. Runs that several figures share are counted only for the first of these figures."""
    chosen = choose_device(device)
    seen: set[str] = set()
    found = []
    for name in names:
        on_figure(name)
        costs = []
        for stage in stages_of([name], scale, samples):
            fresh = [run for run in stage.runs if run.key not in seen]
            seen |= {run.key for run in fresh}
            costs.append(
                cost_of(fresh, store, chosen, overhead=stage.overhead if chosen.type == "cuda" else None)
            )
        found.append(
            CostEstimate(
                name,
                sum(cost.n_runs for cost in costs),
                sum(cost.n_stored for cost in costs),
                sum(cost.n_untimed for cost in costs),
                sum(cost.seconds for cost in costs),
                device_name(chosen),
            )
        )
    return found
