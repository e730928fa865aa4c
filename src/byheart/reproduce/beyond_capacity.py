"""Beyond the papers: measure the bits per parameter of small trained models, by a search over the size of the data or of the model.

Models are trained by L-BFGS and pass if 99% of the labels are right. There are two searches:
- for the most samples that a small GPT memorises; a sample is a sequence of four tokens from a vocabulary of 64,
  with one of 64 random answers (6 bits);
- for the fewest heads with which the model of DPC24 (Dana, Pydi & Chevaleyre 2024) memorises all 2,500 pairs of 50 tokens.

All sizes of a search train at once, as one batched computation, because this takes a GPU no longer than one round of bisection.
The figure also shows what Morris et al. (2025) measure. A model trained on N samples with C classes memorises
N (log2 C - loss / ln 2) bits, and the measure is the largest of these numbers over all N.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from byheart.measure.capacity import Bracket, capacity_of
from byheart.measure.families import ModelConfig
from byheart.measure.recipe import PassRule, Training
from byheart.measure.records import Run
from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.beyond_bits import TRAINED_GPT, memorised_bits
from byheart.reproduce.dana_2024 import runs as dana
from byheart.reproduce.observation import Observation
from byheart.reproduce.seed_values import SeedValues, series

PASSES = PassRule("accuracy", 0.99)
N_VOCAB, SEQ_LEN = 64, 4
WIDTHS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (4,), "laptop": (8,), "paper": (8, 16, 32)}
DENSITIES = (0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 3.4)  # bits of data per parameter
HEADS: dict[fig.Scale, tuple[int, ...]] = {"smoke": (1, 3), "laptop": (20, 30), "paper": (16, 21, 26, 31, 36)}
DIM = 10
# bits per stored parameter: L-BFGS trains in float64, Morris et al. in float32 (and in bfloat16, with 16 bits)
OUR_BITS, GPT_BITS = 64, 32
VARIANTS: tuple[dana.Variant, ...] = ("as-coded", "as-written")
N_SEEDS: dict[fig.Scale, int] = {"smoke": 1, "laptop": 1, "paper": 3}
EVALUATIONS: dict[fig.Scale, int] = {"smoke": 20, "laptop": 600, "paper": 2000}


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Return the stages: every GPT with every number of samples, then the attention-only models.

    The GPTs of all widths except the largest train together, as one batched computation.
    """
    largest = max(WIDTHS[scale])
    found = [
        fig.TrainingStage(
            f"bits of GPTs of width {width}",
            5,
            tuple(
                _gpt_run(scale, width, density, seed)
                for density in (DENSITIES if scale != "smoke" else DENSITIES[:2])
                for seed in range(N_SEEDS[scale])
            ),
            together="small GPTs" if width < largest else "",
        )
        for width in WIDTHS[scale]
    ]
    heads = tuple(
        dana.run(scale, variant, seed, dim=DIM, head_dim=DIM, n_heads=count, how="lbfgs")
        for variant in VARIANTS
        for seed in range(N_SEEDS[scale])
        for count in HEADS[scale]
    )
    return [*found, fig.TrainingStage("bits of attention-only models", 5, heads)]


def gpt_parameters(width: int) -> int:
    """Return the number of parameters of the one-block GPT: input and output embeddings, positions, attention, a
    hidden layer of four times the width, and normalisations.
    """
    block = 4 * width * width + 4 * width + 8 * width * width + 5 * width + 4 * width
    return 2 * N_VOCAB * width + SEQ_LEN * width + block + 2 * width


