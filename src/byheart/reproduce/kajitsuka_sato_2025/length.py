"""KS25's study of the sequence length: find the smallest number of blocks that memorises 500 sequences of 10 to
10,000 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.kajitsuka_sato_2025 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import gather, series
from byheart.theorems import realises

ASKED = 4  # the number of blocks that the paper found

COMPILED_FROM = 10_000  # from this many tokens on, a step takes a tenth of a second and is faster compiled

N_SAMPLES: dict[fig.Scale, int] = {"smoke": 12, "laptop": 200, "paper": 500}


@dataclass(frozen=True)
class LengthPart:
    """A group of models for one sequence length. Long sequences have fewer models, because at length 10,000 a model takes gigabytes
    of memory.
    """

    seq_len: int
    blocks: tuple[int, ...]
    n_seeds: int
    rates: tuple[float, ...]
    priority: int
    width: int = 2  # width of the stream, m
    longer: int = 1  # multiple of the paper's number of epochs
    initialisation: runs.Initialisation = "framework"

    @property
    def name(self) -> str:
        """The name of the stage that trains the models of this part."""
        if self.initialisation == "framework":
            return f"n = {self.seq_len}, m = {self.width}, {1000 * self.longer} epochs"
        return (
            f"{self.initialisation} at n = {self.seq_len} with m = {self.width} from {self.blocks[0]} blocks"
        )


FAST = runs.RATES[2:]
PARTS: dict[fig.Scale, tuple[LengthPart, ...]] = {
    "smoke": tuple(LengthPart(n, (1, 2), 1, FAST, 4, width) for width in (2, 6) for n in (3, 12)),
    "laptop": tuple(LengthPart(n, (2, 4), 1, FAST, 4, width) for width in (2, 6) for n in (10, 100)),
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
        LengthPart(10, (1, 2, 3, 4, 5, 6), 3, runs.RATES, 4, 6, initialisation=runs.BERT),
        LengthPart(100, (1, 2, 3, 4, 5, 6), 3, FAST, 4, 6, initialisation=runs.BERT),
        LengthPart(1000, (1, 2, 3, 4), 3, FAST, 5, 6, initialisation=runs.BERT),
        LengthPart(10_000, (4,), 3, FAST[:1], 6, 6, initialisation=runs.BERT),
        LengthPart(10, (4, 8), 3, runs.RATES, 7, initialisation=runs.BERT),
        LengthPart(100, (4, 8), 3, FAST, 7, initialisation=runs.BERT),
        LengthPart(1000, (4, 8), 3, FAST, 8, initialisation=runs.BERT),
        LengthPart(10_000, (2, 3), 2, FAST[:1], 9, 6, initialisation=runs.BERT),
    ),
}


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Return one group of training runs for each `LengthPart`: models for one sequence length, with several numbers of blocks."""
    return [
        fig.TrainingStage(
            f"KS25 length, {part.name}",
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
                    initialisation=part.initialisation,
                )
            ),
            engine="compile" if part.seq_len >= COMPILED_FROM else "graph",
        )
        for part in PARTS[scale]
    ]


SMALLEST, ENOUGH = "four are the fewest", "four blocks are enough"  # the paper's two claims


@dataclass(frozen=True)
class Condition:
    """One condition of the study: width of the residual stream, number of epochs in units of 1,000 (`longer`), and
    initialisation.
    """

    width: int
    longer: int
    initialisation: runs.Initialisation

    @property
    def name(self) -> str:
        weights = "" if self.initialisation == "framework" else ", BERT-style weights"
        return f"m = {self.width}, {1000 * self.longer:,} epochs{weights}"

    @property
    def is_own(self) -> bool:
        """Whether this is the paper's own condition. The paper states width 2 and 1,000 epochs, but no initialisation, so the
        default of the framework counts as its own.
        """
        return (self.width, self.longer, self.initialisation) == (2, 1, "framework")

    def is_of(self, one: Observation, scale: fig.Scale) -> bool:
        steps = runs.training(scale, runs.RATES[0], stops=True).steps * self.longer
        return (
            one.config["training"]["steps"] == steps
            and one.sizes["width"] == self.width
            and runs.is_likely(one) == (self.initialisation == runs.BERT)
        )


