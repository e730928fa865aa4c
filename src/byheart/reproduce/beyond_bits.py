"""Beyond the papers: plot memorised bits against parameters, for compiled models, for trained models, and for the limit that theory
sets.

The data are those of DPC24 (Dana, Pydi & Chevaleyre 2024): pairs of tokens from a vocabulary of 50, with random next tokens. N
samples have labels from C classes. A trained model memorises N (log2 C - loss / ln 2) bits, the number of bits that it saves in
describing all labels (Morris et al. 2025). A compiled model memorises all N log2 C bits. Bits are compared per parameter.
Parameters differ in precision, so a table also shows label bits per stored bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from byheart.measure.text_samples import Samples
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.registry import figure_of

# the style, and the bits of a stored weight; 0 means that weights have any length
COMPILED: dict[str, tuple[fig.Style, int]] = {
    "retrieval": ("closed-form", 64),
    "dana-2024": ("fourth", 64),
    "kajitsuka-sato-2025": ("third", 0),
}
TRAINED_BITS: dict[runs.How, int] = {"adam": 32, "longer": 32, "longest": 32, "lbfgs": 64}
LABELS: dict[runs.How, tuple[str, fig.Style]] = {
    "adam": ("trained by Adam, as many steps as the authors", "measured"),
    "longer": ("trained by Adam, 4 times the steps", "fifth"),
    "longest": ("trained by Adam, 16 times the steps", "sixth"),
    "lbfgs": ("trained by L-BFGS, float64", "second"),
}
TRAINED_GPT = 3.6  # bits per parameter, Morris et al. 2025
COUNTS = (10, 30, 100, 300, 1000, 2500)


def stages(scale: fig.Scale, samples: Samples | None = None) -> list[fig.TrainingStage]:
    """Return the training stages of DPC24's Figures 1a, 2b and 3, whose models range from small to large.

    At laptop scale, return only the stages of Figure 1a.
    """
    names = ("dana-2024-fig1a", "dana-2024-fig2b", "dana-2024-fig3")
    figures = map(figure_of, names if scale != "laptop" else names[:1])
    return [stage for figure in figures for stage in figure.stages(scale, samples)]


def gather_facts(scale: fig.Scale, observations: Sequence[Observation], samples: Samples | None) -> fig.Facts:
    """Return the estimated number of parameters, including zeros, that each construction needs to memorise pairs of tokens.

    The result has a dictionary for each construction, from the number of pairs to the number of parameters.
    """
    from byheart.construct.registry import get  # not available on a machine that only trains
    from byheart.data.shape import DataShape

    n_vocab = int(observations[0].config["data"]["n_vocab"])
    counts = [count for count in COUNTS if count <= n_vocab**2]
    shapes = [DataShape(count, 2, n_vocab, vocab=n_vocab, ordered=True) for count in counts]
    return {
        name: {str(shape.n_samples): get(name).estimate(shape).parameters_dense for shape in shapes}
        for name in COMPILED
    }


def memorised_bits(one: Observation) -> float:
    """Return the number of bits that the model saves in describing the labels of its N samples from C classes:

    N (log2 C - loss / ln 2), but at least 0.
    """
    data = one.config["data"]
    saved = math.log2(data.get("n_classes", data["n_vocab"])) - one.measured["loss"] / math.log(2)
    return max(0.0, saved) * one.n_samples if math.isfinite(saved) else 0.0


def compute(scale: fig.Scale, observations: Sequence[Observation], facts: fig.Facts) -> fig.Computed:
    """Compute the figure: bits memorised against parameters.

    There is a curve for each way of training (the most bits that models of at most a given size memorised), a curve for each
    construction, and lines at 32 bits per parameter (the limit of theory) and at 3.6 (measured on trained GPTs).
    """
    n_vocab = int(observations[0].config["data"]["n_vocab"])
    bits = math.log2(n_vocab)
    drawn, rows, trials = [], [], []
    compiled = {name: [(int(count), size) for count, size in sizes.items()] for name, sizes in facts.items()}
    whole, dense = compiled["retrieval"][-1]
    best_compiled = whole * bits / dense
    shares: dict[runs.How, float] = {}
    for how, (label, style) in LABELS.items():
        mine = sorted(
            (one for one in observations if runs.how_trained(one) == how), key=lambda one: one.n_parameters
        )
        if not mine:
            continue
        top = max(mine, key=lambda one: memorised_bits(one) / one.n_parameters)
        rate = memorised_bits(top) / top.n_parameters
        share = rate / TRAINED_BITS[how]
        shares[how] = share
        drawn.append(_frontier(label, style, mine))
        rows.append((label, f"{share:.4f}", f"{rate:.2f}", str(TRAINED_BITS[how]), f"{top.n_parameters:,}"))
        said = f"at most {rate:.2f} label bits per parameter; `retrieval` has {best_compiled:.2f}"
        trials.append(fig.ConditionResult(label, said, rate < best_compiled))
    for name, sizes in compiled.items():
        style, width = COMPILED[name]
        points = [(size, count * bits) for count, size in sizes]
        drawn.append(fig.series_of(f"compiled: {name}", style, points))
        rate = sizes[-1][0] * bits / sizes[-1][1]
        stored = (f"{rate / width:.4f}", str(width)) if width else ("-", "any")
        rows.append((f"compiled: {name}", stored[0], f"{rate:.2f}", stored[1], f"{sizes[-1][1]:,}"))
    least, all_bits = 100.0, n_vocab**2 * bits
    panel = fig.Panel(
        f"Memorised bits against number of parameters, pairs of {n_vocab} tokens",
        "parameters",
        "bits memorised",
        (
            *drawn,
            _line("theory's limit: 32 bits per float32 parameter", "bound", 32, least, all_bits),
            _line("trained GPTs: 3.6 bits per parameter", "bound2", TRAINED_GPT, least, all_bits),
        ),
        x_scale="log",
        y_scale="log",
    )
    heads = (
        "model",
        "label bits per stored bit",
        "label bits per parameter",
        "bits of a parameter",
        "parameters",
    )
    return fig.Computed(
        (panel,),
        tuple(trials),
        tables=(fig.Table("Most label bits that a model holds", heads, tuple(rows)),),
        choices=(
            "A curve of trained models shows, for each size, the most bits that a model of at most this size memorised.",
            (
                "Trained models have float32 weights, or float64 weights for L-BFGS. The size of a compiled model counts all"
                " parameters, including zeros; they have 64 bits (kajitsuka-sato-2025: any length)."
            ),
        ),
        counter=_counter(best_compiled / COMPILED["retrieval"][1], shares),
    )


def _counter(compiled: float, shares: Mapping[runs.How, float]) -> str:
    """Return the best argument against the verdict: the same comparison per stored bit.

    `shares` holds the label bits per stored bit of the best model of each way of training.
    """
    how = max(shares, key=lambda how: shares[how])
    trained = shares[how]
    word = "other way round" if trained > compiled else "same"
    return (
        f"Per stored bit, the result is the {word}: `retrieval` holds {compiled:.4f} label bits per bit of its 64-bit"
        f" weights, and the best trained model holds {trained:.4f} per bit of its"
        f" float{TRAINED_BITS[how]} weights."
    )


def _frontier(label: str, style: fig.Style, observations: Sequence[Observation]) -> fig.Series:
    """Return a line: for each number of parameters, the most bits that any model of at most this size memorised."""
    points = [(0.0, 0.0)]
    for one in observations:
        bits = memorised_bits(one)
        if bits > points[-1][1]:
            points.append((one.n_parameters, bits))
    return fig.series_of(label, style, points[1:])


def _line(label: str, style: fig.Style, rate: float, least: float, whole: float) -> fig.Series:
    ends = (least, max(least, whole / rate))
    return fig.series_of(label, style, [(end, rate * end) for end in ends])


FIGURES = (
    fig.Figure(
        "beyond-bits",
        "beyond",
        (),
        "Beyond the papers: memorised bits against number of parameters",
        "A model compiled with `retrieval` holds more label bits per parameter than any of these trained models.",
        "This is our own claim. DPC24's models of Figures 1a, 2b and 3, in every version and with every number of training"
        " steps, are compared with `retrieval` on all 2,500 pairs.",
        "For each way of training, every trained model holds fewer label bits per parameter than `retrieval`.",
        stages,
        compute,
        gather_facts,
        measured=("loss",),
    ),
)
