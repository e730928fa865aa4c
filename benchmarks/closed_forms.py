"""One-layer closed forms: solvers against training, steps, bigrams, ranks, encoders.

    python benchmarks/closed_forms.py [SECTION ...]

Sections: stories, training, steps, activations, bigrams, compact, ranks, encoders, associations (all of them by
default). Prints a table a section and writes out/closed_forms.json. Needs ../shared/data for the stories.
"""

from __future__ import annotations

import csv
import json
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from byheart.construct.dana_2024.compact import fit_compact
from byheart.construct.dana_2024.encoders import association_encoder, best_encoder, rank_lower_bound
from byheart.construct.dana_2024.solving import interpolate
from byheart.construct.madden_2024.convex import regress, smallest_width
from byheart.construct.madden_2024.mixing import draw_mixing, mixed_contexts, with_neurons
from byheart.construct.madden_2024.random_features import draw_neurons, features_of, solve_by_random_features
from byheart.construct.madden_2024.steps import solve_by_steps, step_logits
from byheart.construct.madden_2024.targets import Targets, sequences_from_rows, targets_of
from byheart.construct.ranks import certified_determinant, polynomial_rank
from byheart.construct.single_thread import single_thread
from byheart.data.documents import story_openings
from byheart.network.attention_only_module import attention_only_logits
from byheart.network.decoder_module import decoder_logits, to_decoder_module

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Row = dict[str, Any]


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def story_targets(n_stories: int) -> tuple[Targets, int]:
    lines = (SHARED / "data" / "tinystories.jsonl").read_text(encoding="utf-8").splitlines()
    data = story_openings([json.loads(line)["text"] for line in lines], n_stories)
    return targets_of(data), data.vocab or 0


def random_targets(n_contexts: int, n_vocab: int, seq_len: int, n_outputs: int, seed: int) -> Targets:
    """Distinct random contexts with one to three continuations each."""
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, n_vocab, (int(n_contexts * 1.05) + 10, seq_len)), axis=0)
    rows = rows[rng.permutation(len(rows))[:n_contexts]]
    n_next = rng.integers(1, 4, n_contexts)
    entries = np.repeat(np.arange(n_contexts), n_next)
    place = np.arange(len(entries)) - np.repeat(np.cumsum(n_next) - n_next, n_next)
    tokens = (rng.integers(0, n_outputs, n_contexts)[entries] + place * 3) % n_outputs
    counts = rng.integers(1, 5, len(entries))
    totals = np.bincount(entries, weights=counts).astype(np.int64)
    return Targets(
        sequences_from_rows(rows, n_vocab), totals, entries, tokens, counts / totals[entries], n_outputs
    )


def stories() -> Iterator[Row]:
    """TinyStories, 100 to 1,000: contexts and entropy beside the paper's, random features, fewest neurons."""
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
        if n_stories in (100, 1000):
            for precision, margin in (("float64", 40.0), ("float32", 22.0)):
                rng = np.random.default_rng(0)
                front = draw_mixing(
                    "attention", vocab, 9, 16, targets.n_outputs, rng, activation="gelu", precision=precision
                )
                encoded = targets.contexts.padded(front.pad, 9)
                fit, seconds = timed(
                    lambda: solve_by_random_features(front, encoded, targets.logits(margin), rng)  # noqa: B023
                )
                found = targets.divergences(decoder_logits(fit.decoder, encoded))
                row |= {f"max_kl_{precision}": float(found.max()), f"seconds_{precision}": round(seconds, 2)}
                row |= {
                    f"neurons_{precision}": fit.decoder.hidden_width,
                    f"condition_{precision}": fit.condition,
                }
            for share in (0.01, 0.0001):
                row |= _fewest(targets, vocab, share)
        yield row


