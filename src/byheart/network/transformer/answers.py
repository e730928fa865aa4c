"""Which class the number that a Transformer gives stands for, by each of its evaluators."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from byheart.errors import UsageError
from byheart.network.protocol import UNKNOWN, Backend, Progress
from byheart.network.transformer.architecture import Transformer


def answer(
    network: Transformer,
    encoded: np.ndarray,
    n_classes: int,
    *,
    last_only: bool,
    backend: Backend,
    device: str = "cpu",
    progress: Progress | None = None,
) -> np.ndarray:
    """Class numbers (n_samples, n_tokens), (n_samples, 1) with `last_only`; `UNKNOWN` where the network names none."""
    if backend == "exact":
        from byheart.network.transformer.evaluator import evaluate

        values = evaluate(network, encoded, last_only=last_only, progress=progress)
        classes = np.array([class_of(value, n_classes) for value in values.distinct], dtype=np.int64)
        answers = classes[values.index]
    elif backend == "interpreter":
        from byheart.network.transformer.interpreter import interpret

        rows = [interpret(network, sequence) for sequence in encoded]
        answers = np.array(
            [[class_of(token[0], n_classes) for token in (row[-1:] if last_only else row)] for row in rows],
            dtype=np.int64,
        )
    elif backend == "module":
        from byheart.network.transformer.module import run_module

        outputs = run_module(network, encoded, last_only=last_only, device=device, progress=progress)
        numbers = np.where(np.isfinite(outputs), outputs, 0.0)
        is_class = (numbers == np.rint(numbers)) & (numbers >= 1) & (numbers <= n_classes)
        answers = np.where(is_class, numbers - 1, UNKNOWN).astype(np.int64)
    else:
        raise UsageError(f"a Transformer has no evaluator called {backend}.", backend=backend)
    return np.ascontiguousarray(answers.reshape(len(encoded), -1))


def class_of(output: Fraction, n_classes: int) -> int:
    """The class that an exact output stands for, or `UNKNOWN`."""
    is_class = output.denominator == 1 and 1 <= output <= n_classes
    return int(output) - 1 if is_class else UNKNOWN
