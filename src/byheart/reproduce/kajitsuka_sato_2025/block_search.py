"""KS25 Figure 3: find the fewest blocks with which a Transformer memorises N samples of MultiNLI, for N = 600 to 1700."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from byheart.measure.fits import Fit, mean_interval
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, fit_numbers, format_estimate, gather, series, try_fit
from byheart.theorems import realises

WIDEST = 0.5  # the widest interval of the exponent that is still informative
SIZES: dict[fig.Scale, tuple[int, ...]] = {
    "smoke": (20, 40),
    "laptop": (600, 1100),
    "paper": tuple(range(600, 1701, 100)),
}
SMALL = (600, 1400)  # the sizes at which the paper sees √N
BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)  # every number up to 8, then steps of about 25%
# All numbers are tried without bisection, because deeper models train worse, so passing is not monotone in
# the number of blocks.
Ladder = tuple[tuple[int, ...], tuple[int, ...]]  # sizes, numbers of blocks
LADDERS: dict[fig.Scale, dict[int, Ladder]] = {  # variations, by width of the frozen table
    "smoke": {16: ((20, 40), (1, 2))},
    "laptop": {},
    "paper": {
        768: (SIZES["paper"], BLOCKS),
        512: (SIZES["paper"], BLOCKS),
        256: ((600, 700, 800, 900), BLOCKS),
    },
}
# the best of 0.01, 0.03 and 0.1 at N = 1000 with width 512 and at N = 1700 with width 768, and the next best
RATE, OTHER_RATE = 0.03, 0.01
# The numbers of blocks for small and for large learning rates, under the paper's likely reading. With large rates, few
# blocks suffice.
BERT_BLOCKS: dict[fig.Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "smoke": ((1, 2), (1,)),
    "laptop": ((1, 3, 5), (1, 2)),
    "paper": ((1, 2, 3, 4, 5, 6, 8, 12, 18), (1, 2, 3, 4, 5, 6, 8)),
}
STACK_COST = 200_000_000  # a step has many small operations, which cost as much as updating this many weights
# With a trained table, only a few numbers of blocks are tried, because one block is enough.
LEARNED: dict[fig.Scale, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "smoke": ((20, 40), (1,)),
    "laptop": ((), ()),
    "paper": ((600, 1100, 1700), (1, 2, 4)),
}


def stages(scale: fig.Scale, samples: Samples | None) -> list[fig.TrainingStage]:
    """Return the groups of training runs for this figure. The first groups train models with every number of blocks on every
    number of samples. Where the paper leaves a detail open, they follow our most likely interpretation.

    Except at scale `laptop`, further groups vary such details: fixed embeddings of several widths, and a few models with trained
    embeddings.
    """
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

    def likely(sizes: tuple[int, ...], priority: int) -> list[fig.TrainingStage]:
        parts = zip(
            BERT_BLOCKS[scale], ("small", "large"), (runs.TEN_RATES[:5], runs.TEN_RATES[5:]), strict=True
        )
        return [
            fig.TrainingStage(
                f"KS25 fig3, multinli-sub-words, {runs.BERT}, {word} rates, N = {', '.join(map(str, sizes))}",
                priority,
                tuple(
                    run
                    for n_blocks in blocks
                    for size in sizes
                    for run in runs.text_runs(
                        scale,
                        samples,
                        "multinli-sub-words",
                        size,
                        n_blocks,
                        "learned",
                        rates=rates if scale == "paper" else rates[-1:],
                        stops=True,
                        initialisation=runs.BERT,
                    )
                ),
                overhead=STACK_COST,
            )
            for blocks, word, rates in parts
        ]

    rates = (RATE, OTHER_RATE) if scale == "paper" else (RATE,)
    found = [*likely(SIZES[scale][::2], 1), *likely(SIZES[scale][1::2], 2)]
    if scale == "laptop":
        return found
    found += [of(ladder, "frozen", width, rates, 2) for width, ladder in LADDERS[scale].items()]
    found.append(of(LEARNED[scale], "learned", runs.WIDTH, (RATE,), 2))
    width, ladder = next(iter(LADDERS[scale].items()))
    found.append(of(ladder, "frozen", width, rates, 4, "multinli-sub-words"))
    return [*found, of(LEARNED[scale], "learned", runs.WIDTH, (RATE,), 4, "multinli-sub-words")]


@dataclass(frozen=True)
class Search:
    """The results of all searches for the fewest blocks that memorise the data.

    found   for every (number of samples, seed), the fewest blocks that memorised, or None if no number of blocks did
    ladder  the numbers of blocks that were tried
    """

    found: Mapping[tuple[int, int], int | None]
    ladder: tuple[int, ...]

    @classmethod
    def of(cls, observations: Sequence[Observation], memorised: Callable[[Observation], bool]) -> Search:
        """Return the results of the searches, computed from the runs."""
        ladder = tuple(sorted({runs.n_blocks(one) for one in observations}))
        return cls(runs.fewest_blocks(observations, size_of, memorised), ladder)

    @property
    def best_of_seeds(self) -> Search:
        """For each number of samples, the fewest blocks that memorised with any seed. The result is stored under seed 0.

        This treats the seeds as trials of one search, although each seed draws its own sample of the data.
        """
        found: dict[tuple[int, int], int | None] = {}
        for (size, _), blocks in self.found.items():
            before = found.get((size, 0))
            found[size, 0] = min((b for b in (before, blocks) if b is not None), default=None)
        return Search(found, self.ladder)

    @property
    def by_size(self) -> SeedValues:
        """The fewest blocks that each successful search found, by number of samples."""
        return SeedValues.of((size, float(b)) for (size, _), b in sorted(self.found.items()) if b is not None)

    @property
    def small(self) -> Search:
        """The results for the numbers of samples N at which the paper claims growth like √N."""
        return Search(
            {key: b for key, b in self.found.items() if SMALL[0] <= key[0] <= SMALL[1]}, self.ladder
        )

    @property
    def n_open(self) -> int:
        """Number of searches in which none of the tried numbers of blocks sufficed."""
        return sum(blocks is None for blocks in self.found.values())

    @property
    def n_floors(self) -> int:
        """Number of searches in which one block was enough. As fewer cannot be tried, such a result only says "at most one"."""
        return sum(blocks == 1 for blocks in self.found.values())

    @property
    def exponent(self) -> Fit | None:
        """A power law, fitted to the fewest blocks of all searches as a function of the number of samples.

        It is None if the fit is not possible, or if some search ended without an exact number: no number of blocks was enough, or
        one block was already enough. Such searches would distort the exponent.
        """
        return None if self.n_open or self.n_floors else try_fit(self.by_size, "power")

    @property
    def beyond(self) -> list[float]:
        """For each seed, the ratio of the blocks needed beyond N = 1400 samples to those that a √N law predicts.

        The law is fitted to this seed's results up to N = 1400. For each larger N, the fewest blocks are divided by the law's
        prediction. The value is the average of these ratios.

        Seeds without results on both sides of 1400 are left out. A search in which no number of blocks was enough counts as the
        most blocks tried.
        """
        by_seed: dict[int, list[tuple[float, float]]] = {}
        for (size, seed), blocks in self.found.items():
            by_seed.setdefault(seed, []).append((size, float(blocks or self.ladder[-1])))
        return [ratio for pairs in by_seed.values() if (ratio := beyond(SeedValues.of(pairs))) is not None]

    @property
    def numbers(self) -> dict[str, Any]:
        small = self.small
        return {
            "fewest blocks": {
                f"{n}, seed {seed}": blocks for (n, seed), blocks in sorted(self.found.items())
            },
            "searches": len(self.found),
            "open": self.n_open,
            "floors at one block": self.n_floors,
            "600 to 1400": [len(small.found), small.n_open, small.n_floors],
            "exponent, 600 to 1400": fit_numbers(small.exponent),
            "fewest blocks beyond N = 1400, divided by the √N law, by seed": self.beyond,
        }


ROOT, SHARP = "√N up to 1400", "faster beyond 1400"  # the paper's two claims
ENDS = (runs.SMALL_RATE, 4e-4, 6e-4, runs.LARGE_RATE)  # the upper ends of the ranges of rates


@realises("KS25-F3")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute the fewest blocks for every number of samples N and every reading (interpretation) of the paper.

    Power laws are fitted to N = 600 to 1400.
    """
    own = runs.likely_up_to(runs.SMALL_RATE)
    readings = runs.readings(observations, ENDS)
    searches = {name: Search.of(mine, _loss_is_small) for name, mine in readings.items()}
    if own in searches:
        searches[f"{own}, best of all seeds"] = searches[own].best_of_seeds
        searches[f"{own}, less than 1% wrong"] = Search.of(readings[own], runs.nearly_all_right)
    trials, rows, numbers = [], [], dict[str, Any]()
    is_whole = own in readings and _is_whole(scale, readings[own])
    for name, search in searches.items():
        numbers[name] = search.numbers
        for claim, (holds, said) in ((ROOT, _judge_root(search.small)), (SHARP, _judge_beyond(search))):
            told = holds if name != own or is_whole else None
            trials.append(fig.ConditionResult(name, said, told, name == own, claim))
        small = search.small
        ends = (
            f"{len(search.found) - search.n_open} of {len(search.found)}",
            f"{search.n_floors / max(len(search.found), 1):.0%}",
            str(_surely(search.found)),
            format_estimate(small.exponent, "exponent") if small.exponent else "censored",
            f"{search.ladder[0]} to {search.ladder[-1]}",
        )
        rows.append((name, *ends))
    heads = (
        "reading",
        "memorised",
        "floors at one block",
        "all up to N",
        "exponent, 600 to 1400",
        "blocks tried",
    )
    return fig.Computed(
        tuple(_panels(searches, readings)),
        tuple(trials),
        tables=(fig.Table("The search under each reading of the paper", heads, tuple(rows)),),
        numbers=numbers,
        choices=(
            *runs.CHOICES,
            f"Ten trials for each number of blocks, with the learning rates {', '.join(f'{rate:g}' for rate in runs.TEN_RATES)}.",
            "Variations: learning rates 0.03 and 0.01.",
            '"Censored" means that some searches end at one block, the smallest number, or find no sufficient number of blocks.',
        ),
        counter=_counter(searches, own),
        missing=""
        if is_whole
        else "Some numbers of samples or of blocks were not trained under the most likely interpretation of the paper.",
    )


