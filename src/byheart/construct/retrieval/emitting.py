"""Pass `emit`: hash, addresses and table as the weights of a Transformer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from byheart.construct.retrieval.gadgets import reflect_above, threshold
from byheart.construct.retrieval.hashing import Hash
from byheart.construct.retrieval.layout import SLOT_LABEL, Layout
from byheart.construct.retrieval.quantising import Quantiser, quantising_blocks
from byheart.construct.retrieval.reading import reading_blocks
from byheart.construct.retrieval.twin import SLOT_ROLE, Twin
from byheart.construct.retrieval.units import Block, Unit, feed_forward
from byheart.network.architecture import Attention, Embedding, FeedForward, Head, Layer, Transformer
from byheart.network.dyadic import Weights


def emit(
    layout: Layout,
    hashed: Hash,
    words: Int[np.ndarray, " n_columns"],
    centre: int,
    pad: int | None,
    dtype: type[np.floating],
    grid_bits: int = 0,
    quantiser: Quantiser | None = None,
) -> Transformer:
    """The network. Every weight is a dyadic number that `dtype` holds exactly; vectors are multiples of 2^-grid_bits."""
    m, slots = layout.model_width, list(layout.entry_slots)
    is_table = layout.entrance.kind == "table"
    w_in = np.zeros((m, len(slots) if is_table else layout.entrance.dim))
    embedding, extra = None, hashed.extra.astype(np.float64)
    if is_table:
        w_in[slots, np.arange(len(slots))] = 1.0
        positions = hashed.positions.astype(dtype) if layout.entrance.ordered else None
        embedding = Embedding(hashed.tokens.astype(dtype), positions)
    elif quantiser is None:
        w_in[slots] = np.ldexp(hashed.weights.T.astype(np.float64), grid_bits)
        extra = np.ldexp(extra, -grid_bits)
    layers: list[Layer] = []
    if quantiser is not None:
        w_in[layout.n_slots : layout.n_slots + len(quantiser.directions)] = quantiser.directions
        cut = quantising_blocks(quantiser, hashed.weights, layout.entry_slots, layout.n_slots)
        layers += [feed_forward(block, m) for block in cut]
    layers += [feed_forward(block, m) for block in _entrance_blocks(layout, hashed)]
    layers += layout.pooling_layers()
    layers += [feed_forward(block, m) for block in _fold_blocks(layout)]
    layers += layout.table_layers(words)
    layers += [feed_forward(block, m) for block in reading_blocks(layout, centre)]
    w_out = np.zeros((1, m))
    w_out[0, SLOT_LABEL] = 1.0
    built = [layer.hidden_width for layer in layers if isinstance(layer, FeedForward)]
    assert built == [shape.units for shape in layout.blocks], "the size model and the network disagree"
    return Transformer(
        w_in=w_in.astype(dtype),
        layers=tuple(_cast(layer, dtype) for layer in layers),
        w_out=w_out.astype(dtype),
        seq_len=layout.entrance.seq_len,
        embedding=embedding,
        pad=pad,
        extra=extra[None].astype(dtype) if isinstance(layout, Twin) else None,
    )


def _entrance_blocks(layout: Layout, hashed: Hash) -> Iterator[Block]:
    """The reflections before pooling. The first also makes every word non-negative and tells the extra token from others."""
    offsets = hashed.offsets
    for level, centres in enumerate(hashed.centres):
        shift = offsets if level == 0 else np.zeros_like(offsets)
        units = [
            Unit({slot: 1.0}, 0.5 - float(centre) + float(add), {slot: -2.0})
            for slot, centre, add in zip(layout.entry_slots, centres, shift, strict=True)
        ]
        if level == 0 and isinstance(layout, Twin):
            least = float(hashed.role_from - offsets[0])
            units += threshold(layout.entry_slots[0], least, {SLOT_ROLE: 1.0})
        adds = {slot: float(add) for slot, add in zip(layout.entry_slots, shift, strict=True) if add}
        yield Block("entrance", units, adds)


def _fold_blocks(layout: Layout) -> Iterator[Block]:
    """Bring every word into [0, base)."""
    for level in reversed(range(max(word.n_folds for word in layout.words))):
        folded = [word for word in layout.words if word.n_folds > level]
        yield Block("fold", [reflect_above(word.slot, float(word.base << level)) for word in folded])


def _cast(layer: Layer, dtype: type[np.floating]) -> Layer:
    """The layer in another number type; no weight may change."""

    def cast(weights: Weights) -> np.ndarray:
        assert isinstance(weights, np.ndarray)
        other = weights.astype(dtype)
        assert (other.astype(np.float64) == weights).all(), f"a weight is no {dtype.__name__}"
        return other

    if isinstance(layer, FeedForward):
        return FeedForward(cast(layer.w1), cast(layer.b1), cast(layer.w2), cast(layer.b2))
    if isinstance(layer, Attention):
        heads = tuple(Head(cast(head.value), cast(head.output)) for head in layer.heads)
        return Attention(heads, layer.kind)
    return layer
