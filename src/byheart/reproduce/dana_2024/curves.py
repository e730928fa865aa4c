"""What DPC24's figures share when their records are read: curves, the papers' bounds, comparison with stored points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byheart.measure.fits import CutOff, up_to_first_above
from byheart.measure.records import Record
from byheart.reproduce.dana_2024 import runs as runs
from byheart.reproduce.figure import Check, Panel, Scale, Series, Style
from byheart.reproduce.published import dana_2024
from byheart.reproduce.seed_values import SeedValues, points, series

TOLERANCE = 0.06
CHOICES = (
    "Every step draws a fresh batch of 1,024 pairs; the paper reshuffles 1,024,000 drawn pairs each epoch.",
    "Accuracy is over all pairs, averaged over 20 of the last 100 steps; the paper averages batch accuracy over them.",
    "As written: equations (1)-(2), positions in the residual stream, heads d x d_h.",
    "As coded: shared maps d -> d_h and d_h -> d wrap all heads where d ≠ d_h, each head d_h x d_h; positions live in R^{d_h}.",
    "Position first: as coded, but positions live in R^d and are added before the shared map, which is always there.",
    "L-BFGS: full batch, float64, 1,500 evaluations at paper scale, from the same initial weights.",
)
LABELS: dict[tuple[runs.Variant, runs.How], tuple[str, Style]] = {
    ("as-coded", "adam"): ("as coded", "measured"),
    ("as-written", "adam"): ("as written", "second"),
    ("as-coded", "lbfgs"): ("as coded, L-BFGS", "third"),
    ("as-written", "lbfgs"): ("as written, L-BFGS", "fourth"),
    ("as-coded", "longer"): ("as coded, 4 times the steps", "fifth"),
    ("as-coded", "longest"): ("as coded, 16 times the steps", "fourth"),
    ("position-first", "adam"): ("position first", "sixth"),
}


def cut_off() -> CutOff:
    """The paper fits up to the first accuracy above 0.95."""
    return up_to_first_above(0.95)


def curve(
    records: Iterable[Record], variant: runs.Variant, how: runs.How, x: str, **fixed: int
) -> SeedValues:
    """Accuracy against one size, over records of one reading and one way of training whose other sizes are `fixed`."""
    chosen = [
        record
        for record in records
        if record.config["options"]["variant"] == variant
        and runs.how_trained(record) == how
        and all(record.config["sizes"][name] == value for name, value in fixed.items())
    ]
    return points(chosen, lambda record: record.config["sizes"][x], runs.accuracy)


def curves(
    records: Sequence[Record], x: str, **fixed: int
) -> dict[tuple[runs.Variant, runs.How], SeedValues]:
    """Every curve there is, by reading and way of training."""
    found = {(variant, how): curve(records, variant, how, x, **fixed) for variant, how in LABELS}
    return {key: at for key, at in found.items() if at}


def n_vocab_of(records: Sequence[Record]) -> int:
    """The vocabulary of the records."""
    return int(records[0].config["data"]["n_vocab"]) if records else runs.N_VOCAB


def bounds(
    x: Sequence[float], n_vocab: int, *, dim: int | None, head_dim: int | None, n_heads: int | None
) -> tuple[Series, Series]:
    """Corollary 2 (repaired) and MLT23's bound along x, which stands for the size given as None."""
    from byheart.bounds.dana_2024 import AttentionOnlyShape, corollary_2  # not on a bare machine

    ours, theirs = [], []
    for value in x:
        d, h, n = (int(value) if size is None else size for size in (dim, head_dim, n_heads))
        shape = AttentionOnlyShape(n_vocab, 2, d, h, n)
        ours.append(float(corollary_2(shape, n_vocab**2).value))
        theirs.append(1 / n_vocab + (1 - 1 / n_vocab) * min(1.0, (n * (h - 1) + 1) / n_vocab**2))
    places = tuple(float(value) for value in x)
    return (
        Series("DPC24 Corollary 2", "bound", places, tuple(ours)),
        Series("MLT23", "bound2", places, tuple(theirs)),
    )


def panel(
    title: str,
    x_label: str,
    here: dict[tuple[runs.Variant, runs.How], SeedValues],
    stored: SeedValues,
    scale: Scale,
    limits: Iterable[Series],
) -> Panel:
    """Our curves, the stored points where they compare, and bounds."""
    return Panel(
        title,
        x_label,
        "accuracy",
        (
            *(series(*LABELS[key], found) for key, found in here.items()),
            *([series("published", "published", stored)] if can_compare(scale) else []),
            *limits,
        ),
    )


def stored_points(figure: str, by: str, **fixed: int) -> SeedValues:
    """The stored accuracies of a figure along one size."""
    at = {
        getattr(point, by): point.accuracy
        for point in dana_2024(figure)
        if all(getattr(point, name) == value for name, value in fixed.items())
    }
    return SeedValues(tuple(at), tuple((accuracy,) for accuracy in at.values()))


def differences(found: SeedValues, published: SeedValues) -> list[float]:
    """Our mean over seeds less the stored accuracy, at every stored point that we have."""
    pairs = [(found.at(x), mean) for x, mean in zip(published.x, published.means, strict=True)]
    return [ours - theirs for ours, theirs in pairs if ours is not None]


def closeness(gaps: Sequence[float]) -> dict[str, float]:
    """Differences from the stored points in numbers."""
    sizes = [abs(gap) for gap in gaps]
    return {
        "points": len(sizes),
        f"within {TOLERANCE}": sum(size <= TOLERANCE for size in sizes),
        "mean difference": sum(gaps) / len(gaps) if gaps else float("nan"),
        "mean absolute difference": sum(sizes) / len(sizes) if sizes else float("nan"),
        "largest absolute difference": max(sizes, default=float("nan")),
    }


def held_out(
    here: dict[tuple[runs.Variant, runs.How], SeedValues], stored: SeedValues
) -> dict[str, dict[str, float]]:
    """Closeness of the readings of the model, trained as in the paper, to the stored points."""
    return {
        LABELS[variant, how][0]: closeness(differences(found, stored))
        for (variant, how), found in here.items()
        if how == "adam"
    }


def in_words(close: dict[str, dict[str, float]]) -> str:
    """Closeness in a sentence."""
    parts = [
        f"{name} {row[f'within {TOLERANCE}']:.0f} of {row['points']:.0f} within {TOLERANCE} (mean difference"
        f" {row['mean difference']:+.3f})"
        for name, row in close.items()
    ]
    return f"Stored points: {'; '.join(parts)}."


def agreement(found: SeedValues, published: SeedValues, wanted: int) -> Check:
    """Whether at least `wanted` of the published points, or as many fewer as we have fewer, are met within the tolerance."""
    gaps = [abs(gap) for gap in differences(found, published)]
    close = sum(gap <= TOLERANCE for gap in gaps)
    largest = max(gaps, default=float("nan"))
    wanted = max(1, len(gaps) - (len(published.x) - wanted))
    return Check(
        f"accuracy within {TOLERANCE} of the stored points",
        f"{close} of {len(gaps)} points; largest difference {largest:.3f}",
        f"at least {wanted} of {len(gaps)}",
        close >= wanted,
    )


def can_compare(scale: Scale) -> bool:
    """Smoke runs use another vocabulary, so the stored points say nothing about them."""
    return scale != "smoke"
