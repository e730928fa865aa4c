"""MFT24's sections of the closed forms' benchmark: stories, fewest neurons, training, steps, activations, associations."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from closed_forms_shared import SHARED, Row, random_targets, story_targets, timed

from byheart.construct.madden_2024.associations import associate
from byheart.construct.madden_2024.context_vectors import (
    draw_mixing,
    mixed_contexts,
    with_neurons,
    with_outputs,
)
from byheart.construct.madden_2024.convex import regress, smallest_width
from byheart.construct.madden_2024.fitted_neurons import ShapedFit, fit_shaped
from byheart.construct.madden_2024.random_features import draw_neurons, features_of, solve_by_random_features
from byheart.construct.madden_2024.step_solution import Steps, solve_by_steps
from byheart.errors import AssumptionViolated
from byheart.network.decoder.architecture import Decoder
from byheart.network.decoder.module import DecoderModule
from byheart.program.fewest import find_fewest
from byheart.program.targets import NextTokenTargets

PAPER_STEPS = 50_000
"""Steps of MFT24's training."""

RECORD = Path(__file__).parent / "records" / "closed_forms_h200.jsonl"


def step_logits(steps: Steps) -> np.ndarray:
    """The logits of every context, by sums along the line: what the forward pass gives where it does not round.

    A forward pass over n contexts and n neurons costs n² activations. Each of them is ±1, proved when the steps were
    built, so the logits of neighbours differ by 2 V_k and a running sum gives them all.
    """
    output = steps.decoder.logits.astype(np.float64)
    logits = np.empty((len(steps.order), output.shape[1]))
    first = output[0] - output[1:].sum(axis=0)
    logits[steps.order] = first + np.concatenate(
        [np.zeros((1, output.shape[1])), np.cumsum(2 * output[1:], axis=0)]
    )
    return logits


def measured_steps(rate: float = 1e-4, neurons: int = 64) -> int:
    """Steps after which Adam at the paper's rate is within 1%, as closed_forms_on_device.py counted them on a GPU."""
    rows = [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]
    (steps,) = (
        row["steps_to_1%"]
        for row in rows
        if row.get("section") == "training" and (row["rate"], row["neurons"]) == (rate, neurons)
    )
    assert isinstance(steps, int)
    return steps


def stories(long: bool) -> Iterator[Row]:
    """TinyStories, 100 to 1,000: contexts, vocabulary, entropy beside the paper's; random features at d = 16."""
    with (SHARED / "reference" / "madden_2024_capacity.csv").open(encoding="utf-8") as file:
        reference = {int(row["n_stories"]): row for row in csv.DictReader(file)}
    for n_stories in range(100, 1001, 100):
        targets, vocab = story_targets(n_stories)
        row: Row = {
            "stories": n_stories,
            "contexts": len(targets),
            "contexts_paper": int(reference[n_stories]["n_contexts"]),
            "vocab": vocab,
            "vocab_paper": int(reference[n_stories]["vocab"]),
            "entropy": round(targets.entropy_nats, 3),
            "entropy_paper": float(reference[n_stories]["entropy_nats"]),
        }
        if n_stories == 1000:
            for precision, margin in (("float64", 40.0), ("float32", 22.0)):
                rng = np.random.default_rng(0)
                front, encoded = _front(targets, vocab, rng, precision)
                fit, seconds = timed(
                    lambda: solve_by_random_features(front, encoded, targets.logits(margin), rng)
                )
                found = targets.divergences(fit.network.compute_logits(encoded))
                row |= {f"max_kl_{precision}": float(found.max()), f"seconds_{precision}": round(seconds, 2)}
                row |= {f"neurons_{precision}": fit.network.hidden_width}
        yield row


def _front(
    targets: NextTokenTargets, vocab: int, rng: np.random.Generator, precision: str = "float64"
) -> tuple[Decoder, np.ndarray]:
    front = draw_mixing(
        "attention", vocab, 9, 16, targets.n_outputs, rng, activation="gelu", precision=precision
    )
    return front, targets.contexts.pad(front.pad, 9)


