"""Describe MFT24's subsets of stories. Models are trained on each subset, and the construction (the closed form) is built on some
of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from byheart.measure.sources import training_set_of
from byheart.measure.text_samples import Samples
from byheart.reproduce.figure import Facts, Scale
from byheart.reproduce.madden_2024.runs import PASSES
from byheart.reproduce.observation import Observation

MOST_CONTEXTS = 3000  # the maximum number of contexts, because solving takes cubic time
SOLVER = "random-features"  # the paper's embedding width of 16, with as many neurons as contexts


@dataclass(frozen=True)
class ClosedForm:
    """The result of the paper's construction on one subset of the stories.

    `relative_gap` is the loss minus the entropy, divided by the entropy.
    """

    n_contexts: int
    n_parameters: int
    relative_gap: float
    seconds: float


def closed_forms(samples: Samples, subsets: Sequence[tuple[int, int]]) -> list[ClosedForm]:
    """Build the paper's construction on at most three of the `subsets` of the stories. Subsets with more than 3,000 contexts are
    skipped. Of the others, the first, the middle and the last are used.

    Each subset is given as (number of stories, number of contexts). It consists of the first stories after shuffling with seed 0.
    """
    chosen = [n_stories for n_stories, n_contexts in subsets if n_contexts <= MOST_CONTEXTS]
    return [closed_form(samples, n_stories, 0) for n_stories in ends_and_middle(chosen)]


def ends_and_middle(values: Sequence[int]) -> list[int]:
    """Return the first, the middle and the last value, each once."""
    places = sorted({0, (len(values) - 1) // 2, len(values) - 1}) if values else []
    return [values[place] for place in places]


@lru_cache(maxsize=32)
def closed_form(samples: Samples, n_stories: int, seed: int) -> ClosedForm:
    """Build a decoder with as many neurons as contexts, run it in float64 on every context, and compare its loss with the
    entropy.
    """
    from byheart.construct.registry import get
    from byheart.data.dataset import Dataset
    from byheart.network.decoder.architecture import Decoder
    from byheart.network.size import size_of_network
    from byheart.program.targets import targets_of

    ids = samples.ids("tinystories", seed)[:n_stories]
    data = Dataset.from_documents([" ".join(f"w{word}" for word in row) for row in ids], tokenizer="word")
    started = time.perf_counter()
    built = get("madden-2024").build(
        data, {"solver": SOLVER, "precision": "float64"}, np.random.default_rng(seed), None
    )
    seconds = time.perf_counter() - started
    decoder = built.memoriser.network
    assert isinstance(decoder, Decoder)
    targets = targets_of(data)
    logits = decoder.compute_logits(targets.contexts.pad(decoder.pad, decoder.seq_len))
    gap = targets.gap_nats(targets.divergences(logits)) / targets.entropy_nats
    return ClosedForm(len(targets), size_of_network(decoder).parameters_dense, gap, seconds)


@dataclass(frozen=True)
class Subset:
    """The first `n_stories` stories after shuffling with `seed`."""

    n_stories: int
    seed: int
    n_contexts: int
    vocab: int
    entropy: float


@dataclass(frozen=True)
class TrainedCell:
    """The result of training a model of hidden width `width` on one subset of the stories.

    `gap` is the final loss minus the entropy, both in nats and summed over the subset. `relative_gap` is `gap` divided by the
    entropy. If `attention` is "frozen", the embedding and the attention head were not trained.
    """

    subset: Subset
    width: int
    attention: str
    gap: float
    relative_gap: float

    @property
    def passes(self) -> bool:
        """The paper's rule: the final loss is within 1% of the entropy."""
        return PASSES.holds({"relative_gap": self.relative_gap})


def parameters(width: int, vocab: int) -> int:
    """Return the number of parameters of a model with embedding width 16: (`width` + 17)(`vocab` + 17) + 799."""
    return (width + 17) * (vocab + 17) + 799


def gather_facts(scale: Scale, observations: Sequence[Observation], samples: Samples | None) -> Facts:
    """Compute the number of contexts, the vocabulary size and the entropy of each subset of the stories on which a run in
    `observations` was trained. Also build the paper's construction on at most three of these subsets.
    """
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
    """Convert every observation to a `TrainedCell`. The result is sorted by number of stories, seed and width."""
    rows: list[dict[str, Any]] = facts["subsets"]
    subsets = {(row["n_stories"], row["seed"]): Subset(**row) for row in rows}
    found = [
        TrainedCell(
            subsets[int(one.config["data"]["n_samples"]), one.seed],
            one.sizes["hidden_width"],
            str(one.config["options"]["attention"]),
            one.measured["gap"],
            one.measured["relative_gap"],
        )
        for one in observations
    ]
    return sorted(found, key=lambda cell: (cell.subset.n_stories, cell.subset.seed, cell.width))


def smallest_width(found: Sequence[TrainedCell], subset: Subset, widths: Sequence[int]) -> int | None:
    """Return the smallest of `widths` with which a model trained on `subset` has a final loss within 1% of the entropy.

    Return None if there is no such width, or if any smaller one of `widths` was not tried.
    """
    mine = {cell.width: cell for cell in found if cell.subset == subset}
    for width in sorted(widths):
        if width not in mine:
            return None
        if mine[width].passes:
            return width
    return None
