"""Distributions are judged by a rule that the caller names, context by context unless asked otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.network.decoder.architecture import Decoder
from byheart.network.memoriser import Memoriser
from byheart.pipeline import load
from byheart.verify import distributions
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
    """The last neuron, which belongs to one context, gives its logits to another token."""
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
    assert not any("inf" in str(sample.reason).split() for sample in certificate.wrong_samples)


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
    assert "disagree" in certificate.problems[0]


# --- numbers, and contexts one by one ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def few() -> Dataset:
    """Five contexts: after `a` two words may follow, after the others one; the last context is long."""
    lines = ["a x", "a y", "a y", "b x", "c z", f"d {'long' * 20} x"]
    return Dataset.from_documents(lines, tokenizer="word")


@pytest.fixture(scope="module")
def of_few(few: Dataset) -> Memoriser:
    return bh.compile(few, method="madden-2024", precision="float64").memoriser


def with_logits(monkeypatch: pytest.MonkeyPatch, change: Callable[[np.ndarray], None]) -> None:
    """The decoder computes other logits than it should, by the module and by the equations alike."""
    compute, bound = Decoder.compute_logits, Decoder.bound_logits

    def changed(*arguments: Any, **options: Any) -> np.ndarray:
        logits = compute(*arguments, **options).copy()
        change(logits)
        return logits

    monkeypatch.setattr(Decoder, "compute_logits", changed)
    monkeypatch.setattr(
        Decoder, "bound_logits", lambda *arguments: replace(bound(*arguments), radius=np.float64(np.inf))
    )


def test_loss_gap_and_mean_belong_together(
    few: Dataset, of_few: Memoriser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_logits(monkeypatch, lambda logits: logits.__imul__(0.01))
    judged = verify(of_few, few).distribution
    assert judged is not None
    assert judged.gap_nats > 1
    assert judged.entropy_nats == pytest.approx(3 * np.log(3) - 2 * np.log(2))  # of x, y, y alone
    assert judged.loss_nats == judged.entropy_nats + judged.gap_nats
    assert judged.mean_divergence == judged.gap_nats / 7
    assert judged.gap_percent == 100 * judged.gap_nats / judged.entropy_nats
    assert judged.mean_divergence < judged.max_divergence < judged.gap_nats


def test_without_entropy_there_is_no_share_of_it() -> None:
    sure = Dataset.from_documents(["a x", "b y"], tokenizer="word")
    model = bh.compile(sure, method="madden-2024", precision="float64")
    judged = verify(model.memoriser, sure, rule="total-gap", allowed_gap=0.004).distribution
    assert judged is not None
    assert (judged.entropy_nats, judged.gap_percent) == (0, None)
    assert judged.allowed_gap_percent == pytest.approx(0.4)


def test_a_context_may_diverge_by_what_is_allowed(
    few: Dataset, of_few: Memoriser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def favour_x(logits: np.ndarray) -> None:
        logits[0, few.label_names.index("x")] += 0.1

    with_logits(monkeypatch, favour_x)
    certificate = verify(of_few, few)
    assert certificate.distribution is not None
    assert certificate.wrong == 1
    (wrong,) = certificate.wrong_samples
    assert (wrong.number, wrong.input, wrong.expected) == (1, "'a'", "y")
    found = certificate.distribution.max_divergence
    monkeypatch.setattr(distributions, "ALLOWED_DIVERGENCE", found)
    assert verify(of_few, few).holds
    monkeypatch.setattr(distributions, "ALLOWED_DIVERGENCE", np.nextafter(found, 0))
    assert verify(of_few, few).wrong == 1


@pytest.mark.parametrize("row", range(5))
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_context_whose_logits_are_not_finite_is_wrong(
    few: Dataset, of_few: Memoriser, monkeypatch: pytest.MonkeyPatch, row: int, value: float
) -> None:
    def spoil(logits: np.ndarray) -> None:
        logits[row, 0] = value

    with_logits(monkeypatch, spoil)
    certificate = verify(of_few, few)
    assert [sample.input for sample in certificate.wrong_samples] == [
        ["'a'", "'b'", "'c'", "'d'", repr(f"d {'long' * 20}"[:60])][row]
    ]
    assert certificate.distribution is not None
    assert np.isfinite(certificate.distribution.loss_nats)  # as JSON has no infinity
    assert "not finite" in str(certificate.wrong_samples[0].reason)


@pytest.mark.parametrize(
    ("lines", "inputs"),
    [
        (["q x", "a x", "a y", "a y", "b x"], ["'q'"]),
        (["a x", "a y", "a y", "q x", "b x", "r x"], ["'q'", "'r'"]),
        (["q x", "r z"], ["'q'", "'r'"]),
        (["a w", "b x", "c z"], ["'a'"]),
        (["b x", "c w", "a x", "a y", "a y"], ["'c'"]),
    ],
)
def test_contexts_that_cannot_be_asked_are_wrong_and_no_others(
    of_few: Memoriser, lines: list[str], inputs: list[str]
) -> None:
    certificate = verify(of_few, Dataset.from_documents(lines, tokenizer="word"))
    assert sorted(sample.input for sample in certificate.wrong_samples) == inputs
    assert certificate.wrong == len(inputs)
    n_asked = certificate.checked - len(
        [sample for sample in certificate.wrong_samples if "diverges" not in (sample.reason or "diverges")]
    )
    assert certificate.rechecked_by_interpreter == n_asked


@pytest.mark.parametrize(("share", "agrees"), [(1.5, True), (2.5, False)])
def test_two_evaluators_may_differ_by_two_bounds_on_rounding(
    few: Dataset, of_few: Memoriser, monkeypatch: pytest.MonkeyPatch, share: float, agrees: bool
) -> None:
    compute = Decoder.compute_logits
    decoder = cast(Decoder, of_few.network)

    def shifted(self: Decoder, encoded: np.ndarray, **options: Any) -> np.ndarray:
        return compute(self, encoded, **options) + share * decoder.bound_logits(encoded).radius

    monkeypatch.setattr(Decoder, "compute_logits", shifted)
    certificate = verify(of_few, few)
    assert certificate.wrong == 0
    assert len(certificate.problems) == (0 if agrees else 5)
    assert certificate.rechecked_by_interpreter == 5