def fewest(long: bool) -> Iterator[Row]:
    """The fewest neurons to a gap of 1% and 0.01% at 1,000 stories: it passes, one fewer does not (same seed, same solver)."""
    targets, vocab = story_targets(1000)
    entropy = targets.entropy_nats
    # where to look first; the search widens a guess that is wrong
    guesses = {0.01: (51, 52), 0.0001: (85, 86)} if not long else {0.01: (32, 64), 0.0001: (64, 128)}
    for share, (low, high) in guesses.items():
        goal = share * entropy

        def fit(n_neurons: int, goal: float = goal) -> ShapedFit:
            rng = np.random.default_rng(0)
            front, encoded = _front(targets, vocab, rng)
            return fit_shaped(front, encoded, targets, n_neurons, rng, goal_nats=goal)

        found, seconds = timed(lambda: find_fewest(fit, lambda each: each.fit.reached, high, low, most=512))
        assert found is not None
        _, encoded = _front(targets, vocab, np.random.default_rng(0))
        shaped = found.fit
        native = targets.gap_nats(targets.divergences(shaped.decoder.compute_logits(encoded)))
        yield {
            "neurons": "shaped",
            "goal_share": share,
            "fewest": found.size,
            "gap_share_native": native / entropy,
            "tried": [
                (width, round(each.fit.gap_nats / entropy, 6), each.fit.reached)
                for width, each in found.tried.items()
            ],
            "seconds": round(seconds, 1),
        }
    if long:
        yield _fewest_random(targets, vocab, 0.01)


def _fewest_random(targets: NextTokenTargets, vocab: int, share: float) -> Row:
    rng = np.random.default_rng(0)
    front, encoded = _front(targets, vocab, rng)
    features = features_of(draw_neurons(front, mixed_contexts(front, encoded), 192, rng), encoded)
    goal = share * targets.entropy_nats
    found, seconds = timed(lambda: smallest_width(features, targets, goal))
    if found is None:
        return {"neurons": "random", "goal_share": share, "fewest": None}
    narrower = found.narrower
    return {
        "neurons": "random",
        "goal_share": share,
        "fewest": found.size,
        "gap_share": found.fit.gap_nats / targets.entropy_nats,
        "narrower_gap_share": None if narrower is None else narrower.gap_nats / targets.entropy_nats,
        "narrower_excluded_norm": None if narrower is None else narrower.excluded_norm,
        "norm": found.fit.norm,
        "seconds": round(seconds, 1),
    }


def training(long: bool) -> Iterator[Row]:
    """Each solver against Adam on a model of the same shape: the paper's rate timed and extrapolated, a tuned rate run to 1%."""
    targets, vocab = story_targets(1000)
    entropy, n_contexts = targets.entropy_nats, len(targets)
    rng = np.random.default_rng(0)
    for way, dim, n_neurons in (
        ("steps", 1, n_contexts),
        ("random features", 16, n_contexts),
        ("convex, random neurons", 16, 384),
        ("convex, shaped neurons", 16, 64),
    ):
        solved, seconds = timed(lambda: _solve(way, targets, vocab, n_neurons))
        gap = targets.gap_nats(
            targets.divergences(solved.compute_logits(targets.contexts.pad(solved.pad, 9)))
        )
        n_steps = 100 if n_neurons > 1000 else 300
        each = _adam(_untrained(targets, vocab, dim, n_neurons, rng), targets, n_steps, 1e-4)["each"]
        yield {
            "way": way,
            "neurons": n_neurons,
            "d": dim,
            "solver_seconds": round(seconds, 3),
            "gap_share": gap / entropy,
            "adam_seconds_a_step": each,
            "adam_steps_timed": n_steps,
            "times_faster_than_50000_steps_EXTRAPOLATED": round(each * PAPER_STEPS / seconds),
            f"times_faster_than_{measured_steps()}_steps_EXTRAPOLATED": round(
                each * measured_steps() / seconds
            ),
        }
    tuned = _adam(_untrained(targets, vocab, 16, 64, rng), targets, 3000, 1e-2, goal=0.01, most_seconds=120.0)
    yield {
        "way": "Adam, tuned rate 1e-2 with cosine decay, run",
        "neurons": 64,
        "d": 16,
        "gap_share": tuned["gap"] / entropy,
        "steps": tuned["steps"],
        "seconds": round(tuned["seconds"], 1),
    }