def _fewest(targets: Targets, vocab: int, share: float) -> Row:
    rng = np.random.default_rng(0)
    front = draw_mixing("attention", vocab, 9, 16, targets.n_outputs, rng, activation="gelu")
    encoded = targets.contexts.padded(front.pad, 9)
    hidden, bias = draw_neurons(front, mixed_contexts(front, encoded), 128, rng)
    features = features_of(with_neurons(front, hidden, bias, np.zeros((128, targets.n_outputs))), encoded)
    goal = share * targets.entropy_nats
    found, seconds = timed(
        lambda: smallest_width(features, targets, goal, max_evaluations=2000, device=DEVICE)
    )
    if found is None:
        return {f"neurons_at_{share:.2%}": None}
    width = found.n_neurons
    decoder = with_neurons(front, hidden[:, :width], bias[:width], found.fit.coefficients)
    gap = targets.gap_nats(targets.divergences(decoder_logits(decoder, encoded)))
    return {
        f"neurons_at_{share:.2%}": width,
        f"gap_at_{share:.2%}": gap / targets.entropy_nats,
        f"bisection_seconds_{share:.2%}": round(seconds, 1),
    }


def training(n_steps: int = 30) -> Iterator[Row]:
    """The same decoder trained by the paper's Adam (time of 50,000 steps extrapolated) and with a tuned rate, and solved."""
    targets, vocab = story_targets(1000)
    entropy = targets.entropy_nats
    rng = np.random.default_rng(0)
    front = draw_mixing(
        "attention", vocab, 9, 16, targets.n_outputs, rng, activation="gelu", precision="float32"
    )
    encoded = targets.contexts.padded(front.pad, 9)
    steps_front = draw_mixing("attention", vocab, 9, 1, targets.n_outputs, np.random.default_rng(0))
    solved, seconds = timed(
        lambda: solve_by_steps(steps_front, targets.contexts.padded(vocab, 9), targets.logits(40.0))
    )
    gap = targets.gap_nats(targets.divergences(decoder_logits(solved.decoder, encoded)))
    yield {"way": "steps (float64)", "neurons": len(targets), "seconds": seconds, "gap_share": gap / entropy}
    step_seconds = seconds
    fit, seconds = timed(lambda: solve_by_random_features(front, encoded, targets.logits(22.0), rng))
    gap = targets.gap_nats(targets.divergences(decoder_logits(fit.decoder, encoded)))
    yield {
        "way": "random features (float32)",
        "neurons": fit.decoder.hidden_width,
        "seconds": seconds,
        "gap_share": gap / entropy,
    }
    for width in (64, 512):
        hidden, bias = draw_neurons(front, mixed_contexts(front, encoded), width, rng)
        decoder = with_neurons(front, hidden, bias, 0.01 * rng.standard_normal((width, targets.n_outputs)))
        if width == 64:
            features = features_of(decoder, encoded)
            found, seconds = timed(
                lambda: regress(features, targets, goal_nats=1e-4 * entropy, max_evaluations=2000)  # noqa: B023
            )
            yield {
                "way": "convex",
                "neurons": width,
                "seconds": seconds,
                "gap_share": found.gap_nats / entropy,
                "evaluations": found.evaluations,
            }
        each, gap = _adam(decoder, targets, encoded, n_steps, 1e-4)
        yield {
            "way": "Adam 1e-4, 50,000 steps (extrapolated)",
            "neurons": width,
            "seconds": each * 50_000,
            "gap_share_after_timed_steps": gap / entropy,
            "steps_timed": n_steps,
            "times_steps_solver": each * 50_000 / step_seconds,
        }
    each, gap = _adam(decoder, targets, encoded, 20 * n_steps, 1e-2)
    yield {
        "way": f"Adam 1e-2, {20 * n_steps} steps",
        "neurons": width,
        "seconds": each * 20 * n_steps,
        "gap_share": gap / entropy,
    }


