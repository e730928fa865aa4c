"""A measurement as a TOML file: model family, grid, data, training, pass rule, seeds, budget, and what to search.

Any list in [model], [data] or [training] is an axis of the grid; a text that starts with `=` repeats another value of
[model], as in `head_dim = "=dim"`.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from byheart.errors import UsageError, did_you_mean
from byheart.measure.capacity import Goal
from byheart.measure.families import ModelConfig, family_of
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.measure.sources import complete_description

SECTIONS = ("name", "seeds", "model", "data", "training", "pass", "search", "tuning", "budget")


@dataclass(frozen=True)
class Search:
    """What to bisect: a field of [model] or [data] between two whole numbers."""

    axis: str  # "model.n_heads", "data.n_samples"
    low: int
    high: int
    goal: Goal

    @property
    def section(self) -> str:
        """`model` or `data`."""
        return self.axis.partition(".")[0]

    @property
    def field(self) -> str:
        return self.axis.partition(".")[2]


@dataclass(frozen=True)
class TuningPlan:
    """Ranges that Optuna tunes in, a whole stack of `per_round` trials at a time."""

    trials: int
    per_round: int
    learning_rate: tuple[float, float] | None
    warmup: tuple[int, int] | None
    seed: int


@dataclass(frozen=True)
class Budget:
    """Limits a sweep keeps to."""

    max_runs: int | None = None
    max_seconds: float | None = None
    max_stack: int | None = None


@dataclass(frozen=True)
class Specification:
    """A checked specification. `points` are the grid's settings, without seeds."""

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
        """The run of one grid point and seed; `training` overrides, as tuning does."""
        model = dict(point["model"])
        family = family_of(model.pop("family"))
        sizes = {field.name for field in family.size_fields}
        plan = dict(point["training"]) | training
        if self.stops_early:
            plan["stop"] = self.rule
        return Run(
            ModelConfig(
                family.name,
                {name: value for name, value in model.items() if name in sizes or isinstance(value, int)},
                {name: value for name, value in model.items() if isinstance(value, str)},
            ),
            complete_description(point["data"], seed, self.folder),
            Training(**plan),
            seed,
        )

    @property
    def runs(self) -> list[Run]:
        """Every run of the grid, seeds innermost."""
        return [self.run(point, seed) for point in self.points for seed in self.seeds]


