"""What a longer word buys: bits per parameter of `retrieval` against the word size, and how its parameters grow with the facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from byheart.construct.retrieval.program import describe
from byheart.construct.retrieval.size import RetrievalOptions, layout_of
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.program.count import count_dense
from byheart.report.figures import new_figure

WORD_BITS = (24, 32, 53, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
SAMPLES = (10**4, 10**5, 10**6)
GROWTH = tuple(10**power for power in range(3, 10))
GROWTH_BITS = (24, 53, 256, None)
"""Word sizes whose growth is drawn; None: as long as makes the network smallest."""

SCHEMA = "byheart.words/1"


@dataclass(frozen=True)
class Point:
    """A network built on the data of `planned` with numbers of at most `word_bits` bits (None: any), and what was found.

    longest is the longest weight; checked samples were answered in exact arithmetic, `wrong` of them wrongly.
    """

    n_samples: int
    word_bits: int | None
    parameters: int
    label_bits: float
    longest: int
    checked: int
    wrong: int

    @property
    def bits_per_parameter(self) -> float:
        """Label bits over dense parameters."""
        return self.label_bits / self.parameters


def planned_parameters(n_samples: int, word_bits: int | None) -> int:
    """Dense parameters for n = 8 tokens of 4 coordinates on a grid of 16 levels, and 16 classes, without building."""
    layout = layout_of(DataShape(n_samples, 8, 16, dim=4), RetrievalOptions("exact", 0, word_bits))
    return count_dense(describe(layout))


def growth(word_bits: int | None) -> list[tuple[int, int]]:
    """(facts, parameters) as long as words of this size can address the facts."""
    line = []
    for n_samples in GROWTH:
        try:
            line.append((n_samples, planned_parameters(n_samples, word_bits)))
        except AssumptionViolated:  # too many rows for so short a mantissa
            break
    return line


def write_points(points: Iterable[Point], path: Path) -> None:
    """Store what was built, for the figure."""
    document = {"schema": SCHEMA, "points": [asdict(point) for point in points]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_points(path: Path) -> tuple[Point, ...]:
    """What `write_points` stored."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} holds no points of this figure: its schema is not {SCHEMA}.", path=str(path)
        )
    return tuple(Point(**point) for point in document["points"])


def draw_words(points: Sequence[Point], path: Path) -> None:
    """Draw the planned lines and the built points; the suffix of `path` chooses the format."""
    figure = new_figure(path, (10.4, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, n_samples in enumerate(SAMPLES):
        power = len(str(n_samples)) - 1
        bits = [4 * n_samples / planned_parameters(n_samples, word_bits) for word_bits in WORD_BITS]
        left.loglog(WORD_BITS, bits, color=f"C{number}", label=f"N = $10^{power}$")
        built = [point for point in points if point.n_samples == n_samples and not point.wrong]
        places = [point.word_bits or point.longest for point in built]
        left.plot(places, [point.bits_per_parameter for point in built], "o", color=f"C{number}")
    left.loglog(WORD_BITS, WORD_BITS, color="0.6", linestyle=":", label="the whole word")
    left.set(
        xlabel="word size, bits", ylabel="label bits per dense parameter", title="One data set, longer words"
    )
    for number, word_bits in enumerate(GROWTH_BITS):
        name = "any word size" if word_bits is None else f"{word_bits} bits"
        line = growth(word_bits)
        right.loglog(*zip(*line, strict=True), color=f"C{number + 3}", label=name)
    root = planned_parameters(10**6, None)
    right.loglog(GROWTH, [root * (n / 10**6) ** 0.5 for n in GROWTH], color="0.3", linestyle="--", label="√N")
    right.set(xlabel="facts N", ylabel="dense parameters", title="One word size, more facts")
    for axes in (left, right):
        axes.grid(visible=True, which="major", alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
