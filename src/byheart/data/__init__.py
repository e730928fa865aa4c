"""Data sets to be memorised: read, tokenize, check and generate them, and measure their contexts and separation."""

from __future__ import annotations

from byheart.data.check import DataReport
from byheart.data.consistency import Conflicts
from byheart.data.contexts import Contexts, contexts_of
from byheart.data.dataset import Dataset
from byheart.data.generators import (
    associations,
    grid_vectors,
    rademacher_vectors,
    random_tokens,
    story_openings,
    uniform_vectors,
    zipf_documents,
)
from byheart.data.multiset import Multiset
from byheart.data.options import OnConflict, TableOptions, Task
from byheart.data.separation import Separation, separation_of, separation_of_points
from byheart.data.sequences import TokenSequences, VectorSequences
from byheart.data.tokenizers import (
    BytesTokenizer,
    CharTokenizer,
    FileTokenizer,
    Tokenizer,
    WordTokenizer,
    make_tokenizer,
)

__all__ = [
    "BytesTokenizer",
    "CharTokenizer",
    "Conflicts",
    "Contexts",
    "DataReport",
    "Dataset",
    "FileTokenizer",
    "Multiset",
    "OnConflict",
    "Separation",
    "TableOptions",
    "Task",
    "TokenSequences",
    "Tokenizer",
    "VectorSequences",
    "WordTokenizer",
    "associations",
    "contexts_of",
    "grid_vectors",
    "make_tokenizer",
    "rademacher_vectors",
    "random_tokens",
    "separation_of",
    "separation_of_points",
    "story_openings",
    "uniform_vectors",
    "zipf_documents",
]