def read_specification(path: str | Path) -> Specification:
    """Read and check a specification; relative paths in it are relative to its folder."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no specification {path}.", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}.", path=str(path)) from error
    return specification_of(table, path.parent, default_name=path.stem)


def specification_of(
    table: Mapping[str, Any], folder: Path, *, default_name: str = "measurement"
) -> Specification:
    """Check a specification given as a table."""
    _require_known("specification", table, SECTIONS)
    for section in ("model", "data", "training"):
        if not isinstance(table.get(section), Mapping):
            raise UsageError(f"a specification needs the section [{section}].", section=section)
    if "family" not in table["model"]:
        raise UsageError("[model] needs `family`.", section="model")
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
        tuning=_tuning(table.get("tuning")),
        budget=_budget(table.get("budget")),
        folder=folder.resolve(),
    )
    n_runs = len(specification.points) * len(specification.seeds)
    limit = specification.budget.max_runs
    if limit is not None and n_runs > limit:
        raise UsageError(f"the grid has {n_runs} runs; [budget] allows max_runs = {limit}.", n_runs=n_runs)
    for point in specification.points:  # every point is checked now, not hours into the sweep
        specification.run(point, specification.seeds[0])
    return specification


def _require_known(where: str, table: Mapping[str, Any], names: Any) -> None:
    names = list(names)
    for name in table:
        if name not in names:
            known = f"{did_you_mean(name, names)}\n  It knows: {', '.join(names)}."
            raise UsageError(f"{where} has no field `{name}`.{known}", field=name)


def _points(table: Mapping[str, Any], search: Search | None) -> tuple[dict[str, dict[str, Any]], ...]:
    sections = {name: dict(table[name]) for name in ("model", "data", "training")}
    if search is not None:
        if search.section not in ("model", "data"):
            raise UsageError(f"[search] axis must be model.FIELD or data.FIELD; got {search.axis!r}.")
        sections[search.section][search.field] = search.low
    axes = [
        (section, field, value if isinstance(value, list) else [value])
        for section, values in sections.items()
        for field, value in values.items()
    ]
    for section, field, values in axes:
        if not values:
            raise UsageError(f"`{field}` in [{section}] is an empty list, so the grid is empty.", field=field)
    points = []
    for choice in itertools.product(*(values for _, _, values in axes)):
        point: dict[str, dict[str, Any]] = {"model": {}, "data": {}, "training": {}}
        for (section, field, _), value in zip(axes, choice, strict=True):
            point[section][field] = value
        points.append(resolve_references(point))
    return tuple(points)


def resolve_references(point: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`point` with every `=name` replaced by the value of that name in [model]."""

    def value_of(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("="):
            name = value[1:].strip()
            if name not in point["model"] or str(point["model"][name]).startswith("="):
                raise UsageError(f"`{value}` refers to `{name}`, which [model] does not set.", name=name)
            return point["model"][name]
        return value

    return {section: {f: value_of(v) for f, v in values.items()} for section, values in point.items()}


def with_searched_value(
    point: dict[str, dict[str, Any]], search: Search, value: int
) -> dict[str, dict[str, Any]]:
    """`point` with the searched field set to `value`."""
    return {
        section: values | ({search.field: value} if section == search.section else {})
        for section, values in point.items()
    }


def _seeds(value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return tuple(range(value))
    if isinstance(value, list) and value and all(type(v) is int and v >= 0 for v in value):
        if len(set(value)) < len(value):
            raise UsageError(f"`seeds` names one seed twice: {value}.")
        return tuple(value)
    raise UsageError(f"`seeds` must be a count of at least 1 or a list of seeds; got {value!r}.")


def _rule(table: Mapping[str, Any] | None) -> tuple[PassRule | None, bool]:
    if table is None:
        return None, False
    _require_known("[pass]", table, ("metric", "threshold", "stop_early"))
    if "metric" not in table or "threshold" not in table:
        raise UsageError("[pass] needs `metric` and `threshold`.", section="pass")
    return PassRule(table["metric"], float(table["threshold"])), bool(table.get("stop_early", True))


def _search(table: Mapping[str, Any] | None) -> Search | None:
    if table is None:
        return None
    _require_known("[search]", table, ("axis", "low", "high", "goal"))
    for name in ("axis", "low", "high"):
        if name not in table:
            raise UsageError(f"[search] needs `{name}`.", section="search")
    goal = table.get("goal", "smallest" if str(table["axis"]).startswith("model.") else "largest")
    if goal not in ("smallest", "largest"):
        raise UsageError(f"`goal` in [search] must be smallest or largest; got {goal!r}.")
    if not (type(table["low"]) is type(table["high"]) is int and 0 <= table["low"] < table["high"]):
        raise UsageError(
            f"[search] needs whole numbers low < high; got {table['low']!r} and {table['high']!r}."
        )
    return Search(str(table["axis"]), table["low"], table["high"], goal)


def _tuning(table: Mapping[str, Any] | None) -> TuningPlan | None:
    if table is None:
        return None
    _require_known("[tuning]", table, ("trials", "per_round", "learning_rate", "warmup", "seed"))
    rate, warmup = table.get("learning_rate"), table.get("warmup")
    for name, span in (("learning_rate", rate), ("warmup", warmup)):
        if span is not None and not (isinstance(span, list) and len(span) == 2 and 0 <= span[0] <= span[1]):
            raise UsageError(f"`{name}` in [tuning] must be a range [least, most]; got {span!r}.")
    trials = table.get("trials")
    if type(trials) is not int or trials < 1:
        raise UsageError(f"[tuning] needs `trials`, a whole number of at least 1; got {trials!r}.")
    return TuningPlan(
        trials=trials,
        per_round=int(table.get("per_round", trials)),
        learning_rate=None if rate is None else (float(rate[0]), float(rate[1])),
        warmup=None if warmup is None else (int(warmup[0]), int(warmup[1])),
        seed=int(table.get("seed", 0)),
    )


def _budget(table: Mapping[str, Any] | None) -> Budget:
    if table is None:
        return Budget()
    _require_known("[budget]", table, [f.name for f in fields(Budget)])
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise UsageError(f"`{name}` in [budget] must be a positive number; got {value!r}.")
    return Budget(**table)
