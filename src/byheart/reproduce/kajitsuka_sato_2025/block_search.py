"""KS25 Figure 3: the smallest number of blocks that memorises MultiNLI, N = 600 to 1700."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from byheart.measure.fits import Fit, between
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, gather, series, try_fit
from byheart.theorems import realises

WIDEST = 0.5  # an interval of the exponent that still tells something
SIZES: dict[fig.Scale, tuple[int, ...]] = {
    "smoke": (20, 40),
    "laptop": (600, 1100),
    "paper": tuple(range(600, 1701, 100)),
}
SMALL = (600, 1400)  # where the paper sees √N
BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)  # every number up to 8, then steps of a quarter
# Tried all at once, not bisected: deeper models train worse, so passing is not monotone in the blocks.
Ladder = tuple[tuple[int, ...], tuple[int, ...]]  # sizes, numbers of blocks
LADDERS: dict[fig.Scale, dict[int, Ladder]] = {  # by width of the frozen table; these settle the figure
    "smoke": {16: ((20, 40), (1, 2))},
    "laptop": {256: ((600,), (1, 2, 4)), 768: ((600, 1100), (1, 2))},
    "paper": {
        768: (SIZES["paper"], BLOCKS),
        512: (SIZES["paper"], BLOCKS),
        256: ((600, 700, 800, 900), BLOCKS),
    },
}
# the better of 0.01, 0.03 and 0.1 at N = 1000, width 512 and 1700, 768; and the next
RATE, OTHER_RATE = 0.03, 0.01
STACK_COST = 200_000_000  # steps of many small operations: as dear as updating so many weights
# With a trained table: few, since one block turns out to be enough.
LEARNED: dict[fig.Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "smoke": ((20, 40), (1,)),
    "laptop": ((600, 1100), (1,)),
    "paper": ((600, 1100, 1700), (1, 2, 4)),
}


def stages(scale: fig.Scale, samples: Samples | None) -> list[fig.TrainingStage]:
    """Every size with every number of blocks, the words' table fixed and of several widths; then some with it trained."""
    assert samples is not None

    def of(
        ladder: Ladder,
        embedding: runs.Embedding,
        width: int,
        rates: tuple[float, ...],
        priority: int,
        collection: str = "multinli",
    ) -> fig.TrainingStage:
        sizes, blocks = ladder
        name = f"{collection}, " + ("learned" if embedding == "learned" else f"frozen, width {width}")
        return fig.TrainingStage(
            f"KS25 fig3, {name}, {blocks[0]} to {blocks[-1]} blocks",
            priority,
            tuple(
                run
                for n_blocks in blocks
                for size in sizes
                for run in runs.text_runs(
                    scale,
                    samples,
                    collection,
                    size,
                    n_blocks,
                    embedding,
                    width=width,
                    rates=rates,
                    stops=True,
                )
            ),
            overhead=STACK_COST,
        )

    rates = (RATE, OTHER_RATE) if scale == "paper" else (RATE,)
    found = [of(ladder, "frozen", width, rates, 2) for width, ladder in LADDERS[scale].items()]
    found.append(of(LEARNED[scale], "learned", runs.WIDTH, (RATE,), 2))
    width, ladder = next(iter(LADDERS[scale].items()))
    found.append(of(ladder, "frozen", width, rates, 4, "multinli-sub-words"))
    return [*found, of(LEARNED[scale], "learned", runs.WIDTH, (RATE,), 4, "multinli-sub-words")]


@realises("KS25-F3")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """The fewest blocks for every size and reading, with power laws over N = 600 to 1400 and over the whole range."""
    answers, losses, trials, rows = [], [], [], []
    numbers: dict[str, Any] = {}
    for number, reading in enumerate(dict.fromkeys(runs.reading_of(one) for one in observations)):
        mine = [one for one in observations if runs.reading_of(one) == reading]
        found = runs.fewest_blocks(mine, size_of)
        at = _by_size(found)
        n_open = sum(blocks is None for blocks in found.values())
        small, whole = try_fit(at, "power", between(*SMALL)), try_fit(at, "power")
        least = gather(runs.best_trials(mine, lambda one: (size_of(one),)), size_of, lambda one: one.loss)
        loose = _by_size(runs.fewest_blocks(mine, size_of, runs.nearly_all_right))
        numbers[reading] = {
            "fewest blocks": _by_name(at),
            "fewest blocks with less than 1% wrong": _by_name(loose),
            "exponent, 600 to 1400": fit_numbers(small),
            "exponent, all": fit_numbers(whole),
            "beyond 1400, times the √N law": beyond(at),
        }
        style = runs.CURVE_STYLES[number % len(runs.CURVE_STYLES)]
        if at:
            answers.append(_with_range(series(reading, style, at), at))
        losses.append(series(reading, style, least))
        holds, said = _judge(small, n_open, len(found))
        if holds is None and small is not None:
            said += f"; to settle it takes {to_settle(small, mine)} more runs"
        if _is_whole(scale, reading, mine):
            trials.append(fig.ConditionResult(reading, said, holds))
        ladder = sorted({runs.n_blocks(one) for one in mine})
        rows.append(
            (
                reading,
                f"{len(found) - n_open} of {len(found)}",
                str(_surely(found)),
                format_estimate(small, "exponent"),
                format_estimate(whole, "exponent"),
                f"{ladder[0]} to {ladder[-1]}",
                to_settle(small, mine),
            )
        )
    heads = (
        "reading",
        "memorised",
        "all up to N",
        "exponent, 600 to 1400",
        "exponent, all",
        "blocks tried",
        f"more runs for an interval of {WIDEST}",
    )
    panels = [
        fig.Panel(
            "Fewest blocks that memorise", "samples N", "#blocks, mean and range over seeds", tuple(answers)
        ),
        fig.Panel("Least training loss", "samples N", "loss", tuple(losses), y_scale="log"),
    ]
    wanted = len(LADDERS[scale])
    return fig.Computed(
        tuple(panels[0 if any(len(one.x) > 1 for one in answers) else 1 :]),
        tuple(trials),
        tables=(fig.Table("The search, reading by reading", heads, tuple(rows)),),
        numbers=numbers,
        choices=(*runs.CHOICES, "Learning rates 0.03 and 0.01. The paper ran ten trials a size."),
        missing=""
        if sum("frozen" in trial.condition for trial in trials) >= wanted
        else "Some sizes or numbers of blocks of a fixed table were not trained.",
    )