def _solve(way: str, targets: NextTokenTargets, vocab: int, n_neurons: int) -> Decoder:
    rng = np.random.default_rng(0)
    if way == "steps":
        for _ in range(8):
            front = draw_mixing("attention", vocab, 9, 1, targets.n_outputs, rng)
            try:
                return solve_by_steps(front, targets.contexts.pad(vocab, 9), targets.logits(40.0)).decoder
            except AssumptionViolated:
                continue
    front, encoded = _front(targets, vocab, rng)
    if way == "random features":
        return solve_by_random_features(front, encoded, targets.logits(40.0), rng).network
    goal = 0.01 * targets.entropy_nats
    if way == "convex, random neurons":
        neurons = draw_neurons(front, mixed_contexts(front, encoded), n_neurons, rng)
        fit = regress(features_of(neurons, encoded), targets, goal_nats=goal)
        return with_outputs(neurons, fit.coefficients)
    return fit_shaped(front, encoded, targets, n_neurons, rng, goal_nats=goal).decoder


def _untrained(
    targets: NextTokenTargets, vocab: int, dim: int, n_neurons: int, rng: np.random.Generator
) -> Decoder:
    """A decoder as the paper initialises it: Gaussian embeddings, layers uniform within 1/√fan_in."""
    front = draw_mixing(
        "attention", vocab, 9, dim, targets.n_outputs, rng, activation="gelu", precision="float32"
    )
    hidden = rng.uniform(-1, 1, (dim + 1, n_neurons)) / np.sqrt(dim)
    outputs = rng.uniform(-1, 1, (n_neurons, targets.n_outputs)) / np.sqrt(n_neurons)
    return with_neurons(front, hidden[:dim], hidden[dim], outputs)


def _adam(
    decoder: Decoder,
    targets: NextTokenTargets,
    n_steps: int,
    rate: float,
    *,
    goal: float = 0.0,
    most_seconds: float = float("inf"),
) -> Row:
    """Full-batch Adam on the sum of cross-entropies over distinct contexts; rates from 1e-3 on decay by a cosine."""
    module = DecoderModule(decoder)
    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    ids = torch.from_numpy(np.array(targets.contexts.pad(decoder.pad, 9)))
    mass = torch.from_numpy(targets.counts[targets.rows] * targets.probabilities).float()
    flat = torch.from_numpy(targets.rows * targets.n_outputs + targets.next_tokens)
    entropy = targets.entropy_nats
    start, step, loss_now = time.perf_counter(), 0, float("inf")
    while step < n_steps and time.perf_counter() - start < most_seconds and loss_now > (1 + goal) * entropy:
        if rate >= 1e-3:
            for group in optimiser.param_groups:
                group["lr"] = rate * 0.5 * (1 + np.cos(np.pi * step / n_steps))
        optimiser.zero_grad()
        loss = -(mass * torch.log_softmax(module(ids), dim=1).view(-1)[flat]).sum()
        loss.backward()
        optimiser.step()
        step, loss_now = step + 1, float(loss.detach())
    seconds = time.perf_counter() - start
    return {"each": seconds / step, "steps": step, "seconds": seconds, "gap": loss_now - entropy}


