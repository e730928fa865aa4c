"""Define the observation, which is what a figure stores about a run, and convert observations to a compact form and back.

An observation holds the configuration of the run and its measurements, rounded to nine digits. Figures are computed
only from observations and facts, which are both stored, so that the numbers in a record can be computed again from the file that
holds it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from byheart.measure.records import Record
from byheart.measure.trainer import has_diverged

DIGITS = 9
CURVE_POINTS, CURVE_DIGITS = 51, 4
THRESHOLD = 0.01  # the share of the entropy for `first_within`, as in MFT24
# Left out of groups, because these depend on the seed, which also determines the data, or on the machine.
LEFT_OUT = {"seed", "data.seed", "data.path", "data.sha256", "engine"}


@dataclass(frozen=True)
class Observation:
    """One run: its configuration, its measurements, and its curve if the figure draws it.

    `measured` holds the measurements of the stored run and two more, which `observe` computes from its curve: `best_accuracy` is
    the highest accuracy at any recorded step, and `first_within` is the first recorded step at which the loss was within 1% of the
    entropy of the data, or NaN if it never was.
    """

    config: Mapping[str, Any]
    measured: Mapping[str, float]
    n_parameters: int
    n_samples: float
    status: str
    curve: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def sizes(self) -> Mapping[str, int]:
        sizes: Mapping[str, int] = self.config["sizes"]
        return sizes

    @property
    def loss(self) -> float:
        """Mean training loss at the end; infinite if training diverged."""
        return math.inf if self.status == "diverged" else self.measured["loss"]


def observe(record: Record) -> Observation:
    """Return the observation of a record, with its curve at no more than `CURVE_POINTS` steps."""
    measured = {name: _round(value, DIGITS) for name, value in record.measured.items()}
    losses = np.asarray(record.curve["loss"], dtype=np.float64)
    entropy = record.measured["loss"] * record.n_samples - record.measured["gap"]
    within = losses * record.n_samples - entropy < THRESHOLD * entropy
    first = float(record.curve_steps[int(np.argmax(within))]) if within.any() else math.nan
    diverged = record.status == "diverged" or has_diverged(float(losses[0]), record.measured["loss"])
    keep = np.unique(np.linspace(0, losses.size - 1, CURVE_POINTS).round().astype(int))
    return Observation(
        config={name: value for name, value in record.config.items() if name != "engine"},
        measured=measured
        | {"best_accuracy": _round(float(max(record.curve["accuracy"])), DIGITS), "first_within": first},
        n_parameters=record.n_parameters,
        n_samples=record.n_samples,
        status="diverged" if diverged else record.status,
        curve={
            "step": tuple(float(step) for step in record.curve_steps[keep]),
            **{
                name: tuple(_round(float(v), CURVE_DIGITS) for v in record.curve[name][keep])
                for name in ("loss", "accuracy")
            },
        },
    )


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


# In files, runs that differ only in their seed share a line, and measurements that none of them has are left out.


def to_groups(observations: Iterable[Observation]) -> list[dict[str, Any]]:
    """Convert observations to JSON values. The first entry holds what all configurations have in common. Each further entry holds
    runs that differ only in their seed.
    """
    groups: dict[str, tuple[dict[str, Any], list[Observation]]] = {}
    for one in observations:
        setting = {name: value for name, value in _flat(one.config).items() if name not in LEFT_OUT}
        groups.setdefault(json.dumps(setting, sort_keys=True), (setting, []))[1].append(one)
    settings = [setting for setting, _ in groups.values()]
    common = (
        {k: v for k, v in settings[0].items() if all(k in s and s[k] == v for s in settings)}
        if settings
        else {}
    )
    found: list[dict[str, Any]] = [{"common": common}]
    for setting, members in groups.values():
        measured = {name: [one.measured[name] for one in members] for name in members[0].measured}
        row = {
            "setting": {name: value for name, value in setting.items() if name not in common},
            "seeds": [one.seed for one in members],
            "parameters": _once([one.n_parameters for one in members]),
            "samples": _once([one.n_samples for one in members]),
            "measured": {
                name: _once(values)
                for name, values in measured.items()
                if not all(math.isnan(value) for value in values)
            },
        }
        if any(one.status != "done" for one in members):
            row["status"] = _once([one.status for one in members])
        if any(one.curve for one in members):
            row["curves"] = [{name: list(values) for name, values in one.curve.items()} for one in members]
        found.append(row)
    return found


def from_groups(groups: Sequence[Mapping[str, Any]]) -> tuple[Observation, ...]:
    if not groups:
        return ()
    common, found = groups[0]["common"], []
    for row in groups[1:]:
        n_seeds = len(row["seeds"])
        parameters, samples, status = (
            _each(value, n_seeds) for value in (row["parameters"], row["samples"], row.get("status", "done"))
        )
        measured = {name: _each(values, n_seeds) for name, values in row["measured"].items()}
        for number, seed in enumerate(row["seeds"]):
            config = _nest({**common, **row["setting"], "seed": seed, "data.seed": seed})
            found.append(
                Observation(
                    config=config,
                    measured={name: _number(values[number]) for name, values in measured.items()},
                    n_parameters=parameters[number],
                    n_samples=samples[number],
                    status=status[number],
                    curve={
                        name: tuple(_number(value) for value in values)
                        for name, values in (row["curves"][number] if "curves" in row else {}).items()
                    },
                )
            )
    return tuple(found)


def _once(values: list[Any]) -> Any:
    """Replace a list of values, one for each seed, by a single value if all are equal."""
    return values[0] if all(value == values[0] for value in values) else values


def _each(value: Any, n_seeds: int) -> list[Any]:
    return value if isinstance(value, list) else [value] * n_seeds


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration as one flat dictionary with dotted names."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        found |= (
            _flat(value, f"{prefix}{name}.")
            if isinstance(value, Mapping) and value
            else {f"{prefix}{name}": value}
        )
    return found


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        place = config
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return config
