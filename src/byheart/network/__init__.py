"""What weights mean: one small Transformer family, exact and in floats, and how its size is counted."""

from byheart.network.exact.dyadic import Dyadic, SparseMatrix
from byheart.network.size import Size, size_of_network
from byheart.network.transformer.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    ShapeMismatch,
    SumPool,
    Transformer,
)

__all__ = [
    "Attention",
    "Dyadic",
    "Embedding",
    "FeedForward",
    "Head",
    "ShapeMismatch",
    "Size",
    "SparseMatrix",
    "SumPool",
    "Transformer",
    "size_of_network",
]
