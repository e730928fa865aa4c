"""The same model without training: MFT24's construction on the same stories, with its gap to the entropy measured."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from byheart.measure.text_samples import Samples

MOST_CONTEXTS = 3000  # the solve is cubic in them
SOLVER = "random-features"  # the paper's embedding width of 16, as many neurons as contexts


@dataclass(frozen=True)
class ClosedForm:
    """What the construction reached on one subset."""

    n_contexts: int
    n_parameters: int
    relative_gap: float
    seconds: float


def closed_forms(samples: Samples, subsets: Sequence[tuple[int, int]]) -> list[ClosedForm]:
    """The construction on the first, the middle and the last of these (stories, contexts) that are small enough."""
    chosen = [n_stories for n_stories, n_contexts in subsets if n_contexts <= MOST_CONTEXTS]
    places = sorted({0, (len(chosen) - 1) // 2, len(chosen) - 1}) if chosen else []
    return [closed_form(samples, chosen[place], 0) for place in places]


@lru_cache(maxsize=32)
def closed_form(samples: Samples, n_stories: int, seed: int) -> ClosedForm:
    """Build a decoder of as many neurons as contexts, run it in float64 on every context, and measure its gap."""
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
    decoder = built.memory.network
    assert isinstance(decoder, Decoder)
    targets = targets_of(data)
    logits = decoder.compute_logits(targets.contexts.padded(decoder.pad, decoder.seq_len))
    gap = targets.gap_nats(targets.divergences(logits)) / targets.entropy_nats
    return ClosedForm(len(targets), size_of_network(decoder).parameters_dense, gap, seconds)
