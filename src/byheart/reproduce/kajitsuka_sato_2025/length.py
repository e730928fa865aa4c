"""KS25's study of the sequence length: the smallest number of blocks for n = 10 to 10,000 at N = 500."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import gather, series
from byheart.theorems import realises

ASKED = 4  # the paper's answer

COMPILED_FROM = 10_000  # tokens: steps of a tenth of a second, of operations that compiling joins

N_SAMPLES: dict[fig.Scale, int] = {"smoke": 12, "laptop": 200, "paper": 500}


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
PARTS: dict[fig.Scale, tuple[LengthPart, ...]] = {
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
        LengthPart(10_000, (4,), 2, FAST, 4, 6),
        LengthPart(10_000, (2, 3), 3, FAST, 8, 6),
        LengthPart(10, (4, 8), 3, FAST, 9, longer=10),
    ),
}


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Every length with its numbers of blocks; the longest, and ten times the epochs, come last."""
    return [
        fig.TrainingStage(
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
            engine="compile" if part.seq_len >= COMPILED_FROM else "graph",
        )
        for part in PARTS[scale]
    ]


@realises("KS25-length")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """The fewest blocks for every length, and the error by length and blocks, for either width and number of epochs."""
    panels, trials, rows = [], [], []
    numbers: dict[str, Any] = {}
    lacking = []
    for width, longer in sorted({(part.width, part.longer) for part in PARTS[scale]}):
        steps = runs.training(scale, runs.RATES[0], stops=True).steps * longer
        condition = f"m = {width}, {steps:,} epochs"
        mine = [
            one
            for one in observations
            if one.config["training"]["steps"] == steps and one.sizes["width"] == width
        ]
        lengths = sorted({length(one) for one in mine})
        wanted = {part.seq_len for part in PARTS[scale] if (part.width, part.longer) == (width, longer)}
        if longer == 1 and wanted - set(lengths):
            lacking.append(f"{condition}: n = {', '.join(f'{n:,}' for n in sorted(wanted - set(lengths)))}")
        if not mine:
            continue
        best = runs.best_trials(mine, lambda one: (length(one), runs.n_blocks(one)))
        panels.append(
            fig.Panel(
                f"m = {width}, {steps:,} epochs",
                "#blocks",
                "mean squared error",
                tuple(
                    series(
                        f"n = {n:,}",
                        runs.CURVE_STYLES[number % len(runs.CURVE_STYLES)],
                        gather(
                            [one for one in best if length(one) == n], runs.n_blocks, lambda one: one.loss
                        ),
                    )
                    for number, n in enumerate(lengths)
                ),
                y_scale="log",
            )
        )
        found = runs.fewest_blocks(mine, length)
        shared = _shared_trials(mine, lengths)
        at_four = {
            n: [one.loss for one in best if length(one) == n and runs.n_blocks(one) == ASKED] for n in lengths
        }
        for n in lengths:
            answers = sorted(blocks for (m, _), blocks in found.items() if m == n and blocks is not None)
            n_searches = sum(m == n for m, _ in found)
            equal = [one.loss for one in mine if length(one) == n and _trial(one) in shared]
            values = at_four[n]
            rows.append(
                (
                    condition,
                    f"{n:,}",
                    "/".join(map(str, answers)) or "none",
                    f"{len(answers)} of {n_searches}",
                    f"{fmean(values):.3f} ({len(values)} seeds)" if values else "not trained",
                    f"{min(equal):.3f}" if equal else "-",
                )
            )
            numbers.setdefault(condition, {})[str(n)] = {
                "fewest blocks, by seed": answers,
                f"error at {ASKED} blocks, by seed": values,
            }
        if longer > 1 or not wanted - set(lengths):
            errors = {n: values for n, values in at_four.items() if values}
            passing = [n for n, values in errors.items() if max(values) < runs.PASSES.threshold]
            said = f"every seed memorises with {ASKED} blocks at {len(passing)} of {len(lengths)} lengths"
            trials.append(fig.ConditionResult(condition, said, len(passing) == len(lengths), longer == 1))
    heads = (
        "width and epochs",
        "n",
        "fewest blocks",
        "seeds that memorise",
        f"error at {ASKED} blocks",
        "least error over the trials every length has",
    )
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tables=(fig.Table("Fewest blocks by length", heads, tuple(rows)),),
        numbers=numbers,
        choices=(
            (
                "m = 2: tokens uniform on [0, 1)^6 enter through a trained map to the two-dimensional stream, q = 8, as the paper's"
                " footnote says of its models. m = 6: the stream is as wide as the tokens, q = 24."
            ),
            (
                "The answer is read at the first token; the paper reads one fixed token too. It is random itself and passes the"
                " attention by the skip connection, so it tells the samples apart whatever the length."
            ),
            "Learning rates 0.01 and 0.03 (n = 10, m = 2: also 0.001 and 0.003), warm-up 100 steps.",
            "Three seeds; two at n = 10,000, m = 6.",
            "Memorised means a mean squared error below 0.01.",
        ),
        missing=f"Not trained: {'; '.join(lacking)}." if lacking else "",
    )


def length(one: Observation) -> int:
    return int(one.config["data"]["seq_len"])


def _trial(one: Observation) -> tuple[int, float, int]:
    return runs.n_blocks(one), one.config["training"]["learning_rate"], one.seed


def _shared_trials(
    observations: Sequence[Observation], lengths: Sequence[int]
) -> set[tuple[int, float, int]]:
    """The trials that every length has: long sequences have fewer, so the fewest blocks favour the short."""
    tried = [{_trial(one) for one in observations if length(one) == n} for n in lengths]
    return set.intersection(*tried) if tried else set()


FIGURES = (
    fig.Figure(
        "kajitsuka-sato-2025-length",
        "KS25",
        ("KS25-length",),
        "KS25, the sequence-length study: fewest blocks for n = 10 to 10,000 at N = 500",
        "Four blocks are the fewest that memorise, whatever the sequence length.",
        f"With {ASKED} blocks, at every length, the best trial of every seed ends with an error below 0.01.",
        stages,
        compute,
    ),
)