def _adam(
    decoder: Any, targets: Targets, encoded: np.ndarray, n_steps: int, rate: float
) -> tuple[float, float]:
    """Seconds a step and the gap at the end; the loss is weighted over distinct contexts, the same gradient."""
    module = to_decoder_module(decoder)
    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    ids = torch.from_numpy(np.array(encoded))
    mass = torch.from_numpy(targets.counts[targets.rows] * targets.probabilities).float()
    rows, columns = torch.from_numpy(np.array(targets.rows)), torch.from_numpy(np.array(targets.next_tokens))
    start = time.perf_counter()
    for step in range(n_steps):
        for group in optimiser.param_groups:
            group["lr"] = rate if rate < 1e-3 else rate * 0.5 * (1 + np.cos(np.pi * step / n_steps))
        optimiser.zero_grad()
        loss = -(mass * torch.log_softmax(module(ids), dim=1)[rows, columns]).sum()
        loss.backward()
        optimiser.step()
    seconds = (time.perf_counter() - start) / n_steps
    with torch.no_grad():
        return seconds, targets.gap_nats(targets.divergences(module(ids).numpy()))


def steps(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> Iterator[Row]:
    """The step solution on random contexts, every one of them checked; some of them by the native pass as well."""
    for n_contexts in sizes:
        for kind in ("attention", "averaging"):
            targets = random_targets(n_contexts, 64, 6, 16, 0)
            rng = np.random.default_rng(0)
            for _ in range(8):
                front = draw_mixing(kind, 64, 6, 1, 16, rng)  # type: ignore[arg-type]
                encoded = targets.contexts.padded(front.pad, 6)
                try:
                    found, seconds = timed(
                        lambda: solve_by_steps(front, encoded, targets.logits(40.0))  # noqa: B023
                    )
                except Exception as error:
                    problem = str(error)
                    continue
                every, checking = timed(lambda: targets.divergences(step_logits(found)))  # noqa: B023
                some = rng.integers(0, n_contexts, 20)
                native = decoder_logits(found.decoder, encoded[some])
                yield {
                    "contexts": n_contexts,
                    "kind": kind,
                    "seconds": round(seconds, 3),
                    "check_seconds": round(checking, 3),
                    "max_kl": float(every.max()),
                    "checked": len(every),
                    "native_equal": bool((native == found.targets[some]).all()),
                    "min_gap": found.injectivity.min_gap,
                    "grid_bits": found.grid_bits,
                }
                break
            else:
                yield {"contexts": n_contexts, "kind": kind, "refused": problem}


def activations(n_contexts: int = 5000) -> Iterator[Row]:
    """Random features at d = 16 for three activations, attention and averaging."""
    targets = random_targets(n_contexts, 200, 8, 100, 1)
    for activation in ("tanh", "gelu", "arctan"):
        for kind in ("attention", "averaging"):
            rng = np.random.default_rng(0)
            front = draw_mixing(kind, 200, 8, 16, 100, rng, activation=activation)  # type: ignore[arg-type]
            encoded = targets.contexts.padded(front.pad, 8)
            fit, seconds = timed(
                lambda: solve_by_random_features(front, encoded, targets.logits(40.0), rng)  # noqa: B023
            )
            found = targets.divergences(decoder_logits(fit.decoder, encoded))
            yield {
                "activation": activation,
                "kind": kind,
                "contexts": n_contexts,
                "max_kl": float(found.max()),
                "condition": fit.condition,
                "seconds": round(seconds, 1),
            }


def _bigrams(n_tokens: int) -> np.ndarray:
    return np.stack(np.meshgrid(range(n_tokens), range(n_tokens), indexing="ij"), -1).reshape(-1, 2)


def bigrams() -> Iterator[Row]:
    """Attention-only at equality H·d_h + d = T for 2,500 sequences."""
    cases = [(2, 2, 2), (2, 10, 10), (16, 2, 1), (16, 10, 10), (64, 2, 1), (64, 10, 10)]
    for seq_len, dim, head_dim in cases:
        for precision in ("float64", "float32"):
            rng = np.random.default_rng(0)
            ids = _bigrams(50) if seq_len == 2 else rng.integers(0, 50, (2500, seq_len))
            labels = rng.integers(0, 50, len(ids))
            found, seconds = timed(
                lambda: interpolate(
                    ids,  # noqa: B023
                    50,
                    association_encoder(labels, 50, dim),  # noqa: B023
                    rng,  # noqa: B023
                    head_dim=head_dim,  # noqa: B023
                    precision=precision,  # noqa: B023
                )
            )
            right = attention_only_logits(found.network, ids).argmax(axis=1) == labels
            yield {
                "S": seq_len,
                "d": dim,
                "d_h": head_dim,
                "H": found.network.n_heads,
                "rank": found.network.n_heads * head_dim + dim,
                "precision": precision,
                "accuracy": float(right.mean()),
                "condition": found.condition,
                "seconds": round(seconds, 1),
            }


def compact(n_seeds: int = 5) -> Iterator[Row]:
    """All 2,500 bigrams with 13,020 parameters, over seeds."""
    for n_tokens, dim, n_heads in ((50, 10, 30), (100, 14, 80)):
        for seed in range(n_seeds):
            if (n_tokens, n_heads) != (50, 30) and seed and DEVICE == "cpu":
                continue
            rng = np.random.default_rng(seed)
            ids = _bigrams(n_tokens)
            labels = rng.integers(0, n_tokens, len(ids))
            fit = fit_compact(
                ids,
                labels,
                n_tokens,
                n_tokens,
                rng,
                dim=dim,
                head_dim=dim,
                n_heads=n_heads,
                precision="float32",
                max_evaluations=1500 if n_heads == 30 else 3000,
                device=DEVICE,
            )
            yield {
                "N": n_tokens,
                "d": dim,
                "H": n_heads,
                "parameters": sum(w.size for _, w in fit.network.parameters()),
                "seed": seed,
                "accuracy": fit.accuracy,
                "evaluations": fit.evaluations,
                "seconds": round(fit.seconds, 1),
            }


def ranks() -> Iterator[Row]:
    """Certified determinants and modular ranks, and the counterexamples to the printed theorems."""
    for n in (50, 100, 200):
        for activation in ("tanh", "gelu"):
            a = [Fraction(i + 1, n + 1) for i in range(n)]
            b = [Fraction(j + 1, n) for j in range(n)]
            found, seconds = timed(lambda: certified_determinant(activation, a, b, first_bits=20 * n))  # type: ignore[arg-type]  # noqa: B023
            yield {
                "what": activation,
                "n": n,
                "full_rank": found.excludes_zero,
                "log10_det": found.log10_size,
            } | {
                "bits": found.bits,
                "seconds": round(seconds, 1),
            }
    for n in (200, 1000):
        drawn = random.Random(0)
        a_, b_ = (drawn.sample(range(1, 10**9), n) for _ in range(2))
        rank, seconds = timed(lambda: polynomial_rank({k: k + 1 for k in range(n)}, a_, b_))  # noqa: B023
        yield {"what": "polynomial", "n": n, "full_rank": rank.is_decided, "seconds": round(seconds, 1)}
    yield {
        "what": "x + x^3, b = (1, -1)",
        "n": 2,
        "full_rank": polynomial_rank({1: 1, 3: 1}, [3, 5], [1, -1]).is_decided,
    }
    for activation, b in (("tanh", (1, -1)), ("gelu", (1, -1, 2, -2))):
        a = [Fraction(1, k) for k in (3, 5, 7, 11)[: len(b)]]
        found = certified_determinant(
            activation, a, [Fraction(y) for y in b], first_bits=4096, most_bits=4096
        )  # type: ignore[arg-type]
        yield {
            "what": f"{activation}, b = {b}",
            "n": len(b),
            "full_rank": found.excludes_zero,
            "log10_det": found.log10_size,
        }


def encoders() -> Iterator[Row]:
    """The best rank-d encoder of 4 starts against the best of 20, and the lower bound."""
    rng = np.random.default_rng(0)
    cases = {
        "near-uniform": rng.dirichlet(np.full(50, 20.0), 400),
        "sparse": rng.dirichlet(np.full(50, 0.2), 400) * 0.99 + 0.01 / 50,
        "lookup": (np.eye(50)[rng.integers(0, 50, 400)] + 0.002) / 1.1,
    }
    weights = np.full(400, 1 / 400)
    for name, p in cases.items():
        for dim in (5,):
            few, seconds = timed(
                lambda p=p, dim=dim: best_encoder(
                    p, weights, dim, np.random.default_rng(1), n_random_starts=3
                )
            )
            many, long = timed(
                lambda p=p, dim=dim: best_encoder(
                    p, weights, dim, np.random.default_rng(2), n_random_starts=19
                )
            )
            yield {
                "case": name,
                "d": dim,
                "kl_4_starts": few.divergence,
                "kl_20_starts": many.divergence,
                "difference": few.divergence - min(many.divergence, few.divergence),
                "lower_bound": rank_lower_bound(p, weights, dim),
                "seconds_4": round(seconds, 1),
                "seconds_20": round(long, 1),
            }


def associations() -> Iterator[Row]:
    """Random associations by convex regression, ω = 1,000: 100,000 on a GPU, fewer on two cores."""
    sizes = (100_000,) if DEVICE == "cuda" else (5_000, 10_000)
    for n_contexts in sizes:
        rng = np.random.default_rng(0)
        rows = np.unique(rng.integers(0, 1000, (int(1.01 * n_contexts), 3)), axis=0)[:n_contexts]
        labels = rng.integers(0, 1000, n_contexts)
        ones = np.ones(n_contexts)
        targets = Targets(
            sequences_from_rows(rows, 1000), ones.astype(np.int64), np.arange(n_contexts), labels, ones, 1000
        )
        width = 1024 if n_contexts > 20_000 else 384
        front = draw_mixing("attention", 1000, 3, 16, 1000, rng)
        encoded = targets.contexts.padded(front.pad, 3)
        hidden, bias = draw_neurons(front, mixed_contexts(front, encoded), width, rng)
        features = features_of(with_neurons(front, hidden, bias, np.zeros((width, 1000))), encoded)
        fit, seconds = timed(
            lambda: regress(
                features,  # noqa: B023
                targets,  # noqa: B023
                goal_nats=0.0,
                until_right=True,
                max_evaluations=500,
                device=DEVICE,
                dtype=torch.float64,
            )
        )
        decoder = with_neurons(front, hidden, bias, fit.coefficients)
        right = decoder_logits(decoder, encoded, device=DEVICE).argmax(axis=1) == labels
        yield {
            "associations": n_contexts,
            "neurons": width,
            "device": DEVICE,
            "accuracy": float(right.mean()),
            "evaluations": fit.evaluations,
            "seconds": round(seconds, 1),
        }


SECTIONS: dict[str, Callable[[], Iterator[Row]]] = {
    function.__name__: function
    for function in (stories, training, steps, activations, bigrams, compact, ranks, encoders, associations)
}


def main(chosen: list[str]) -> None:
    path = ROOT / "out" / "closed_forms.json"
    path.parent.mkdir(exist_ok=True)
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    results["machine"] = {"platform": platform.platform(), "device": DEVICE, "torch": torch.__version__}
    for name in chosen or list(SECTIONS):
        print(f"{name}: {SECTIONS[name].__doc__}")
        rows = []
        for row in SECTIONS[name]():
            rows.append(row)
            print("  " + ", ".join(f"{key} {_short(value)}" for key, value in row.items()), flush=True)
        results[name] = rows
        path.write_text(json.dumps(results, indent=1))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    with single_thread() if "--one-thread" in sys.argv else single_thread(10**9):
        main([word for word in sys.argv[1:] if not word.startswith("--")])