def _loss_is_small(one: Observation) -> bool:
    return runs.PASSES.holds(one.measured)


def _judge_root(search: Search) -> tuple[bool | None, str]:
    """Decide whether the smallest number of blocks that memorises N samples grows as √N.

    Return the decision and a text that gives the reason.

    The law holds if every search found a sufficient number of blocks, and if the interval of the fitted exponent contains 0.5 but
    neither 0 nor 1. It does not hold if one block was enough in every search. The decision is None if one block was enough in only
    some searches, or if the interval is missing or too wide.
    """
    n = len(search.found)
    said = f"{n - search.n_open} of {n} searches found a sufficient number of blocks"
    if search.n_open:
        return (
            False,
            f"{search.n_open} of {n} searches found no sufficient number of blocks, so no exponent is fitted",
        )
    if search.n_floors:
        share = search.n_floors / n
        return (
            False if share == 1 else None
        ), f"{said}; in {share:.0%} of them, one block was already enough, so no exponent is fitted"
    law = search.exponent
    said += f", exponent {format_estimate(law, 'exponent')}"
    if law is None or math.isnan(law.coefficients["exponent"].low):
        return None, said
    exponent = law.coefficients["exponent"]
    if exponent.high - exponent.low > WIDEST:
        return None, f"{said}; this interval is wider than {WIDEST}"
    return 0 < exponent.low <= 0.5 <= exponent.high < 1, said


