"""The pictures of the site, drawn from compiled models. Alone: `python docs/pictures.py DIR png`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

import matplotlib.pyplot as plt
import numpy as np
from compiled import QUESTION, capitals, random_vectors, sums, trace
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rooms import rooms

INK, PALE, BLUE, ORANGE, GREEN = "#333333", "#d9d9d9", "#3b6fb6", "#d9822b", "#3a8f5c"
STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "byheart",  # the same picture gives the same file
    "svg.fonttype": "path",
}


def contextual_mapping() -> Figure:
    """Every token of every sequence with its φ, and the sum of each row."""
    model = sums()
    figure, axes = plt.subplots(figsize=(7.2, 4.4))
    for row, numbers in enumerate(model.mapping.tokens.sequences.tolist()):
        for column, (word, number) in enumerate(zip(model.text(row).split(), numbers, strict=True)):
            weight = model.mapping.weights.get(number, 0)
            fill, color, font = ("#cfe0f5", BLUE, "bold") if weight else ("#f2f2f2", "#999999", "normal")
            left = 1.5 * column
            axes.add_patch(Rectangle((left, row), 1.4, 0.86, facecolor=fill, edgecolor="none"))
            axes.text(left + 0.1, row + 0.43, word, va="center", color=INK)
            axes.text(left + 1.32, row + 0.43, str(weight), va="center", ha="right", color=color, weight=font)
        for text, at, align, color in (
            (str(model.mapping.sequence_ids[row]), 5.4, "right", BLUE),
            (str(model.place(row)), 6.6, "right", ORANGE),
            (model.label(row), 7.3, "left", GREEN),
        ):
            axes.text(at, row + 0.43, text, va="center", ha=align, color=color)
    for text, at, align in (
        ("token in its place, and φ", 0, "left"),
        ("Σ φ", 5.4, "right"),
        ("on the line", 6.75, "right"),
        ("label", 7.3, "left"),
    ):
        axes.text(at, -0.4, text, ha=align, va="center", color=INK, style="italic")
    axes.set(xlim=(-0.1, 8.2), ylim=(model.data.n_samples, -0.9))
    axes.axis("off")
    return figure


def sequence_ids() -> Figure:
    """Contexts on a line: twelve with their names, then the capitals with their groups."""
    figure, (few, many) = plt.subplots(2, 1, figsize=(7.2, 4.2), height_ratios=[1.5, 1])
    small = sums()
    for sample in range(small.data.n_samples):
        at, text = float(small.place(sample)), f"{small.text(sample)} = {small.label(sample)}"
        few.plot([at, at], [0, 0.25], color=ORANGE, lw=2)
        few.text(at, 0.32, text, rotation=55, ha="left", va="bottom", fontsize=7.5, rotation_mode="anchor")
    few.set(xlim=(0, float(max(small.mapping.labels)) + 9), ylim=(0, 1.7))
    _line(few, "twelve sums")
    large = capitals()
    for number, group in enumerate(large.groups()):
        color = (BLUE, ORANGE)[number % 2]
        many.axvspan(float(group[0] // 1), float(group[-1] // 1 + 1), color=color, alpha=0.18, lw=0)
        many.vlines([float(x) for x in group], 0, 0.6, color=color, lw=0.9)
    size = large.note("group_size_second")
    _line(many, f"{len(large.mapping.labels)} capitals in {len(large.groups())} groups of at most {size}")
    many.set_ylim(0, 1)
    figure.tight_layout()
    return figure


def _line(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, style="italic")
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])


def words() -> Figure:
    """The bits of the two words of one group, as they stand in the weights."""
    model = capitals()
    sample = model.sample_of(QUESTION)
    number, size = model.group_of(sample), model.note("group_size_second")
    group = model.groups()[number]
    keys, labels = list(model.lookup_words())[number]
    key_bits, label_bits = model.note("context_key_bits"), model.data.n_classes.bit_length()
    key_names = [f"key {x // 1}" for x in group]
    label_names = [f"label {model.data.label_names[model.mapping.labels[x] - 1]}" for x in group]
    chosen = group.index(model.place(sample))
    figure, axes = plt.subplots(figsize=(7.2, 2.5))
    _word(axes, 0.0, "u", _bits(keys, key_bits * size), key_bits, key_names, chosen)
    _word(axes, 2.6, "w", _bits(labels, label_bits * size), label_bits, label_names, chosen)
    axes.set(xlim=(-2, size * (key_bits + 0.8)), ylim=(4.8, -0.4))
    axes.axis("off")
    return figure


def _bits(word: Fraction, n_bits: int) -> str:
    return format(int(word * (1 << n_bits)), f"0{n_bits}b")


def _word(axes: Axes, top: float, name: str, bits: str, width: int, fields: list[str], chosen: int) -> None:
    """Draw the bits of a word, field by field, one of them marked."""
    axes.text(-0.6, top + 0.5, name, ha="right", va="center", style="italic")
    for at, bit in enumerate(bits):
        field = at // width
        color, filled = (GREEN, "#bfe3cd") if field == chosen else (INK, PALE)
        left = at + 0.8 * field
        fill = filled if bit == "1" else "white"
        axes.add_patch(Rectangle((left, top), 1, 1, facecolor=fill, edgecolor=color, lw=0.6))
        axes.text(left + 0.5, top + 0.52, bit, ha="center", va="center", fontsize=7)
        if at % width == 0 and field < len(fields):
            axes.text(left, top + 1.55, fields[field], color=color, fontsize=8, va="center")


def triangle(z: np.ndarray) -> np.ndarray:
    """Telgarsky's ψ."""
    return np.maximum(0, np.maximum(0, 2 * z) - np.maximum(0, 4 * z - 2))


