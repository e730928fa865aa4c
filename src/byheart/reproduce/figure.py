"""The types of a reproduction: stages of training runs, stored observations, all numbers in the figure, and the verdict on the
paper's claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from byheart.measure.records import Run
from byheart.measure.steppers import Engine
from byheart.measure.text_samples import Samples
from byheart.reproduce.observation import Observation

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
Style = Literal[
    "measured", "second", "third", "fourth", "fifth", "sixth", "seventh", "published", "fit", "fit2", "bound", "bound2",
    "closed-form",
]  # fmt: skip
Line = Literal[
    "usual", "solid", "dashed", "points"
]  # how points are joined; `usual`: as the style defines it
Outcome = Literal["holds", "does not hold as the paper has it", "not settled"]


@dataclass(frozen=True)
class TrainingStage:
    """A part of a figure's runs that is useful even without the other parts.

    Stages with lower priority numbers are more important and come first.
    """

    name: str
    priority: int
    runs: tuple[Run, ...]
    together: str = ""  # stages with the same priority and the same word here train in the same stacks
    # the engine on a GPU; `auto` compiles long trainings
    engine: Engine = "graph"
    # the fixed cost of a stack on a GPU, in parameters, if the default is far off
    overhead: int | None = None


@dataclass(frozen=True)
class Series:
    """One line or set of points of a panel.

    `low` and `high` are the ends of 95% intervals over seeds, NaN for a single seed. If the y axis of the panel says "range", they
    are the smallest and the largest value. They are empty if there are no intervals.
    """

    label: str
    style: Style
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    n_seeds: int = 0
    line: Line = "usual"

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y), len(self.low) or len(self.x), len(self.high) or len(self.x)}
        if len(lengths) > 1 or bool(self.low) != bool(self.high):
            raise ValueError(f"x, y, low and high of the series {self.label!r} have different lengths")


def series_of(label: str, style: Style, points: Iterable[tuple[float, float]]) -> Series:
    """Make a line through (x, y) points without intervals."""
    listed = [(float(x), float(y)) for x, y in points]
    return Series(label, style, tuple(x for x, _ in listed), tuple(y for _, y in listed))


@dataclass(frozen=True)
class Panel:
    """Axes with series on them, or a table of numbers drawn as a heat map."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...] = ()
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    columns: tuple[float, ...] = ()  # heat map: the values of x
    rows: tuple[float, ...] = ()  # heat map: the values of y
    cells: tuple[tuple[float, ...], ...] = ()  # heat map: the cells, one tuple per row
    y_range: tuple[float, ...] = ()  # the possible range of y, if bands would exceed it

    def __post_init__(self) -> None:
        if {len(row) for row in self.cells} - {len(self.columns)} or len(self.cells) != len(self.rows):
            raise ValueError(f"the panel {self.title!r} does not have one cell for each row and column")


@dataclass(frozen=True)
class Table:
    """Numbers that are shown as a table rather than drawn."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if {len(row) for row in self.rows} - {len(self.heads)}:
            raise ValueError(f"a row of the table {self.title!r} does not have as many cells as the header")


@dataclass(frozen=True)
class ConditionResult:
    """Whether the claim holds under one condition of training, by the figure's rule.

    `holds` is None if the runs do not decide it.
    """

    condition: str
    found: str
    holds: bool | None
    is_own: bool = True  # whether the condition is the paper's own and not one of our variations
    claim: str = ""  # the claim in a few words, if a figure makes several

    @property
    def name(self) -> str:
        """The condition. If the figure makes several claims, the claim is put before it."""
        return f"{self.claim}: {self.condition}" if self.claim else self.condition


@dataclass(frozen=True)
class Check:
    """A comparison that is shown beside the verdict and does not affect it."""

    name: str
    found: str
    wanted: str
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's claim holds, according to the figure's rule. Only the results under the paper's own conditions of
    training decide. Results under our variations of these conditions are listed but do not count.
    """

    outcome: Outcome
    summary: str
    trials: tuple[ConditionResult, ...] = ()

    @property
    def headline(self) -> str:
        """The outcome in words. If the claim fails, also the variations under which it holds."""
        failed = {trial.claim for trial in self.trials if trial.is_own and not trial.holds}
        when = "; ".join(
            trial.name for trial in self.trials if trial.holds and not trial.is_own and trial.claim in failed
        )
        return (
            f"{self.outcome} (holds when: {when})"
            if when and self.outcome.startswith("does")
            else self.outcome
        )


