"""A network that answers questions: what turns a question into its input, and its output into an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from byheart.data.dataset import Dataset, Task, TokenSequences, VectorSequences
from byheart.data.tokenizers import Tokenizer
from byheart.errors import DataError, UsageError
from byheart.network.families import Network, logits_of
from byheart.network.transformer.architecture import Transformer

Backend = Literal["exact", "interpreter", "module"]
Progress = Callable[[int, int], None]
"""Called with (work done, work in all) now and then."""

UNKNOWN = -1
"""Stands for "no label" among class numbers."""


class InputMismatch(DataError):
    """The inputs are not of the kind or size the network takes."""


@dataclass(frozen=True, eq=False)
class Memory:
    """A network with its vocabulary and its label names.

    A `Transformer` answers class c with the number c + 1; zero, and any number that is no class, means "unknown". The
    other families answer with logits, one a class, and name the largest.
    """

    network: Network
    task: Task
    label_names: tuple[str, ...]
    tokenizer: Tokenizer | None
    ordered: bool

    @property
    def transformer(self) -> Transformer:
        """The network, which must be one of KS25's family."""
        assert isinstance(self.network, Transformer)
        return self.network

    @property
    def answers_last_token_only(self) -> bool:
        """Whether only the output at the last token counts."""
        return self.task != "seq-to-seq"

    def encode(self, inputs: TokenSequences | VectorSequences) -> np.ndarray:
        """Inputs as the network takes them: ids padded on the left to `seq_len`, or vectors."""
        network = self.network
        if isinstance(inputs, VectorSequences):
            if network.embedding is not None or inputs.values.shape[1:] != (network.seq_len, network.dim):
                wanted = "token ids" if network.embedding is not None else (network.seq_len, network.dim)
                raise InputMismatch(
                    f"the inputs are vectors of shape (sequence, dimension) = {inputs.values.shape[1:]}; "
                    f"this model takes {wanted}."
                )
            return inputs.values
        if network.embedding is None or network.n_vocab is None:
            raise InputMismatch(
                f"the inputs are token ids; this model takes vectors of shape {(network.seq_len, network.dim)}."
            )
        if inputs.max_len > network.seq_len:
            row = int(np.argmax(inputs.lengths))
            raise InputMismatch(
                f"sequence {row + 1} has {inputs.max_len} tokens; this model takes at most {network.seq_len}."
            )
        if network.pad is None:
            if len(inputs) and int(inputs.lengths.min()) < network.seq_len:
                row = int(np.argmin(inputs.lengths))
                raise InputMismatch(
                    f"sequence {row + 1} has {int(inputs.lengths[row])} tokens; "
                    f"this model takes exactly {network.seq_len}."
                )
            return inputs.padded(0, network.seq_len)
        if inputs.ids.size and int(inputs.ids.max()) >= network.n_vocab:
            raise InputMismatch(f"token id {int(inputs.ids.max())} is outside the vocabulary of this model.")
        return inputs.padded(network.pad, network.seq_len)

    def answer(
        self,
        encoded: np.ndarray,
        *,
        backend: Backend = "exact",
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> np.ndarray:
        """The class numbers the network answers, `UNKNOWN` where it names none.

        One per sequence, or (n_samples, seq_len) for seq-to-seq. `exact` evaluates all samples together and
        without rounding, `interpreter` is the slow definition of the same, `module` runs PyTorch in floats on `device`.
        """
        last_only = self.answers_last_token_only
        if len(encoded) == 0:
            return np.zeros((0,) if last_only else (0, self.network.seq_len), dtype=np.int64)
        if not isinstance(self.network, Transformer):
            logits = self.logits(encoded, device=device, progress=progress)
            return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), UNKNOWN)
        if backend == "exact":
            from byheart.network.transformer.evaluator import evaluate

            values = evaluate(self.transformer, encoded, last_only=last_only, progress=progress)
            classes = np.array([self.class_of(value) for value in values.distinct], dtype=np.int64)
            answers = classes[values.index]
        elif backend == "interpreter":
            from byheart.network.transformer.interpreter import interpret

            rows = [interpret(self.transformer, sequence) for sequence in encoded]
            answers = np.array(
                [[self.class_of(token[0]) for token in (row[-1:] if last_only else row)] for row in rows],
                dtype=np.int64,
            )
        else:
            from byheart.network.transformer.module import run_module

            outputs = run_module(
                self.transformer, encoded, last_only=last_only, device=device, progress=progress
            )
            numbers = np.where(np.isfinite(outputs), outputs, 0.0)
            whole = (numbers == np.rint(numbers)) & (numbers >= 1) & (numbers <= len(self.label_names))
            answers = np.where(whole, numbers - 1, UNKNOWN).astype(np.int64)
        answers = answers.reshape(len(encoded), -1)
        return np.ascontiguousarray(answers[:, 0] if last_only else answers)

    def logits(
        self, encoded: np.ndarray, *, device: str = "cpu", progress: Progress | None = None
    ) -> np.ndarray:
        """Logits (n_samples, n_classes) of a network that answers with them; softmax makes probabilities of them."""
        if isinstance(self.network, Transformer):
            raise UsageError("this network answers with the number of a class; it has no logits.")
        return logits_of(self.network, encoded, device=device, progress=progress)

    def class_of(self, output: Fraction) -> int:
        """The class that an exact output stands for, or `UNKNOWN`."""
        is_class = output.denominator == 1 and 1 <= output <= len(self.label_names)
        return int(output) - 1 if is_class else UNKNOWN

    def expected(self, dataset: Dataset) -> np.ndarray:
        """The class numbers of this memory for the labels of `dataset`, matched by name; `UNKNOWN` for other names."""
        known = {name: index for index, name in enumerate(self.label_names)}
        mapped = np.array([known.get(name, UNKNOWN) for name in dataset.label_names], dtype=np.int64)
        return np.asarray(mapped[dataset.labels])
