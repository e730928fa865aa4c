"""How many skewed labels a word could hold if frequent ones had short codes: what entropy coding can save at most.

    python benchmarks/label_codes.py [facts_large.csv] [--words 36 40 44 46] [--json FILE]

`retrieval` gives every label ⌈log2 C⌉ bits, ⌊W/bits⌋ labels to a word of W bits. With a prefix code of at most L bits a key reads a
field of L bits and its code is the upper part of it; what lies below may belong to other keys, so fields may overlap, and every bit
of the words is a linear system with the equations of all keys whose code covers it. Which field a key reads is a hash and cannot
depend on its label, so every field needs room for the longest code. The most labels to a word is a linear program over the
shares of keys at each place: no bit may have more equations than a word has. W/H, with H the entropy, is what no code exceeds.
Nothing is compiled; this is an account of a limit. A data file that is absent is skipped, with a word.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import log2
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from byheart import Dataset


def code_lengths(counts: np.ndarray, most: int) -> np.ndarray:
    """Lengths of at most `most` bits of the best prefix code for ascending `counts`.

    Source: package-merge, Larmore and Hirschberg, 1990.
    """
    packages, levels = np.zeros(0, dtype=np.int64), []
    for _ in range(most):
        both = np.concatenate([counts, packages])
        order = np.argsort(both, kind="stable")
        levels.append(order < len(counts))
        packages = both[order][: len(both) // 2 * 2].reshape(-1, 2).sum(axis=1)
    lengths, n_taken = np.zeros(len(counts), dtype=np.int64), 2 * len(counts) - 2
    for is_leaf in reversed(levels):
        n_leaves = int(is_leaf[:n_taken].sum())
        lengths[:n_leaves] += 1
        n_taken = 2 * (n_taken - n_leaves)
    return lengths


def most_labels(lengths: np.ndarray, counts: np.ndarray, word_bits: int) -> float:
    """Labels to a word: the greatest sum of shares at all places such that no bit has more than one equation to a word."""
    n_bits = int(lengths.max())
    covers = np.array([counts[lengths >= n_bits - bit].sum() for bit in range(n_bits)]) / counts.sum()
    loads = np.zeros((word_bits, word_bits - n_bits + 1))
    for place in range(word_bits - n_bits + 1):
        loads[place : place + n_bits, place] = covers
    found = linprog(-np.ones(loads.shape[1]), A_ub=loads, b_ub=np.ones(word_bits))
    return float(-found.fun)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", default=Path("facts_large.csv"))
    parser.add_argument("--words", type=int, nargs="+", default=[36, 40, 44, 46])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if not chosen.data.is_file():
        sys.stdout.write(
            f"skipped: there is no {chosen.data} (see the data folder's README for how to make it)\n"
        )
        return 0
    data = Dataset.read(chosen.data)
    counts = np.sort(np.bincount(data.labels))
    counts = counts[counts > 0]
    bits, entropy = max(1, (len(counts) - 1).bit_length()), data.label_entropy / data.n_labels
    sys.stdout.write(
        f"{data.n_labels:,} labels, {data.n_classes:,} classes: log2 C {log2(data.n_classes):.2f}, entropy {entropy:.2f}\n"
    )
    rows = []
    for word_bits in chosen.words:
        limits = range(bits, min(bits + 6, word_bits + 1))
        coded = {most: most_labels(code_lengths(counts, most), counts, word_bits) for most in limits}
        best = max(coded, key=lambda most: coded[most])
        row = {
            "word_bits": word_bits,
            "equal_length": word_bits // bits,
            "coded": round(coded[best], 3),
            "longest_code": best,
            "entropy": round(word_bits / entropy, 3),
        }
        rows.append(row)
        sys.stdout.write(
            f"words of {word_bits} bits: {row['equal_length']} labels of equal length, at most {row['coded']:.2f} coded "
            f"(longest code {best}), {row['entropy']:.2f} by entropy\n"
        )
    if chosen.json is not None:
        numbers = {"n_labels": data.n_labels, "n_classes": data.n_classes, "entropy": entropy}
        chosen.json.write_text(json.dumps({"schema": 1, **numbers, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
