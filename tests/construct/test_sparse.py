"""Remark 4.5: the same labels through one extra token, with O(n) connections."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from byheart.data import Dataset
from byheart.data.generators import random_tokens, uniform_vectors
from byheart.errors import UsageError
from byheart.network import size_of_network
from byheart.network.transformer.architecture import Attention
from byheart.storage.folder import load_folder, save_folder
from byheart.theorems import checks
from tests.examples import examples
from tests.refusal import refused

from .rival_data import planned
from .test_theorem import answers, token_data, vector_data

METHOD = "kajitsuka-sato-2025-sparse"


@checks("KS25-R4.5")
@examples(60)
@given(st.one_of(token_data(), vector_data()))
def test_every_label_through_the_extra_token(data: Dataset) -> None:
    assume(data.task == "seq-to-seq")
    plan = planned(METHOD, data)
    construction = plan.emit()
    assert (answers(construction, data) == data.labels).all()
    memoriser = construction.memoriser
    layers = [layer for layer in memoriser.network.layers if isinstance(layer, Attention)]
    n_tokens = data.seq_len + 1
    assert [layer.pattern for layer in layers] == ["gather", "scatter"]
    # as eq. 39 has it, over the tokens a token is connected with: at least one each
    assert construction.notes["connections"] == (2 * n_tokens - 1) + n_tokens
    one = memoriser.encode(data.inputs)[:1]
    assert (memoriser.answer(one, backend="interpreter") == memoriser.answer(one)).all()
    assert plan.size == size_of_network(memoriser.network)


@pytest.mark.slow
@checks("KS25-R4.5")
def test_larger_data_and_saving(tmp_path) -> None:
    for data in (
        uniform_vectors(100, seed=0, task="seq-to-seq"),
        random_tokens(100, seed=0, task="seq-to-seq"),
    ):
        construction = planned(METHOD, data).emit()
        assert (answers(construction, data) == data.labels).all()
        save_folder(tmp_path / "model", construction.memoriser, {"method": METHOD}, None)
        memoriser, _, _ = load_folder(tmp_path / "model")
        assert (memoriser.answer(memoriser.encode(data.inputs)) == data.labels.reshape(100, -1)).all()


def test_no_options() -> None:
    with refused(UsageError, "problem"):
        planned(METHOD, random_tokens(5, seed=0, task="seq-to-seq"), colour=1)
