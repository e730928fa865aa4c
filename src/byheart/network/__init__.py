"""What weights mean: one small Transformer family, exact and in floats, and how its size is counted."""

from byheart.network.architecture import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    ShapeMismatch,
    SumPool,
    Transformer,
)
from byheart.network.counting import Size, size_of_network
from byheart.network.dyadic import Dyadic, SparseMatrix

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
