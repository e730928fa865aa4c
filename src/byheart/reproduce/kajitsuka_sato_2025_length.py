"""KS25's study of the sequence length: the smallest number of blocks for n = 10 to 10,000 at N = 500."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byheart.measure.records import Record
from byheart.reproduce import kajitsuka_sato_2025_runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Stage
from byheart.reproduce.kajitsuka_sato_2025_trials import (
    CURVE_STYLES,
    best_trials,
    fewest_blocks,
    loss,
    n_blocks,
)
from byheart.reproduce.points import judged, points, series
from byheart.reproduce.samples import Samples
from byheart.theorems import realises

ASKED = 4  # the paper's answer

N_SAMPLES: dict[Scale, int] = {"smoke": 12, "laptop": 200, "paper": 500}


@dataclass(frozen=True)
class Part:
    """Models of one length. The longer the sequences, the fewer: at n = 10,000 a model takes gigabytes."""

    seq_len: int
    blocks: tuple[int, ...]
    n_seeds: int
    rates: tuple[float, ...]
    priority: int
    longer: int = 1  # times the paper's epochs


PARTS: dict[Scale, tuple[Part, ...]] = {
    "smoke": tuple(Part(n, (1, 2), 1, runs.RATES[2:], 4) for n in (3, 6)),
    "laptop": tuple(Part(n, (1, 4, 8), 1, runs.RATES[2:], 4) for n in (10, 100)),
    "paper": (
        Part(10, (1, 2, 3, 4, 5, 6, 8, 12), 3, runs.RATES, 4),
        Part(100, (1, 2, 3, 4, 5, 6, 8, 12), 3, runs.RATES, 4),
        Part(1000, (2, 4, 8), 1, runs.RATES, 4),
        Part(10_000, (4, 8), 1, runs.RATES[2:], 7),
        Part(10, (4, 8, 12), 3, runs.RATES[2:], 8, longer=10),
        Part(100, (4, 8, 12), 3, runs.RATES[2:], 8, longer=10),
    ),
}


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Every length with its numbers of blocks; the longest, and ten times the epochs, come last."""
    return [
        Stage(
            f"KS25 length, n = {part.seq_len}, {1000 * part.longer} epochs",
            part.priority,
            tuple(
                run
                for n_blocks in part.blocks
                for run in runs.vector_runs(
                    scale,
                    N_SAMPLES[scale],
                    part.seq_len,
                    n_blocks,
                    seeds=range(part.n_seeds),
                    rates=part.rates,
                    longer=part.longer,
                )
            ),
        )
        for part in PARTS[scale]
    ]


@realises("KS25-length")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """The fewest blocks for every length, and the least loss by length and blocks, for either number of epochs."""
    panels, words = [], []
    wanted = {part.seq_len for part in PARTS[scale] if part.longer == 1}
    numbers: dict[str, Any] = {}
    checks: list[Check] = []
    for longer in sorted({part.longer for part in PARTS[scale]}):
        steps = runs.training(scale, runs.RATES[0], stops=True).steps * longer
        mine = [record for record in records if record.config["training"]["steps"] == steps]
        if not mine:
            continue
        best = best_trials(mine, lambda record: (length(record), n_blocks(record)))
        lengths = sorted({length(record) for record in mine})
        panels.append(
            Panel(
                f"Training loss by number of blocks, {steps:,} epochs",
                "#blocks",
                "mean squared error",
                tuple(
                    series(
                        f"n = {n:,}",
                        CURVE_STYLES[number % len(CURVE_STYLES)],
                        points([record for record in best if length(record) == n], n_blocks, loss),
                    )
                    for number, n in enumerate(lengths)
                ),
                y_scale="log",
            )
        )
        found = fewest_blocks(mine, length)
        answers = {n: sorted(b for (m, _), b in found.items() if m == n and b is not None) for n in lengths}
        at_four = {
            n: statistics.fmean(values)
            for n in lengths
            if (values := [loss(r) for r in best if length(r) == n and n_blocks(r) == ASKED])
        }
        numbers[f"{steps} epochs"] = {
            "fewest blocks": {str(n): blocks for n, blocks in answers.items()},
            f"loss at {ASKED} blocks": {str(n): value for n, value in at_four.items()},
            "least loss": {str(n): min(loss(r) for r in best if length(r) == n) for n in lengths},
        }
        words.append(
            f"{steps:,} epochs: fewest blocks "
            + ", ".join(f"n = {n:,}: {_spoken(blocks)}" for n, blocks in answers.items())
            + f"; mean squared error at {ASKED} blocks "
            + ", ".join(f"{value:.3f} (n = {n:,})" for n, value in at_four.items())
        )
        if longer == 1:
            checks = _checks(answers, at_four)
    return Computed(
        tuple(panels),
        judged(
            scale,
            checks,
            "; ".join(words) + ".",
            is_complete=wanted <= {length(record) for record in records},
        ),
        numbers,
        (
            "Tokens are uniform on [0, 1)^6 and enter through a trained map to the two-dimensional stream.",
            "The answer is read at the first token; the paper reads one fixed token too.",
            "Learning rates 0.001, 0.003, 0.01, 0.03 (the two largest for n = 10,000), warm-up 100 steps.",
            "Memorised means a mean squared error below 0.01.",
        ),
    )


def length(record: Record) -> int:
    """The sequence length n of a record."""
    return int(record.config["data"]["seq_len"])


def _spoken(blocks: Sequence[int]) -> str:
    return "none of those tried" if not blocks else "/".join(str(b) for b in blocks)


def _checks(answers: dict[int, list[int]], at_four: dict[int, float]) -> list[Check]:
    spread = max(at_four.values()) / min(at_four.values()) if len(at_four) > 1 else float("nan")
    return [
        Check(
            f"{ASKED} blocks memorise at every length",
            ", ".join(f"n = {n:,}: {_spoken(blocks)}" for n, blocks in answers.items()),
            f"{ASKED} for all",
            all(blocks and min(blocks) <= ASKED for blocks in answers.values()),
        ),
        Check(
            "what is reached does not depend on the length",
            f"mean squared error at {ASKED} blocks within a factor of {spread:.2f} between lengths",
            "within a factor of 1.25",
            spread <= 1.25,
        ),
    ]


FIGURE = Figure(
    "kajitsuka-sato-2025-length",
    "KS25",
    ("KS25-length",),
    "KS25, the sequence-length study: fewest blocks for n = 10 to 10,000 at N = 500",
    "Four blocks are the fewest that memorise, whatever the sequence length.",
    stages,
    compute,
)
