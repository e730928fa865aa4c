"""From a specification to a measurement: the grid, tuned where asked, searched where asked, all in one store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byheart.measure.capacity import Bracket, CapacityEstimate, bisect, capacity_of
from byheart.measure.records import Record
from byheart.measure.specification import Specification, with_searched_value
from byheart.measure.tuner import Trainer, best, tune


@dataclass(frozen=True, eq=False)
class Found:
    """One setting of a capacity search and what its seeds say."""

    point: dict[str, dict[str, Any]]
    capacity: CapacityEstimate


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a specification measured. `records` holds one record per point and seed, the best trial where tuned."""

    name: str
    rule: str | None
    records: tuple[Record, ...]
    capacities: tuple[Found, ...]


def measure(specification: Specification, trainer: Trainer) -> Measurement:
    """Carry out `specification`; `trainer` trains runs into a store, here or on a cluster."""
    rule = None if specification.rule is None else str(specification.rule)
    if specification.search is not None:
        return Measurement(specification.name, rule, (), tuple(_search(specification, trainer)))
    settings = [(point, seed) for point in specification.points for seed in specification.seeds]
    return Measurement(specification.name, rule, tuple(_train(specification, settings, trainer)), ())


def _train(
    specification: Specification, settings: Sequence[tuple[dict[str, dict[str, Any]], int]], trainer: Trainer
) -> list[Record]:
    """One record per setting, the best trial where tuning is asked for."""
    if specification.tuning is not None:
        return [best(trials) for trials in tune(specification, settings, trainer)]
    return list(trainer([specification.run(point, seed) for point, seed in settings]))


def _search(specification: Specification, trainer: Trainer) -> list[Found]:
    search, rule = specification.search, specification.rule
    assert search is not None
    assert rule is not None
    settings = [(point, seed) for point in specification.points for seed in specification.seeds]

    def judge(asked: Sequence[tuple[int, int]]) -> list[bool]:
        chosen = [
            (with_searched_value(settings[number][0], search, value), settings[number][1])
            for number, value in asked
        ]
        return [rule.holds(record.measured) for record in _train(specification, chosen, trainer)]

    brackets: list[Bracket] = bisect(len(settings), search.low, search.high, search.goal, judge)
    n_seeds = len(specification.seeds)
    return [
        Found(point, capacity_of(brackets[number * n_seeds : (number + 1) * n_seeds], search.goal))
        for number, point in enumerate(specification.points)
    ]
