"""Read the specification of a measurement from TOML: model family, grid, data, training, pass rule, seeds, budget and search.

Any list in [model], [data] or [training] is an axis of the grid. A text that starts with `=` copies another value of
[model], as in `head_dim = "=dim"`.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from byheart.errors import ByheartError, UsageError, did_you_mean
from byheart.measure.capacity import Goal
from byheart.measure.families import ModelConfig, family_of
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.measure.sources import complete_description
from byheart.records.json_file import read_bytes, show_value
from byheart.records.reader import read_values, within

SECTIONS = ("name", "seeds", "model", "data", "training", "pass", "search", "tuning", "budget")
MOST_RUNS = 10**6
"""The maximum number of runs in a grid. Without search and tuning, every run is created and checked before the first is trained."""

MOST = 2**53  # the largest whole number allowed in most fields of a specification


@dataclass(frozen=True)
class Search:
    """A capacity search: find, by bisection between `low` and `high`, the smallest or largest value of a field with which a model
    passes. `axis` names the field in [model] or [data], such as `model.n_heads`.
    """

    axis: str  # "model.n_heads", "data.n_samples"
    low: int
    high: int
    goal: Goal

    @property
    def section(self) -> str:
        """The section of the searched field: `model` or `data`."""
        return self.axis.partition(".")[0]

    @property
    def field(self) -> str:
        return self.axis.partition(".")[2]


@dataclass(frozen=True)
class TuningPlan:
    """The ranges in which Optuna tunes training options. `per_round` trials are proposed and trained at a time."""

    trials: Annotated[int, within(1, MOST_RUNS)]
    per_round: Annotated[int, within(0, MOST_RUNS)] = 0  # 0 means all at once
    learning_rate: tuple[float, float] | None = None
    warmup: tuple[int, int] | None = None
    seed: Annotated[int, within(0, MOST)] = 0

    def __post_init__(self) -> None:
        for name, span in (("learning_rate", self.learning_rate), ("warmup", self.warmup)):
            if span is not None and not 0 <= span[0] <= span[1] < math.inf:
                raise UsageError(
                    f"`{name}` in [tuning] must be a range [least, most] with 0 <= least <= most, both finite;"
                    f" got {list(span)}.",
                    name=name,
                    span=span,
                )
        if self.learning_rate is not None and self.learning_rate[0] == 0:
            raise UsageError(
                "`learning_rate` in [tuning] is tuned on a logarithmic scale, so its range "
                "must begin above 0."
            )

    @property
    def round_size(self) -> int:
        """Number of trials in one round."""
        return self.per_round or self.trials


@dataclass(frozen=True)
class Budget:
    """The limits of a sweep: the number of runs, the time, and the size of a stack (models that train together)."""

    max_runs: Annotated[int, within(1, MOST)] | None = None
    max_seconds: float | None = None
    max_stack: Annotated[int, within(1, MOST)] | None = None

    def __post_init__(self) -> None:
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise UsageError(
                f"`max_seconds` in [budget] must be a finite positive number; got {self.max_seconds}.",
                max_seconds=self.max_seconds,
            )


@dataclass(frozen=True)
class Specification:
    """A checked specification. `points` are the points of the grid, each of which is trained with every seed.

    With `stops_early`, the training of a model ends as soon as the model passes `rule`.
    """

    name: str
    seeds: tuple[int, ...]
    points: tuple[dict[str, dict[str, Any]], ...]
    rule: PassRule | None
    stops_early: bool
    search: Search | None
    tuning: TuningPlan | None
    budget: Budget
    folder: Path

    def run(self, point: Mapping[str, Mapping[str, Any]], seed: int, **training: Any) -> Run:
        """Return the run of one grid point and seed. `training` overrides training options, for tuning."""
        model = dict(point["model"])
        family = family_of(model.pop("family"))
        sizes = {field.name for field in family.size_fields}
        options = {name for name, value in model.items() if isinstance(value, str) and name not in sizes}
        plan = read_values(dict(point["training"]) | training, Training, "[training]")
        if self.stops_early:
            plan = replace(plan, stop=self.rule)
        return Run(
            ModelConfig(
                family.name,
                {name: value for name, value in model.items() if name not in options},
                {name: model[name] for name in options},
            ),
            complete_description(point["data"], seed, self.folder),
            plan,
            seed,
        )

    @property
    def runs(self) -> list[Run]:
        """Return every run of the grid, ordered by point and then by seed.

        If the specification has a search, one field varies in a range. In the returned runs, this field has its largest value.
        """
        points = self.points
        if self.search is not None:
            points = tuple(with_searched_value(point, self.search, self.search.high) for point in points)
        return [self.run(point, seed) for point in points for seed in self.seeds]


def read_specification(path: str | Path) -> Specification:
    """Read and check a specification file. Relative paths in it are relative to its folder."""
    path = Path(path)
    if not path.exists():
        raise UsageError(f"there is no specification file {path}.", path=str(path))
    try:
        table = tomllib.loads(read_bytes(path, refuse=_refuse).decode("utf-8"))
    except RecursionError:
        raise _refuse(str(path), "its values are nested too deep") from None
    # the file is not UTF-8, not TOML, or contains a number with thousands of digits
    except ValueError as error:
        raise _refuse(str(path), str(error)) from error
    return specification_of(table, path.parent, default_name=path.stem)


def _refuse(where: str, problem: str) -> ByheartError:
    return UsageError(f"{where} cannot be read as TOML: {problem}.", path=where)


def specification_of(
    table: Mapping[str, Any], folder: Path, *, default_name: str = "measurement"
) -> Specification:
    """Check a specification that is given as a table (a mapping, as read from TOML), and return it."""
    _require_known("a specification", table, SECTIONS)
    for section in ("model", "data", "training"):
        if not isinstance(table.get(section), Mapping):
            raise UsageError(f"a specification needs the section [{section}].", section=section)
    if "family" not in table["model"]:
        raise UsageError("the section [model] needs `family`.", section="model")
    _require_known("[training]", table["training"], [f.name for f in fields(Training) if f.name != "stop"])
    rule, stops = _rule(table.get("pass"))
    search = _search(table.get("search"))
    if search is not None and rule is None:
        raise UsageError(
            "[search] needs a pass rule: add [pass] with `metric` and `threshold`.", section="search"
        )
    specification = Specification(
        name=str(table.get("name", default_name)),
        seeds=_seeds(table.get("seeds", 1)),
        points=_points(table, search),
        rule=rule,
        stops_early=stops,
        search=search,
        tuning=None if table.get("tuning") is None else read_values(table["tuning"], TuningPlan, "[tuning]"),
        budget=read_values(table.get("budget", {}), Budget, "[budget]"),
        folder=folder.resolve(),
    )
    n_runs = len(specification.points) * len(specification.seeds)
    limit = specification.budget.max_runs
    if limit is not None and n_runs > limit:
        raise UsageError(f"the grid has {n_runs} runs; [budget] allows max_runs = {limit}.", n_runs=n_runs)
    if n_runs > MOST_RUNS:
        raise UsageError(f"the grid has {n_runs:,} runs; at most {MOST_RUNS:,} are allowed.", n_runs=n_runs)
    for point in specification.points:  # check every point now, rather than hours later during the sweep
        ends = (
            [point]
            if search is None
            else [with_searched_value(point, search, end) for end in (search.low, search.high)]
        )
        for end in ends:
            specification.run(end, specification.seeds[0])
    return specification


def _require_known(where: str, table: Mapping[str, Any], names: Any) -> None:
    names = list(names)
    for name in table:
        if name not in names:
            known = f"{did_you_mean(name, names)}\n  Choose from: {', '.join(names)}."
            raise UsageError(f"{where} has no field `{name}`.{known}", field=name)


def _points(table: Mapping[str, Any], search: Search | None) -> tuple[dict[str, dict[str, Any]], ...]:
    sections = {name: dict(table[name]) for name in ("model", "data", "training")}
    if search is not None:
        if search.section not in ("model", "data"):
            raise UsageError(
                f"the axis of [search] must be model.FIELD or data.FIELD; got {search.axis!r}.",
                axis=search.axis,
            )
        sections[search.section][search.field] = search.low
    axes = [
        (section, field, value if isinstance(value, list) else [value])
        for section, values in sections.items()
        for field, value in values.items()
    ]
    for section, field, values in axes:
        if not values:
            raise UsageError(f"`{field}` in [{section}] is an empty list, so the grid is empty.", field=field)
        for value in values:
            if not _is_plain(value):
                raise UsageError(
                    f"`{field}` in [{section}] is {show_value(value)};"
                    " it must be a text, true, false, a finite number (whole numbers up to 2^53), or a list of "
                    "these.",
                    field=field,
                )
    n_points = math.prod(len(values) for _, _, values in axes)
    if n_points > MOST_RUNS:
        raise UsageError(
            f"the grid has {n_points:,} points; at most {MOST_RUNS:,} are allowed.", n_points=n_points
        )
    points = []
    for choice in itertools.product(*(values for _, _, values in axes)):
        point: dict[str, dict[str, Any]] = {"model": {}, "data": {}, "training": {}}
        for (section, field, _), value in zip(axes, choice, strict=True):
            point[section][field] = value
        points.append(resolve_references(point, search.field if search and search.section == "model" else ""))
    return tuple(points)


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= MOST
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def resolve_references(point: dict[str, dict[str, Any]], searched: str = "") -> dict[str, dict[str, Any]]:
    """Return `point` with every `=name` replaced by the value of that name in [model], except references to `searched`, a field
    whose value is not known yet.
    """

    def value_of(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("="):
            name = value[1:].strip()
            if name not in point["model"] or str(point["model"][name]).startswith("="):
                raise UsageError(
                    f"`{value}` refers to `{name}`, but [model] does not set `{name}`, or sets it to another reference.",
                    name=name,
                )
            return value if name == searched else point["model"][name]
        return value

    return {section: {f: value_of(v) for f, v in values.items()} for section, values in point.items()}


def with_searched_value(
    point: dict[str, dict[str, Any]], search: Search, value: int
) -> dict[str, dict[str, Any]]:
    """Return `point` with the searched field set to `value`, and with every reference `=name` replaced by its value."""
    return resolve_references(
        {
            section: values | ({search.field: value} if section == search.section else {})
            for section, values in point.items()
        }
    )


def _seeds(value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_RUNS:
        return tuple(range(value))
    if isinstance(value, list) and value and all(type(v) is int and 0 <= v <= MOST for v in value):
        if len(set(value)) < len(value):
            raise UsageError(f"`seeds` lists a seed twice: {value}.", value=value)
        return tuple(value)
    raise UsageError(
        f"`seeds` must be a count of at least 1 and at most {MOST_RUNS:,}, or a list with at least one seed (a whole "
        f"number from 0 to 2^53); got {show_value(value)}.",
        seeds=value,
    )


@dataclass(frozen=True)
class _PassSection:
    metric: str
    threshold: float
    stop_early: bool = True


def _rule(table: object) -> tuple[PassRule | None, bool]:
    if table is None:
        return None, False
    found = read_values(table, _PassSection, "[pass]")
    return PassRule(found.metric, found.threshold), found.stop_early  # type: ignore[arg-type]  # the rule looks at it


@dataclass(frozen=True)
class _SearchSection:
    axis: str
    low: Annotated[int, within(0, MOST)]
    high: Annotated[int, within(1, MOST)]
    goal: Goal | None = None


def _search(table: object) -> Search | None:
    if table is None:
        return None
    found = read_values(table, _SearchSection, "[search]")
    if found.low >= found.high:
        raise UsageError(
            f"[search] needs whole numbers low < high; got {found.low} and {found.high}.",
            low=found.low,
            high=found.high,
        )
    goal: Goal = found.goal or ("smallest" if found.axis.startswith("model.") else "largest")
    return Search(found.axis, found.low, found.high, goal)
