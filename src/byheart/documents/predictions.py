"""Answer many questions. The result is the document that `byheart predict --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from byheart.construct.choice import describe_unknown_input
from byheart.data.readers import kind_of
from byheart.data.tokenizers import parse_ids
from byheart.documents.batch import Row, read_rows
from byheart.errors import UsageError
from byheart.model import Answer, Model
from byheart.storage.data_source import source_of


@dataclass(frozen=True)
class Predictions:
    """Questions and their answers.

    unknown_inputs  what the model answers to inputs that were not in its data. This is what the model's record claims.
                    No digest protects the record, so the claim could have been changed.
    """

    questions: list[Any]
    answers: list[Answer]
    unknown_inputs: str

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON, in which `null` means "unknown"."""
        pairs = zip(self.questions, self.answers, strict=True)
        answers = [{"input": question, "answer": answer} for question, answer in pairs]
        return {"answers": answers, "unknown_inputs": self.unknown_inputs}


def ask(model: Model, questions: list[Any]) -> Predictions:
    """Run the model on questions: texts, lists of token ids, or vectors.

    For a model without a tokenizer, a text lists token ids separated by spaces.
    """
    said = f"{describe_unknown_input(model.record)} (claimed by the model, not checked)"
    return Predictions(questions, model.predict_names(_inputs(questions, model)), said)


def questions_in(
    model: Model,
    path: Path,
    column: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> tuple[list[Row], str]:
    """Read the rows of a file.

    Return the rows, and the name of the column of questions. This is `column` or, by default, the column that the model was
    compiled from.
    """
    source = source_of(model)
    written = source.text_options(kind_of(path))
    wanted = column or source.question_column(model.memoriser.task)
    return read_rows(path, wanted, delimiter or written["delimiter"], encoding or written["encoding"])


def _inputs(asked: list[Any], model: Model) -> Any:
    """Convert questions to inputs of `predict`: texts, lists of ids, or one array of vectors."""
    if asked and isinstance(asked[0], np.ndarray):
        return np.stack(asked)
    if model.memoriser.tokenizer is not None:
        return [one if isinstance(one, list) else str(one) for one in asked]
    return [one if isinstance(one, list) else _ids(str(one), model) for one in asked]


def _ids(text: str, model: Model) -> list[int]:
    if not model.network.takes_ids:
        n, dim = model.network.seq_len, model.network.dim
        vectors = "one vector" if n == 1 else f"{n} vectors"
        shape = f"(n_samples, {dim})" if n == 1 else f"(n_samples, {n}, {dim})"
        raise UsageError(
            f"this model takes {vectors} of dimension {dim} per sample.\n"
            f"  Use --data FILE with an NPZ file whose array `inputs` has shape {shape}.",
            shape=shape,
        )
    asked = f"this model has no tokenizer: give token ids with spaces between them, not {text!r}."
    return parse_ids(text, asked)
