"""The interface that every family of networks implements, so that storage, verification and export work for all of them.

A family is a folder of this package. It has an architecture (the weights and what they mean), a `NetworkSpec` (its shape) and
a module. `families` lists all families.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from byheart.errors import UsageError
from byheart.network.exact.dyadic import Weights
from byheart.process.progress import Progress
from byheart.records.vocabulary import Precision as Precision

if TYPE_CHECKING:
    from torch import nn

    from byheart.data.sequences import Sequences
    from byheart.data.tokenizers import Tokenizer
    from byheart.network.balls import Ball

COMPUTED_IN: Mapping[Precision, Precision] = {
    "exact": "exact",
    "float64": "float64",
    "float32": "float32",
    "bfloat16": "float32",
    "int8": "float32",
}
"""Maps the type in which weights are stored to the type in which the network computes."""

FLOAT_BITS: Mapping[Precision, int] = {"float64": 64, "float32": 32, "bfloat16": 16}
"""Bits of one weight, for precisions in which all weights have the same number of bits."""

Backend = Literal["exact", "interpreter", "equations", "module", "transformers"]
"""How answers are computed.

exact         all samples together, without rounding
interpreter   with fractions, one sample at a time
equations     NumPy, one sample at a time, written from the paper's equations
module        PyTorch in the network's own float type
transformers  the checkpoint in Hugging Face's own code
"""


@dataclass(frozen=True)
class Evaluation:
    """How a network is evaluated: with which evaluator, on which device, and whether only at the last token."""

    backend: Backend
    last_only: bool = True
    device: str = "cpu"
    progress: Progress | None = None


UNKNOWN = -1
"""The class number that means "no label"."""

MAX_ROWS = 2**40
"""Maximum number of rows of one matrix, and of layers. The size of the file limits both more strictly. This limit only keeps the
numbers small when sizes are multiplied."""

MAX_COLUMNS = 2**24
"""Maximum for the dimension of inputs, the size of a head, the width and most other sizes.

A small sparse file can claim any number of columns, because columns of zeros take no bytes in it. At run time they take memory.
"""

MAX_SEQ_LEN = 2**24
"""Maximum for the `seq_len` of a network. When the network runs, every sample is padded to `seq_len`, except in a Llama."""

MAX_FILLED_LEN = 2**18
"""Maximum for the `seq_len` of networks that pad short samples and have no weights per position.

The size of the file does not limit the `seq_len` of such a network: a small file can claim any `seq_len`.
"""

MAX_ENTRIES = 2**48
"""Maximum number of entries of all weights together. It applies to every family of networks except `transformer`, which describes
any number of equal layers by one entry of model.json.
"""


class NetworkSpec(Protocol):
    """The shape of a network without its weights. model.json stores it, and sizes are computed from it.

    All properties are computed by arithmetic, so even 10^12 layers take no time. The static method `from_json` is the inverse of
    `to_json`.
    """

    @property
    def family(self) -> str:
        """The name of the family in `families`."""

    @property
    def precision(self) -> Precision:
        """The type in which the weights are stored."""

    @property
    def seq_len(self) -> int:
        """The number of tokens in the longest sequence."""

    @property
    def dim(self) -> int:
        """The dimension of the input vectors."""

    @property
    def n_vocab(self) -> int | None:
        """The number of token ids, including padding; None for vector inputs."""

    @property
    def pad(self) -> int | None:
        """The id that pads short sequences on the left; None if all sequences have the same length."""

    @property
    def model_width(self) -> int:
        """The width of the residual stream."""

    @property
    def has_positions(self) -> bool:
        """Whether positions are embedded."""

    @property
    def n_arrays(self) -> int:
        """The number of weight arrays."""

    @property
    def n_rows(self) -> int:
        """The sum of the first dimensions of all weight arrays. For exact weights, this is the number of matrix rows."""

    @property
    def parameters_dense(self) -> int:
        """The number of entries of all weight arrays."""

    @property
    def depth(self) -> int:
        """The number of layers with weights."""

    @property
    def width(self) -> int:
        """The largest width of a layer."""

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of every weight array, in the order of `Network.parameters`. An exact bias has the shape (n, 1)."""

    def build(self, weights: Iterator[Weights], files: Mapping[str, bytes]) -> Network:
        """Build the network from its weights, which come in the order of `shapes()`, and from the files of its folder."""

    def to_json(self) -> dict[str, Any]:
        """Return the entries of model.json."""

    def sections(self) -> list[tuple[str, str, str]]:
        """Return the sections of the network for display, each with its layers, kind and sizes."""


def require_axes(outputs: np.ndarray, axes: Sequence[str]) -> None:
    """Raise `UsageError` unless outputs of a module, for a whole batch, have these axes."""
    if outputs.ndim != len(axes):
        raise UsageError(
            f"these outputs have the shape {outputs.shape}; decode needs all outputs of `module`, of shape ({', '.join(axes)}).",
            shape=outputs.shape,
            axes=tuple(axes),
        )


