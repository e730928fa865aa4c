"""What the families share that answer with logits, one for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byheart.network.protocol import UNKNOWN, Backend, Progress

if TYPE_CHECKING:
    from byheart.network.balls import Ball


class AnswersWithLogits:
    """A network of floats that names the class with the largest logit at the last token."""

    @property
    def backend(self) -> Backend:
        """As PyTorch runs it."""
        return "module"

    @property
    def second_backend(self) -> Backend | None:
        """NumPy, from the equations, with a bound on rounding."""
        return "equations"

    def compute_logits(
        self, encoded: np.ndarray, *, device: str = "cpu", progress: Progress | None = None
    ) -> np.ndarray:
        """Logits (n_samples, n_outputs) of the native forward pass."""
        raise NotImplementedError

    def bound_logits(self, encoded: np.ndarray) -> Ball:
        """Logits written from the equations, and how far rounding may take the native ones from the true ones."""
        raise NotImplementedError

    def answer(
        self,
        encoded: np.ndarray,
        label_names: Sequence[str],
        *,
        last_only: bool,
        backend: Backend,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> np.ndarray:
        """The largest of the logits of each sample, (n_samples, 1); `UNKNOWN` where one is not finite."""
        if backend == "equations":
            logits = self.bound_logits(encoded).value
        else:
            logits = self.compute_logits(encoded, device=device, progress=progress)
        classes = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), UNKNOWN)
        return np.asarray(classes[:, None], dtype=np.int64)

    def files(self) -> Mapping[str, bytes]:
        """None."""
        return {}
