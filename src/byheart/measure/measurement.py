"""Carry out the specification of a measurement: train the models of its grid, with tuning and search if requested, and keep all
runs in one store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, overload

from byheart.errors import UsageError
from byheart.measure.capacity import Bracket, CapacityEstimate, bisect, capacity_of
from byheart.measure.recipe import PassRule
from byheart.measure.records import Record
from byheart.measure.specification import Search, Specification, with_searched_value
from byheart.measure.tabulate import Row, row_of
from byheart.measure.tuner import Trainer, best, tune


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a capacity search at one grid point, over its seeds.

    why_open  messages about the seeds for which the search found no capacity; empty if it found one for every seed. Each message
              says which ends of the searched range passed or failed, and what to change.
    """

    point: dict[str, dict[str, Any]]
    capacity: CapacityEstimate
    why_open: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Measurement(Sequence[Row]):
    """The results of a specification, as a sequence of runs, each a flat dictionary.

    records     one record per grid point and seed; for a search, one per grid point, seed and value tried. If training options
                are tuned, it is the record of the best trial
    capacities  the results of a search, one per grid point
    n_stored    number of runs, including all trials and searched values, that were in the store before
    n_trained   number of all other runs; other processes that share the store may have trained some of them
    """

    name: str
    rule: str | None
    records: tuple[Record, ...]
    capacities: tuple[Found, ...]
    n_stored: int = 0
    n_trained: int = 0

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        """Return one run, or a slice of runs, with columns such as `sizes.n_heads` and `measured.accuracy`."""
        chosen = self.records[at]
        return row_of(chosen) if isinstance(chosen, Record) else [row_of(record) for record in chosen]

    def frame(self) -> Any:
        """Return a pandas DataFrame with one row per run."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError(
                "a table of runs needs pandas, which is not installed.\n  Install it with: pip install pandas"
            ) from None
        return pandas.DataFrame(list(self))

    def __repr__(self) -> str:
        """Show the name and the number of runs."""
        searches = f", searches: {len(self.capacities)}" if self.capacities else ""
        return f"<byheart.Measurement {self.name!r}, runs: {len(self.records)}{searches}>"


def carry_out(specification: Specification, trainer: Trainer) -> Measurement:
    """Carry out `specification` and return the results. `trainer` trains runs, stores their records and returns the records."""
    rule = None if specification.rule is None else str(specification.rule)
    if specification.search is not None:
        found, records = _search(specification, trainer)
        return Measurement(specification.name, rule, records, tuple(found))
    settings = [(point, seed) for point in specification.points for seed in specification.seeds]
    return Measurement(specification.name, rule, tuple(_train(specification, settings, trainer)), ())


def _train(
    specification: Specification, settings: Sequence[tuple[dict[str, dict[str, Any]], int]], trainer: Trainer
) -> list[Record]:
    """Return one record per setting (grid point and seed). If training options are tuned, it is the record of the best trial."""
    if specification.tuning is not None:
        return [best(trials) for trials in tune(specification, settings, trainer)]
    return list(trainer([specification.run(point, seed) for point, seed in settings]))


def _search(specification: Specification, trainer: Trainer) -> tuple[list[Found], tuple[Record, ...]]:
    search, rule = specification.search, specification.rule
    assert search is not None
    assert rule is not None
    settings = [(point, seed) for point in specification.points for seed in specification.seeds]
    trained: dict[tuple[int, int], Record] = {}

    def judge(asked: Sequence[tuple[int, int]]) -> list[bool]:
        chosen = [
            (with_searched_value(settings[number][0], search, value), settings[number][1])
            for number, value in asked
        ]
        records = _train(specification, chosen, trainer)
        trained.update(zip(asked, records, strict=True))
        return [rule.holds(record.measured) for record in records]

    brackets: list[Bracket] = bisect(len(settings), search.low, search.high, search.goal, judge)
    n_seeds, found = len(specification.seeds), []
    for number, point in enumerate(specification.points):
        own = range(number * n_seeds, (number + 1) * n_seeds)
        capacity = capacity_of([brackets[at] for at in own], search.goal)
        ends = {
            end: [trained[at, end] for at in own if not brackets[at].is_closed]
            for end in (search.low, search.high)
        }
        found.append(Found(point, capacity, tuple(_why_open(search, rule, n_seeds, ends))))
    return found, tuple({record.key: record for record in trained.values()}.values())


def _why_open(
    search: Search, rule: PassRule, n_seeds: int, ends: Mapping[int, Sequence[Record]]
) -> Iterator[str]:
    """Yield messages that explain why the searches with some seeds found no capacity.

    The keys of `ends` are the lowest and the highest value of the search range. For each of them, `ends` holds the records of the
    runs with this value, one for each seed without a capacity.
    """
    easy, hard = (search.high, search.low) if search.goal == "smallest" else (search.low, search.high)
    ending = {search.low: "low", search.high: "high"}
    passed = [
        (rule.holds(at_easy.measured), rule.holds(at_hard.measured))
        for at_easy, at_hard in zip(ends[easy], ends[hard], strict=True)
    ]
    failed = [
        record
        for record, (at_easy, at_hard) in zip(ends[easy], passed, strict=True)
        if not (at_easy or at_hard)
    ]
    if failed:
        reached = sorted(record.measured[rule.metric] for record in failed)
        span = f"{reached[0]:.4g}" + (f" to {reached[-1]:.4g}" if reached[0] != reached[-1] else "")
        change = "a higher" if ending[easy] == "high" else "a lower"
        yield (
            f"{len(failed)} of {n_seeds} seeds did not pass even with {search.axis} = {easy}: "
            f"{rule.metric} was {span} after "
            f"{max(record.steps for record in failed):,} steps, but passing needs {rule}. "
            f"Set {change} `{ending[easy]}`, train for more steps, or try another learning rate."
        )
    n_passed = passed.count((True, True))
    if n_passed:
        change = "a higher" if ending[hard] == "high" else "a lower"
        yield (
            f"{n_passed} of {n_seeds} seeds passed even with {search.axis} = {hard}, the end of the search range. "
            f"Set {change} `{ending[hard]}`."
        )
    n_reversed = passed.count((False, True))
    if n_reversed:
        yield (
            f"{n_reversed} of {n_seeds} seeds passed with {search.axis} = {hard}, but not with {search.axis} = {easy}, "
            "which should be easier. A search cannot find the capacity of such models. Train for more steps, "
            "try another learning rate, or measure every value without [search]."
        )