class Network(ABC):
    """Weights and the function that they define. The sizes of the inputs come from the spec. Only some families have logits."""

    why_no_logits = "this network answers with a class number; it has no logits."
    backends: ClassVar[tuple[Backend, ...]]
    """The evaluators of the family."""
    generates_text: ClassVar[bool] = False
    """Whether answers are generated token by token. If so, inputs are padded only to the length of the longest one."""

    # some families have these as fields; a dataclass would use a property here as the field's default
    if TYPE_CHECKING:

        @property
        def spec(self) -> NetworkSpec:
            """The shape of the network."""

        @property
        def seq_len(self) -> int:
            """The number of tokens in the longest sequence."""

        @property
        def pad(self) -> int | None:
            """The id that pads short sequences on the left; None if all sequences have the same length."""

    @property
    def precision(self) -> Precision:
        """The type in which the weights are stored."""
        return self.spec.precision

    @property
    def dim(self) -> int:
        """The dimension of the input vectors."""
        return self.spec.dim

    @property
    def n_vocab(self) -> int | None:
        """The number of token ids, including padding; None for vector inputs."""
        return self.spec.n_vocab

    @property
    def takes_ids(self) -> bool:
        """Whether inputs are token ids. Otherwise they are vectors."""
        return self.n_vocab is not None

    @property
    @abstractmethod
    def backend(self) -> Backend:
        """The default evaluator."""

    @property
    @abstractmethod
    def second_backend(self) -> Backend:
        """An evaluator that is written independently of the default one and checks its answers."""

    @abstractmethod
    def parameters(self) -> Iterator[tuple[str, Weights]]:
        """Yield every weight array of the architecture, with a unique name."""

    @property
    def stored_bits(self) -> int:
        """The number of bits that store all weights of a float network."""
        return FLOAT_BITS[self.precision] * self.spec.parameters_dense

    @abstractmethod
    def traits(self) -> list[str]:
        """Return the properties in which networks with the same weights may differ. The digest of the network covers them too."""

    def require_words(self, tokenizer: Tokenizer | None, labels: tuple[str, ...]) -> None:
        """Raise `CorruptModel` unless the additional files of a saved model agree with the tokenizer and labels of model.json.

        Most families have no such files (see `files`) and accept everything.
        """
        del tokenizer, labels

    def find_misread(
        self, inputs: Sequences, asked: np.ndarray, encoded: np.ndarray, tokenizer: Tokenizer | None
    ) -> list[int]:
        """Return the positions in `asked` of the inputs that other programs would encode differently than byheart does.

        `asked` are indices of `inputs`, which `tokenizer` produced, and `encoded` holds their encodings for this network. Other
        programs read the additional files of a saved model, for example its tokenizer.json, and could therefore ask the network
        a different question. Most families have no such files.
        """
        del inputs, asked, encoded, tokenizer
        return []

    def settings(self, backend: Backend) -> Mapping[str, str]:
        """Return settings of an evaluator that affect its results, for the certificate. Most evaluators have none."""
        del backend
        return {}

    @abstractmethod
    def module(self) -> nn.Module:
        """Return the network as a `torch.nn.Module` with ordinary parameters.

        Raises `InexactWeights` if a float cannot represent one of the weights.
        """

    @abstractmethod
    def answer(self, encoded: np.ndarray, label_names: Sequence[str], how: Evaluation) -> np.ndarray:
        """Return class numbers (n_samples, n_tokens), or (n_samples, 1) with `how.last_only`; `UNKNOWN` if an output is not a
        class."""

    def classes_of(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the class numbers for outputs of the module, (n_samples, n_tokens); `UNKNOWN` if an output is not a class.

        Raises `UsageError` if the answers of the network are generated text, or if `outputs` has too few or too many axes.
        """
        raise UsageError(
            f"the outputs of a {self.spec.family} are not classes: its answers are generated text.",
            family=self.spec.family,
        )

    def compute_logits(
        self, encoded: np.ndarray, *, device: str = "cpu", progress: Progress | None = None
    ) -> np.ndarray:
        """Return logits (n_samples, n_classes) at the last token. Raises `UsageError` if the network has none."""
        raise UsageError(self.why_no_logits)

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        """Return the logits computed by the backend `equations`, with a bound (the radius) on the error of each logit. The bound
        also holds for the logits of the PyTorch module: neither differs from the exact logit by more than the radius.

        Raises `UsageError` if the network has no logits.
        """
        raise UsageError(self.why_no_logits)

    def files(self) -> Mapping[str, bytes]:
        """Return the additional files that this family writes into the folder of a saved model, by name.

        The family's entry in `families` lists their names.
        """
        return {}
