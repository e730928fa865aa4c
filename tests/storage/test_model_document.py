"""model.json: what it says must be true of the weights, and of the kinds that byheart writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from byheart.errors import CorruptModel, DataError, UsageError
from byheart.network.memoriser import Memoriser
from byheart.storage import load_folder, save_folder
from byheart.storage.tensor_file import write_tensors
from tests.refusal import refused

from ..verify.lookup import capitals, lookup
from .test_folder import RECORD, float_network, memory_of

WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {name: tensor.astype(np.float32) for name, tensor in tensors.items()},
        lambda tensors: {**tensors, "w_in": np.zeros((3, 5))},
    ],
    ids=["another type throughout", "another dimension throughout"],
)
def test_float_weights_must_be_those_of_the_document(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
) -> None:
    save_folder(tmp_path / "m", memory_of(float_network()), RECORD, None)
    write_tensors(tmp_path / "m" / WEIGHTS, change(load_file(tmp_path / "m" / WEIGHTS)))
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
        load_folder(tmp_path / "m")


@pytest.mark.parametrize(
    "record",
    [
        {"notes": 1}, {"options": []}, {"versions": "1"}, {"versions": {"byheart": 1}},
        {"refused": {"llama": 1}}, {"reading": [1]}, {"refused": []},
    ],
)  # fmt: skip
def test_parts_of_the_record_are_of_the_kinds_that_compile_writes(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    save_folder(tmp_path / "m", lookup(capitals()), {**RECORD, **record}, None)
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / "model.json")):
        load_folder(tmp_path / "m")


def test_a_label_that_is_not_unicode_is_shown_with_what_surrounds_it(tmp_path: Path) -> None:
    label = "x" * 30 + "\ud800" + "y" * 30
    memoriser = Memoriser(float_network(), "next-token", (label,), None, True)
    with refused(DataError, text=ascii("x" * 10 + "\ud800" + "y" * 9)):
        save_folder(tmp_path / "model", memoriser, RECORD, None)


def test_a_vocabulary_may_be_as_large_as_the_network_embeds(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", lookup(capitals()), RECORD, None)
    file = tmp_path / "m" / "model.json"
    document = json.loads(file.read_text())
    assert document["architecture"]["n_vocab"] == 6  # five words and the padding
    for n_more, is_taken in ((1, True), (2, False)):
        words = [*document["tokenizer"]["vocabulary"], *(f"z{i}" for i in range(n_more))]
        changed = {**document, "tokenizer": {**document["tokenizer"], "vocabulary": words}}
        file.write_text(json.dumps(changed))
        if is_taken:
            assert load_folder(tmp_path / "m")[0].tokenizer.vocabulary[-1] == "z0"
        else:
            with refused(CorruptModel, "problem", file=str(file)):
                load_folder(tmp_path / "m")


def test_a_network_of_vectors_embeds_no_vocabulary(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", memory_of(float_network()), RECORD, None)
    file = tmp_path / "m" / "model.json"
    document = json.loads(file.read_text())
    assert document["architecture"]["n_vocab"] is None
    for words, is_taken in (([], True), (["a"], False)):
        file.write_text(json.dumps({**document, "tokenizer": {"name": "word", "vocabulary": words}}))
        if is_taken:
            tokenizer = load_folder(tmp_path / "m")[0].tokenizer
            assert tokenizer is not None
            assert tokenizer.vocabulary == ()
        else:
            with refused(CorruptModel, "problem", file=str(file)):
                load_folder(tmp_path / "m")


def test_a_network_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    network = replace(float_network(), seq_len=2**25)
    with refused(UsageError, "problem"):
        save_folder(tmp_path / "m", memory_of(network), RECORD, None)
    assert list(tmp_path.iterdir()) == []
