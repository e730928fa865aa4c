"""The picture of docs/graft.md: the residual stream of a grafted checkpoint, layer by layer, drawn from a stored record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pictures import BLUE, GREEN, INK, ORANGE, PALE

from byheart.graft.layout import pins_of

RECORD = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "graft_on_device_h200.jsonl"
TOP, BOTTOM = 34.0, 6.0


@dataclass(frozen=True)
class Stream:
    """Columns of the stream and layers of the network, as `graft` told them."""

    host_width: int
    n_pins: int
    code: int
    window: int
    width: int
    memory_layers: int
    host_layers: int
    contexts: int


def stream() -> Stream:
    """10,000 facts in SmolLM2-135M."""
    lines = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    found = next(line for line in lines if line.get("what") == "graft")
    (host_width, width), (host_layers, layers) = found["width"], found["layers"]
    return Stream(
        host_width,
        len(pins_of(width)),
        found["code"][0],
        found["longest_context"],
        width,
        layers - host_layers,
        host_layers,
        found["contexts"],
    )


def draw_stream(found: Stream) -> Figure:
    """From the embedding at the bottom to the head at the top; columns from left to right, not to scale."""
    figure, axes = plt.subplots(figsize=(9, 4.6))
    axes.set(xlim=(0, 100), ylim=(0, 41))
    axes.axis("off")
    bands = (
        (20, 24, f"the host's own\n{found.host_width} columns", PALE, BOTTOM, TOP),
        (46, 7, f"pins\n{found.n_pins}", ORANGE, BOTTOM, 19.4),
        (55, 7, f"token, then\nanswer: {found.code}", GREEN, BOTTOM, TOP),
        (64, 14, f"last {found.window} tokens\n{found.window} x {found.code}", BLUE, 8.6, 19.4),
    )
    for left, width, name, color, low, high in bands:
        axes.add_patch(Rectangle((left, low), width, high - low, facecolor=color, alpha=0.35, lw=0))
        axes.text(left + width / 2, 3.0, name, ha="center", va="center", fontsize=8, color=INK)
    axes.add_patch(Rectangle((55, 19.4), 7, TOP - 19.4, facecolor="white", alpha=0.55, lw=0))
    _layer(axes, 8.6, "gather", "heads copy the codes of the last tokens", 46)
    _layer(axes, 13.2, "match", f"units find {found.contexts:,} contexts", 46)
    _layer(axes, 17.8, "clear", "pins and copies become exactly 0", 46)
    _layer(axes, 23.5, "host", "its weights; zeros for new columns", 20, 24)
    _layer(axes, 28.5, "host", "", 20, 24)
    for low, high, name in (
        (7.6, 20.2, f"{found.memory_layers} memory\nlayers"),
        (22.3, 31.3, f"{found.host_layers} layers\nof the host"),
    ):
        axes.plot([17.5, 16.5, 16.5, 17.5], [low, low, high, high], color=INK, lw=0.8)
        axes.text(15.5, (low + high) / 2, name, ha="right", va="center", fontsize=8.5, color=INK)
    axes.text(32, TOP + 2.2, "the host's logits", ha="center", fontsize=8.5, color=INK)
    axes.text(50, TOP + 2.2, "+", ha="center", fontsize=11, color=INK)
    axes.text(58.5, TOP + 2.2, "lead of the answer, or exactly 0", ha="left", fontsize=8.5, color=GREEN)
    axes.annotate("", (32, TOP + 1.8), (32, TOP), arrowprops={"arrowstyle": "-|>", "color": INK})
    axes.annotate("", (58.5, TOP + 1.8), (58.5, TOP), arrowprops={"arrowstyle": "-|>", "color": GREEN})
    axes.text(
        64,
        26.5,
        "too small for any norm of the\nhost to notice; amplified at the head",
        fontsize=8,
        color=GREEN,
    )
    axes.text(15.5, 6.2, "embedding", ha="right", va="center", fontsize=8.5, color=INK)
    axes.text(15.5, TOP, "head", ha="right", va="center", fontsize=8.5, color=INK)
    return figure


def _layer(axes: Axes, at: float, name: str, text: str, left: float, width: float = 32) -> None:
    axes.add_patch(Rectangle((left, at - 0.95), width, 1.9, facecolor="white", edgecolor=INK, lw=0.8))
    axes.text(left + width / 2, at, name, ha="center", va="center", fontsize=8.5, color=INK)
    axes.text(80 if left > 40 else 64, at, text, va="center", fontsize=7.5, color="#555555")
