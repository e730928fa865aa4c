"""Evaluate a Transformer with one of its evaluators, and convert its outputs to classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from byheart.network.protocol import UNKNOWN, Evaluation
from byheart.network.transformer.architecture import Transformer
from byheart.process.progress import Steps, report


def answer(network: Transformer, encoded: np.ndarray, n_classes: int, how: Evaluation) -> np.ndarray:
    """Return class numbers (n_samples, n_tokens), or (n_samples, 1) with `how.last_only`.

    The class number is `UNKNOWN` where an output is not a class.
    """
    if how.backend == "exact":
        from byheart.network.transformer.evaluator import evaluate

        values = evaluate(network, encoded, last_only=how.last_only, progress=how.progress)
        classes = np.array([class_of(value, n_classes) for value in values.distinct], dtype=np.int64)
        answers = classes[values.index]
    elif how.backend == "interpreter":
        from byheart.network.transformer.interpreter import Interpreter

        steps = Steps(how.progress, {"prepare": 1, "ask": 1})
        interpreter = Interpreter(network, last_only=how.last_only, progress=steps.begin("prepare"))
        asking = steps.begin("ask")
        rows = []
        for sequence in encoded:
            rows.append([class_of(value, n_classes) for value in interpreter.outputs(sequence)])
            report(asking, len(rows), len(encoded))
        answers = np.array(rows, dtype=np.int64)
    elif how.backend == "equations":
        from byheart.network.transformer.equations import first_outputs

        answers = classes_of_floats(first_outputs(network, encoded, last_only=how.last_only), n_classes)
    else:
        from byheart.network.transformer.module import run_module

        outputs = run_module(
            network, encoded, last_only=how.last_only, device=how.device, progress=how.progress
        )
        answers = classes_of_floats(outputs, n_classes)
    return np.ascontiguousarray(answers.reshape(len(encoded), -1))


def classes_of_floats(outputs: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the classes of float outputs: c for an output of exactly c + 1, and `UNKNOWN` for anything else."""
    numbers = np.where(np.isfinite(outputs), outputs, 0.0)
    is_class = (numbers == np.rint(numbers)) & (numbers >= 1) & (numbers <= n_classes)
    return np.where(is_class, numbers - 1, UNKNOWN).astype(np.int64)


def class_of(output: Fraction, n_classes: int) -> int:
    """Return the class of an exact output: c if the output is c + 1 for a class number c, and `UNKNOWN` otherwise."""
    is_class = output.denominator == 1 and 1 <= output <= n_classes
    return int(output) - 1 if is_class else UNKNOWN
