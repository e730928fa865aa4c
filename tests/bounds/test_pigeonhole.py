"""The pigeonhole bounds, against powers formed in full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byheart.bounds import pigeonhole
from byheart.bounds.pigeonhole import counting_next_token, counting_seq_to_seq, label_bits, parameter_floor
from byheart.errors import ImpossibleSize
from byheart.theorems import checks
from tests.examples import examples


@given(st.integers(0, 400), st.integers(1, 5000))
@examples(200)
def test_label_bits_is_the_smallest_number_of_bits(n_labels: int, n_classes: int) -> None:
    bits = label_bits(n_labels, n_classes)
    assert 2**bits >= n_classes**n_labels
    assert bits == 0 or 2 ** (bits - 1) < n_classes**n_labels


def test_the_enclosure_agrees_with_the_full_power(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(n, c) for n in (1, 7, 53, 1000) for c in (3, 5, 1000, 10**9 + 7)]
    in_full = [label_bits(n, c) for n, c in sizes]
    monkeypatch.setattr(pigeonhole, "_EXACT_POWER_BITS", 0)
    assert [label_bits(n, c) for n, c in sizes] == in_full


@checks("KS25-R4.4")
def test_remark_4_4_by_hand() -> None:
    # 3 classes, 10 labels: 3^10 = 59049 labellings, between 2^15 = 32768 and 2^16 = 65536, so 16 bits.
    bound = counting_next_token(10, 3)
    assert (bound.value, bound.kind, bound.quantity) == (16, "lower", "bits")
    # two classes: exactly one bit a label, as the remark says
    assert counting_next_token(10**12, 2).value == 10**12
    # the 1,790 keys of the facts data set with 1,271 values: 1790 · log2(1271) = 1790 · 10.3117... = 18458.03...
    assert counting_next_token(1790, 1271).value == 18459


@checks("KS25-R4.6")
def test_remark_4_6_by_hand() -> None:
    # nN = 8 · 5 = 40 tokens with two classes: 40 bits; with 3: 40 · 1.58496... = 63.39... -> 64
    assert counting_seq_to_seq(5, 8, 2).value == 40
    assert counting_seq_to_seq(5, 8, 3).value == 64


@checks("KS25-bits")
def test_parameters_that_hold_bits_by_hand() -> None:
    # 18459 bits / 64 = 288.4..., so 289 parameters; / 32 = 576.8... so 577
    assert parameter_floor(18459, 64).value == 289
    assert parameter_floor(18459, 32).value == 577
    assert parameter_floor(0, 64).value == 0


def test_no_overflow_far_beyond_floats() -> None:
    # 10^400 labels from 10^400 classes: 400 · log2(10) = 1328.77... bits each
    bits = label_bits(10**400, 10**400)
    assert 1328 * 10**400 < bits < 1329 * 10**400


@given(st.integers(1, 10**13), st.integers(1, 10**12), st.integers(1, 10**12))
@examples(200)
def test_more_labels_or_classes_never_need_fewer_bits(n_labels: int, n_classes: int, more: int) -> None:
    assert label_bits(n_labels, n_classes) <= label_bits(n_labels + more, n_classes)
    assert label_bits(n_labels, n_classes) <= label_bits(n_labels, n_classes + more)


@pytest.mark.parametrize(("n_labels", "n_classes"), [(-1, 2), (3, 0)])
def test_impossible_sizes_are_refused(n_labels: int, n_classes: int) -> None:
    with pytest.raises(ImpossibleSize):
        label_bits(n_labels, n_classes)
