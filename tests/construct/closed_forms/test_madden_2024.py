"""MFT24's construction by random features and by convex regression, and through the pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.construct.madden_2024.convex import regress, smallest_width
from byheart.construct.madden_2024.mixing import draw_mixing, mixed_contexts, with_neurons
from byheart.construct.madden_2024.random_features import draw_neurons, features_of, solve_by_random_features
from byheart.construct.madden_2024.targets import targets_of
from byheart.construct.registry import get
from byheart.data.documents import story_openings
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.counting import size_of_network
from byheart.network.decoder_module import decoder_logits
from byheart.theorems import checks

from .story_data import document_targets, documents

METHODS = ("madden-2024", "madden-2024-averaging")


@checks("MFT24-algorithm", "MFT24-T5", "MFT24-T7")
@pytest.mark.parametrize("activation", ["tanh", "gelu", "arctan"])
@pytest.mark.parametrize("kind", ["attention", "averaging"])
@pytest.mark.parametrize(("precision", "margin", "most"), [("float64", 40.0, 1e-12), ("float32", 22.0, 1e-5)])
def test_random_features_reach_every_distribution(
    activation: str, kind: str, precision: str, margin: float, most: float
) -> None:
    targets = document_targets(n_documents=120, n_vocab=20)
    rng = np.random.default_rng(0)
    front = draw_mixing(
        kind,  # type: ignore[arg-type]
        20,
        targets.contexts.max_len,
        16,
        targets.n_outputs,
        rng,
        activation=activation,  # type: ignore[arg-type]
        precision=precision,
    )
    encoded = targets.contexts.padded(front.pad, front.seq_len)
    fit = solve_by_random_features(front, encoded, targets.logits(margin), rng)
    assert fit.decoder.precision == precision
    assert np.isfinite(fit.condition)
    divergence = targets.divergences(decoder_logits(fit.decoder, encoded))
    assert divergence.max() < most
    # one wrong output weight is seen
    spoilt = fit.decoder.logits.copy()
    spoilt[:, 0] += 1
    from dataclasses import replace

    assert targets.divergences(decoder_logits(replace(fit.decoder, logits=spoilt), encoded)).max() > 1e-3


@checks("MFT24-L2")
def test_regression_comes_to_the_entropy_with_fewer_neurons_than_contexts() -> None:
    targets = document_targets(n_documents=150, n_vocab=12)
    rng = np.random.default_rng(0)
    front = draw_mixing("attention", 12, targets.contexts.max_len, 16, 12, rng, activation="gelu")
    encoded = targets.contexts.padded(front.pad, front.seq_len)
    hidden, bias = draw_neurons(front, mixed_contexts(front, encoded), 128, rng)
    features = features_of(with_neurons(front, hidden, bias, np.zeros((128, 12))), encoded)
    goal = 0.01 * targets.entropy_nats
    found = smallest_width(features, targets, goal, max_evaluations=800)
    assert found is not None
    assert found.n_neurons < len(targets) / 2
    divergence = targets.divergences(features[:, : found.n_neurons] @ found.fit.coefficients)
    assert 0 <= targets.gap_nats(divergence) == pytest.approx(found.fit.gap_nats, rel=1e-6)
    assert found.fit.gap_nats <= goal
    assert (found.n_neurons - 1, False) in [(width, reached) for width, _, reached in found.tried]
    # too few neurons are found to be too few
    assert not regress(features[:, :4], targets, goal_nats=goal, max_evaluations=200).reached


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_documents_compile_save_load_and_verify(method: str, precision: str, tmp_path: Path) -> None:
    data = documents(50, 12, 6, seed=1)
    model = bh.compile(data, method=method, precision=precision)  # type: ignore[arg-type]
    certificate = model.certificate
    assert certificate is not None
    assert certificate.distribution is not None
    assert certificate.holds
    assert certificate.checked == len(data.contexts())
    found = certificate.distribution
    assert found.max_divergence < (1e-12 if precision == "float64" else 1e-5)
    assert found.entropy_nats == pytest.approx(data.contexts().entropy_nats)
    assert found.gap_percent == pytest.approx(100 * found.gap_nats / found.entropy_nats)
    assert found.loss_nats == pytest.approx(found.entropy_nats + found.gap_nats)
    model.save(tmp_path / "model")
    again = bh.load(tmp_path / "model")
    assert again.certificate == certificate
    contexts = data.contexts()
    expected = [
        int(contexts.next_tokens[a:b][np.argmax(contexts.next_counts[a:b])])
        for a, b in zip(contexts.offsets[:-1], contexts.offsets[1:], strict=True)
    ]
    asked = [contexts[i].tolist() for i in range(len(contexts))]
    best = again.memory.logits(again.memory.encode(contexts.as_sequences()))
    for row, first in zip(best, expected, strict=True):
        assert row[first] >= row.max() - 1e-2  # equal counts are told apart by rounding alone
    assert len(again.predict(asked)) == len(asked)
    assert sum(p.numel() for p in again.module.parameters()) == again.size.parameters_dense


@pytest.mark.parametrize("method", METHODS)
def test_other_documents_do_not_verify(method: str) -> None:
    data = documents(50, 12, 6, seed=1)
    model = bh.compile(data, method=method, precision="float64")
    certificate = bh.verify(model, documents(50, 12, 6, seed=2))
    assert not certificate.holds
    assert certificate.wrong > 0
    assert certificate.wrong_samples


def test_a_changed_weight_is_found_by_the_divergence_alone() -> None:
    from dataclasses import replace

    from byheart.verify.verifier import verify

    data = documents(50, 12, 6, seed=1)
    memory = bh.compile(data, method="madden-2024", precision="float64").memory
    network = memory.network
    logits = network.logits.copy()  # type: ignore[union-attr]
    logits[3, 2] += 1
    certificate = verify(replace(memory, network=replace(network, logits=logits)), data)  # type: ignore[type-var]
    assert not certificate.holds
    assert certificate.wrong > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_size_is_foretold(method: str) -> None:
    data = documents(50, 12, 6, seed=1)
    built = get(method).build(data, {"precision": "float64"}, np.random.default_rng(0), None)
    assert built.statistics is not None
    planned, size = get(method).size_of(built.statistics), size_of_network(built.memory.network)
    assert (planned.parameters_dense, planned.depth, planned.width) == (
        size.parameters_dense,
        size.depth,
        size.width,
    )
    assert built.theorem_size is not None
    assert built.theorem_size.parameters == size.parameters_dense  # Theorem 5 and 7 at m = n, d = 1


def test_facts_are_labels_with_a_margin() -> None:
    data = bh.Dataset.from_pairs(
        [("capital of France", "Paris"), ("capital of Peru", "Lima")], tokenizer="word"
    )
    for options in (
        {},
        {"solver": "random-features", "activation": "arctan"},
        {"solver": "convex", "hidden_width": 2},
    ):
        model = bh.compile(data, method="madden-2024", precision="float64", **options)  # type: ignore[arg-type]
        assert model.predict(["capital of Peru", "capital of France"]) == ["Lima", "Paris"]


def test_convex_models_are_judged_by_their_gap() -> None:
    data = documents(150, 12, 6, seed=0)
    model = bh.compile(
        data, method="madden-2024", precision="float64", solver="convex", activation="gelu", gap=0.005
    )
    assert model.certificate is not None
    assert model.certificate.distribution is not None
    found = model.certificate.distribution
    assert found.allowed_divergence is None
    assert found.allowed_gap_percent == 0.5
    assert found.gap_percent is not None
    assert 0 < found.gap_percent <= 0.5
    assert model.network.hidden_width < len(data.contexts())  # type: ignore[union-attr]
    with pytest.raises(AssumptionViolated, match="gap"):
        bh.compile(data, method="madden-2024", precision="float64", solver="convex", hidden_width=3)


def test_wrong_options_are_refused() -> None:
    data = documents(20, 12, 6, seed=1)
    for options, words in (
        ({"colour": 1}, "colour"),
        ({"solver": "magic"}, "magic"),
        ({"solver": "steps", "activation": "gelu"}, "saturates"),
    ):
        with pytest.raises(UsageError, match=words):
            bh.compile(data, method="madden-2024", precision="float64", **options)  # type: ignore[arg-type]


def test_vectors_are_refused() -> None:
    from byheart.data.generators import uniform_vectors

    with pytest.raises(AssumptionViolated, match="vectors"):
        bh.compile(uniform_vectors(5, 3, 4, seed=0), method="madden-2024", precision="float64")


@pytest.mark.slow
def test_a_hundred_stories(shared_data: Path) -> None:
    lines = (shared_data / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    data = story_openings([json.loads(line)["text"] for line in lines], 100)
    targets = targets_of(data)
    rng = np.random.default_rng(0)
    for precision, margin, most in (("float64", 40.0, 1e-12), ("float32", 22.0, 1e-5)):
        front = draw_mixing(
            "attention",
            data.vocab or 0,
            9,
            16,
            targets.n_outputs,
            rng,
            activation="gelu",
            precision=precision,
        )
        encoded = targets.contexts.padded(front.pad, 9)
        fit = solve_by_random_features(front, encoded, targets.logits(margin), rng)
        assert targets.divergences(decoder_logits(fit.decoder, encoded)).max() < most