def _judge_beyond(search: Search) -> tuple[bool | None, str]:
    """Decide whether, for more than N = 1400 samples, models need more blocks than the √N law predicts.

    For each seed, the fewest blocks found are divided by the number predicted, and this ratio is averaged over N. Its confidence
    interval over seeds must be above 1. With a single seed, the ratio itself must be above 1. Return the decision and a text with
    the ratio. The decision is None if no seed has results on both sides of N = 1400.
    """
    ratios = search.beyond
    if not ratios:
        return None, "no sizes beyond 1400"
    mean, (low, high) = fmean(ratios), mean_interval(ratios)
    said = (
        f"{mean:.2f} [{low:.2f}, {high:.2f}] times the √N law"
        if len(ratios) > 1
        else f"{mean:.2f} times the √N law"
    )
    return (low > 1 if len(ratios) > 1 else mean > 1), said


def _panels(searches: Mapping[str, Search], readings: Mapping[str, Sequence[Observation]]) -> list[fig.Panel]:
    """Return two panels, the fewest blocks (as in the paper's figure) and the lowest losses.

    Both show the runs with the likely reading, our interpretation of what the paper does not state. Runs with other readings are
    only in the table. The first panel is left out if none of its curves has two points.
    """
    styles = dict(zip((name for name in searches if "BERT" in name), runs.CURVE_STYLES, strict=False))
    answers = [
        _with_range(series(name, style, at), at)
        for name, style in styles.items()
        if (at := searches[name].by_size)
    ]
    losses = [
        series(
            name,
            style,
            gather(
                runs.best_trials(readings[name], lambda one: (size_of(one),)), size_of, lambda one: one.loss
            ),
        )
        for name, style in styles.items()
        if name in readings
    ]
    blocks = "#blocks, mean and range over seeds"
    found = [
        fig.Panel("Fewest blocks that memorise", "samples N", blocks, tuple(answers)),
        fig.Panel("Least training loss", "samples N", "loss", tuple(losses), y_scale="log"),
    ]
    return found if any(len(one.x) > 1 for one in answers) else found[1:]


