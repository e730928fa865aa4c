"""Functions that the figures of DPC24 (Dana, Pydi & Chevaleyre 2024) share: curves, the bounds of two papers, and the agreement
with the points that the authors stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from byheart.errors import MalformedFile
from byheart.measure.fits import CutOff, up_to_first_above
from byheart.reproduce import figure as fig
from byheart.reproduce.dana_2024 import runs
from byheart.reproduce.observation import Observation
from byheart.reproduce.published import dana_2024
from byheart.reproduce.seed_values import SeedValues, gather, series

TOLERANCE = 0.06
AGREEING = 0.8  # the share of stored points that must agree
AGREEMENT = "stored points met, of"
CHOICES = (
    "Every step draws a fresh batch of 1,024 pairs; the paper reshuffles 1,024,000 drawn pairs each epoch.",
    "Accuracy is measured on all pairs and averaged over 20 of the last 100 steps; the paper averages the batches' accuracy.",
    (
        "\"As coded\" means the version of the authors' code that stored the figure's points. August 2024 (Figures 1a, 2b, the"
        " heads of 3): heads see the position plus the layer norm of the embedding; no shared maps; 5,000 steps. September 2024"
        " (Figures 1b, 2a, 4, the MLPs of 3): no layer norm; shared maps d -> d_h and d_h -> d around all heads; 10,000 steps."
        " 2025: no shared maps if d = d_h."
    ),
    '"As written" means equations (1)-(2): positions are added to the residual stream, and heads are d x d_h.',
    '"Position first" means as coded in September 2024, but positions are vectors of R^d, added before the shared map.',
    "L-BFGS: full batch, float64, 1,500 evaluations at paper scale, from the same initial weights as the code of 2025.",
)
Way = tuple[runs.Variant, runs.How]
AUGUST: Way = ("layer-norm", "adam")
SEPTEMBER: Way = ("maps-always", "adam")
LATEST: Way = ("as-coded", "adam")
LABELS: dict[Way, tuple[str, fig.Style]] = {
    AUGUST: ("as coded in August 2024", "measured"),
    SEPTEMBER: ("as coded in September 2024", "measured"),
    ("layer-norm", "longer"): ("August 2024, 4 times the steps", "fourth"),
    ("layer-norm", "longest"): ("August 2024, 16 times the steps", "seventh"),
    LATEST: ("as coded in 2025", "third"),
    ("as-written", "adam"): ("as written", "second"),
    ("as-coded", "lbfgs"): ("2025, L-BFGS", "fifth"),
    ("as-coded", "longer"): ("2025, 4 times the steps", "fifth"),
    ("as-coded", "longest"): ("2025, 16 times the steps", "closed-form"),
    ("position-first", "adam"): ("position first", "sixth"),
}


def cut_off() -> CutOff:
    """Return the cut-off rule of the paper: fit the points up to the first accuracy above 0.95."""
    return up_to_first_above(0.95)


def is_of(one: Observation, way: Way) -> bool:
    """Return whether a run belongs to `way`, which is a variant of the model and a way of training.

    If the model width d differs from the head width d_h, the authors' code of September 2024 (`maps-always`) and that of 2025
    (`as-coded`) define the same model. Runs of `as-coded` then also belong to `maps-always`.
    """
    variant, how = way
    if runs.how_trained(one) != how:
        return False
    mine: str = one.config["options"]["variant"]
    if variant == "maps-always" and one.sizes["dim"] != one.sizes["head_dim"]:
        return mine in ("maps-always", "as-coded")
    return mine == variant


def curve(observations: Iterable[Observation], way: Way, x: str, **fixed: int) -> SeedValues:
    """Return the accuracy as a function of the size `x`, for one way of training. `fixed` gives the other sizes."""
    chosen = [
        one
        for one in observations
        if is_of(one, way) and all(one.sizes[name] == value for name, value in fixed.items())
    ]
    return gather(chosen, lambda one: one.sizes[x], runs.accuracy)


def curves(
    observations: Sequence[Observation], ways: Sequence[Way], x: str, **fixed: int
) -> dict[Way, SeedValues]:
    """Return one curve for each of `ways`. A way of training without runs is left out."""
    found = {way: curve(observations, way, x, **fixed) for way in ways}
    return {way: at for way, at in found.items() if at}


def n_vocab_of(observations: Sequence[Observation]) -> int:
    return int(observations[0].config["data"]["n_vocab"]) if observations else runs.N_VOCAB


def bound_sizes(x: Sequence[int], sizes: Mapping[str, int], name: str) -> list[tuple[int, int, int]]:
    """Return (model width d, head width d_h, number of heads H) for each value in `x`.

    `name` is the size that has these values, and `sizes` gives the other sizes.
    """
    return [
        (sized["dim"], sized["head_dim"], sized["n_heads"])
        for sized in ({**sizes, name: value} for value in x)
    ]


def bounds(
    x: Sequence[int], sizes: Mapping[str, int], name: str, n_vocab: int
) -> tuple[fig.Series, fig.Series]:
    """Return two lower bounds on the accuracy of models that differ only in one size, such as the number of heads.

    `name` is the name of this size, `x` holds its values, and `sizes` gives the other sizes. The first bound is Corollary 2 of
    DPC24, as byheart corrects it. The second bound is that of Mahdavi, Liao & Thrampoulidis (2023).
    """
    # not available on a machine that only trains
    from byheart.bounds.dana_2024 import AttentionOnlyShape, corollary_2

    ours, theirs = [], []
    for at, (d, head_dim, n_heads) in zip(x, bound_sizes(x, sizes, name), strict=True):
        shape = AttentionOnlyShape(n_vocab, 2, d, head_dim, n_heads)
        ours.append((at, float(corollary_2(shape, n_vocab**2).value)))
        theirs.append((at, with_chance(n_heads * (head_dim - 1) + 1, n_vocab)))
    return fig.series_of("DPC24 Corollary 2", "bound", ours), fig.series_of("MLT23", "bound2", theirs)


def with_chance(memorised: float, n_vocab: int) -> float:
    """Return the accuracy of a model that memorises `memorised` of all N² pairs of N = `n_vocab` tokens and guesses the others.

    The accuracy is 1/N + (1 - 1/N) memorised/N², but at most 1.
    """
    return 1 / n_vocab + (1 - 1 / n_vocab) * min(1.0, memorised / n_vocab**2)


def associations(slope: float, n_vocab: int) -> float:
    """Convert an increase in accuracy to the number of additional pairs that are memorised, by inverting `with_chance`."""
    return slope * n_vocab**2 / (1 - 1 / n_vocab)


def panel(
    title: str,
    x_label: str,
    here: Mapping[Way, SeedValues],
    stored: SeedValues,
    scale: fig.Scale,
    limits: Iterable[fig.Series],
) -> fig.Panel:
    """Return a panel with our curves (`here`), the curves of the bounds (`limits`) and the authors' stored points.

    The stored points are left out at a scale whose runs cannot be compared with them.
    """
    return fig.Panel(
        title,
        x_label,
        "accuracy",
        (
            *(series(*LABELS[way], found) for way, found in here.items()),
            *([series("the authors' points", "published", stored)] if stored and can_compare(scale) else []),
            *limits,
        ),
        y_range=(0.0, 1.0),
    )


def stored_points(figure: str, by: str, **fixed: int) -> SeedValues:
    """Return the accuracies that the authors stored for a figure, as a function of the size `by`. `fixed` gives the other sizes."""
    return SeedValues.of(
        (getattr(point, by), point.accuracy)
        for point in dana_2024(figure)
        if all(getattr(point, name) == value for name, value in fixed.items())
    )


def differences(found: SeedValues, published: SeedValues) -> list[tuple[float, float]]:
    """For every point that the authors stored, return its x and our accuracy minus theirs, if we also trained at this x."""
    pairs = [(x, found.at(x), mean) for x, mean in zip(published.x, published.means, strict=True)]
    return [(x, ours - theirs) for x, ours, theirs in pairs if ours is not None]


def agreement(gaps: Sequence[tuple[str, float]], n_stored: int) -> tuple[fig.Check, fig.Table]:
    """Return a check that counts the authors' stored points that agree with ours, and a table of the others in `gaps`.

    `gaps` has the name of each stored point that we trained too, and our accuracy minus the stored one. `n_stored` is the number
    of all stored points; the check fails unless 80% of them agree.
    """
    far = [(name, gap) for name, gap in gaps if abs(gap) > TOLERANCE]
    close, _ = within(gaps, n_stored)
    mean = sum(gap for _, gap in gaps) / len(gaps) if gaps else float("nan")
    check = fig.Check(
        f"accuracy within {TOLERANCE} of the stored points",
        f"{close} of {n_stored} points; mean difference {mean:+.3f}",
        f"at least {AGREEING:.0%}",
        close >= AGREEING * n_stored,
    )
    rows = tuple((name, f"{gap:+.3f}") for name, gap in far)
    return check, fig.Table(
        f"Stored points further than {TOLERANCE} from ours", ("point", "ours minus stored"), rows
    )


def within(gaps: Sequence[tuple[str, float]], n_stored: int) -> list[int]:
    """Return how many of the differences in `gaps` are within the tolerance, and the number of stored points."""
    return [sum(abs(gap) <= TOLERANCE for _, gap in gaps), n_stored]


def agreement_in_words(records: Iterable[fig.FigureRecord]) -> str:
    """Describe, for all figures together, how many of the authors' stored points agree with ours.

    The total leaves out Figure 1a, because its points are part of Figure 2b.
    """
    found = {
        record.title.partition(":")[0]: _counts(record) for record in records if AGREEMENT in record.numbers
    }
    counted = [counts for title, counts in found.items() if title != "DPC24 Figure 1a"]
    if not counted:
        return ""
    good, whole = (sum(counts[place] for counts in counted) for place in (0, 1))
    parts = "; ".join(f"{title}: {close} of {stored}" for title, (close, stored) in sorted(found.items()))
    return (
        f"For each figure of DPC24, models were trained as in the version of the authors' code that made the figure. The accuracy"
        f" of our models agrees with {good} of the authors' {whole} stored points within {TOLERANCE} ({good / whole:.0%}). {parts}."
    )


def _counts(record: fig.FigureRecord) -> tuple[int, int]:
    """Return how many of the authors' stored points agree with ours, and how many stored points there are."""
    match record.numbers[AGREEMENT]:
        case [int(met), int(stored)] if 0 <= met <= stored and stored > 0:
            return met, stored
        case other:
            raise MalformedFile(
                f"the record of {record.figure}: `{AGREEMENT}` is {other!r}; it must be two whole"
                " numbers in a list: how many stored points agree, and how many there are (at least 1).",
                figure=record.figure,
            )


def can_compare(scale: fig.Scale) -> bool:
    """Return whether runs of this scale can be compared with the authors' stored points.

    Smoke runs cannot, because they use another vocabulary.
    """
    return scale != "smoke"