def steps(long: bool) -> Iterator[Row]:
    """The step solution on random contexts: all by the native pass up to 20,000 (10⁶ on a GPU), all by running sums beyond."""
    cases = [(20_000, True), (100_000, long), (1_000_000, False)]
    for n_contexts, natively in cases:
        for kind in ("attention", "averaging"):
            targets = random_targets(n_contexts, 64, 6, 16, 0)
            rng = np.random.default_rng(0)
            problem = ""
            for _ in range(8):
                front = draw_mixing(kind, 64, 6, 1, 16, rng)
                encoded = targets.contexts.pad(front.pad, 6)
                try:
                    found, seconds = timed(lambda: solve_by_steps(front, encoded, targets.logits(40.0)))
                    break
                except AssumptionViolated as error:
                    problem = str(error)
            else:
                yield {"contexts": n_contexts, "kind": kind, "refused": problem}
                continue
            some = np.arange(n_contexts) if natively else rng.integers(0, n_contexts, 50)
            native, checking = timed(lambda: found.decoder.compute_logits(encoded[some]))
            every = targets.divergences(step_logits(found))
            yield {
                "contexts": n_contexts,
                "kind": kind,
                "build_seconds": round(seconds, 3),
                "max_kl_running_sums": float(every.max()),
                "checked_natively": len(some),
                "native_equal": bool((native == found.targets[some]).all()),
                "native_seconds": round(checking, 1),
                "min_gap": found.injectivity.min_gap,
            }


def activations(long: bool, n_contexts: int = 5000) -> Iterator[Row]:
    """Random features at d = 16 and n = 5,000 for three activations, attention and averaging."""
    targets = random_targets(n_contexts, 200, 8, 100, 1)
    for activation in ("tanh", "gelu", "arctan"):
        for kind in ("attention", "averaging"):
            rng = np.random.default_rng(0)
            front = draw_mixing(kind, 200, 8, 16, 100, rng, activation=activation)
            encoded = targets.contexts.pad(front.pad, 8)
            fit, seconds = timed(lambda: solve_by_random_features(front, encoded, targets.logits(40.0), rng))
            found = targets.divergences(fit.network.compute_logits(encoded))
            yield {
                "activation": activation,
                "kind": kind,
                "contexts": n_contexts,
                "max_kl": float(found.max()),
                "condition": fit.condition,
                "seconds": round(seconds, 1),
            }


def associations(long: bool) -> Iterator[Row]:
    """Random associations over 1,000 tokens by convex regression on the CPU; `--long`: as many as two minutes allow."""
    seconds_of: dict[int, float] = {}
    for n_contexts in (20_000,):
        row = _associated(n_contexts)
        seconds_of[n_contexts] = row["seconds"]
        yield row
    if long:  # time grows as n·m ~ n²; aim at 100 s, to end within 120
        n_contexts = min(100_000, int(20_000 * (100 / seconds_of[20_000]) ** 0.5) // 1000 * 1000)
        yield _associated(n_contexts)


def _associated(n_contexts: int) -> Row:
    rng = np.random.default_rng(0)
    rows = np.unique(rng.integers(0, 1000, (int(1.01 * n_contexts), 3)), axis=0)[:n_contexts]
    labels = rng.integers(0, 1000, n_contexts)
    n_neurons = n_contexts // 50

    def store() -> tuple[Decoder, Any]:
        front = draw_mixing("attention", 1000, 3, 16, 1000, rng, precision="float32")
        neurons = draw_neurons(front, mixed_contexts(front, rows), n_neurons, rng)
        fit = associate(features_of(neurons, rows), labels, rng, n_outputs=1000)
        return with_outputs(neurons, fit.coefficients), fit

    (decoder, fit), seconds = timed(store)
    right = decoder.compute_logits(rows).argmax(axis=1) == labels
    return {
        "associations": n_contexts,
        "neurons": n_neurons,
        "accuracy_native": float(right.mean()),
        "passes": round(fit.passes, 1),
        "seconds": round(seconds, 1),
    }
