"""What KS25's observations say: the best trial of every seed, and the fewest blocks that memorise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from byheart.reproduce.figure import Style
from byheart.reproduce.kajitsuka_sato_2025.runs import PASSES, RATES
from byheart.reproduce.observation import Observation

CHOICES = (
    "Words are tokens and the answer is read at the first word; sub-words: a class token, then 7 sub-words, the answer read at it.",
    "No positions, so a text is the token read and a multiset of the others.",
    "Frozen: a fixed random table and a trained map to the two-dimensional stream. Learned: a trained table.",
    f"The best of the learning rates {', '.join(f'{rate:g}' for rate in RATES)}, warm-up 100 steps, weight decay 0.01.",
    "Memorised means a mean training loss below 0.01. A loss 100 times the first counts as diverged.",
    "Texts are MultiNLI's hypotheses (matched development set, no training split at hand) and IMDb's training reviews.",
    "Texts whose tokens occur with two labels are left out (414 of 8,078 for MultiNLI, 16 of 12,000 for IMDb), repeats count once.",
)
CURVE_STYLES: tuple[Style, ...] = ("measured", "second", "third", "fourth", "fifth", "sixth")


def n_blocks(one: Observation) -> int:
    return one.sizes["n_blocks"]


def nearly_all_right(one: Observation) -> bool:
    """The other reading of "training error below 0.01": at some time less than 1% of the labels were wrong."""
    return one.measured["best_accuracy"] > 0.99


def best_trials(
    observations: Iterable[Observation], setting: Callable[[Observation], tuple[object, ...]]
) -> list[Observation]:
    """For every setting and seed the trial with the least loss, over learning rates."""
    best: dict[tuple[object, ...], Observation] = {}
    for one in observations:
        key = (*setting(one), one.seed)
        if key not in best or one.loss < best[key].loss:
            best[key] = one
    return list(best.values())


def fewest_blocks(
    observations: Iterable[Observation],
    setting: Callable[[Observation], int],
    memorised: Callable[[Observation], bool] = lambda one: PASSES.holds(one.measured),
) -> dict[tuple[int, int], int | None]:
    """For every (setting, seed) the fewest blocks some trial of which memorised; None where none did."""
    found: dict[tuple[int, int], int | None] = {}
    for one in observations:
        key = (setting(one), one.seed)
        found.setdefault(key, None)
        if memorised(one):
            before = found[key]
            found[key] = n_blocks(one) if before is None else min(before, n_blocks(one))
    return found
