"""Draw the rooms of the codebase and what passes between them: the first picture of how-it-works.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "byheart"
INK, PATH, SIDE, BASE = "#333333", "#cfe0f5", "#f2f2f2", "#e6efe0"
WIDTH, HEIGHT, STEP = 2.0, 0.62, 1.4


@dataclass(frozen=True)
class Room:
    """A folder of src/byheart: where it is drawn, and its purpose."""

    x: float
    y: float
    purpose: str
    color: str = SIDE


ROOMS = {
    "cli": Room(0, 5, "commands"),
    "web": Room(2, 5, "the local page"),
    "documents": Room(4, 5, "what --json prints"),
    "data": Room(0, 3, "files to a Dataset", PATH),
    "construct": Room(2, 3, "one room per method", PATH),
    "program": Room(2, 2, "registers and blocks"),
    "network": Room(4, 3, "what weights compute", PATH),
    "verify": Room(6, 3, "checks every answer", PATH),
    "storage": Room(8, 3, "the model folder", PATH),
    "bounds": Room(0, 4, "what theory says"),
    "inspect": Room(4, 4, "which weights hold a fact"),
    "export": Room(8, 4, "GGUF, ONNX, ..."),
    "graft": Room(6, 4, "facts in a checkpoint"),
    "golden": Room(6, 5, "tests inference engines"),
    "measure": Room(4, 2, "trains and measures"),
    "reproduce": Room(6, 2, "figures of the papers"),
    "report": Room(8, 2, "tables and pages"),
    "records": Room(0, 1, "reads all documents", BASE),
    "files": Room(2, 1, "writes files whole", BASE),
    "process": Room(4, 1, "worker processes", BASE),
}
FLOW = (
    ("data", "construct", "Dataset"),
    ("construct", "network", "weights"),
    ("network", "verify", "Memoriser"),
    ("verify", "storage", "Certificate"),
    ("data", "bounds", ""),
    ("construct", "program", ""),
    ("network", "inspect", ""),
    ("network", "measure", ""),
    ("storage", "export", ""),
    ("measure", "reproduce", "runs"),
    ("reproduce", "report", "records"),
)
"""The first room, the second room, and what passes from the first to the second."""


def present() -> set[str]:
    """The rooms that the package has."""
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def rooms() -> Figure:
    """Draw the rooms as boxes: the path of `byheart compile` in blue, the rooms that all others use in green."""
    there = present()
    figure, axes = plt.subplots(figsize=(11, 4.8))
    for name, room in ROOMS.items():
        if name in there:
            _draw(axes, name, room)
    for start, end, what in FLOW:
        if {start, end} <= there:
            _connect(axes, ROOMS[start], ROOMS[end], what)
    axes.set(xlim=(-0.1, 8 * STEP + WIDTH + 0.1), ylim=(0.8, 5.8))
    axes.axis("off")
    return figure


def _draw(axes: Axes, name: str, room: Room) -> None:
    box = FancyBboxPatch(
        (room.x * STEP, room.y),
        WIDTH,
        HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=room.color,
        edgecolor=INK,
        linewidth=0.6,
    )
    axes.add_patch(box)
    middle = room.x * STEP + WIDTH / 2
    axes.text(middle, room.y + 0.42, name, ha="center", va="center", color=INK, weight="bold")
    axes.text(middle, room.y + 0.17, room.purpose, ha="center", va="center", color=INK, size=7)


def _connect(axes: Axes, start: Room, end: Room, what: str) -> None:
    across = start.y == end.y
    left, right = start.x * STEP, end.x * STEP
    tail = (left + WIDTH, start.y + HEIGHT / 2) if across else (left + WIDTH / 2, _edge(start, end))
    head = (right, end.y + HEIGHT / 2) if across else (right + WIDTH / 2, _edge(end, start))
    axes.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 0.8})
    if what:
        axes.text(
            (tail[0] + head[0]) / 2, tail[1] + 0.1, what, ha="center", color=INK, size=7, style="italic"
        )


def _edge(of: Room, towards: Room) -> float:
    """The height of the side of a room that faces another."""
    return of.y + HEIGHT if towards.y > of.y else of.y