def bit_extraction() -> Figure:
    """ψ iterated: on the piece where the word lies, rising means 0 and falling means 1."""
    model = capitals()
    _, word = list(model.lookup_words())[model.group_of(model.sample_of(QUESTION))]
    bits = _bits(word, model.note("group_size_second") * model.data.n_classes.bit_length())[:6]
    figure, panels = plt.subplots(2, 3, figsize=(7.2, 3.8), sharex=True, sharey=True)
    n_pieces = 2**12
    grid = np.linspace(0, 1, n_pieces + 1)
    curve, point = grid, np.array([float(word)])
    for i, (axes, bit) in enumerate(zip(panels.flat, bits, strict=True), start=1):
        curve, point = triangle(curve), triangle(point)
        width = n_pieces >> i
        first = int(bits[:i], 2) * width
        piece = slice(first, first + width + 1)
        axes.plot(grid, curve, color=INK, lw=0.9)
        axes.plot(grid[piece], curve[piece], color=ORANGE if bit == "1" else BLUE, lw=2.4)
        axes.plot([float(word)], point, "o", color=INK, ms=4)
        axes.set_title(f"bit {i}: {'falls, so 1' if bit == '1' else 'rises, so 0'}", fontsize=8.5, loc="left")
    for axes in panels[-1]:
        axes.set_xlabel("w as a fraction", fontsize=8)
    figure.tight_layout()
    return figure


def one_question() -> Figure:
    """Registers of the residual stream, block by block, while one question is answered."""
    model = capitals()
    sample = model.sample_of(QUESTION)
    names, values = trace(model, sample)
    number = int(model.data.labels[sample]) + 1
    assert values[-1, names.index("answer")] == number
    shown = {
        "x": "x, the context",
        "keys_high": "u, the keys (as a fraction)",
        "key": "the key being read",
        "value": "the label being read",
        "hit": "key = x?",
        "answer": "the answer",
    }
    figure, panels = plt.subplots(len(shown), 1, figsize=(7.2, 5.2), sharex=True)
    lookup_ends = 1 + model.note("groups_second")
    for axes, (name, text) in zip(panels, shown.items(), strict=True):
        color = {"answer": GREEN, "hit": ORANGE}.get(name, BLUE)
        axes.step(range(len(values)), values[:, names.index(name)], where="mid", color=color, lw=1.2)
        axes.axvline(lookup_ends + 0.5, color=PALE, lw=1)
        axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="y", nbins=2)
    for at, text in (
        (lookup_ends / 2, "find the group"),
        ((lookup_ends + len(values)) / 2, "read its words"),
    ):
        panels[0].text(at, 1.08, text, transform=panels[0].get_xaxis_transform(), ha="center", style="italic")
    panels[-1].set_xlabel(f"block after attention; the answer is number {number}, {model.label(sample)}")
    figure.align_ylabels(panels)
    figure.tight_layout()
    return figure


def depth() -> Figure:
    """Depth of models compiled from random vectors, beside two curves through the first of them."""
    counts = np.array([10, 30, 100, 300, 1000, 3000])
    depths = [len(random_vectors(int(n)).network.layers) for n in counts]
    figure, axes = plt.subplots(figsize=(5.4, 3.2))
    axes.loglog(counts, depths, "o-", color=BLUE, label="compiled models")
    for name, growth, style in (
        ("√(N log N)", np.sqrt(counts * np.log(counts)), "--"),
        ("√N", np.sqrt(counts), ":"),
    ):
        axes.loglog(counts, growth * depths[0] / growth[0], style, color=INK, lw=1, label=name)
    axes.set(xlabel="samples, N", ylabel="layers")
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "rooms": rooms,
    "contextual-mapping": contextual_mapping,
    "sequence-ids": sequence_ids,
    "words": words,
    "bit-extraction": bit_extraction,
    "one-question": one_question,
    "depth": depth,
}


def write_all(folder: Path, suffix: str = "svg") -> None:
    """Draw every picture into `folder`."""
    with plt.rc_context(STYLE):
        for name, draw in PICTURES.items():
            figure = draw()
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(
                folder / f"{name}.{suffix}",
                metadata=metadata,
                facecolor="white",
                bbox_inches="tight",
                dpi=110,
            )
            plt.close(figure)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_all(target, *sys.argv[2:])
