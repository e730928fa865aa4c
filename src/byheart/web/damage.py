"""Which facts a weight holds: found by changing it and asking every fact again, or by compiling without a fact."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from byheart.data.dataset import Dataset
from byheart.data.sequences import TokenSequences
from byheart.errors import DoesNotHold
from byheart.model import Model
from byheart.network.memoriser import UNKNOWN
from byheart.pipeline import compile as compile_data
from byheart.records.fields import LARGEST, Fields
from byheart.storage.data_source import read_again
from byheart.verify.encoded_inputs import encode_inputs
from byheart.verify.verifier import verify_model
from byheart.web import edits
from byheart.web.context import Context, Document, open_model

MOST_NAMED = 1000  # broken facts that are named
MOST_LISTED = 400  # changed weights that are listed


def break_model(context: Context, model: str, data: str, changes: list[dict[str, Any]]) -> Document:
    """Change weights, verify every sample again, and name what broke."""
    whole = open_model(model)
    dataset = read_again(whole, data)
    broken, done = edits.edit(whole, changes)
    certificate = verify_model(
        broken, dataset, progress=lambda at, total: context.progress("verify", at, total)
    )
    return {
        "edits": done,
        "certificate": certificate.to_json(),
        "checked": certificate.checked,
        "wrong": certificate.wrong,
        "broken": _broken_facts(broken, dataset) if certificate.wrong else [],
    }


def forget(context: Context, model: str, data: str, text: str) -> Document:
    """Compile the data again without one fact, from the same seed, and say which weights differ."""
    whole = open_model(model)
    dataset = read_again(whole, data)
    forgotten = _sample_of(dataset, text)
    rest = dataset.subset([sample for sample in range(dataset.n_samples) if sample != forgotten])
    record = Fields(dict(whole.record), Path(model, "model.json"), "record")
    options = {name: value for name, value in record.child("options").values.items() if name != "precision"}
    without = compile_data(
        rest,
        method=record.text("method"),
        precision=whole.network.precision,
        seed=record.integer("seed", most=LARGEST),
        progress=context.progress,
        **options,
    )
    assert without.certificate is not None
    (before,), (after,) = whole.predict([text]), without.predict([text])
    return {
        "fact": text,
        "answer": before,
        "answer_without": after,
        "verified": {"checked": without.certificate.checked, "wrong": without.certificate.wrong},
        "size": asdict(whole.size),
        "size_without": asdict(without.size),
        **edits.differences(whole, without, MOST_LISTED),
    }


def _broken_facts(model: Model, data: Dataset) -> list[Document]:
    """Every wrong sample by name: what was asked, what is right, what is answered now."""
    memoriser = model.memoriser
    expected = memoriser.expected_labels(data)
    if len(expected) != data.n_samples:  # a label for each token: the certificate names the first few
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


def _sample_of(data: Dataset, text: str) -> int:
    for sample in range(data.n_samples):
        if _text_of(data, sample) == text:
            return sample
    raise DoesNotHold(f"{text!r} is not one of the facts of this model.", fact=text)
