"""VYS22 on single vectors: exact on the samples, silent elsewhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.data import Dataset
from byheart.data.generators import uniform_vectors
from byheart.network import size_of_network
from byheart.network.memoriser import UNKNOWN
from byheart.theorems import checks
from tests.examples import examples

from .rival_data import answers, compiled, single_vectors

METHOD = "vardi-2022"


@checks("KS25-L C.1")
@examples(60)
@given(single_vectors(), st.integers(0, 2**32))
def test_every_label_is_memorised(data: Dataset, seed: int) -> None:
    construction = compiled(METHOD, data, seed)
    assert (answers(construction, data) == data.labels).all()


@examples(40)
@given(single_vectors())
def test_the_interpreter_agrees(data: Dataset) -> None:
    first = data.subset(np.arange(1))
    assert (answers(compiled(METHOD, data), first, "interpreter") == first.labels).all()


def test_tokens_that_were_not_stored_are_unknown() -> None:
    data = Dataset.from_arrays(np.array([[3], [8], [11]]), np.array([0, 1, 1]), n_vocab=20)
    memoriser = compiled(METHOD, data).memoriser
    found = memoriser.answer(np.arange(20)[:, None])
    assert np.flatnonzero(found != UNKNOWN).tolist() == [3, 8, 11]


def test_the_theorem_promises_more_than_is_used() -> None:
    construction = compiled(METHOD, uniform_vectors(1000, 1, 4, seed=1))
    size, promised = size_of_network(construction.memoriser.network), construction.theorem_size
    assert promised is not None
    assert size.parameters_dense < promised.parameters
    assert size.depth < promised.depth
