"""The families of networks: what their weights mean, how they are evaluated (exactly and in floats), and how their sizes are
counted.
"""

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