@dataclass(frozen=True)
class Computed:
    """Everything that a figure computes from its observations.

    `counter` is the best argument against the verdict, in words. `missing` says which runs would decide an open claim.
    """

    panels: tuple[Panel, ...]
    trials: tuple[ConditionResult, ...]
    checks: tuple[Check, ...] = ()
    tables: tuple[Table, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    counter: str = ""
    missing: str = ""


@dataclass(frozen=True)
class FigureRecord:
    """Everything that is drawn or said about a figure, with the observations and facts that it is computed from.

    `own` describes the experiment as the paper made it, and `rule` decides whether `claim`, the paper's claim, holds. `budget`
    says how long models were trained, and with how many seeds.
    """

    figure: str
    paper: str
    title: str
    claim: str
    own: str
    rule: str
    scale: Scale
    budget: str
    verdict: Verdict
    checks: tuple[Check, ...]
    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    numbers: Mapping[str, Any]
    choices: tuple[str, ...]
    counter: str
    seeds: tuple[int, ...]
    runs: Mapping[str, Any]  # the number of runs, their devices, dates and times
    facts: Mapping[str, Any]  # what was computed from the data, independently of the runs
    observations: tuple[Observation, ...] = ()


Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    own       the paper's own condition, as far as the text and the authors' code state it; it decides whether the claim holds
    rule      the rule that decides the claim; it is stored in the record
    stages    the runs to train
    compute   computes the record from observations and facts only, so that the same numbers give the same record
    facts     computes further numbers to store, which depend on the samples or the constructions and not on training
    curves    selects the runs whose training curve is stored
    measured  the names of the measurements that are stored; if empty, all are stored

    `statements` has the identifiers of the paper's figures or sections. If `needs_samples`, the figure trains on a file of texts.
    """

    name: str
    paper: str
    statements: tuple[str, ...]
    title: str
    claim: str
    own: str
    rule: str
    stages: Callable[[Scale, Samples | None], list[TrainingStage]]
    compute: Callable[[Scale, Sequence[Observation], Facts], Computed]
    facts: Callable[[Scale, Sequence[Observation], Samples | None], Facts] | None = None
    curves: Callable[[Observation], bool] | None = None
    measured: tuple[str, ...] = ()
    needs_samples: bool = False


def decide(scale: Scale, trials: Sequence[ConditionResult], missing: str = "") -> Verdict:
    """Return the verdict, given whether the claim holds under each condition that was tried.

    Only the paper's own conditions decide, not the variations.

    not settled                         one of the paper's own conditions was not tried, or the runs do not decide the claim under
                                        it; smoke runs never decide
    holds                               the claim holds under all of the paper's own conditions
    does not hold as the paper has it   the claim fails under at least one of them; the verdict names the variations under which
                                        it holds
    """
    own = [trial for trial in trials if trial.is_own]
    if scale == "smoke":
        said = "Runs at the smoke scale only show that the figure can be made. They do not decide the claim."
        return Verdict("not settled", said, tuple(trials))
    if missing or not own or any(trial.holds is None for trial in own):
        open_ones = ", ".join(trial.name for trial in own if trial.holds is None)
        said = f"Not decided: {open_ones}. {missing}" if open_ones else missing
        return Verdict(
            "not settled", said.strip() or "Runs of the paper's own condition are missing.", tuple(trials)
        )

    def names(holds: bool, is_own: bool) -> str:
        return "; ".join(trial.name for trial in trials if (trial.holds, trial.is_own) == (holds, is_own))

    parts = {
        "Holds under the paper's own condition": names(holds=True, is_own=True),
        "Does not hold under the paper's own condition": names(holds=False, is_own=True),
        "Variations under which it holds": names(holds=True, is_own=False),
        "Variations under which it does not": names(holds=False, is_own=False),
    }
    said = " ".join(f"{word}: {named}." for word, named in parts.items() if named)
    outcome: Outcome = "holds" if all(trial.holds for trial in own) else "does not hold as the paper has it"
    return Verdict(outcome, said, tuple(trials))
