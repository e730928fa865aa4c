"""How often an unknown input near a key is answered, counted over distinct inputs and several draws of the hash.

    python benchmarks/reject_hash.py --data facts.csv --bits 16 --seeds 0 24 --most 44000

`reject_rates.py` asks the network itself and draws inputs with repetition; few inputs are near a key, so it asks the same ones
again and again, and one that is answered counts many times. Here every disturbed key is asked once, by the integers that the
network computes (hash, addresses, sums of table words, label), which are compared with the network itself on some thousand inputs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from reject_rates import DISTURBANCES, Keys

import byheart as bh
from byheart.construct.retrieval import elimination, method, table_solver
from byheart.construct.retrieval.keys import ContextKeys

N_COMPARED = 2000
PARTIAL_BITS = (8, 12, 16, 20)


class Model:
    """One draw of the hash with its solved tables: what the network computes, as integers."""

    def __init__(self, data: bh.Dataset, bits: int, seed: int) -> None:
        kept: list[tuple[ContextKeys, method.Solution]] = []
        solve = method._solve

        def solve_and_keep(data: bh.Dataset, keys: ContextKeys, *more: object) -> method.Solution:
            found = solve(data, keys, *more)
            kept.append((keys, found))
            return found

        method._solve = solve_and_keep
        try:
            self.memory = bh.compile(
                data, method="retrieval", precision="float64", reject_bits=bits, seed=seed, check=False
            ).memory
        finally:
            method._solve = solve
        keys, self.found = kept[-1]
        self.layout, hashed = self.found.layout, self.found.hashed
        own = hashed.tokens[None] + hashed.positions[:, None]  # by position, token and field
        for centre in hashed.centres:
            own = np.where(own >= centre, 2 * centre - 1 - own, own)
        self.own = np.ascontiguousarray(own)
        self.n_bits, self.n_labels = self.layout.n_parts * self.layout.field_bits, int(keys.labels.max()) + 1
        words = self.found.words.reshape(-1, self.layout.n_parts, self.layout.n_channels)
        self.words = [np.ascontiguousarray(words[:, part]).reshape(-1) for part in range(self.layout.n_parts)]
        assert self.layout.name == "chain"
        assert (self.read(keys.inputs) == keys.labels).all()

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The number each input reads: a label, or one beyond all of them."""
        fields = _sum_tokens(self.own, np.ascontiguousarray(rows, dtype=np.int16), self.layout.sum_factor)
        for number, field in enumerate(self.layout.hashed_fields):
            for level in reversed(range(field.n_folds)):
                centre, values = field.base << level, fields[:, number]
                fields[:, number] = np.where(values >= centre, 2 * centre - 1 - values, values)
        where = self.layout.addresses(fields)
        ids = table_solver._row_ids(self.layout, where.rows)
        found = np.zeros(len(rows), dtype=np.int64)
        for part, words in enumerate(self.words):
            sums = elimination.sums(ids, where.patterns, self.layout.n_channels, words)
            found |= table_solver.read_labels(self.layout, where, sums) << part * self.layout.field_bits
        return found


@njit(cache=True)
def _sum_tokens(own: np.ndarray, rows: np.ndarray, factor: int) -> np.ndarray:
    """The last token's fields, and `factor` times the sum over all tokens."""
    n_rows, n_tokens = rows.shape
    n_fields = own.shape[2]
    found = np.zeros((n_rows, n_fields), dtype=np.int64)
    for i in range(n_rows):
        for at in range(n_tokens):
            for field in range(n_fields):
                found[i, field] += factor * own[at, rows[i, at], field]
        for field in range(n_fields):
            found[i, field] += own[n_tokens - 1, rows[i, n_tokens - 1], field]
    return found


def every(kind: str, keys: Keys, rng: np.random.Generator, most: int) -> Iterator[np.ndarray]:
    """Distinct inputs of one kind, in batches, `most` at most: all there are, or as many drawn at random."""
    seen = keys.known
    disturb: Callable[..., np.ndarray] = DISTURBANCES[kind]
    n_given = n_idle = 0
    while n_given < most and n_idle < 3:
        rows = disturb(keys, rng, min(500_000, max(50_000, most)))
        digests, first = np.unique(keys.digests(rows), return_index=True)
        at = np.minimum(np.searchsorted(seen, digests), len(seen) - 1)
        is_new = seen[at] != digests
        fresh = rows[first[is_new]][: most - n_given]
        n_idle = n_idle + 1 if len(fresh) < len(rows) // 50 else 0
        seen = np.union1d(seen, digests)
        n_given += len(fresh)
        yield fresh


def measure(
    data: bh.Dataset, bits: int, seed: int, most: int, kinds: list[str]
) -> dict[str, dict[str, float]]:
    """Counts for one draw of the hash, by kind."""
    model = Model(data, bits, seed)
    rows, pad = model.memory.encode(data.inputs).astype(np.int16), int(model.memory.network.pad or 0)
    keys = Keys(rows, data.inputs.lengths, pad, pad)
    rng = np.random.default_rng([bits, seed])
    counts = {}
    for kind in kinds:
        n_asked = n_answered = 0
        partial = dict.fromkeys(PARTIAL_BITS, 0)
        for batch in every(kind, keys, rng, most):
            read = model.read(batch)
            is_answered = read < model.n_labels
            n_asked, n_answered = n_asked + len(batch), n_answered + int(is_answered.sum())
            for first in PARTIAL_BITS:
                partial[first] += int((read >> (model.n_bits - first) == 0).sum())
            if kind == kinds[0] and n_asked == len(batch):
                said = model.memory.answer(batch[:N_COMPARED].astype(np.int64)).reshape(-1)
                mine = np.where(is_answered, read, -1)[:N_COMPARED]
                assert (said == mine).all(), "the network computes something else"
        expected = n_asked * model.n_labels / 2**model.n_bits
        counts[kind] = {"asked": n_asked, "expected": expected, "answered": n_answered}
        counts[kind] |= {
            f"first {first} bits zero": number for first, number in partial.items() if first <= bits
        }
        print(f"{bits} bits, seed {seed}, {kind}: {counts[kind]}", file=sys.stderr, flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--data", type=Path, default=root.parent / "shared" / "data" / "facts.csv")
    parser.add_argument("--bits", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 2), metavar=("FIRST", "BEYOND"))
    parser.add_argument("--most", type=float, default=44_000, help="inputs of a kind for each seed")
    parser.add_argument("--kinds", nargs="+", default=list(DISTURBANCES))
    parser.add_argument("--out", type=Path, default=root / "out" / "reject_hash.json")
    options = parser.parse_args()
    data, began = bh.Dataset.from_csv(options.data), time.monotonic()
    totals: dict[str, dict[str, float]] = {}
    for seed in range(*options.seeds):
        for kind, counts in measure(data, options.bits, seed, int(options.most), options.kinds).items():
            mine = totals.setdefault(kind, dict.fromkeys(counts, 0))
            for name, number in counts.items():
                mine[name] += number
    found = {
        "reject_bits": options.bits,
        "seeds": list(options.seeds),
        "data": options.data.name,
        "kinds": totals,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
