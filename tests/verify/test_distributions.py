"""Distributions are judged by a rule that the caller names, context by context unless asked otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.network.decoder.architecture import Decoder
from byheart.network.memoriser import Memoriser
from byheart.pipeline import load
from byheart.verify.certificate import origin_of
from byheart.verify.verifier import verify


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """1,700 times `x` and something random, and 15 contexts after which one word is certain."""
    rng = np.random.default_rng(0)
    lines = [f"x w{rng.integers(20)}" for _ in range(1700)] + [f"q{i} w{i}" for i in range(1, 16)]
    file = tmp_path_factory.mktemp("texts") / "texts.txt"
    file.write_text("\n".join(lines))
    return Dataset.from_documents(file, tokenizer="word")


@pytest.fixture(scope="module")
def one_neuron(texts: Dataset) -> bh.Model:
    return bh.compile(texts, method="madden-2024", precision="float64", solver="convex", hidden_width=1)


def test_a_model_that_meets_the_total_gap_alone_is_not_called_right(
    one_neuron: bh.Model, texts: Dataset, tmp_path: Path
) -> None:
    certificate = one_neuron.certificate
    assert certificate is not None
    assert (certificate.holds, certificate.fitted, certificate.verdict) == (False, True, "fitted")
    assert certificate.distribution is not None
    assert certificate.distribution.rule == "total-gap"
    assert certificate.wrong >= 14
    assert certificate.distribution.wrong_tokens == 14
    assert f"{certificate.checked} of {certificate.checked}" not in str(certificate)
    assert not verify(one_neuron.memoriser, texts).holds  # by the rule for contexts
    one_neuron.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.certificate == certificate
    assert bh.verify(again, texts).verdict == "DOES NOT HOLD"  # whatever its certificate was judged by
    assert bh.verify(again, texts, rule="total-gap").verdict == "fitted"


def test_the_record_of_a_model_has_no_say_in_the_rule(texts: Dataset) -> None:
    model = bh.compile(texts, method="madden-2024", precision="float64")
    assert model.certificate is not None
    assert (model.certificate.holds, model.certificate.wrong) == (True, 0)
    forged = replace(model, memoriser=_with_one_wrong_context(model.memoriser))
    notes = {**model.record["notes"], "allowed_divergence": None, "allowed_gap": 0.5}
    for record in (model.record, {**model.record, "notes": notes}):
        certificate = verify(forged.memoriser, texts, origin=origin_of(record))
        assert not certificate.holds
        assert certificate.wrong >= 1
        assert certificate.distribution is not None
        assert certificate.distribution.rule == "contexts"
    lax = verify(forged.memoriser, texts, rule="total-gap", allowed_gap=1e9)
    assert lax.distribution is not None
    assert lax.distribution.allowed_gap_percent == 1.0  # no caller may allow more than the paper does


def _with_one_wrong_context(memoriser: Memoriser) -> Memoriser:
    """The last neuron, which belongs to one context, pours its logits into another token."""
    decoder = cast(Decoder, memoriser.network)
    logits = decoder.logits.copy()
    logits[-1] = np.roll(logits[-1], 1)
    return replace(memoriser, network=replace(decoder, logits=logits))


def test_a_successor_that_the_model_has_no_name_for_is_wrong(texts: Dataset) -> None:
    model = bh.compile(texts, method="madden-2024", precision="float64")
    names = tuple("something else" if name == "w3" else name for name in model.memoriser.label_names)
    certificate = verify(replace(model.memoriser, label_names=names), texts)
    assert not certificate.holds
    assert certificate.wrong == 2  # `x`, which w3 may follow, and q3, which it must


def test_logits_are_looked_at_twice(texts: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bh.compile(texts, method="madden-2024", precision="float64")
    assert model.certificate is not None
    assert model.certificate.rechecked_by == "equations"
    assert model.certificate.rechecked_by_interpreter == 8
    compute = Decoder.compute_logits
    monkeypatch.setattr(Decoder, "compute_logits", lambda *args, **options: compute(*args, **options) + 1e-6)
    certificate = verify(model.memoriser, texts)  # the same distributions, so only the second look can tell
    assert certificate.wrong == 0
    assert not certificate.holds
    assert "the module and the equations disagree" in certificate.problems[0]
