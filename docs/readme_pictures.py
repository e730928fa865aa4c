"""The two pictures of the README, and that of docs/graft.md. `make pictures` draws them anew into `docs/_static`.

Each is drawn from a small record: what the weights of a compiled model hold, and what the stored benchmarks measured. The record is
kept in the picture, as its description.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

import matplotlib.pyplot as plt
import numpy as np
from graft_picture import draw_stream, stream
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from pictures import BLUE, GREEN, INK, ORANGE, PALE, STYLE

import byheart as bh
from byheart.bounds.empirical import ALLEN_ZHU_2024, MORRIS_2025, STATIC_FUNCTION_BITS_PER_STORED_BIT
from byheart.inspect.tables import read_tables

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(__file__).with_name("_static")
RECORDS = ROOT / "benchmarks" / "records"
MEASURED = (
    "retrieval_two_cores.json",
    "retrieval_largest_two_cores.json",
    "short_weights_two_cores.json",
    "short_weights_ten_million.json",
)
CAPITALS, QUESTION = "examples/capitals.csv", "capital of France"


@dataclass(frozen=True)
class Journey:
    """A question's way: the row it reads in each table, the words there, and the bits of their sum."""

    question: str
    n_rows: int
    n_layers: int
    rows: list[int]
    words: list[int]
    word_bits: int
    reject_bits: int
    bits: str
    answer: str


@dataclass(frozen=True)
class Point:
    """A model that was built, and all of whose facts were answered right."""

    precision: str
    n_facts: int
    bits_per_stored_bit: float


def follow(question: str = QUESTION) -> Journey:
    """Compile the capitals as anybody would, and watch the model answer."""
    model = bh.compile(ROOT / CAPITALS)
    data = bh.Dataset.read(ROOT / CAPITALS)
    assert model.memoriser.tokenizer is not None
    sample = next(i for i in range(data.n_samples) if data.describe_input(i) == repr(question))
    notes = model.record["notes"]
    found = read_tables(model.memoriser, notes, model.memoriser.encode(data.inputs))
    words = [
        int(found.words(segment)[found.rows[token, segment], register])
        for segment, tokens, registers in found.cells()
        for token, register in zip(tokens, registers, strict=True)
        if token == sample
    ]
    total = sum(words)
    start, stop = found.bits(np.array([sample]), np.array([0]), data.labels[[sample]])[0, 0].tolist()
    field = ((total << 1) ^ total) >> start & ((1 << stop - start) - 1)
    bits = format(field, f"0{stop - start}b")
    answer = model.predict(question)
    assert answer == data.label_names[field]
    return Journey(
        question, notes["rows"], len(model.network.layers), found.rows[sample].tolist(), words,
        notes["word_bits"], notes["reject_bits"], bits, str(answer),
    )  # fmt: skip


def measured() -> list[Point]:
    """Random grid vectors with 16 labels, seed 0, of the stored benchmarks."""
    rows = [
        row for name in MEASURED for row in json.loads((RECORDS / name).read_text(encoding="utf-8"))["rows"]
    ]
    assert all(row["wrong"] == 0 and row["checked"] == row["n_samples"] for row in rows)
    chosen = [row for row in rows if (row["data"], row["n_classes"], row["seed"]) == ("grid", 16, 0)]
    found = {(row["precision"], row["n_samples"]): row["bits_per_stored_bit"] for row in reversed(chosen)}
    return [Point(precision, n_facts, bits) for (precision, n_facts), bits in sorted(found.items())]


def draw_journey(journey: Journey) -> Figure:
    """From the letters of the question, through the tables, to the bits of the answer."""
    figure, axes = plt.subplots(figsize=(9, 4.4))
    axes.set(xlim=(0, 100), ylim=(-6, 42))
    axes.axis("off")
    for at, letter in enumerate(journey.question):
        axes.add_patch(Rectangle((1 + 2.35 * at, 38), 2.1, 3.6, facecolor="#eef3fa", edgecolor=BLUE, lw=0.6))
        axes.text(2.05 + 2.35 * at, 39.8, letter, ha="center", va="center", fontsize=9)
    n_tables = len(journey.rows)
    _box(axes, 28, "Each token and its position become\na few numbers, mixed by reflections.")
    _box(axes, 17, "Attention adds them up: the address,\nwhich no other fact has.")
    _box(
        axes,
        6,
        f"The address names a row in each of {n_tables} tables.\nA row is a hidden unit, its weight a word.",
    )
    for top in (38, 28, 17):
        _arrow(axes, (20.5, top - 0.6), (20.5, top - 3.2))
    _arrow(axes, (40.6, 9.2), (44.6, 9.2))
    left, width, height = 46.0, 6.6, 36.0
    step = height / journey.n_rows
    for number, row in enumerate(journey.rows):
        x = left + number * 10.6
        for each in range(journey.n_rows):
            fill = ORANGE if each == row else "#ececec"
            axes.add_patch(Rectangle((x, 41.6 - (each + 1) * step), width, 0.72 * step, facecolor=fill, lw=0))
        axes.text(x + width / 2, 3.2, f"row {row}", ha="center", color=ORANGE, fontsize=8)
        if number:
            axes.text(x - 2, 22, "+", ha="center", va="center", fontsize=12, color=INK)
    _arrow(axes, (71.5, 2.2), (71.5, -0.9))
    _bits(axes, journey)
    return figure


