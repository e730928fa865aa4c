"""A network together with the vocabulary that encodes its inputs and the names of its answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.data.dataset import Dataset, Task, TokenSequences, VectorSequences
from byheart.data.tokenizers import Tokenizer
from byheart.errors import DataError
from byheart.network.protocol import UNKNOWN, Backend, Evaluation, Network
from byheart.process.progress import Progress
from byheart.records.vocabulary import LabelType

__all__ = ["UNKNOWN", "Backend", "InputMismatch", "Memoriser"]


class InputMismatch(DataError):
    """The inputs do not have the kind or size that the network needs."""


@dataclass(frozen=True, eq=False)
class Memoriser:
    """A network with its vocabulary and its label names.

    Each family has its own way to output a class. For example, a `Transformer` outputs the number c + 1 for class c. Class
    names are stored as text; `label_type` is the original type of the labels. `ordered` is true if the positions of tokens matter.
    """

    network: Network
    task: Task
    label_names: tuple[str, ...]
    tokenizer: Tokenizer | None
    ordered: bool
    label_type: LabelType = "text"

    @staticmethod
    def of(network: Network, data: Dataset, *, ordered: bool | None = None) -> Memoriser:
        """Combine `network` with the vocabulary and label names of the data for which it was built.

        If given, `ordered` overrides `data.ordered`.
        """
        is_ordered = data.ordered if ordered is None else ordered
        return Memoriser(network, data.task, data.label_names, data.tokenizer, is_ordered, data.label_type)

    @property
    def answers_last_token_only(self) -> bool:
        """Whether only the output at the last token counts."""
        return self.task != "seq-to-seq"

    def encode(self, inputs: TokenSequences | VectorSequences) -> np.ndarray:
        """Encode inputs for the network: as vectors, or as ids padded on the left to `seq_len` (for a Llama, to the longest
        input).
        """
        network = self.network
        if isinstance(inputs, VectorSequences):
            if network.takes_ids or inputs.values.shape[1:] != (network.seq_len, network.dim):
                wanted = "token ids" if network.takes_ids else (network.seq_len, network.dim)
                raise InputMismatch(
                    f"the inputs are vectors of shape (sequence, dimension) = {inputs.values.shape[1:]}; "
                    f"this model takes {wanted}.",
                    shape=inputs.values.shape[1:],
                    expected=wanted,
                )
            return inputs.values
        if not network.takes_ids or network.n_vocab is None:
            raise InputMismatch(
                f"the inputs are token ids; this model takes vectors of shape {(network.seq_len, network.dim)}.",
                expected=(network.seq_len, network.dim),
            )
        if inputs.max_len > network.seq_len:
            row = int(np.argmax(inputs.lengths))
            raise InputMismatch(
                f"sequence {row + 1} has {inputs.max_len} tokens; this model takes at most {network.seq_len}.",
                sequence=row + 1,
                length=inputs.max_len,
                seq_len=network.seq_len,
            )
        if network.pad is None:
            if len(inputs) and int(inputs.lengths.min()) < network.seq_len:
                row = int(np.argmin(inputs.lengths))
                raise InputMismatch(
                    f"the number of tokens of sequence {row + 1} is {int(inputs.lengths[row])}; "
                    f"this model takes exactly {network.seq_len}.",
                    sequence=row + 1,
                    length=int(inputs.lengths[row]),
                    seq_len=network.seq_len,
                )
            return inputs.pad(0, network.seq_len)
        if inputs.ids.size and int(inputs.ids.max()) >= network.n_vocab:
            raise InputMismatch(
                f"token id {int(inputs.ids.max())} is outside the vocabulary of this model.",
                token=int(inputs.ids.max()),
                n_vocab=network.n_vocab,
            )
        return inputs.pad(network.pad, None if network.generates_text else network.seq_len)

    def answer(
        self,
        encoded: np.ndarray,
        *,
        backend: Backend | None = None,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Return the class numbers that the network answers; `UNKNOWN` if an output is not a class.

        The shape is (n_samples, seq_len) for the task seq-to-seq, and (n_samples,) for all others. `backend` defaults to the
        network's own; `device` is the device that PyTorch uses.
        """
        last_only = self.answers_last_token_only
        if len(encoded) == 0:
            return np.zeros((0,) if last_only else (0, self.network.seq_len), dtype=np.int64)
        how = Evaluation(backend or self.network.backend, last_only, device, progress)
        answers = self.network.answer(encoded, self.label_names, how)
        return np.ascontiguousarray(answers[:, 0] if last_only else answers)

    def expected_labels(self, dataset: Dataset) -> np.ndarray:
        """Return the class numbers that this memoriser has for the labels of `dataset`; `UNKNOWN` for labels that it does not
        have.
        """
        known = {name: index for index, name in enumerate(self.label_names)}
        mapped = np.array([known.get(name, UNKNOWN) for name in dataset.label_names], dtype=np.int64)
        return np.asarray(mapped[dataset.labels])
