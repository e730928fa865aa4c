"""Code shared by the families of networks that output one logit per class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from byheart.network.arrays import expect_arrays
from byheart.network.balls import Ball, join
from byheart.network.protocol import UNKNOWN, Backend, Evaluation, Network, NetworkSpec, require_axes
from byheart.process.progress import Progress


class LogitSpec(NetworkSpec, Protocol):
    """The shape of a network that has logits."""

    @property
    def n_outputs(self) -> int:
        """The number of logits, one for each class."""


class AnswersWithLogits(Network):
    """A float network whose answer is the class with the largest logit at the last token."""

    if TYPE_CHECKING:

        @property
        def spec(self) -> LogitSpec:
            """The shape of the network."""

    backends = ("module", "equations")
    backend: Backend = "module"  # PyTorch
    second_backend: Backend = "equations"  # NumPy, with a bound on rounding errors

    def __post_init__(self) -> None:
        expect_arrays(self)

    @property
    def n_outputs(self) -> int:
        return self.spec.n_outputs

    @property
    def pad(self) -> int | None:
        return self.spec.pad

    def parameters(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the arrays that the spec lists.

        The name of an array is the name of an attribute of this object, or a dotted path to an attribute of one of its fields.
        """
        for name, _ in self.spec.shapes():
            yield name, attrgetter(name)(self)

    @property
    @abstractmethod
    def largest_layer(self) -> int:
        """The size of the largest array that one sample needs."""

    def compute_logits(
        self, encoded: np.ndarray, *, device: str = "cpu", progress: Progress | None = None
    ) -> np.ndarray:
        """Return the logits (n_samples, n_outputs), computed by PyTorch in the network's own float type."""
        from byheart.network.batches import run_in_batches

        module = self.module().to(device).eval()
        return run_in_batches(module, encoded, self.largest_layer, device=device, progress=progress)

    @abstractmethod
    def bound_sample(self, sample: np.ndarray) -> Ball:
        """Return the logits of one sample, computed from the paper's equations, and an error bound (radius) for each logit.

        The radius bounds two errors: how far the returned logit is from the true one, and how far the PyTorch module's is.
        """

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        found = [self.bound_sample(sample) for sample in encoded]
        return join(found, np.stack)

    def answer(self, encoded: np.ndarray, label_names: Sequence[str], how: Evaluation) -> np.ndarray:
        """Return for each sample the class with the largest logit, as an array (n_samples, 1).

        A sample with a logit that is not finite has the class `UNKNOWN`.
        """
        if how.backend == "equations":
            logits = self.bound_logits(encoded).value
        else:
            logits = self.compute_logits(encoded, device=how.device, progress=how.progress)
        return self.classes_of(logits, len(label_names))

    def classes_of(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Return the class with the largest logit for each row of `outputs`, as an array (n_samples, 1).

        A row with a logit that is not finite has the class `UNKNOWN`.
        """
        require_axes(outputs, ("n_samples", "n_classes"))
        classes = np.where(np.isfinite(outputs).all(axis=1), outputs.argmax(axis=1), UNKNOWN)
        return np.asarray(classes[:, None], dtype=np.int64)
