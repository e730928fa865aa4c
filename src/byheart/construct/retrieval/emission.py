"""Pass `emit`: hash, addresses and table as the weights of a Transformer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from jaxtyping import Shaped

from byheart.construct.retrieval.dual_table import SLOT_ROLE, Twin
from byheart.construct.retrieval.gadgets import HALF, reflect_above, threshold
from byheart.construct.retrieval.key_hash import Hash
from byheart.construct.retrieval.label_reader import reading_blocks
from byheart.construct.retrieval.layout import SLOT_LABEL, Layout
from byheart.construct.retrieval.quantiser import Quantiser, quantising_blocks
from byheart.construct.retrieval.units import Block, Unit, feed_forward
from byheart.network.exact.dyadic import SparseMatrix, Weights
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    Layer,
    Precision,
    Transformer,
)
from byheart.network.transformer.floats import DTYPES


def emit(
    layout: Layout,
    hashed: Hash,
    words: Shaped[np.ndarray, " n_columns"],
    centre: int,
    pad: int | None,
    precision: Precision,
    grid_bits: int = 0,
    quantiser: Quantiser | None = None,
) -> Transformer:
    """The network. Every weight is a dyadic number that `precision` holds exactly; vectors are multiples of 2^-grid_bits."""
    m, slots = layout.model_width, list(layout.entry_slots)
    is_table = layout.entrance.kind == "table"
    w_in = np.zeros((m, len(slots) if is_table else layout.entrance.dim), dtype=object)
    embedding, extra = None, hashed.extra.astype(object)[None]
    if is_table:
        w_in[slots, np.arange(len(slots))] = 1
        positions = hashed.positions.astype(object)
        embedding = Embedding(
            cast(hashed.tokens.astype(object), precision),
            cast(positions, precision) if layout.entrance.ordered else None,
        )
    elif quantiser is None:
        w_in[slots] = hashed.weights.T.astype(object) * Fraction(2) ** grid_bits
        extra = extra * Fraction(2) ** -grid_bits
    layers: list[Layer] = []
    if quantiser is not None:
        w_in[layout.n_slots : layout.n_slots + len(quantiser.directions)] = quantiser.directions
        cut = quantising_blocks(quantiser, hashed.weights, layout.entry_slots, layout.n_slots)
        layers += [feed_forward(block, m) for block in cut]
    layers += [feed_forward(block, m) for block in entrance_blocks(layout, hashed)]
    layers += layout.pooling_layers()
    layers += [feed_forward(block, m) for block in fold_blocks(layout)]
    layers += layout.table_layers(words)
    layers += [feed_forward(block, m) for block in reading_blocks(layout, centre)]
    w_out = np.zeros((1, m), dtype=object)
    w_out[0, SLOT_LABEL] = 1
    built = [layer.hidden_width for layer in layers if isinstance(layer, FeedForward)]
    assert built == [shape.units for shape in layout.blocks], "the size model and the network disagree"
    return Transformer(
        w_in=cast(w_in, precision),
        layers=tuple(_cast_layer(layer, precision) for layer in layers),
        w_out=cast(w_out, precision),
        seq_len=layout.entrance.seq_len,
        embedding=embedding,
        pad=pad,
        extra=cast(extra, precision) if isinstance(layout, Twin) else None,
    )


def entrance_blocks(layout: Layout, hashed: Hash) -> Iterator[Block]:
    """The reflections before pooling. The first also makes every word non-negative and tells the extra token from others."""
    offsets = hashed.offsets
    for level, centres in enumerate(hashed.centres):
        shift = offsets if level == 0 else np.zeros_like(offsets)
        units = [
            Unit({slot: 1}, HALF - int(centre) + int(add), {slot: -2})
            for slot, centre, add in zip(layout.entry_slots, centres, shift, strict=True)
        ]
        if level == 0 and isinstance(layout, Twin):
            least = int(hashed.role_from - offsets[0])
            units += threshold(layout.entry_slots[0], least, {SLOT_ROLE: 1})
        adds = {slot: int(add) for slot, add in zip(layout.entry_slots, shift, strict=True) if add}
        yield Block("entrance", units, adds)


def fold_blocks(layout: Layout) -> Iterator[Block]:
    """Bring every word into [0, base)."""
    for level in reversed(range(max(word.n_folds for word in layout.words))):
        folded = [word for word in layout.words if word.n_folds > level]
        yield Block("fold", [reflect_above(word.slot, word.base << level) for word in folded])


def cast(numbers: np.ndarray, precision: Precision) -> Weights:
    """Exact numbers as weights; none may change."""
    if precision == "exact":
        return SparseMatrix.from_array(numbers)
    floats = numbers.astype(DTYPES[precision])
    assert (floats.astype(object) == numbers).all(), f"a weight is no {precision}"
    return floats


def _cast_layer(layer: Layer, precision: Precision) -> Layer:
    if isinstance(layer, FeedForward):
        return FeedForward(*(cast(np.asarray(weights), precision) for _, weights in layer.parameters()))
    if isinstance(layer, Attention):
        heads = [
            Head(*(cast(np.asarray(part), precision) for part in (head.value, head.output)))
            for head in layer.heads
        ]
        return Attention(tuple(heads), layer.kind)
    return layer