def _counter(searches: Mapping[str, Search], own: str) -> str:
    """Return the best argument against the verdict on the figure. If only the best seed counts, the curve rises like the paper's,
    but its height depends on the largest learning rate. Return "" if the runs for this are missing.
    """
    pooled, far = searches.get(f"{own}, best of all seeds"), searches.get(runs.likely_up_to(runs.LARGE_RATE))
    if pooled is None or far is None:
        return ""
    blocks = [blocks for _, blocks in sorted(pooled.found.items())]
    said = "/".join("none" if b is None else str(b) for b in blocks)
    return (
        "If only the best seed counts for each number of samples N, the curve rises like the paper's (fewest blocks, from the"
        f" smallest N to the largest: {said}). But its height depends on the largest learning rate: with rates up to"
        f" {runs.LARGE_RATE:g}, one block is enough in {far.n_floors} of {len(far.found)} searches."
    )


def _is_whole(scale: fig.Scale, observations: Sequence[Observation]) -> bool:
    """Return whether every number of samples was tried with every number of blocks."""
    tried = {(size_of(one), runs.n_blocks(one)) for one in observations}
    return {(size, blocks) for size in SIZES[scale] for blocks in BERT_BLOCKS[scale][0]} <= tried


def size_of(one: Observation) -> int:
    return int(one.config["data"]["n_samples"])


def _with_range(drawn: fig.Series, found: SeedValues) -> fig.Series:
    """Replace the confidence intervals of the curve `drawn` by the range from the smallest to the largest value over the seeds. A
    confidence interval says little here, because the values are a few whole numbers.
    """
    return replace(
        drawn,
        low=tuple(min(values) for values in found.values),
        high=tuple(max(values) for values in found.values),
    )


def _surely(found: Mapping[tuple[int, int], int | None]) -> int:
    """Return the largest number of samples N up to which the models of every seed memorised the data, or 0 if there is none."""
    limit = min((size for (size, _), blocks in found.items() if blocks is None), default=None)
    return max((size for size, _ in found if limit is None or size < limit), default=0)


def beyond(found: SeedValues) -> float | None:
    """Fit the √N law up to N = 1400. Divide the fewest blocks at each larger N by the law's prediction, and return the average.

    Return None if there are no values up to 1400, or none beyond.
    """
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
        "Not stated in full. We use the interpretation with which we reproduce Figures 1 and 2: a class token and 7 sub-words, a"
        f" trained table with 2 numbers for each token, weights from N(0, 0.02²), learning rates up to {runs.SMALL_RATE:g};"
        " training loss below 0.01 within 1,000 epochs.",
        "For N = 600 to 1400, every search finds a number of blocks that memorises, and the confidence interval of the exponent is"
        f" at most {WIDEST} wide and contains 0.5, but neither 0 nor 1. Beyond N = 1400, models need more blocks than a √N law"
        " fitted up to 1400 predicts: the confidence interval over seeds of the ratio of these two numbers lies above 1.",
        stages,
        compute,
        measured=("loss", "best_accuracy"),
        needs_samples=True,
    ),
)