def _judge(small: Fit | None, n_open: int, n_searches: int) -> tuple[bool | None, str]:
    """√N: every search ends, and the exponent's interval holds 0.5 and neither 0 nor 1; None where it is too wide to tell."""
    said = f"{n_searches - n_open} of {n_searches} searches memorised, exponent {format_estimate(small, 'exponent')}"
    if n_open:
        return False, said
    if small is None:
        return None, said
    exponent = small.coefficients["exponent"]
    if exponent.high - exponent.low > WIDEST:
        return None, f"{said}, an interval wider than {WIDEST}"
    return 0 < exponent.low <= 0.5 <= exponent.high < 1, said


def to_settle(small: Fit | None, observations: Sequence[Observation]) -> str:
    """The runs that would narrow the exponent's interval to `WIDEST`: its width falls as one over √seeds."""
    if small is None:
        return "-"
    exponent = small.coefficients["exponent"]
    n_seeds = len({one.seed for one in observations})
    wanted = math.ceil(n_seeds * ((exponent.high - exponent.low) / WIDEST) ** 2)
    if wanted <= n_seeds:
        return "none"
    return f"{(wanted - n_seeds) * len(observations) // n_seeds:,} (up to {wanted} seeds)"


def _is_whole(scale: fig.Scale, reading: str, observations: Sequence[Observation]) -> bool:
    """Whether every size was tried with every number of blocks of its ladder; tables that are learned have none."""
    tried = {(size_of(one), runs.n_blocks(one)) for one in observations}
    for width, (sizes, ladder) in LADDERS[scale].items():
        if reading.endswith(f"width {width}"):
            return {(size, blocks) for size in sizes for blocks in ladder} <= tried
    return False


def size_of(one: Observation) -> int:
    return int(one.config["data"]["n_samples"])


def _by_size(found: Mapping[tuple[int, int], int | None]) -> SeedValues:
    return SeedValues.of((size, float(blocks)) for (size, _), blocks in found.items() if blocks is not None)


def _by_name(found: SeedValues) -> dict[str, list[float]]:
    return {f"{x:g}": list(values) for x, values in zip(found.x, found.values, strict=True)}


def _with_range(drawn: fig.Series, found: SeedValues) -> fig.Series:
    """Least and most over seeds instead of an interval, which for a few whole numbers says nothing."""
    return replace(
        drawn,
        low=tuple(min(values) for values in found.values),
        high=tuple(max(values) for values in found.values),
    )


def _surely(found: Mapping[tuple[int, int], int | None]) -> int:
    """The largest N such that every seed of it and of every smaller one memorised; 0 where there is none."""
    limit = min((size for (size, _), blocks in found.items() if blocks is None), default=None)
    return max((size for size, _ in found if limit is None or size < limit), default=0)


def beyond(found: SeedValues) -> float | None:
    """How many times the √N law of the small sizes the fewest blocks are beyond them, on average."""
    low = [(x, y) for x, y in zip(found.x, found.means, strict=True) if x <= SMALL[1]]
    high = [(x, y) for x, y in zip(found.x, found.means, strict=True) if x > SMALL[1]]
    if not low or not high:
        return None
    factor = math.fsum(y * math.sqrt(x) for x, y in low) / math.fsum(x for x, _ in low)
    return math.fsum(y / (factor * math.sqrt(x)) for x, y in high) / len(high)


FIGURES = (
    fig.Figure(
        "kajitsuka-sato-2025-fig3",
        "KS25",
        ("KS25-F3",),
        "KS25 Figure 3: fewest blocks that memorise MultiNLI, N = 600 to 1700",
        "The fewest blocks grow as √N up to N = 1400 and faster beyond.",
        "Every size is memorised by some number of blocks, and over N = 600 to 1400 the interval of the exponent, at most"
        f" {WIDEST} wide, holds 0.5 and neither 0 nor 1.",
        stages,
        compute,
        needs_samples=True,
    ),
)
