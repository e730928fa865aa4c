"""KS25 Figure 3: the smallest number of blocks that memorises MultiNLI, N = 600 to 1700."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from byheart.measure.fits import Fit, between
from byheart.measure.records import Record
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Series, Stage
from byheart.reproduce.kajitsuka_sato_2025 import runs as runs
from byheart.reproduce.kajitsuka_sato_2025.trials import (
    CHOICES,
    CURVE_STYLES,
    best_trials,
    fewest_blocks,
    loss,
    n_blocks,
    nearly_all_right,
)
from byheart.reproduce.samples import Samples
from byheart.reproduce.seed_values import (
    SeedValues,
    fit_numbers,
    format_estimate,
    judged,
    points,
    series,
    try_fit,
)
from byheart.theorems import realises

SIZES: dict[Scale, tuple[int, ...]] = {
    "smoke": (20, 40),
    "laptop": (600, 1100),
    "paper": tuple(range(600, 1701, 100)),
}
SMALL = (600, 1400)  # where the paper sees √N
BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)  # every number up to 8, then steps of a quarter
# Tried all at once, not bisected: deeper models train worse, so passing is not monotone in the blocks.
Ladder = tuple[tuple[int, ...], tuple[int, ...]]  # sizes, numbers of blocks
LADDERS: dict[Scale, dict[int, Ladder]] = {  # by width of the frozen table; these settle the figure
    "smoke": {16: ((20, 40), (1, 2))},
    "laptop": {256: ((600,), (1, 2, 4)), 768: ((600, 1100), (1, 2))},
    "paper": {
        768: (SIZES["paper"], BLOCKS),
        512: (SIZES["paper"], BLOCKS),
        256: ((600, 700, 800, 900), BLOCKS),
    },
}
RATE, OTHER_RATE = (
    0.03,
    0.01,
)  # the better of 0.01, 0.03 and 0.1 at N = 1000, width 512 and 1700, 768; and the next
STACK_COST = 200_000_000  # steps of many small operations: as dear as updating so many weights
# With a trained table: few, since one block turns out to be enough.
LEARNED: dict[Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "smoke": ((20, 40), (1,)),
    "laptop": ((600, 1100), (1,)),
    "paper": ((600, 1100, 1700), (1, 2, 4)),
}


def stages(scale: Scale, samples: Samples | None) -> list[Stage]:
    """Every size with every number of blocks, the words' table fixed and of several widths; then some with it trained."""
    assert samples is not None

    def of(
        ladder: Ladder,
        embedding: runs.Embedding,
        width: int,
        rates: tuple[float, ...],
        priority: int,
        collection: str = "multinli",
    ) -> Stage:
        sizes, blocks = ladder
        name = f"{collection}, " + ("learned" if embedding == "learned" else f"frozen, width {width}")
        return Stage(
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
    return [*found, of(ladder, "frozen", width, rates, 4, "multinli-sub-words")]


@realises("KS25-F3")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """The fewest blocks for every size and table, with power laws over N = 600 to 1400 and over the whole range."""
    answers, losses, words = [], [], []
    numbers: dict[str, Any] = {}
    checks: list[Check] = []
    for number, table in enumerate(dict.fromkeys(runs.table_of(record) for record in records)):
        mine = [record for record in records if runs.table_of(record) == table]
        found = fewest_blocks(mine, size_of)
        at = _points(found)
        n_open = sum(blocks is None for blocks in found.values())
        small, whole = try_fit(at, "power", between(*SMALL)), try_fit(at, "power")
        least = points(best_trials(mine, lambda record: (size_of(record),)), size_of, loss)
        numbers[table] = {
            "fewest blocks": {f"{x:g}": list(values) for x, values in zip(at.x, at.values, strict=True)},
            "fewest blocks with less than 1% wrong": {
                f"{x:g}": list(values)
                for loose in [_points(fewest_blocks(mine, size_of, nearly_all_right))]
                for x, values in zip(loose.x, loose.values, strict=True)
            },
            "largest N up to which every seed memorised": _surely(found),
            "seeds that never memorised": n_open,
            "searches": len(found),
            "exponent, 600 to 1400": fit_numbers(small),
            "exponent, all": fit_numbers(whole),
            "laws, 600 to 1400": {
                name: fit_numbers(try_fit(at, name, between(*SMALL))) for name in ("square-root", "linear")
            },
            "beyond 1400, times the √N law": beyond(at),
            "least loss": [list(least.x), list(least.means)],
            "trials": len(mine),
        }
        style = CURVE_STYLES[number % len(CURVE_STYLES)]
        if at:
            answers.append(_with_range(series(f"table {table}", style, at), at))
        losses.append(series(f"table {table}", style, least))
        words.append(
            f"table {table}: {len(found) - n_open} of {len(found)} searches ended in memorisation"
            f" (all of them up to N = {_surely(found)}), exponent over 600 to 1400 {format_estimate(small, 'exponent')}, over all"
            f" {format_estimate(whole, 'exponent')}"
        )
        if table != "learned":
            checks += _checks(table, small, n_open, len(found))
    panels = [
        Panel(
            "Fewest blocks that memorise MultiNLI",
            "samples N",
            "#blocks, mean and range over seeds",
            tuple(answers),
        ),
        Panel(
            "Least training loss over blocks and trials", "samples N", "loss", tuple(losses), y_scale="log"
        ),
    ]
    return Computed(
        tuple(panels[0 if any(len(one.x) > 1 for one in answers) else 1 :]),
        judged(
            scale,
            checks,
            "Fewest blocks against N. " + "; ".join(words) + f". {_limit(numbers)}",
            is_complete=_settings(scale) <= {_setting(record) for record in records},
        ),
        numbers,
        (
            *CHOICES,
            _tried(records),
        ),
    )


def _limit(numbers: Mapping[str, Any]) -> str:
    """What the answers have in common, in words."""
    answers = [
        blocks for row in numbers.values() for values in row["fewest blocks"].values() for blocks in values
    ]
    ones = sum(blocks == 1 for blocks in answers)
    return (
        f"Of {len(answers)} searches that ended in memorisation {ones} needed one block: how many samples are memorised in 1,000"
        " epochs grows with the width of the words' table, not with the blocks."
        if answers and ones > len(answers) / 2
        else ""
    )


def _tried(records: Sequence[Record]) -> str:
    """What was tried, in words, from the records themselves."""
    parts = []
    for table in dict.fromkeys(runs.table_of(record) for record in records):
        mine = [record for record in records if runs.table_of(record) == table]
        blocks = sorted({n_blocks(record) for record in mine})
        rates = sorted({float(record.config["training"]["learning_rate"]) for record in mine})
        sizes = sorted({size_of(record) for record in mine})
        parts.append(
            f"table {table}: N = {sizes[0]} to {sizes[-1]}, blocks {', '.join(map(str, blocks))},"
            f" learning rates {', '.join(f'{rate:g}' for rate in rates)}"
        )
    return (
        f"Tried here, on each of the seeds: {'; '.join(parts)}. Rungs a factor of two apart tell an exponent roughly. The paper ran"
        " ten trials a size."
    )


def size_of(record: Record) -> int:
    """N of a record."""
    return int(record.config["data"]["n_samples"])


def _points(found: Mapping[tuple[object, int], int | None]) -> SeedValues:
    groups: dict[float, list[float]] = {}
    for (size, _), blocks in found.items():
        if blocks is not None:
            groups.setdefault(float(str(size)), []).append(float(blocks))
    return SeedValues(tuple(sorted(groups)), tuple(tuple(groups[size]) for size in sorted(groups)))


def _with_range(drawn: Series, found: SeedValues) -> Series:
    """Least and most over seeds instead of an interval, which for a few whole numbers says nothing."""
    return replace(
        drawn,
        low=tuple(min(values) for values in found.values),
        high=tuple(max(values) for values in found.values),
    )


def _surely(found: Mapping[tuple[object, int], int | None]) -> int:
    """The largest N such that every seed of it and of every smaller one memorised; 0 where there is none."""
    open_sizes = [int(str(size)) for (size, _), blocks in found.items() if blocks is None]
    limit = min(open_sizes, default=None)
    return max((int(str(size)) for size, _ in found if limit is None or int(str(size)) < limit), default=0)


def beyond(found: SeedValues) -> float | None:
    """How many times the √N law of the small sizes the fewest blocks are beyond them, on average."""
    low = [(x, y) for x, y in zip(found.x, found.means, strict=True) if x <= SMALL[1]]
    high = [(x, y) for x, y in zip(found.x, found.means, strict=True) if x > SMALL[1]]
    if not low or not high:
        return None
    factor = math.fsum(y * math.sqrt(x) for x, y in low) / math.fsum(x for x, _ in low)
    return math.fsum(y / (factor * math.sqrt(x)) for x, y in high) / len(high)


def _setting(record: Record) -> tuple[str, int, int]:
    return runs.table_of(record), size_of(record), n_blocks(record)


def _settings(scale: Scale) -> set[tuple[str, int, int]]:
    """What must have been tried for a verdict."""
    return {
        (f"frozen, width {width}", size, blocks)
        for width, (sizes, ladder) in LADDERS[scale].items()
        for size in sizes
        for blocks in ladder
    }


def _checks(table: str, small: Fit | None, n_open: int, n_searches: int) -> list[Check]:
    exponent = None if small is None else small.coefficients["exponent"]
    return [
        Check(
            f"every size is memorised by some number of blocks, table {table}",
            f"{n_searches - n_open} of {n_searches} searches",
            "all",
            n_open == 0,
        ),
        Check(
            f"√N growth over 600 to 1400, table {table}",
            format_estimate(small, "exponent"),
            "an interval that holds 0.5 and excludes 0 and 1",
            exponent is not None and 0 < exponent.low <= 0.5 <= exponent.high < 1,
        ),
    ]


FIGURE = Figure(
    "kajitsuka-sato-2025-fig3",
    "KS25",
    ("KS25-F3",),
    "KS25 Figure 3: fewest blocks that memorise MultiNLI, N = 600 to 1700",
    "The fewest blocks grow as √N up to N = 1400 and faster beyond.",
    stages,
    compute,
    needs_samples=True,
)
