"""KS25's study of the sequence length: the smallest number of blocks for n = 10 to 10,000 at N = 500."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Stage
from byheart.reproduce.kajitsuka_sato_2025 import runs as runs
from byheart.reproduce.kajitsuka_sato_2025.trials import (
    CURVE_STYLES,
    best_trials,
    fewest_blocks,
    loss,
    n_blocks,
)
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import judged, points, series
from byheart.theorems import realises

ASKED = 4  # the paper's answer

N_SAMPLES: dict[Scale, int] = {"smoke": 12, "laptop": 200, "paper": 500}


@dataclass(frozen=True)
class LengthPart:
    """Models of one length. The longer the sequences, the fewer: at n = 10,000 a model takes gigabytes."""

    seq_len: int
    blocks: tuple[int, ...]
    n_seeds: int
    rates: tuple[float, ...]
    priority: int
    width: int = 2  # of the stream, m
    longer: int = 1  # times the paper's epochs


FAST = runs.RATES[2:]
PARTS: dict[Scale, tuple[LengthPart, ...]] = {
    "smoke": tuple(LengthPart(n, (1, 2), 1, FAST, 4, width) for width in (2, 6) for n in (3, 6)),
    "laptop": tuple(LengthPart(n, (1, 2, 4), 1, FAST, 4, width) for width in (2, 6) for n in (10, 100)),
    "paper": (
        LengthPart(10, (1, 2, 3, 4, 5, 6, 8, 12), 3, runs.RATES, 4),
        LengthPart(100, (1, 2, 3, 4, 6, 8), 3, FAST, 4),
        LengthPart(1000, (2, 4, 8), 3, FAST, 4),
        LengthPart(10, (1, 2, 3, 4, 5, 6), 3, FAST, 4, 6),
        LengthPart(100, (1, 2, 3, 4, 5, 6), 3, FAST, 4, 6),
        LengthPart(1000, (1, 2, 3, 4), 3, FAST, 4, 6),
        LengthPart(10_000, (4,), 3, FAST, 4),
        LengthPart(10_000, (4,), 3, FAST, 4, 6),
        LengthPart(10_000, (2, 3), 3, FAST, 8, 6),
        LengthPart(10, (4, 8), 3, FAST, 9, longer=10),
    ),
}


def stages(scale: Scale, samples: Samples | None = None) -> list[Stage]:
    """Every length with its numbers of blocks; the longest, and ten times the epochs, come last."""
    return [
        Stage(
            f"KS25 length, n = {part.seq_len}, m = {part.width}, {1000 * part.longer} epochs",
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
                    width=part.width,
                )
            ),
        )
        for part in PARTS[scale]
    ]


@realises("KS25-length")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """The fewest blocks for every length, and the least loss by length and blocks, for either width and number of epochs."""
    panels, words = [], []
    wanted = {(part.width, part.seq_len) for part in PARTS[scale] if part.longer == 1}
    numbers: dict[str, Any] = {}
    checks: list[Check] = []
    for width, longer in sorted({(part.width, part.longer) for part in PARTS[scale]}):
        steps = runs.training(scale, runs.RATES[0], stops=True).steps * longer
        mine = [r for r in records if r.config["training"]["steps"] == steps and stream_width(r) == width]
        if not mine:
            continue
        best = best_trials(mine, lambda record: (length(record), n_blocks(record)))
        lengths = sorted({length(record) for record in mine})
        panels.append(
            Panel(
                f"Training loss by number of blocks, m = {width}, {steps:,} epochs",
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
        numbers[f"m = {width}, {steps} epochs"] = {
            "fewest blocks": {str(n): blocks for n, blocks in answers.items()},
            "searches": {str(n): sum(m == n for m, _ in found) for n in lengths},
            f"loss at {ASKED} blocks": {str(n): value for n, value in at_four.items()},
            "least loss": {str(n): min(loss(r) for r in best if length(r) == n) for n in lengths},
        }
        tried = {n: sorted({n_blocks(r) for r in mine if length(r) == n}) for n in lengths}
        said = ", ".join(f"n = {n:,}: {_spoken(answers[n], tried[n])}" for n in lengths)
        words.append(
            f"m = {width}, {steps:,} epochs: fewest blocks {said}"
            + (f"; mean squared error at {ASKED} blocks " if at_four else "")
            + ", ".join(f"{value:.3f} (n = {n:,})" for n, value in at_four.items())
            + _like_with_like(mine, lengths)
        )
        if longer == 1:
            checks += _checks(width, answers, said, at_four)
    return Computed(
        tuple(panels),
        judged(
            scale,
            checks,
            "; ".join(words)
            + ". The token the answer is read at is random too and passes the attention by the skip connection, so it tells the"
            " samples apart by itself, whatever the length.",
            is_complete=wanted <= {(stream_width(record), length(record)) for record in records},
        ),
        numbers,
        (
            (
                "m = 2: tokens uniform on [0, 1)^6 enter through a trained map to the two-dimensional stream, q = 8, as the paper's"
                " footnote says of its models. m = 6: the stream is as wide as the tokens, q = 24."
            ),
            "The answer is read at the first token; the paper reads one fixed token too.",
            (
                "Learning rates 0.01 and 0.03 (n = 10, m = 2: also 0.001 and 0.003; n = 10,000: 0.03 at m = 2, 0.01 at m = 6),"
                " warm-up 100 steps, three seeds (one from n = 1,000 on)."
            ),
            "Memorised means a mean squared error below 0.01.",
        ),
    )


def stream_width(record: Record) -> int:
    """m of a record."""
    return int(record.config["sizes"]["width"])


def length(record: Record) -> int:
    """The sequence length n of a record."""
    return int(record.config["data"]["seq_len"])


def _spoken(blocks: Sequence[int], tried: Sequence[int]) -> str:
    return "/".join(map(str, blocks)) or f"none of {', '.join(map(str, tried))}"


def _like_with_like(records: Sequence[Record], lengths: Sequence[int]) -> str:
    """What the trials reach that every length has; long sequences have fewer of them, so fewest blocks favour the short."""

    def trial(record: Record) -> tuple[int, float, int]:
        return n_blocks(record), record.config["training"]["learning_rate"], record.config["seed"]

    shared = set.intersection(*({trial(r) for r in records if length(r) == n} for n in lengths))
    if len(lengths) < 2 or not shared or shared == {trial(record) for record in records}:
        return ""
    least = [min(loss(r) for r in records if length(r) == n and trial(r) in shared) for n in lengths]
    return f"; least error over the trials that every length has ({len(shared)} a length) " + ", ".join(
        f"{value:.3f} (n = {n:,})" for n, value in zip(lengths, least, strict=True)
    )


def _checks(width: int, answers: dict[int, list[int]], said: str, at_four: dict[int, float]) -> list[Check]:
    spread = max(at_four.values()) / min(at_four.values()) if len(at_four) > 1 else float("nan")
    fewest = [min(blocks) for blocks in answers.values() if blocks]
    same = len(fewest) == len(answers) and max(fewest) - min(fewest) <= 1
    if not fewest:
        return [
            Check(f"{ASKED} blocks memorise at every length, m = {width}", said, f"{ASKED} for all", False),
            Check(
                f"what is reached does not depend on the length, m = {width}",
                f"mean squared error at {ASKED} blocks within a factor of {spread:.2f} between lengths"
                if len(at_four) > 1
                else "one length alone",
                "within a factor of 1.25",
                spread <= 1.25,
            ),
        ]
    return [
        Check(
            f"{ASKED} blocks memorise at every length, m = {width}",
            said,
            f"at most {ASKED} for all",
            len(fewest) == len(answers) and max(fewest) <= ASKED,
        ),
        Check(
            f"the fewest blocks do not depend on the length, m = {width}",
            said,
            "the same for all, give or take one",
            same,
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
