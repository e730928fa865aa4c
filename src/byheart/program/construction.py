"""What a construction decides and what it returns: a plan whose size is known, and a network with what was assumed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from byheart.bounds.kajitsuka_sato_2025 import TheoremSize
from byheart.data.dataset import Dataset, Task
from byheart.network.memory import Memory, Progress
from byheart.network.size import Size, size_of_network
from byheart.network.transformer.architecture import Precision
from byheart.program.weight_count import Tally


@dataclass(frozen=True)
class Assumption:
    """One hypothesis of a theorem, as found on this data."""

    statement: str
    holds: bool
    detail: str


@dataclass(frozen=True, eq=False)
class Construction:
    """Data compiled to weights, with what was assumed and what was chosen on the way."""

    memory: Memory
    method: str
    theorem: str
    assumptions: tuple[Assumption, ...]
    theorem_size: TheoremSize | None
    notes: Mapping[str, object] = field(default_factory=dict)
    statistics: Statistics | None = None  # those `size_of` gives the built size for


class Plan(ABC):
    """Everything decided for one data set, and nothing emitted yet.

    `size` is exactly the size of the network that `emit` builds. Data that the construction does not take were refused
    when the plan was made.
    """

    @property
    @abstractmethod
    def size(self) -> Size:
        """The size of the network, before it is there."""

    @abstractmethod
    def emit(self, progress: Progress | None = None) -> Construction:
        """Build the network."""


@dataclass(frozen=True, eq=False)
class BuiltPlan(Plan):
    """The plan of a construction for which deciding is the whole work: it holds the network already."""

    construction: Construction

    @cached_property
    def size(self) -> Size:
        """The size of the network, counted."""
        return size_of_network(self.construction.memory.network)

    def emit(self, progress: Progress | None = None) -> Construction:
        """Hand out what is there."""
        return self.construction


@dataclass(frozen=True)
class Statistics:
    """What the size of a construction depends on. Numbers that only a look at the data can tell may be None.

    n_contexts     distinct labelled contexts, at most n_samples
    n_words        words whose counts tell the sequences apart (KS25 Lemma B.1)
    token_bits     bits of the largest projected token (KS25 Lemma C.2)
    weighting_bits bits of the largest word weight (KS25 Lemma B.2)
    context_bits   bits of the largest projected context
    n_folds, n_segments, n_buckets
                   the parts of Park et al. (2021): folds, overlaid segments, words
    n_fields       fields of a word (Park et al. 2021; KS25 Theorem F.1, where it is the most a word may have)
    precision      the kind of weights; what the construction offers first if None
    n_projections, reject_bits, word_bits
                   of retrieval: projections that real vectors are quantised in, bits that turn strangers away, longest number
    numbers        the numbers of the data that become weights, by kind: how many are not zero, and their bits. Each kind is
                   named by the construction that writes it, which also knows how often a number is written.
    """

    n_samples: int
    seq_len: int
    n_classes: int
    dim: int | None = None
    vocab: int | None = None
    ordered: bool = False
    ragged: bool = False
    n_contexts: int | None = None
    n_words: int | None = None
    token_bits: int | None = None
    weighting_bits: int | None = None
    context_bits: int | None = None
    task: Task = "next-token"
    n_folds: int | None = None
    n_segments: int | None = None
    n_buckets: int | None = None
    n_fields: int | None = None
    precision: Precision | None = None
    n_projections: int | None = None
    reject_bits: int = 0
    word_bits: int | None = None
    numbers: Mapping[str, Tally] | None = None


def statistics_of(data: Dataset) -> Statistics:
    """What is known about `data` before building."""
    lengths = getattr(data.inputs, "lengths", None)
    ragged = lengths is not None and len(lengths) > 0 and int(lengths.min()) != int(lengths.max())
    return Statistics(
        data.n_samples,
        data.seq_len,
        data.n_classes,
        data.dim,
        data.vocab,
        data.ordered,
        ragged,
        task=data.task,
    )
