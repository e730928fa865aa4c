"""Everything the page takes from inside byheart, in one place. The rest of the page uses the public names only."""

from __future__ import annotations

from byheart.bounds import curves, plan, table
from byheart.construct.choice import describe_unknown_input
from byheart.construct.registry import get as get_method
from byheart.construct.registry import names as method_names
from byheart.construct.retrieval.locate import locate
from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.data.shape import DataShape
from byheart.measure.store import Store
from byheart.measure.tabulate import filter_rows, row_of
from byheart.model import Model
from byheart.network.exact.dyadic import Dyadic, SparseMatrix, Weights, as_sparse
from byheart.network.memory import UNKNOWN, Memory
from byheart.network.protocol import Network
from byheart.network.transformer.architecture import Attention, FeedForward, SumPool, Transformer
from byheart.pipeline import compile as compile_data
from byheart.pipeline import load, read_like
from byheart.verify.encoded_inputs import encode_inputs
from byheart.verify.verifier import verify_model

__all__ = [
    "UNKNOWN",
    "Attention",
    "DataShape",
    "Dataset",
    "Dyadic",
    "FeedForward",
    "Memory",
    "Model",
    "Network",
    "SparseMatrix",
    "Store",
    "SumPool",
    "TokenSequences",
    "Transformer",
    "Weights",
    "as_sparse",
    "compile_data",
    "curves",
    "describe_unknown_input",
    "encode_inputs",
    "filter_rows",
    "get_method",
    "load",
    "locate",
    "method_names",
    "plan",
    "read_like",
    "row_of",
    "table",
    "verify_model",
]
