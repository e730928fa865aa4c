"""What every family of networks offers, so that storage, verification and export work for all of them.

A family is a folder of this package: an architecture (the weights and what they mean), a `NetworkSpec` (its shape), a module.
`families` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import Weights
from byheart.process.progress import Progress
from byheart.records.vocabulary import Precision as Precision

if TYPE_CHECKING:
    from torch import nn

    from byheart.data.tokenizers import Tokenizer
    from byheart.network.balls import Ball

COMPUTED_IN: Mapping[Precision, Precision] = {
    "exact": "exact",
    "float64": "float64",
    "float32": "float32",
    "bfloat16": "float32",
    "int8": "float32",
}
"""What a network computes in, by what its weights are stored in."""

FLOAT_BITS: Mapping[Precision, int] = {"float64": 64, "float32": 32, "bfloat16": 16}
"""Bits of one weight, where all have as many."""

Backend = Literal["exact", "interpreter", "equations", "module", "transformers"]
"""exact: all samples together, without rounding. interpreter: fractions, one sample at a time. equations: NumPy, one sample
at a time, written from the paper's equations. module: PyTorch in the network's own float type.
transformers: the checkpoint in Hugging Face's own code."""


@dataclass(frozen=True)
class Evaluation:
    """How a network is asked: by which evaluator, on what device, and whether only at the last token."""

    backend: Backend
    last_only: bool = True
    device: str = "cpu"
    progress: Progress | None = None


UNKNOWN = -1
"""Stands for "no label" among class numbers."""

MAX_ROWS = 2**40
"""Rows of one matrix. What a file may really claim is settled by its size; this keeps the products small."""

MAX_COLUMNS = 2**24
"""Dimension of inputs, head sizes and widths: columns cost no byte of a sparse file, but memory when run."""

MAX_SEQ_LEN = 2**24
"""Tokens of a sequence: every sample is filled up to this length when the model runs."""

MAX_FILLED_LEN = 2**18
"""The same where short samples are allowed and no weight has a row for each position: a small file may claim any length."""

MAX_ENTRIES = 2**48
"""Entries of all weights together that a family without runs of layers may claim."""


class NetworkSpec(Protocol):
    """The shape of a network without its weights: what model.json stores and what a size is counted from.

    Everything here is arithmetic: 10^12 layers cost nothing. `from_json` of the class is its inverse of `to_json`.
    """

    @property
    def family(self) -> str:
        """The name under which `families` lists it."""

    @property
    def precision(self) -> Precision:
        """What the weights are kept in."""

    @property
    def seq_len(self) -> int:
        """Tokens of the longest sequence."""

    @property
    def dim(self) -> int:
        """Dimension of the vectors that enter."""

    @property
    def n_vocab(self) -> int | None:
        """Ids the network takes, padding included; None for vector inputs."""

    @property
    def pad(self) -> int | None:
        """The id that fills up short sequences on the left; None where all sequences have one length."""

    @property
    def model_width(self) -> int:
        """Width of the residual stream."""

    @property
    def has_positions(self) -> bool:
        """Whether positions are embedded."""

    @property
    def n_arrays(self) -> int:
        """Number of weight arrays."""

    @property
    def n_rows(self) -> int:
        """Total length of the first axes of all weight arrays: the rows of exact weights."""

    @property
    def parameters_dense(self) -> int:
        """Entries of all weight arrays."""

    @property
    def depth(self) -> int:
        """Layers with weights."""

    @property
    def width(self) -> int:
        """The largest width of a layer."""

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every weight array, in the order of the network's own; an exact bias has one column."""

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> Network:
        """The network with these weights, which come in the order of `shapes()`, and the files of its folder."""

    def to_json(self) -> dict[str, Any]:
        """As it is written in model.json."""

    def sections(self) -> list[tuple[str, str, str]]:
        """Layers, kind and sizes, for a person."""


class Network(ABC):
    """Weights and what they mean. What a network takes is read off its spec; logits are for families that have them."""

    why_no_logits = "this network answers with the number of a class; it has no logits."

    # of some families these are fields, and a dataclass would take a property here for their default
    if TYPE_CHECKING:

        @property
        def spec(self) -> NetworkSpec:
            """Its shape."""

        @property
        def seq_len(self) -> int:
            """Tokens of the longest sequence."""

        @property
        def pad(self) -> int | None:
            """The id that fills up short sequences on the left; None where all sequences have one length."""

    @property
    def precision(self) -> Precision:
        """What the weights are kept in."""
        return self.spec.precision

    @property
    def dim(self) -> int:
        """Dimension of the vectors that enter."""
        return self.spec.dim

    @property
    def n_vocab(self) -> int | None:
        """Ids the network takes, padding included; None for vector inputs."""
        return self.spec.n_vocab

    @property
    def takes_ids(self) -> bool:
        """Whether inputs are token ids; otherwise they are vectors."""
        return self.n_vocab is not None

    @property
    @abstractmethod
    def backend(self) -> Backend:
        """The evaluator that answers by default."""

    @property
    @abstractmethod
    def second_backend(self) -> Backend:
        """An evaluator that shares no code with the first one."""

    @abstractmethod
    def parameters(self) -> Iterator[tuple[str, Weights]]:
        """Every weight array the architecture has, with a name that is unique."""

    @property
    def stored_bits(self) -> int:
        """Bits that store all weights of a float network."""
        return FLOAT_BITS[self.precision] * self.spec.parameters_dense

    @abstractmethod
    def traits(self) -> list[str]:
        """What distinguishes this network from others with the same weights; part of its digest."""

    def require_words(self, tokenizer: Tokenizer | None, labels: tuple[str, ...]) -> None:
        """Raise `CorruptModel` where the files of this family have another tokenizer or other labels than model.json."""
        del tokenizer, labels

    @abstractmethod
    def module(self) -> nn.Module:
        """The network as a `torch.nn.Module` with ordinary parameters; `InexactWeights` if a weight is not a float."""

    @abstractmethod
    def answer(self, encoded: np.ndarray, label_names: Sequence[str], how: Evaluation) -> np.ndarray:
        """Class numbers (n_samples, n_tokens), (n_samples, 1) with `how.last_only`; `UNKNOWN` where it names no label."""

    def classes_of(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """The class numbers that outputs of the module name, (n_samples, n_tokens); `UNKNOWN` where they name none."""
        raise UsageError(
            f"the outputs of a {self.spec.family} are not classes: its answers are generated text."
        )

    def compute_logits(
        self, encoded: np.ndarray, *, device: str = "cpu", progress: Progress | None = None
    ) -> np.ndarray:
        """Logits (n_samples, n_classes) at the last token; `UsageError` if the network has none."""
        raise UsageError(self.why_no_logits)

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        """Logits by the backend `equations`, and how far rounding may move the native ones."""
        raise UsageError(self.why_no_logits)

    def files(self) -> Mapping[str, bytes]:
        """Files beside the weights in a saved folder, by name; the family's entry in `families` lists them."""
        return {}
