"""MFT24's subsets of stories, and what training and the closed form reach on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from byheart.measure.sources import training_set_of
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Facts, Scale
from byheart.reproduce.madden_2024.closed_form import closed_forms
from byheart.reproduce.madden_2024.runs import PASSES
from byheart.reproduce.observation import Observation


@dataclass(frozen=True)
class Subset:
    """The first so many stories of one shuffle."""

    n_stories: int
    seed: int
    n_contexts: int
    vocab: int
    entropy: float


@dataclass(frozen=True)
class TrainedCell:
    """One width trained on one subset. `gap` is the final loss less the entropy, a total in nats."""

    subset: Subset
    width: int
    attention: str
    gap: float
    relative_gap: float
    first_within: float

    @property
    def passes(self) -> bool:
        """The paper's rule: the final loss is within 1% of the entropy."""
        return PASSES.holds({"relative_gap": self.relative_gap})

    @property
    def ever_passed(self) -> bool:
        """Whether the loss was within 1% at any recorded step."""
        return self.first_within == self.first_within or self.passes


def parameters(width: int, vocab: int) -> int:
    """(m + 17)(ω + 17) + 799 at embedding width 16."""
    return (width + 17) * (vocab + 17) + 799


def gather_facts(scale: Scale, observations: Sequence[Observation], samples: Samples | None) -> Facts:
    """Contexts, vocabulary and entropy of every subset, and the closed form on three of them."""
    assert samples is not None
    keys = sorted({(int(one.config["data"]["n_samples"]), one.seed) for one in observations})
    found = []
    for n_stories, seed in keys:
        data = training_set_of(samples.describe("tinystories", n_stories, seed))
        found.append(Subset(n_stories, seed, data.n_rows, data.n_vocab, float(f"{data.entropy:.9g}")))
    first = [(one.n_stories, one.n_contexts) for one in found if one.seed == 0]
    built = [asdict(one) for one in closed_forms(samples, first)]
    return {"subsets": [asdict(one) for one in found], "closed form": built}


def cells(observations: Sequence[Observation], facts: Facts) -> list[TrainedCell]:
    """Every observation as a cell, by stories, seed and width."""
    rows: list[dict[str, Any]] = facts["subsets"]
    subsets = {(row["n_stories"], row["seed"]): Subset(**row) for row in rows}
    found = [
        TrainedCell(
            subsets[int(one.config["data"]["n_samples"]), one.seed],
            one.sizes["hidden_width"],
            str(one.config["options"]["attention"]),
            one.measured["gap"],
            one.measured["relative_gap"],
            one.measured.get("first_within", math.nan),
        )
        for one in observations
    ]
    return sorted(found, key=lambda cell: (cell.subset.n_stories, cell.subset.seed, cell.width))


def smallest_width(
    found: Sequence[TrainedCell], subset: Subset, widths: Sequence[int], *, ever: bool = False
) -> int | None:
    """The smallest of `widths` that passes on `subset`, at the end or `ever`.

    None where none was seen to, or where a smaller one was not tried.
    """
    mine = {cell.width: cell for cell in found if cell.subset == subset}
    for width in sorted(widths):
        if width not in mine:
            return None
        if mine[width].ever_passed if ever else mine[width].passes:
            return width
    return None
