"""MFT24's construction by random features and by convex regression, and through the pipeline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.construct.madden_2024.associations import associate
from byheart.construct.madden_2024.context_vectors import draw_mixing, mixed_contexts, with_outputs
from byheart.construct.madden_2024.convex import regress, smallest_width
from byheart.construct.madden_2024.fitted_neurons import ShapedFit, fit_shaped, is_hopeless
from byheart.construct.madden_2024.random_features import draw_neurons, features_of, solve_by_random_features
from byheart.construct.registry import get
from byheart.data.generators import random_tokens, story_openings
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, UsageError
from byheart.network.size import size_of_network
from byheart.program.fewest import find_fewest
from byheart.program.targets import targets_of
from byheart.theorems import checks
from tests.adversarial import ADVERSARIAL
from tests.refusal import refused

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
        kind,
        20,
        targets.contexts.max_len,
        16,
        targets.n_outputs,
        rng,
        activation=activation,
        precision=precision,
    )
    encoded = targets.contexts.pad(front.pad, front.seq_len)
    fit = solve_by_random_features(front, encoded, targets.logits(margin), rng)
    assert fit.network.precision == precision
    assert np.isfinite(fit.condition)
    divergence = targets.divergences(fit.network.compute_logits(encoded))
    assert divergence.max() < most
    # one wrong output weight is seen
    spoilt = fit.network.logits.copy()
    spoilt[:, 0] += 1
    from dataclasses import replace

    assert targets.divergences(replace(fit.network, logits=spoilt).compute_logits(encoded)).max() > 1e-3


@checks("MFT24-L2")
def test_regression_comes_to_the_entropy_with_fewer_neurons_than_contexts() -> None:
    targets = document_targets(n_documents=60, n_vocab=12)
    rng = np.random.default_rng(0)
    front = draw_mixing("attention", 12, targets.contexts.max_len, 16, 12, rng, activation="gelu")
    encoded = targets.contexts.pad(front.pad, front.seq_len)
    features = features_of(draw_neurons(front, mixed_contexts(front, encoded), 64, rng), encoded)
    goal = 0.01 * targets.entropy_nats
    found = smallest_width(features, targets, goal, max_evaluations=800)
    assert found is not None
    assert found.size < len(targets) / 2
    divergence = targets.divergences(features[:, : found.size] @ found.fit.coefficients)
    assert 0 <= targets.gap_nats(divergence) == pytest.approx(found.fit.gap_nats, rel=1e-6)
    assert found.fit.gap_nats <= goal
    # too few neurons are found to be too few, and convexity says so of all output matrices up to twice the size
    few = regress(features[:, :4], targets, goal_nats=goal, max_evaluations=200)
    assert not few.reached
    assert few.excluded_norm > 2 * few.norm
    assert found.narrower is not None
    assert not found.narrower.reached
    assert found.narrower.gap_nats > goal
    # what is excluded is excluded: no output matrix of that size, drawn at random or fitted, has a smaller gap
    other = regress(features[:, :4], targets, goal_nats=0.0, max_evaluations=400)
    assert other.norm < few.excluded_norm
    assert other.gap_nats > goal
    # and a goal that can be met is not excluded
    assert regress(features[:, :4], targets, goal_nats=1.01 * other.gap_nats, max_evaluations=400).reached


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_documents_compile_save_load_and_verify(method: str, precision: str, tmp_path: Path) -> None:
    data = documents(50, 12, 6, seed=1)
    model = bh.compile(data, method=method, precision=precision)
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
    best = again.memoriser.network.compute_logits(again.memoriser.encode(contexts.as_sequences()))
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
    memoriser = bh.compile(data, method="madden-2024", precision="float64").memoriser
    network = memoriser.network
    logits = network.logits.copy()
    logits[3, 2] += 1
    certificate = verify(replace(memoriser, network=replace(network, logits=logits)), data)
    assert not certificate.holds
    assert certificate.wrong > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_size_is_told_beforehand(method: str) -> None:
    data = documents(50, 12, 6, seed=1)
    built = get(method).build(data, {"precision": "float64"}, np.random.default_rng(0), None)
    planned, size = get(method).estimate(DataShape.of(data)), size_of_network(built.memoriser.network)
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
        model = bh.compile(data, method="madden-2024", precision="float64", **options)
        assert model.predict(["capital of Peru", "capital of France"]) == ["Lima", "Paris"]


@pytest.mark.slow
def test_few_shaped_neurons_do_what_many_random_ones_do() -> None:
    targets = document_targets(n_documents=60, n_vocab=12)
    front = draw_mixing(
        "attention", 12, targets.contexts.max_len, 16, 12, np.random.default_rng(0), activation="gelu"
    )
    encoded = targets.contexts.pad(front.pad, front.seq_len)
    goal = 0.01 * targets.entropy_nats

    def fit(n_neurons: int) -> ShapedFit:
        return fit_shaped(
            front,
            encoded,
            targets,
            n_neurons,
            np.random.default_rng(1),
            goal_nats=goal,
            max_evaluations=600,
        )

    found = find_fewest(fit, lambda each: each.fit.reached, 8, 4, most=32)
    assert found is not None
    assert found.narrower is not None
    assert not found.narrower.fit.reached
    shaped = found.fit
    gap = targets.gap_nats(targets.divergences(shaped.decoder.compute_logits(encoded)))
    assert 0 < gap <= goal * (1 + 1e-6)
    neurons = draw_neurons(front, mixed_contexts(front, encoded), found.size, np.random.default_rng(1))
    random = features_of(neurons, encoded)
    assert regress(random, targets, goal_nats=goal, max_evaluations=300).gap_nats > 5 * goal


def test_a_loss_that_falls_fast_enough_is_not_given_up() -> None:
    falling = [0.9**k for k in range(20)]
    assert not is_hopeless(falling, falling[-1] * 0.9**10, 11.0)
    assert is_hopeless(falling, falling[-1] * 0.9**10, 9.0)
    assert is_hopeless([1.0] * 20, 0.5, 1000.0)
    assert not is_hopeless([1.0] * 5, 0.5, 1.0)  # too early to tell


def test_associations_are_stored_by_fewer_neurons_and_all_of_them_settle() -> None:
    rng = np.random.default_rng(0)
    rows = rng.permutation(30**3)[:1500]
    rows = np.stack([rows // 900, rows // 30 % 30, rows % 30], axis=1)
    labels = rng.integers(0, 40, len(rows))
    front = draw_mixing("attention", 30, 3, 16, 40, rng, precision="float32")
    neurons = draw_neurons(front, mixed_contexts(front, rows), 300, rng)
    features = features_of(neurons, rows)
    fit = associate(features, labels, rng, n_outputs=40)
    assert fit.unsettled == 0
    logits = with_outputs(neurons, fit.coefficients).compute_logits(rows)
    assert (logits.argmax(axis=1) == labels).all()
    # ten neurons cannot, and say so
    few = associate(features[:, :10], labels, rng, n_outputs=40, max_passes=5.0)
    assert few.unsettled > 0


@pytest.mark.slow
def test_convex_models_are_judged_by_their_gap() -> None:
    data = documents(60, 12, 6, seed=0)
    given = {"method": "madden-2024", "precision": "float64", "solver": "convex", "activation": "gelu"}
    model = bh.compile(data, hidden_width=16, gap=0.005, **given)
    assert model.certificate is not None
    assert model.certificate.distribution is not None
    found = model.certificate.distribution
    assert found.rule == "total-gap"
    assert found.allowed_gap_percent == 0.5
    assert found.gap_percent is not None
    assert 0 < found.gap_percent <= 0.5
    assert model.network.hidden_width < len(data.contexts())
    with refused(AssumptionViolated, gap=188.57877863181773, goal=1.2298518158847749):
        bh.compile(data, method="madden-2024", precision="float64", solver="convex", hidden_width=3)


def test_wrong_options_are_refused() -> None:
    data = documents(20, 12, 6, seed=1)
    for options in ({"colour": 1}, {"solver": "magic"}, {"solver": "steps", "activation": "gelu"}):
        with pytest.raises(UsageError):
            bh.compile(data, method="madden-2024", precision="float64", **options)


def test_vectors_are_refused() -> None:
    from byheart.data.generators import uniform_vectors

    with pytest.raises(AssumptionViolated):
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
        encoded = targets.contexts.pad(front.pad, 9)
        fit = solve_by_random_features(front, encoded, targets.logits(margin), rng)
        assert targets.divergences(fit.network.compute_logits(encoded)).max() < most


def test_contexts_too_close_for_the_precision_are_refused() -> None:
    """Averages of 1 to 12 equal tokens differ too little for float32; float64 keeps them apart."""
    data = ADVERSARIAL["vocabulary-of-one"](0)
    with refused(AssumptionViolated, "wrong"):
        bh.compile(data, method="madden-2024-averaging", precision="float32")
    model = bh.compile(data, method="madden-2024-averaging", precision="float64")
    assert model.certificate is not None
    assert model.certificate.holds


def test_the_stochastic_solver_takes_fewer_contexts_than_neurons() -> None:
    data = random_tokens(20, 3, 12, 3, seed=0)  # it begins with 64 neurons
    model = bh.compile(data, method="madden-2024", precision="float64", solver="stochastic")
    assert model.certificate is not None
    assert model.certificate.holds


def test_the_stochastic_solver_settles_every_label_or_says_how_many_it_did_not() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.permutation(900)[:200]
    data = bh.Dataset.from_arrays(np.stack([numbers // 30, numbers % 30], axis=1), rng.integers(0, 6, 200))
    model = bh.compile(data, method="madden-2024", precision="float64", solver="stochastic")
    assert model.certificate is not None
    assert model.certificate.holds
    assert model.network.hidden_width < 200
    with refused(AssumptionViolated, "unsettled") as caught:
        bh.compile(data, method="madden-2024", precision="float64", solver="stochastic", hidden_width=2)
    assert 0 < caught.value.facts["unsettled"] < 200  # how many exactly depends on the processor's rounding
    with pytest.raises(UsageError):
        bh.compile(
            documents(20, 12, 6, seed=1), method="madden-2024", precision="float64", solver="stochastic"
        )


@pytest.mark.parametrize("options", [{}, {"precision": "float32"}, {"solver": "convex"}])
def test_a_text_of_one_context_is_compiled_and_saved(tmp_path: Path, options: dict[str, Any]) -> None:
    data = bh.Dataset.from_documents(["a b", "a c"])
    model = bh.compile(data, method="madden-2024", **options)
    model.save(tmp_path / "model")
    assert bh.verify(bh.load(tmp_path / "model"), data).holds


@checks("MFT24-T5", "MFT24-skip", "MFT24-base")
@pytest.mark.parametrize("solver", ["steps", "random-features", "convex", "stochastic"])
@pytest.mark.parametrize("options", [{"skip": True}, {"base": 2.0}, {"skip": True, "base": 0.5}])
def test_a_skip_connection_and_another_base_are_compiled_saved_and_verified(
    solver: str, options: dict[str, Any], tmp_path: Path
) -> None:
    pairs = [(f"{a}{b}{c}", a + b) for a in "abc" for b in "def" for c in "gh"]
    model = bh.compile(pairs, method="madden-2024", solver=solver, **options)
    assert model.certificate.holds
    model.save(tmp_path / "model")
    again = bh.load(tmp_path / "model")
    assert bh.verify(again, bh.Dataset.from_pairs(pairs)).holds
    assert again.network.spec.has_skip == bool(options.get("skip"))


@checks("MFT24-skip")
def test_the_skip_connection_adds_the_last_token() -> None:
    rng = np.random.default_rng(0)
    front = draw_mixing("attention", 5, 3, 4, 2, rng, n_heads=2)
    encoded = np.array([[5, 1, 2], [0, 3, 4], [5, 5, 0]])
    skipping = replace(front, mixing=replace(front.mixing, has_skip=True))
    last = front.tokens[encoded[:, -1]] + front.positions[[1, 2, 0]]
    np.testing.assert_allclose(
        mixed_contexts(skipping, encoded), mixed_contexts(front, encoded) + last, rtol=1e-14
    )
    neurons = with_outputs(draw_neurons(skipping, mixed_contexts(skipping, encoded), 6, rng), np.eye(6, 2))
    bounds = neurons.bound_logits(encoded)
    assert (np.abs(bounds.value - neurons.compute_logits(encoded)) <= bounds.radius + 1e-12).all()


@checks("MFT24-base")
def test_softmax_to_another_base_takes_its_powers() -> None:
    front = draw_mixing("attention", 4, 3, 1, 2, np.random.default_rng(0), base=2.0)
    context = np.array([[0, 3, 1]])
    x = front.tokens[context[0], 0] + front.positions[:, 0]
    powers = 2.0 ** (x * x[-1])
    assert mixed_contexts(front, context)[0, 0] == pytest.approx((powers * x).sum() / powers.sum(), rel=1e-14)


@pytest.mark.parametrize("base", [1.0, 0.0, -2.0, 17.0, float("nan"), float("inf")])
def test_a_base_that_softmax_cannot_have_is_refused(base: float) -> None:
    with pytest.raises(UsageError):
        bh.compile({"ab": "c", "ba": "d"}, method="madden-2024", base=base)


@pytest.mark.parametrize("options", [{"skip": True}, {"base": 2.0}])
def test_averaging_has_no_options_of_attention(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        bh.compile({"ab": "c", "ba": "d"}, method="madden-2024-averaging", **options)


def test_a_goal_below_the_rounding_error_is_refused_with_random_neurons() -> None:
    data = bh.Dataset.from_documents(["one fish two fish", "red fish blue fish", "one red fish"])
    with refused(AssumptionViolated, "goal", most=64):
        bh.compile(data, method="madden-2024", solver="convex", neurons="random", gap=1e-15)


def test_a_fit_of_more_features_than_contexts_can_start_from_another() -> None:
    targets = document_targets(8)
    features = np.random.default_rng(0).standard_normal((len(targets), len(targets) + 5))
    first = regress(features[:, :-2], targets, goal_nats=1e-3, max_evaluations=5)
    assert len(first.whitened) == len(targets)
    found = regress(features, targets, goal_nats=1e-3, start=first.whitened)
    assert found.reached
    assert len(found.coefficients) == features.shape[1]
