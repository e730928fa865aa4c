"""The size of a retrieval network without building it, and the statistics it follows from.

Most weights follow from the layout: those are counted block by block. The rest are numbers of the draw: the hash, the words of
the tables, and the centre of their sums; `numbers_of` counts those of a network at hand, and for random data they are foretold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Shaped

from byheart.construct.retrieval.dual_table import Twin
from byheart.construct.retrieval.emission import entrance_blocks, fold_blocks
from byheart.construct.retrieval.key_hash import Hash
from byheart.construct.retrieval.keys import ROBUST_FOLDS, Keys, usual_folds
from byheart.construct.retrieval.label_reader import WORD_SCALE, reading_blocks
from byheart.construct.retrieval.layout import Entrance, Layout
from byheart.construct.retrieval.quantiser import N_PROJECTIONS, quantising_blocks
from byheart.construct.retrieval.search import find_layout
from byheart.construct.retrieval.units import Block
from byheart.data.dataset import Dataset
from byheart.network.exact.dyadic import Number, Weights
from byheart.network.size import Size
from byheart.network.transformer.architecture import Precision
from byheart.program.construction import Statistics, statistics_of
from byheart.program.weight_count import Tally, alike, size_from, tally, total

MANTISSA_BITS: dict[Precision, int] = {"float64": 53, "float32": 24, "exact": 1 << 30}
"""Bits of the longest number; those of exact networks are as many as make the network smallest."""

_USUAL_LEVELS = 16  # of a coordinate, unless the statistics tell
_MOST_ENTRIES = 1 << 21  # of a table, to be counted one by one


def label_bits(n_classes: int) -> int:
    """Bits of a class number; at least one."""
    return max(1, (n_classes - 1).bit_length())


def size_of(statistics: Statistics) -> Size:
    """The size if the usual hash succeeds (it nearly always does), or exactly that of the draw the statistics tell of."""
    precision: Precision = statistics.precision or "float64"
    layout = layout_of(statistics)
    numbers = statistics.numbers or _foretold(layout)
    weights = total([_fixed(layout, precision), *numbers.values()])
    return size_from(layout.parameters_dense, weights, layout.depth, layout.width, precision)


def layout_of(statistics: Statistics) -> Layout:
    """The layout that is built for data with these statistics.

    What is read: the usual counts; `token_bits`, the bits of Σ (levels of a coordinate) of vectors on a grid, or the bits of each
    of `n_projections` that others are quantised to; `n_folds`, the reflections before pooling; `reject_bits`; `word_bits`.
    """
    has_ids, n_projections = statistics.vocab is not None, statistics.n_projections or 0
    usual = usual_folds(has_ids, statistics.ordered, n_projections > 0)
    n_folds = usual if statistics.n_folds is None else statistics.n_folds
    dim, bits = statistics.dim or 1, statistics.token_bits
    if bits is None:
        bits = (dim * (_USUAL_LEVELS - 1)).bit_length()
    entrance = Entrance(
        kind="table" if has_ids else "real" if n_projections else "grid",
        n_rows=(statistics.vocab or 0) + statistics.ragged if has_ids else 0,
        dim=0 if has_ids else dim,
        seq_len=statistics.seq_len,
        ordered=statistics.ordered and has_ids,
        pooled="sum" if statistics.task == "set" else "attention",
        n_folds=n_folds,
        spread=0 if has_ids else max(1, n_projections) * ((1 << bits) - 1),
        n_varied=1 if n_folds >= usual + ROBUST_FOLDS or statistics.ragged else statistics.seq_len,
        n_bits=bits if n_projections else 0,
        n_projections=n_projections,
    )
    per_sample = statistics.seq_len if statistics.task == "seq-to-seq" else 1
    n_contexts = statistics.n_contexts
    return find_layout(
        entrance,
        statistics.n_samples * per_sample if n_contexts is None else n_contexts,
        label_bits(statistics.n_classes) + statistics.reject_bits,
        statistics.word_bits or MANTISSA_BITS[statistics.precision or "float64"],
        reject_bits=statistics.reject_bits,
        allow_twin=statistics.task != "seq-to-seq" and not n_projections,
    )


def statistics_for(
    data: Dataset,
    keys: Keys,
    precision: Precision,
    reject_bits: int = 0,
    word_bits: int | None = None,
    *,
    is_robust: bool = False,
    room: float = 1.0,
) -> Statistics:
    """What `layout_of` needs to know to hold `data`: by the usual or the robust hash, with room for `room` times the keys."""
    has_ids, quantiser = data.vocab is not None, keys.quantiser
    grid_bits = int((keys.highest - keys.lowest).sum()).bit_length()
    return replace(
        statistics_of(data),
        ragged=keys.pad is not None,
        n_contexts=ceil(room * len(keys)),
        n_folds=usual_folds(has_ids, data.ordered, quantiser is not None) + is_robust * ROBUST_FOLDS,
        token_bits=None if has_ids else grid_bits if quantiser is None else quantiser.n_bits,
        n_projections=None if quantiser is None else N_PROJECTIONS,
        precision=precision,
        reject_bits=reject_bits,
        word_bits=word_bits,
    )


def numbers_of(
    layout: Layout,
    hashed: Hash,
    keys: Keys,
    words: Shaped[np.ndarray, " n_columns"],
    centre: int,
    precision: Precision,
) -> Mapping[str, Tally]:
    """Count the weights of one draw: hash, words of the tables, centre of their sums."""
    drawn: list[Iterable[Any]] = [block.weights() for block in entrance_blocks(layout, hashed)]
    scale, quantiser = Fraction(2) ** keys.grid_bits, keys.quantiser
    if layout.entrance.kind == "table":
        drawn += [hashed.tokens.flat, hashed.positions.flat if layout.entrance.ordered else ()]
    elif quantiser is None:
        drawn.append(int(weight) * scale for weight in hashed.weights.flat)
    else:
        drawn.append(quantiser.directions.flat)
        cut = quantising_blocks(quantiser, hashed.weights, layout.entry_slots, layout.n_slots)
        drawn += [block.weights() for block in cut]
    held = words.reshape(layout.n_rows, layout.n_segments, layout.n_channels)
    scaled: list[Iterable[Any]] = [WORD_SCALE * held.astype(object).ravel()]
    if isinstance(layout, Twin):
        extra_scale = 1 if layout.entrance.kind == "table" else 1 / scale
        drawn.append(int(number) * extra_scale for number in hashed.extra)
        first, second = (held[:, segment].astype(object).ravel() for segment in range(2))
        scaled = [first, Fraction(WORD_SCALE, layout.gate) * second]
    return {
        "hash": total(_count(part, precision) for part in drawn),
        "words": total(_count(part, precision) for part in scaled),
        "centre": _count([centre << layout.word_bits + 2], precision),
    }


def _foretold(layout: Layout) -> Mapping[str, Tally]:
    """The same for random data: no number of the draw is zero, all have the length of the longest."""
    entrance, n_words = layout.entrance, len(layout.words)
    dim = n_words if entrance.kind == "table" else entrance.dim
    n_entering = n_words * entrance.dim or n_words * (entrance.n_rows + entrance.seq_len * entrance.ordered)
    n_hash = n_entering + 3 * n_words * entrance.n_folds + dim * isinstance(layout, Twin)
    bits = max(word.n_values for word in layout.words).bit_length()
    return {
        "hash": alike(n_hash, bits),
        "words": alike(layout.n_columns, layout.word_bits + 2),
        "centre": alike(1, layout.word_bits + 2 + layout.headroom_bits),
    }


def _fixed(layout: Layout, precision: Precision) -> Tally:
    """The weights that follow from the layout."""
    blocks = [*fold_blocks(layout), *reading_blocks(layout, 0)]
    tables, counted = [], layout
    if layout.n_rows * layout.model_width > _MOST_ENTRIES:  # more than anybody builds: count some rows
        counted = replace(layout, n_rows=max(1, _MOST_ENTRIES // layout.model_width // 16))
    for part in layout.table_parts():
        if isinstance(part, Block):
            blocks.append(part)
        else:
            tables.append(counted.empty_table(part))
    mixing = list(layout.pooling_layers()) + (
        list(layout.fetching_layers()) if isinstance(layout, Twin) else []
    )
    matrices = [weights for layer in mixing for _, weights in layer.parameters()]
    held = total(_count(_nonzero(w), precision) for table in tables for _, w in table.parameters())
    n_ends = 1 + (len(layout.words) if layout.entrance.kind == "table" else 0)
    return total(
        [
            *(_count(block.weights(), precision) for block in blocks),
            *(_count(_nonzero(weights), precision) for weights in matrices),
            alike(n_ends, 1),
            held if counted is layout else held.times(layout.n_rows // counted.n_rows),
        ]
    )


def _nonzero(weights: Weights) -> np.ndarray:
    numbers = np.asarray(weights)
    return np.asarray(numbers[numbers != 0])


def _count(numbers: Iterable[Number], precision: Precision) -> Tally:
    """Count numbers that are not zero, and their bits where weights are stored by their bits."""
    if precision == "exact":
        return tally(numbers)
    return Tally(sum(1 for number in numbers if number != 0))
