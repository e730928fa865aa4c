"""Find which facts a weight holds, or which weights hold a fact.

To find the facts that a weight holds, change the weight and check every fact again. To find the weights that hold a fact, compile
again without the fact and compare the weights.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.documents.forgetting import forget_facts
from byheart.inspect.changes import change_weights, find_matrix
from byheart.model import Model
from byheart.network.memoriser import UNKNOWN
from byheart.process.progress import in_stage
from byheart.storage.data_source import read_again
from byheart.verify.encoded_inputs import encode_inputs
from byheart.verify.verifier import verify_model
from byheart.web.context import Context, Document, open_model

MOST_NAMED = 1000  # the maximum number of broken facts that are named
MOST_LISTED = 400  # the maximum number of changed weights that are listed


def break_model(context: Context, model: str, data: str, changes: list[dict[str, Any]]) -> Document:
    """Change weights, verify every sample again, and list the facts that the changed model answers wrongly."""
    whole = open_model(model)
    dataset = read_again(whole, data)
    memoriser, done = change_weights(whole.memoriser, changes)
    broken = Model(memoriser, whole.record, None)
    certificate = verify_model(broken, dataset, progress=in_stage(context.progress, "verify"))
    return {
        "edits": done,
        "certificate": certificate.to_json(),
        "checked": certificate.checked,
        "wrong": certificate.wrong,
        "broken": _broken_facts(broken, dataset) if certificate.wrong else [],
    }


def forget(context: Context, model: str, data: str, text: str) -> Document:
    """Compile the data again without one fact, from the same seed, and list the weights that differ."""
    whole = open_model(model)
    found = forget_facts(whole, data, [text], context.progress)
    changes, document = found.changes, found.to_json()
    matrices = [
        {"matrix": name, "n_changed": len(indices), "n_weights": n_weights(whole, name)}
        for name, indices in changes.indices.items()
    ]
    return {
        "fact": text,
        "answer": found.before[0],
        "answer_without": found.after[0],
        **{name: document[name] for name in ("verified", "size_without", "same_shape")},
        "size": asdict(whole.size),
        "n_weights": changes.n_weights,
        "n_changed": changes.n_changed,
        "matrices": matrices,
        "changes": changes.listed(MOST_LISTED),
    }


def n_weights(model: Model, name: str) -> int:
    """Return the number of weights in a matrix."""
    return int(np.prod(find_matrix(model.network, name).shape))


def _broken_facts(model: Model, data: Dataset) -> list[Document]:
    """List the first `MOST_NAMED` wrong samples: the question, the correct answer and the model's answer.

    The list is empty if the samples have one label per token.
    """
    memoriser = model.memoriser
    expected = memoriser.expected_labels(data)
    # with one label per token, the certificate names only the first few wrong samples
    if len(expected) != data.n_samples:
        return []
    asked = encode_inputs(memoriser, data.inputs, data.tokenizer)
    answers = memoriser.answer(asked.encoded, backend="exact" if model.precision == "exact" else "module")
    wrong = np.flatnonzero(answers != expected[asked.asked])[:MOST_NAMED]
    return [
        {
            "input": _text_of(data, int(asked.asked[at])),
            "expected": data.label_names[int(data.labels[asked.asked[at]])],
            "got": None if answers[at] == UNKNOWN else memoriser.label_names[int(answers[at])],
        }
        for at in wrong
    ]


def _text_of(data: Dataset, sample: int) -> str:
    if isinstance(data.inputs, TokenSequences) and data.tokenizer is not None:
        return str(data.tokenizer.decode(data.inputs[sample].tolist()))
    return data.describe_input(sample)
