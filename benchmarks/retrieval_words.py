"""Bits per parameter against word size: `retrieval` in exact arithmetic, built and judged by the exact evaluator.

    python benchmarks/retrieval_words.py [--samples 10000 100000] [--words 24 53 64 128 256] [--check 2000] [--store FILE]

A word size of 0 means any. Of up to 10,000 samples all are answered, of more only as many as --check says: exact arithmetic is
slow. With --store the points are written for the figure of the docs (docs/retrieval-words.json).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from byheart.construct.registry import get
from byheart.data.generators import grid_vectors
from byheart.network.size import size_of_network

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from word_length import Point, planned_parameters, write_points


def measure(n_samples: int, word_bits: int | None, n_checked: int, seed: int) -> Point:
    data = grid_vectors(n_samples, seed=seed)
    options = {"precision": "exact", "word_bits": word_bits}
    memoriser = get("retrieval").build(data, options, np.random.default_rng(seed), None).memoriser
    chosen = np.random.default_rng(seed).permutation(n_samples)[:n_checked]
    some = data.subset(chosen)
    answers = memoriser.answer(memoriser.encode(some.inputs), backend="exact")
    size = size_of_network(memoriser.network)
    wrong = int((answers != some.labels).sum())
    return Point(
        n_samples, word_bits, size.parameters_dense, data.label_bits, size.weight_bits, len(chosen), wrong
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--words", type=int, nargs="+", default=[24, 53, 64, 128, 256, 0])
    parser.add_argument(
        "--check", type=int, default=2_000, help="samples answered exactly, of more than 10,000"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path)
    chosen = parser.parse_args()
    points = []
    for n_samples in chosen.samples:
        for word in chosen.words:
            start = time.perf_counter()
            n_checked = n_samples if n_samples <= 10_000 else chosen.check
            point = measure(n_samples, word or None, n_checked, chosen.seed)
            points.append(point)
            sys.stdout.write(
                f"N {n_samples:>9,}  word {word or 'any':>5}  longest weight {point.longest:>4} bits  "
                f"parameters {point.parameters:>8,} (planned {planned_parameters(n_samples, word or None):>8,})  "
                f"bits per parameter {point.bits_per_parameter:6.2f}  checked {point.checked:,} wrong {point.wrong}  "
                f"{time.perf_counter() - start:.1f} s\n"
            )
            sys.stdout.flush()
            if chosen.store is not None:
                write_points(points, chosen.store)
    return 1 if any(point.wrong for point in points) else 0


if __name__ == "__main__":
    sys.exit(main())
