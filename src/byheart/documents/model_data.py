"""Compare a data file with the data from which a model was compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from byheart.data.dataset import Dataset
from byheart.data.sequences import offsets_of
from byheart.errors import UnknownToken, UsageError, amount
from byheart.model import Model
from byheart.network.protocol import UNKNOWN
from byheart.storage.data_source import read_again
from byheart.verify.encoded_inputs import encode_inputs


def require_model_data(model: Model, path: str | Path) -> tuple[Dataset, bool]:
    """Read the data file of a model. Return the data, and whether they were compared with the digest that the model stores: False
    if it stores none.

    Raise `UsageError` if the digests differ.
    """
    try:
        dataset = read_for_model(model, path)
    except UnknownToken as error:
        row, token = error.facts.get("row"), error.facts.get("token")
        what = "a token" if token is None else f"the token {token!r}"
        raise _other_data(
            path, f"the model does not know {what} in row {row}.", row=row, token=token
        ) from None
    is_same = is_model_data(model, dataset)
    if is_same is not False:
        return dataset, is_same is True
    n_samples = _recorded(model)[1]
    if n_samples != dataset.n_samples:
        problem = (
            f"it has {amount(dataset.n_samples, 'sample')}, but the model was compiled from {n_samples:,}."
        )
        raise _other_data(path, problem, n_samples=dataset.n_samples, n_compiled=n_samples)
    differing = np.flatnonzero(~answered_as_given(model, dataset))
    if differing.size:
        row = dataset.row(int(differing[0]))
        text = dataset.describe_input(int(differing[0]))
        raise _other_data(path, f"in row {row}, {text}, it has another answer than the model.", row=row)
    raise _other_data(path, "its samples are in another order, or its vocabulary or labels differ.")


def _other_data(path: str | Path, problem: str, **facts: object) -> UsageError:
    return UsageError(
        f"{path} does not contain the data from which this model was compiled: {problem}\n"
        "  Give the unchanged data file of the model. `byheart verify DIR DATA` lists the rows that a model answers differently.",
        **{**facts, "data": str(path)},
    )


def read_for_model(model: Model, path: str | Path) -> Dataset:
    """Read a data file as the data of `model` were read. Classes are numbered as in the model, if it has all labels of the file.

    A Llama also keeps its tokenizer, so `UnknownToken` is raised for a token that it does not have.
    """
    is_llama = model.network.spec.family == "llama"
    dataset = read_again(model, path, **({"tokenizer": model.memoriser.tokenizer} if is_llama else {}))
    memoriser = model.memoriser
    if dataset.label_names == memoriser.label_names:
        return dataset
    labels = memoriser.expected_labels(dataset)
    if (labels == UNKNOWN).any():
        return dataset
    return replace(dataset, labels=labels, label_names=memoriser.label_names, label_type=memoriser.label_type)


def is_model_data(model: Model, dataset: Dataset) -> bool | None:
    """Return whether `dataset` has the digest of the data from which the model was compiled. None if the model stores no digest."""
    digest = _recorded(model)[0]
    return None if digest is None else dataset.digest == digest


def _recorded(model: Model) -> tuple[str | None, int | None]:
    """Return the digest and the number of samples of the data, from the certificate or else from the record. None if unknown."""
    if model.certificate is not None:
        certified = model.certificate.dataset
        return certified.digest, certified.shape.n_samples
    recorded = model.record.get("dataset")
    recorded = recorded if isinstance(recorded, Mapping) else {}
    digest, n_samples = recorded.get("digest"), recorded.get("n_samples")
    return digest if isinstance(digest, str) else None, n_samples if isinstance(n_samples, int) else None


def answered_as_given(model: Model, dataset: Dataset) -> Bool[np.ndarray, " n_samples"]:
    """Return for each sample whether the model answers it with its label or, if each token has a label, with all of them."""
    memoriser = model.memoriser
    asked = encode_inputs(memoriser, dataset.inputs, dataset.tokenizer)
    answers, expected = memoriser.answer(asked.encoded), memoriser.expected_labels(dataset)
    is_right = np.zeros(dataset.n_samples, dtype=bool)
    if memoriser.answers_last_token_only:
        is_right[asked.asked] = (answers == expected[asked.asked]) & (answers != UNKNOWN)
        return is_right
    starts = offsets_of(dataset.labels_per_sample)
    for sample, found in zip(asked.asked.tolist(), answers, strict=True):
        labels = expected[starts[sample] : starts[sample + 1]]
        own = found[len(found) - len(labels) :]  # padded on the left
        is_right[sample] = bool((own == labels).all() and (labels != UNKNOWN).all())
    return is_right