@realises("KS25-length")
def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """For every width, number of epochs and initialisation, compute the fewest blocks that memorise sequences of each length, and
    the error for each length and number of blocks.
    """
    panels, trials, rows = [], [], []
    numbers: dict[str, Any] = {}
    lacking = []
    conditions = dict.fromkeys(
        Condition(part.width, part.longer, part.initialisation) for part in PARTS[scale]
    )
    for condition in conditions:
        mine = [one for one in observations if condition.is_of(one, scale)]
        lengths = sorted({length(one) for one in mine})
        wanted = {part.seq_len for part in PARTS[scale] if _condition(part) == condition}
        if condition.is_own and wanted - set(lengths):
            lacking.append(", ".join(f"n = {n:,}" for n in sorted(wanted - set(lengths))))
        if not mine:
            continue
        best = runs.best_trials(mine, lambda one: (length(one), runs.n_blocks(one)))
        panels.append(_panel(condition.name, best, lengths))
        shared = _shared_trials(mine, lengths)
        passing: dict[int, int | None] = {}
        for n in lengths:
            at = [one for one in mine if length(one) == n]
            # the paper's search: the fewest blocks with which some trial memorises
            passing[n] = min((runs.n_blocks(one) for one in at if _memorises(one)), default=None)
            by_seed = runs.fewest_blocks(at, length)
            four = [one.loss for one in best if length(one) == n and runs.n_blocks(one) == ASKED]
            equal = [one.loss for one in at if _trial(one) in shared]
            rows.append(
                (
                    condition.name,
                    f"{n:,}",
                    "none" if passing[n] is None else str(passing[n]),
                    "/".join("-" if blocks is None else str(blocks) for blocks in by_seed.values()),
                    f"{min(four):.3g} to {max(four):.3g} ({len(four)} seeds)" if four else "not trained",
                    f"{min(equal):.3f}" if equal else "-",
                )
            )
            numbers.setdefault(condition.name, {})[str(n)] = {
                "fewest blocks of any trial": passing[n],
                "fewest blocks, by seed": list(by_seed.values()),
                f"error at {ASKED} blocks, by seed": four,
            }
        good = [
            n
            for n in lengths
            if any(runs.n_blocks(one) == ASKED and _memorises(one) for one in mine if length(one) == n)
        ]
        exact = [n for n in lengths if passing[n] == ASKED]
        is_whole = not condition.is_own or not wanted - set(lengths)
        for claim, found in ((ENOUGH, good), (SMALLEST, exact)):
            said = f"at {len(found)} of {len(lengths)} lengths" + (
                f" ({', '.join(f'{n:,}' for n in found)})" if 0 < len(found) < len(lengths) else ""
            )
            holds = len(found) == len(lengths) if is_whole else None
            trials.append(fig.ConditionResult(condition.name, said, holds, condition.is_own, claim))
    heads = (
        "condition",
        "n",
        "fewest blocks of any trial",
        "by seed",
        f"error at {ASKED} blocks",
        "least error over the trials that every length has",
    )
    return fig.Computed(
        tuple(panels),
        tuple(trials),
        tables=(fig.Table("Fewest blocks by length", heads, tuple(rows)),),
        numbers=numbers,
        choices=(
            (
                "Tokens are uniform on [0, 1)^6. With m = 2, a trained map brings them into the two-dimensional stream, and the"
                " hidden width q is 8; a footnote of the paper describes its models in this way. With m = 6, the stream is as wide"
                " as the tokens, and q is 24."
            ),
            (
                "The answer is read at the first token; the paper also reads it at one fixed token. The first token is a random"
                " vector that bypasses the attention through the skip connection, so it distinguishes the samples at every length."
            ),
            "BERT-style weights: N(0, 0.02²), zero biases, 50 steps of warm-up. Otherwise: PyTorch's default weights, 100 steps.",
            _rates_in_words(scale),
            (
                "Memorised means a mean squared error below 0.01 in some trial, as in the paper's search. The table also lists the"
                " fewest blocks for each seed."
            ),
        ),
        counter=_counter(numbers),
        missing=f"Not trained at m = 2: {'; '.join(lacking)}." if lacking else "",
    )