def _gpt_run(scale: fig.Scale, width: int, density: float, seed: int) -> Run:
    n_heads = max(1, width // 8)
    sizes = {
        "dim": width,
        "n_layers": 1,
        "n_heads": n_heads,
        "head_dim": width // n_heads,
        "hidden_width": 4 * width,
    }
    data = {
        "kind": "random-tokens",
        "n_samples": round(density * gpt_parameters(width) / math.log2(N_VOCAB)),
        "n_vocab": N_VOCAB,
        "seq_len": SEQ_LEN,
        "n_classes": N_VOCAB,
        "read": "last",
        "seed": seed,
    }
    return Run(
        ModelConfig("gpt", sizes),
        data,
        Training(steps=EVALUATIONS[scale], optimiser="lbfgs", dtype="float64"),
        seed,
    )


def data_bits(one: Observation) -> float:
    data = one.config["data"]
    return one.n_samples * math.log2(data.get("n_classes", data["n_vocab"]))


def bracket(passed: Mapping[int, bool], *, goal: str) -> Bracket:
    """Return the bracket of a search for the limit between sizes that pass and sizes that fail.

    `passed` says whether each size passed. `goal` is "largest" or "smallest", the passing size to find. Sizes are ordered from
    the easiest to the hardest for this goal. The bracket holds the first size that fails and the size before it.
    """
    rungs = sorted(passed, reverse=goal == "smallest")
    good: int | None = None
    for rung in rungs:
        if not passed[rung]:
            return Bracket(good, rung, len(rungs))
        good = rung
    return Bracket(good, None, len(rungs))


def gather_facts(scale: fig.Scale, observations: Sequence[Observation], samples: Samples | None) -> fig.Facts:
    """Return the sizes of models that `retrieval` would compile from as many label bits as the trained models had to memorise.

    The result has a pair (number of samples, estimated number of parameters including zeros) for each number of label bits.
    """
    from byheart.construct.registry import get  # not available on a machine that only trains
    from byheart.data.shape import DataShape

    counts = sorted({max(1, round(data_bits(one) / math.log2(N_VOCAB))) for one in observations})
    shapes = [DataShape(count, SEQ_LEN, N_VOCAB, vocab=N_VOCAB, ordered=True) for count in counts]
    method = get("retrieval")
    return {"retrieval": [[shape.n_samples, method.estimate(shape).parameters_dense] for shape in shapes]}


def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute the bits per parameter that each search found, with intervals over seeds.

    Compare them with 3.6 bits per parameter, which Morris et al. measured, and with the construction `retrieval`.
    """
    gpts = [one for one in observations if one.config["family"] == "gpt"]
    heads = [one for one in observations if one.config["family"] != "gpt"]
    numbers: dict[str, Any] = {}
    recalled, saved = _gpt_values(gpts, numbers)
    drawn: list[tuple[str, fig.Style, SeedValues]] = [
        ("GPTs, most samples with 99% of labels right", "measured", recalled),
        ("GPTs, most bits memorised (Morris et al.)", "second", saved),
        *_head_values(heads, numbers),
    ]
    sizes = [x for _, _, found in drawn for x in found.x] or [1.0]
    compiled = tuple(
        (count * math.log2(N_VOCAB), count * math.log2(N_VOCAB) / size) for count, size in facts["retrieval"]
    )
    panel = fig.Panel(
        "Bits per parameter against memorised bits",
        "memorised bits of the labels",
        "bits per parameter",
        (
            *(series(label, style, found) for label, style, found in drawn if found),
            fig.series_of("compiled: retrieval", "closed-form", compiled),
            fig.series_of(
                "GPTs of 500K to 1.5B parameters (Morris et al.): 3.6",
                "bound2",
                [(end, TRAINED_GPT) for end in (min(sizes), max(sizes))],
            ),
        ),
        x_scale="log",
    )
    best = {label: max(found.means) for label, _, found in drawn if found}
    trials = [
        fig.ConditionResult(
            label,
            f"at most {value / OUR_BITS:.4f} label bits per stored bit; {value:.2f} per parameter of {OUR_BITS} bits",
            value < TRAINED_GPT and value / OUR_BITS < TRAINED_GPT / GPT_BITS,
        )
        for label, value in best.items()
    ]
    checks = []
    if recalled and compiled:
        rate = max(y for _, y in compiled)
        checks.append(
            fig.Check(
                "`retrieval` holds more label bits per parameter than our trained GPTs",
                f"{rate:.2f} bits per parameter; trained models have {recalled.means[-1]:.2f}",
                "more than training",
                rate > recalled.means[-1],
            )
        )
    is_whole = len(recalled.x) == len(WIDTHS[scale]) and bool(heads)
    return fig.Computed(
        (panel,),
        tuple(trials),
        tuple(checks),
        numbers=numbers,
        choices=(
            (
                f"A model passes if {PASSES}. L-BFGS: full batch, float64, {EVALUATIONS[scale]:,} steps for GPTs; with more steps,"
                " models may memorise more."
            ),
            (
                "GPTs have one block and untied embeddings. Their data sets have 0.8 to 3.4 label bits per parameter; each is"
                " 15 to 25% larger than the one before."
            ),
            "Attention-only models have d = d_h = 10 and 16 to 36 heads, and are trained on all 2,500 pairs.",
            "`retrieval` memorises as many samples of the same kind. All its parameters count, including zeros, with 64 bits each.",
        ),
        counter=(
            "Our weights have 64 bits, and those of Morris et al. have 32. In float32, the same weights would hold twice as many"
            " label bits per stored bit. Label bits per parameter would not change."
        ),
        missing=""
        if is_whole
        else "For some width, no trained GPT passed, or no attention-only model was trained.",
    )


def _gpt_values(
    observations: Sequence[Observation], numbers: dict[str, Any]
) -> tuple[SeedValues, SeedValues]:
    """For each width and seed, return two measures of the bits per parameter. The first counts the label bits of the largest
    data set that passed in the capacity search. The second counts the most bits that any run memorised.

    The y coordinate is the number of bits per parameter. The x coordinate is the number of bits, averaged over the seeds of one
    width. Details of each width are added to `numbers`.
    """
    recalled: list[tuple[float, float]] = []
    saved: list[tuple[float, float]] = []
    for width in sorted({one.sizes["dim"] for one in observations}):
        mine = [one for one in observations if one.sizes["dim"] == width]
        by_seed = [[one for one in mine if one.seed == seed] for seed in sorted({one.seed for one in mine})]
        ends = [
            bracket({int(one.n_samples): PASSES.holds(one.measured) for one in group}, goal="largest")
            for group in by_seed
        ]
        n_parameters, bits = mine[0].n_parameters, math.log2(N_VOCAB)
        found = capacity_of(ends, "largest")
        most = [max(memorised_bits(one) for one in group) for group in by_seed]
        numbers[f"GPT of width {width}"] = {
            "parameters": n_parameters,
            "most samples with 99% of labels right, by seed": [end.passes for end in ends],
            "fewest samples at which training failed, by seed": [end.fails for end in ends],
            "most samples with 99% of labels right": found.estimate,
            "interval": found.interval,
            "most bits memorised, by seed": most,
        }
        passed = [end.passes * bits for end in ends if end.passes is not None]
        recalled += [(fmean(passed), one / n_parameters) for one in passed]
        saved += [(fmean(most), one / n_parameters) for one in most]
    return SeedValues.of(recalled), SeedValues.of(saved)


def _head_values(
    observations: Sequence[Observation], numbers: dict[str, Any]
) -> list[tuple[str, fig.Style, SeedValues]]:
    """For each of the two variants of the model, find the fewest heads that memorise the pairs (99% of the labels right), and
    return the label bits per parameter with that many heads.

    Variants for which no number of heads suffices are left out. Details of each variant are added to `numbers`.
    """
    found: list[tuple[str, fig.Style, SeedValues]] = []
    styles: tuple[fig.Style, fig.Style] = ("fourth", "fifth")
    for variant, style in zip(VARIANTS, styles, strict=True):
        at = {
            (o.seed, o.sizes["n_heads"]): o for o in observations if o.config["options"]["variant"] == variant
        }
        ends = {
            seed: bracket(
                {count: PASSES.holds(one.measured) for (s, count), one in at.items() if s == seed},
                goal="smallest",
            )
            for seed in sorted({seed for seed, _ in at})
        }
        passing = [at[seed, end.passes] for seed, end in ends.items() if end.passes is not None]
        numbers[f"attention-only, {variant}"] = {
            "fewest heads, by seed": [end.passes for end in ends.values()],
            "most heads at which training failed, by seed": [end.fails for end in ends.values()],
            "parameters, by seed": [one.n_parameters for one in passing],
        }
        if passing:
            rates = tuple(data_bits(one) / one.n_parameters for one in passing)
            label = f"DPC24's model {variant.replace('-', ' ')}, fewest heads with 99% of labels right"
            found.append((label, style, SeedValues((data_bits(passing[0]),), (rates,))))
    return found


FIGURES = (
    fig.Figure(
        "beyond-capacity",
        "beyond",
        (),
        "Beyond the papers: bits per parameter of trained models, by capacity search",
        "Trained models of our sizes hold fewer label bits per stored bit, and per parameter, than larger GPTs do.",
        "This is our own claim, for GPTs of width 8 to 32 and DPC24's model, trained by L-BFGS in float64; 99% of the labels must"
        " be right.",
        f"For every kind of model and search, the largest mean over seeds is below {TRAINED_GPT} label bits per parameter and below"
        f" {TRAINED_GPT / GPT_BITS:.4f} per stored bit. These are the values of larger GPTs in float32.",
        stages,
        compute,
        gather_facts,
    ),
)
