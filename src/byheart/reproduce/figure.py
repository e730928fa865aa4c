"""What a reproduction is: stages of runs, and a record of every number drawn, with a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from byheart.measure.records import Record, Run
from byheart.measure.steppers import Engine
from byheart.reproduce.samples import Samples

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Style = Literal[
    "measured",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "published",
    "bound",
    "bound2",
    "fit",
    "closed-form",
]
Outcome = Literal["holds", "holds in part", "does not hold", "not settled"]


@dataclass(frozen=True)
class Stage:
    """A part of a figure's work that makes sense by itself; lower priorities are worth more and come first."""

    name: str
    priority: int
    runs: tuple[Run, ...]
    together: str = ""  # stages of one priority with the same word here train in the same stacks
    engine: Engine = "graph"  # on a GPU; `auto` compiles, which pays for long trainings alone
    overhead: int | None = None  # on a GPU, what a stack costs in parameters, where the default is far off


@dataclass(frozen=True)
class Series:
    """One line or set of points of a panel; `low` and `high` are 95% intervals over seeds, NaN where there is none."""

    label: str
    style: Style
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    n_seeds: int = 0


@dataclass(frozen=True)
class Panel:
    """Axes with series on them, or a table of numbers drawn as a heat map."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    columns: tuple[float, ...] = ()  # heat map: what x counts
    rows: tuple[float, ...] = ()  # heat map: what y counts
    cells: tuple[tuple[float, ...], ...] = ()  # heat map, a tuple per row


@dataclass(frozen=True)
class Check:
    """One comparison behind a verdict: what was found, what was asked for, and whether it is so."""

    name: str
    found: str
    wanted: str
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's conclusion holds in our runs, and because of what."""

    outcome: Outcome
    because: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class FigureRecord:
    """Every number drawn, the verdict, and where the numbers come from."""

    figure: str
    paper: str
    title: str
    claim: str
    scale: Scale
    panels: tuple[Panel, ...]
    verdict: Verdict
    numbers: Mapping[str, Any]
    choices: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: Mapping[str, Any]  # how many, on what, when, for how long


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. `stages` says what to train, `compute` turns records into what is drawn."""

    name: str
    paper: str
    statements: tuple[str, ...]
    title: str
    claim: str
    stages: Callable[[Scale, Samples | None], list[Stage]]
    compute: Callable[[Scale, Sequence[Record], Samples | None], Computed]
    needs_samples: bool = False


@dataclass(frozen=True)
class Computed:
    """What a figure makes of its records."""

    panels: tuple[Panel, ...]
    verdict: Verdict
    numbers: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