def _condition(part: LengthPart) -> Condition:
    return Condition(part.width, part.longer, part.initialisation)


def _rates_in_words(scale: fig.Scale) -> str:
    """Describe the learning rates in a sentence: first the rates `FAST`, which most parts use, then all other rates, with the
    parts that use them.
    """
    others: dict[tuple[float, ...], dict[str, None]] = {}  # the ordered set of the parts with these rates
    for part in PARTS[scale]:
        if part.rates != FAST:
            where = f"n = {part.seq_len:,} ({_condition(part).name})"
            others.setdefault(part.rates, {})[where] = None
    said = [", ".join(f"{rate:g}" for rate in FAST)]
    for rates, places in others.items():
        said.append(f"for {', '.join(places)}: {', '.join(f'{rate:g}' for rate in rates)}")
    return f"Learning rates: {'; '.join(said)}."


def _memorises(one: Observation) -> bool:
    return runs.PASSES.holds(one.measured)


def _panel(name: str, best: Sequence[Observation], lengths: Sequence[int]) -> fig.Panel:
    return fig.Panel(
        name,
        "#blocks",
        "mean squared error",
        tuple(
            series(
                f"n = {n:,}",
                runs.CURVE_STYLES[len(str(n)) - 1],  # one colour per power of ten
                gather([one for one in best if length(one) == n], runs.n_blocks, lambda one: one.loss),
            )
            for n in lengths
        ),
        y_scale="log",
    )


def _counter(numbers: Mapping[str, Any]) -> str:
    """Return the best argument against the verdict: in a wider residual stream (m = 6), few blocks may be enough at every length.

    Return "" if there are no runs with this width.
    """
    wide = numbers.get(Condition(6, 1, "framework").name)
    if wide is None:
        return ""
    said = ", ".join(
        f"n = {int(n):,}: {at['fewest blocks of any trial'] or 'none'}" for n, at in wide.items()
    )
    return f"With a stream as wide as the tokens (m = 6), some trial memorises with few blocks at every length ({said})."


def length(one: Observation) -> int:
    return int(one.config["data"]["seq_len"])


def _trial(one: Observation) -> tuple[int, float, int]:
    return runs.n_blocks(one), one.config["training"]["learning_rate"], one.seed


def _shared_trials(
    observations: Sequence[Observation], lengths: Sequence[int]
) -> set[tuple[int, float, int]]:
    """Return the trials (number of blocks, learning rate, seed) that were made for every length.

    There are fewer trials for long sequences, so using all trials would favour short sequences.
    """
    tried = [{_trial(one) for one in observations if length(one) == n} for n in lengths]
    return set.intersection(*tried) if tried else set()


FIGURES = (
    fig.Figure(
        "kajitsuka-sato-2025-length",
        "KS25",
        ("KS25-length",),
        "KS25, the sequence-length study: fewest blocks for n = 10 to 10,000 at N = 500",
        "At every sequence length, four blocks are the fewest that memorise.",
        "Stated: m = 2, q = 8, N = 500, 1,000 epochs, some trial with an error below 0.01. Not stated: the"
        " initialisation; we use PyTorch's default.",
        f"At every length, some trial with {ASKED} blocks ends with an error below 0.01, and no trial with fewer blocks does.",
        stages,
        compute,
        measured=runs.MEASURED,
    ),
)
