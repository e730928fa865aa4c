"""Beyond the papers: theory's floor, compiled models and trained models on one axis, bits memorised against parameters.

The data are DPC24's: pairs of 50 tokens with random next tokens. A trained model memorises N (log2 C - loss / ln 2) bits, as
in Morris et al. (2025): what it saves in telling every label. A compiled model memorises all N log2 C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import fig1a, fig2b, fig3
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Series, Stage, Style
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import judged

COMPILED: dict[str, Style] = {
    "retrieval": "closed-form",
    "dana-2024": "fourth",
    "kajitsuka-sato-2025": "third",
}
STORED_BITS = 32  # of a trained parameter
TRAINED_GPT = 3.6  # bits per parameter, Morris et al. 2025


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """The runs of Figures 1a, 2b and 3, which cover small to large models."""
    modules = (fig1a, fig2b, fig3)
    return [stage for module in modules for stage in module.stages(scale, samples)]


def memorised_bits(record: Record) -> float:
    """Bits saved in telling every label, at least 0."""
    n_classes = record.config["data"]["n_vocab"]
    saved = math.log2(n_classes) - record.measured["loss"] / math.log(2)
    return max(0.0, saved) * record.n_samples if math.isfinite(saved) else 0.0


def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """Every trained model as a point, each construction's size by number of facts, and the floor of 32 bits a parameter."""
    n_vocab = int(records[0].config["data"]["n_vocab"])
    labels: dict[runs.How, tuple[str, Style]] = {
        "adam": ("trained by Adam, the paper's steps", "measured"),
        "longer": ("trained by Adam, 4 times the steps", "fifth"),
        "lbfgs": ("trained by L-BFGS", "second"),
    }
    trained, best = [], {}
    for how, (label, style) in labels.items():
        mine = sorted(
            (record for record in records if runs.how_trained(record) == how),
            key=lambda record: record.n_parameters,
        )
        if mine:
            top = max(mine, key=lambda record: memorised_bits(record) / record.n_parameters)
            best[how] = (memorised_bits(top) / top.n_parameters, top)
            trained.append(_frontier(label, style, mine))
    compiled, sizes = _compiled(n_vocab)
    whole = n_vocab**2 * math.log2(n_vocab)
    least = 100.0  # parameters from which the straight lines are drawn, up to all labels
    panel = Panel(
        f"Bits memorised by parameters, {n_vocab} tokens in pairs",
        "parameters",
        "bits memorised",
        (
            *trained,
            *compiled,
            _line("theory's floor: 32 bits a parameter", "bound", STORED_BITS, least, whole),
            _line("trained GPTs: 3.6 bits a parameter", "bound2", TRAINED_GPT, least, whole),
        ),
        x_scale="log",
        y_scale="log",
    )
    checks = [
        Check(
            f"most bits per parameter, {labels[how][0]}",
            f"{value:.3f} ({top.n_parameters:,} parameters, accuracy {runs.accuracy(top):.3f})",
            f"below the {sizes['retrieval']:.2f} of `retrieval`",
            value < sizes["retrieval"],
        )
        for how, (value, top) in best.items()
    ]
    numbers: dict[str, Any] = {
        "bits per parameter, trained": {how: value for how, (value, _) in best.items()},
        "bits per parameter, compiled": sizes,
    }
    return Computed(
        (panel,),
        judged(scale, checks, _because(best, sizes), is_complete="adam" in best),
        numbers,
        (
            "Curves of trained models join the best of each size and those below it.",
            "Compiled sizes are dense parameters of 64-bit weights (kajitsuka-sato-2025: exact weights of any length).",
        ),
    )


def _frontier(label: str, style: Style, records: Sequence[Record]) -> Series:
    """The most bits any model of at most so many parameters memorised."""
    x, y, most = [], [], 0.0
    for record in records:
        bits = memorised_bits(record)
        if bits > most:
            most = bits
            x.append(float(record.n_parameters))
            y.append(bits)
    return Series(label, style, tuple(x), tuple(y))


def _line(label: str, style: Style, rate: float, least: float, whole: float) -> Series:
    ends = (least, max(least, whole / rate))
    return Series(label, style, ends, tuple(rate * end for end in ends))


def _compiled(n_vocab: int) -> tuple[list[Series], dict[str, float]]:
    from byheart.construct.registry import get  # not on a bare machine
    from byheart.data.shape import DataShape

    found, sizes = [], {}
    counts = [count for count in (10, 30, 100, 300, 1000, 2500) if count <= n_vocab**2]
    for name, style in COMPILED.items():
        dense = [
            get(name).estimate(DataShape(count, 2, n_vocab, vocab=n_vocab, ordered=True)).parameters_dense
            for count in counts
        ]
        bits = [count * math.log2(n_vocab) for count in counts]
        found.append(Series(f"compiled: {name}", style, tuple(map(float, dense)), tuple(bits)))
        sizes[name] = bits[-1] / dense[-1]
    return found, sizes


def _because(best: dict[runs.How, tuple[float, Record]], sizes: dict[str, float]) -> str:
    trained = "; ".join(f"{how}: {value:.2f}" for how, (value, _) in best.items())
    compiled = "; ".join(f"{name}: {value:.2f}" for name, value in sizes.items())
    return (
        f"Most bits per parameter of trained models: {trained}. Of compiled models of all pairs: {compiled}."
    )


FIGURE = Figure(
    "beyond-bits",
    "beyond",
    (),
    "Beyond the papers: bits memorised by parameters, trained, compiled and at best",
    "Training these models stores fewer bits in a parameter than compiling the same facts does.",
    stages,
    compute,
)
