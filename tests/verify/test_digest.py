"""The digest of a network changes with its content and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from byheart.network import Attention, Head, SparseMatrix, Transformer
from byheart.network.exact.dyadic import Dyadic
from byheart.verify import weights_digest
from byheart.verify.digest import model_digest
from tests.examples import examples

from .lookup import capitals, lookup


def small(entries: dict[tuple[int, int], Dyadic]) -> Transformer:
    return Transformer(SparseMatrix((2, 2), entries), (), SparseMatrix.of((1, 2), {}), seq_len=1)


numbers = st.builds(
    lambda odd, exponent: Dyadic(2 * odd + 1, exponent), st.integers(-(2**70), 2**70), st.integers(-90, 90)
)
tables = st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 1)), numbers)


@examples(300)
@given(tables, tables)
def test_equal_digests_mean_equal_weights(
    left: dict[tuple[int, int], Dyadic], right: dict[tuple[int, int], Dyadic]
) -> None:
    shuffled = dict(reversed(left.items()))
    assert weights_digest(small(left)) == weights_digest(small(shuffled))
    assert (weights_digest(small(left)) == weights_digest(small(right))) == (left == right)


def test_everything_a_network_is_enters_the_digest() -> None:
    exact = lookup(capitals()).network
    one = SparseMatrix.of((1, 1), {(0, 0): 1})
    head = Head(one, one, one, one)
    networks = [
        exact,
        lookup(capitals(), "float64").network,
        lookup(capitals(), "float32").network,
        lookup(capitals(), n_layers=3).network,
        replace(exact, pad=None),
        replace(exact, pad=0),
        replace(exact, seq_len=2),
        replace(exact, layers=(Attention((head,), "softmax"),)),
        replace(exact, layers=(Attention((head,), "hardmax"),)),
        replace(exact, w_in=SparseMatrix.of((1, 1), {(0, 0): -1})),
    ]
    assert len({weights_digest(network) for network in networks}) == len(networks)


def test_everything_a_memoriser_is_enters_its_digest() -> None:
    whole = lookup(capitals())
    memorisers = [
        whole,
        replace(whole, ordered=not whole.ordered),
        replace(whole, label_names=tuple(reversed(whole.label_names))),
        replace(whole, label_type="boolean"),
        replace(whole, tokenizer=None),
        lookup(capitals(), n_layers=3),
    ]
    assert len({model_digest(memoriser) for memoriser in memorisers}) == len(memorisers)


def test_the_digest_is_pinned() -> None:
    network = small({(0, 1): Dyadic(-3, -2), (1, 0): Dyadic(2**64 + 1, 5)})
    assert weights_digest(network) == "5551ebfed50c47461e598e6590900073a456b1ddc5f7a04704fcd8e00110e86a"


def test_float_bytes_do_not_depend_on_memory_layout() -> None:
    weights = np.arange(6.0).reshape(2, 3)
    row = np.ones((1, 2))
    plain, turned = (Transformer(w, (), row, 1) for w in (weights, np.asfortranarray(weights)))
    assert weights_digest(plain) == weights_digest(turned)