def _bits(axes: Axes, journey: Journey) -> None:
    """The bits of the sum: those that turn unknown inputs away, and those of the label."""
    n = journey.reject_bits
    axes.text(44.5, -2.9, "read off the sum of the words:", ha="right", va="center", color=INK, fontsize=8.5)
    for at, bit in enumerate(journey.bits):
        fill, edge = ("#f2f2f2", "#999999") if at < n else ("#dff0e6", GREEN)
        x = 46 + 2 * at + (0.8 if at >= n else 0)
        axes.add_patch(Rectangle((x, -4.6), 1.8, 3.4, facecolor=fill, edgecolor=edge, lw=0.6))
        axes.text(x + 0.9, -2.9, bit, ha="center", va="center", fontsize=7.5)
    axes.text(46, -7.4, f"{n} zeros, or the answer is unknown", color="#777777", fontsize=8)
    text = f"class {int(journey.bits, 2)}: {journey.answer}"
    axes.text(46.8 + 2 * n, -7.5, text, color=GREEN, fontsize=9.5, weight="bold")


def _box(axes: Axes, bottom: float, text: str) -> None:
    style = "round,pad=0.1,rounding_size=0.8"
    axes.add_patch(
        FancyBboxPatch((1, bottom), 39, 6.4, boxstyle=style, facecolor="white", edgecolor=PALE, lw=1)
    )
    axes.text(20.5, bottom + 3.2, text, ha="center", va="center", fontsize=8.5, color=INK)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 0.9})


def draw_measured(points: list[Point]) -> Figure:
    """Bits per stored bit against the number of facts, with what training reached and what nothing exceeds."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    kinds = (
        ("int8", GREEN, "D"),
        ("float64", BLUE, "o"),
        ("float32", ORANGE, "s"),
        ("bfloat16", "#8a5aa8", "^"),
    )
    ends = []
    for precision, color, mark in kinds:
        chosen = sorted(
            (point.n_facts, point.bits_per_stored_bit) for point in points if point.precision == precision
        )
        counts, bits = zip(*chosen, strict=True)
        axes.plot(counts, bits, color=color, marker=mark, ms=5, lw=1.6)
        ends.append((f"compiled, {precision}", (counts[-1], bits[-1]), color))
    lines = (
        (1.0, "-", "no model holds more: 1", "bottom"),
        (float(STATIC_FUNCTION_BITS_PER_STORED_BIT), ":", "a static function outside a network", "top"),
        (float(ALLEN_ZHU_2024.bits_per_stored_bit), "--", f"trained, {ALLEN_ZHU_2024.name}", "bottom"),
        (float(MORRIS_2025.bits_per_stored_bit), "--", f"trained, {MORRIS_2025.name}", "top"),
    )
    for height, style, name, side in lines:
        axes.axhline(height, color=INK, ls=style, lw=0.9)
        axes.annotate(
            f"{name}" if height == 1 else f"{name}: {height:g}", (1, height), (-4, 3 if side == "bottom" else -3),
            xycoords=("axes fraction", "data"), textcoords="offset points", va=side, ha="right", fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_xscale("log")
    last = max(point.n_facts for point in points)  # room for names on its right
    axes.set(xlim=(6e3, 8 * last), ylim=(0, 1.1), xlabel="facts", ylabel="bits of labels per stored bit")
    figure.tight_layout()
    for name, end, color in ends:
        _label(axes, name, end, color)
    return figure


def _label(axes: Axes, name: str, point: tuple[float, float], color: str) -> None:
    """Write a name beside a point, as near as there is room: inside the axes, on no other text and, if possible, on no line."""
    others = [text.get_window_extent().padded(1) for text in axes.texts]
    lines = [line.get_transform().transform_path(line.get_path()) for line in axes.lines]
    text = axes.annotate(
        name, point, (0, 0), textcoords="offset points", va="center", color=color, fontsize=8.5
    )

    def move(offset: tuple[float, float]) -> None:
        text.set(ha="left" if offset[0] > 0 else "right", position=offset)

    def cost(offset: tuple[float, float]) -> tuple[bool, int, float]:
        move(offset)
        box = text.get_window_extent()
        is_outside = not all(axes.bbox.contains(*corner) for corner in box.corners())
        n_lines = sum(line.intersects_bbox(box, filled=False) for line in lines)
        return is_outside or bool(box.count_overlaps(others)), n_lines, abs(offset[1])

    move(min(((side, height) for side in (7, -7) for height in range(-80, 81, 4)), key=cost))


def write_all(folder: Path = TARGET) -> None:
    """Draw all pictures into `folder`."""
    journey, points, grafted = follow(), measured(), stream()
    with plt.rc_context(STYLE):
        _save(draw_journey(journey), folder / "question.svg", asdict(journey))
        _save(draw_measured(points), folder / "bits-per-stored-bit.svg", [asdict(point) for point in points])
        _save(draw_stream(grafted), folder / "graft-stream.svg", asdict(grafted))


def _save(figure: Figure, path: Path, record: object) -> None:
    # a white ground, so that dark pages show it as it is
    metadata = {"Date": None, "Description": json.dumps(record)}
    figure.savefig(path, metadata=metadata, facecolor="white", bbox_inches="tight", pad_inches=0.12)
    plt.close(figure)


if __name__ == "__main__":
    write_all()
