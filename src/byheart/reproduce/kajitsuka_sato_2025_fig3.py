"""KS25 Figure 3: the smallest number of blocks that memorises MultiNLI, N = 600 to 1700."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byheart.measure.fits import Fit, between
from byheart.measure.records import Record
from byheart.reproduce import kajitsuka_sato_2025_runs as runs
from byheart.reproduce.figure import Check, Computed, Figure, Panel, Scale, Stage
from byheart.reproduce.kajitsuka_sato_2025_trials import CHOICES, best_trials, fewest_blocks, loss, n_blocks
from byheart.reproduce.points import Points, fit_numbers, fitted, judged, points, series, spoken
from byheart.reproduce.samples import Samples
from byheart.theorems import realises

SIZES: dict[Scale, tuple[int, ...]] = {
    "smoke": (20, 40),
    "laptop": (600, 1100),
    "paper": tuple(range(600, 1701, 100)),
}
# Tried one after another, not bisected: deeper models train worse, so passing is not monotone in the blocks.
LADDER: dict[Scale, tuple[tuple[int, ...], ...]] = {
    "smoke": ((1, 2),),
    "laptop": ((1, 2, 4, 8),),
    "paper": ((1, 2, 3, 4, 5, 6), (8, 10, 12), (16, 20)),
}


# With a trained table: few, since one block turns out to be enough.
LEARNED: dict[Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "smoke": ((20, 40), (1,)),
    "laptop": ((600, 1100), (1,)),
    "paper": ((600, 1100, 1700), (1, 2, 4)),
}


def stages(scale: Scale, samples: Samples | None) -> list[Stage]:
    """Every size with every number of blocks of the ladder, the words' table fixed; then some with it trained."""
    assert samples is not None

    def of(sizes: tuple[int, ...], blocks: tuple[int, ...], embedding: runs.Embedding) -> Stage:
        return Stage(
            f"KS25 fig3, {embedding}, {blocks[0]} to {blocks[-1]} blocks",
            4,
            tuple(
                run
                for n_blocks in blocks
                for size in sizes
                for run in runs.text_runs(scale, samples, "multinli", size, n_blocks, embedding, stops=True)
            ),
        )

    found = [of(SIZES[scale], blocks, "frozen") for blocks in LADDER[scale]]
    return [*found, of(*LEARNED[scale], "learned")]


@realises("KS25-F3")
def compute(scale: Scale, records: Sequence[Record], samples: Samples | None = None) -> Computed:
    """The fewest blocks for every size, with a power law over N = 600 to 1400 and over the whole range."""
    panels, words = [], []
    numbers: dict[str, Any] = {}
    checks: list[Check] = []
    for embedding in runs.EMBEDDINGS:
        mine = [record for record in records if runs.embedding_of(record) == embedding]
        if not mine:
            continue
        found = fewest_blocks(mine, lambda record: int(record.config["data"]["n_samples"]))
        groups: dict[float, list[float]] = {}
        for (size, _), blocks in found.items():
            if blocks is not None:
                groups.setdefault(float(str(size)), []).append(float(blocks))
        at = Points(tuple(sorted(groups)), tuple(tuple(groups[size]) for size in sorted(groups)))
        n_open = sum(blocks is None for blocks in found.values())
        small = fitted(at, "power", between(600, 1400))
        whole = fitted(at, "power")
        laws = {name: fitted(at, name, between(600, 1400)) for name in ("square-root", "linear")}
        best = best_trials(mine, lambda record: (record.config["data"]["n_samples"], n_blocks(record)))
        least = points(
            best_trials(mine, lambda record: (record.config["data"]["n_samples"],)),
            lambda record: record.config["data"]["n_samples"],
            loss,
        )
        numbers[embedding] = {
            "fewest blocks": {str(size): values for size, values in sorted(groups.items())},
            "seeds that never memorised": n_open,
            "seeds": len(found),
            "exponent, 600 to 1400": fit_numbers(small),
            "exponent, all": fit_numbers(whole),
            "laws, 600 to 1400": {name: fit_numbers(law) for name, law in laws.items()},
            "least loss": [list(least.x), list(least.means)],
            "trials": len(mine),
            "settings": len(best),
        }
        if at:
            panels.append(
                Panel(
                    f"Fewest blocks that memorise MultiNLI, table {embedding}",
                    "samples N",
                    "#blocks",
                    (series("mean over seeds that memorised", "measured", at),),
                )
            )
        panels.append(
            Panel(
                f"Least training loss over blocks and trials, table {embedding}",
                "samples N",
                "loss",
                (series("mean over seeds", "measured", least),),
                y_scale="log",
            )
        )
        words.append(
            f"{embedding}: {len(found) - n_open} of {len(found)} searches ended in memorisation,"
            f" exponent over 600 to 1400 {spoken(small, 'exponent')}, over all {spoken(whole, 'exponent')}"
        )
        if embedding == "frozen":
            checks = _checks(small, n_open, len(found))
    return Computed(
        tuple(panels),
        judged(
            scale,
            checks,
            "Power laws of the fewest blocks in N. " + "; ".join(words) + ".",
            is_complete=_settings(scale) <= {_setting(record) for record in records},
        ),
        numbers,
        CHOICES,
    )


def _setting(record: Record) -> tuple[str, int, int]:
    return runs.embedding_of(record), int(record.config["data"]["n_samples"]), n_blocks(record)


def _settings(scale: Scale) -> set[tuple[str, int, int]]:
    """What must have been tried for a verdict."""
    return {("frozen", size, blocks) for size in SIZES[scale] for part in LADDER[scale] for blocks in part}


def _checks(small: Fit | None, n_open: int, n_searches: int) -> list[Check]:
    exponent = None if small is None else small.coefficients["exponent"]
    return [
        Check(
            "every size is memorised by some number of blocks",
            f"{n_searches - n_open} of {n_searches} searches",
            "all",
            n_open == 0,
        ),
        Check(
            "√N growth over 600 to 1400",
            spoken(small, "exponent"),
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
