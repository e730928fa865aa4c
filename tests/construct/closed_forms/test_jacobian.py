"""MFT24 Lemma 1, on given decoders: the rank of the Jacobian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byheart.bounds.madden_2024 import lemma_1
from byheart.construct.madden_2024.jacobian import certified_jacobian_rank
from byheart.errors import UsageError
from byheart.network.decoder.architecture import Decoder, TokenAveraging
from byheart.network.transformer.architecture import Embedding
from byheart.theorems import checks

pytest.importorskip("flint", reason="needs python-flint; runs where the extra `ranks` is installed")


def _decoder(rng: np.random.Generator, n_tokens: int, dim: int, hidden: int, seq_len: int = 2) -> Decoder:
    return Decoder(
        Embedding(rng.standard_normal((n_tokens, dim))),
        TokenAveraging(rng.standard_normal(seq_len)),
        rng.standard_normal((dim, hidden)),
        rng.standard_normal(hidden),
        rng.standard_normal((hidden, n_tokens)),
        "tanh",
    )


def _contexts(n_tokens: int, count: int) -> np.ndarray:
    pairs = [(a, b) for a in range(n_tokens) for b in range(n_tokens)]
    return np.array(pairs[:count])


@checks("MFT24-L1")
@pytest.mark.parametrize(("dim", "hidden"), [(1, 1), (1, 2), (2, 2), (1, 4)])
@pytest.mark.parametrize("count", [1, 3, 6, 16])
def test_no_more_contexts_are_free_than_the_lemma_says(dim: int, hidden: int, count: int) -> None:
    n_tokens = 4
    decoder = _decoder(np.random.default_rng(dim + hidden), n_tokens, dim, hidden)
    found = certified_jacobian_rank(decoder, _contexts(n_tokens, count))
    assert found.is_decided
    assert found.certified <= min(found.n_parameters, found.n_wanted)
    assert not found.is_free or count <= int(lemma_1(found.n_parameters, n_tokens).value)


@checks("MFT24-L1")
def test_contexts_of_several_lengths_leave_one_direction_less() -> None:
    """Only where all contexts are of one length can the bias take back a vector that is added to all tokens."""
    decoder = _decoder(np.random.default_rng(3), 4, 1, 2)
    equal = _contexts(4, 16)
    ragged = np.concatenate([equal, [[decoder.pad, 1]]])
    for found, unseen in (
        (certified_jacobian_rank(decoder, equal), 5),
        (certified_jacobian_rank(decoder, ragged), 4),
    ):
        assert found.is_decided
        assert found.certified == found.n_parameters - unseen


@checks("MFT24-L1")
def test_columns_equal_the_slopes_of_the_network() -> None:
    """The rows are derivatives: central differences of the logits agree to eight digits."""
    import flint

    from byheart.construct.madden_2024.jacobian import _rows

    rng = np.random.default_rng(5)
    parts = [rng.standard_normal(shape) for shape in ((3, 2), (2,), (2, 2), (2,), (2, 3))]
    context, step = [2, 0], 1e-5

    def differences(values: list[np.ndarray]) -> np.ndarray:
        z, u, w, b, v = values
        y = sum(u[t] * z[token] for t, token in enumerate(context))
        logits = np.tanh(y @ w + b) @ v
        return logits[:-1] - logits[-1]

    z, u, w, b, v = parts
    with flint.ctx.workprec(100):
        rows = _rows(Decoder(Embedding(z), TokenAveraging(u), w, b, v, "tanh"), context, flint)
    exact = np.array([[float(ball.mid()) for ball in row] for row in rows])
    columns = []
    for part, values in enumerate(parts):
        for at in np.ndindex(values.shape):
            moved = [[each.copy() for each in parts] for _ in range(2)]
            moved[0][part][at] += step
            moved[1][part][at] -= step
            columns.append((differences(moved[0]) - differences(moved[1])) / (2 * step))
    # the error of a central difference is the third derivative times step² / 6, and rounding over step: below 1e-8
    assert np.abs(np.array(columns).T - exact).max() < 1e-8


def test_equal_embeddings_lose_rank() -> None:
    decoder = _decoder(np.random.default_rng(0), 4, 1, 2)
    equal = replace(decoder, embedding=Embedding(np.ones((4, 1))))
    every = _contexts(4, 4)
    assert certified_jacobian_rank(equal, every).certified < certified_jacobian_rank(decoder, every).certified


def test_other_decoders_are_refused() -> None:
    decoder = replace(_decoder(np.random.default_rng(0), 3, 1, 1), activation="gelu")
    with pytest.raises(UsageError):
        certified_jacobian_rank(decoder, _contexts(3, 2))
