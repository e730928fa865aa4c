"""How often an unknown input is answered: measured for inputs near a key, beside the 2^-f that f reject bits promise.

    python benchmarks/reject_rates.py --prepare FOLDER --data facts.csv      # compiles; needs all of byheart
    python benchmarks/reject_rates.py --run FOLDER --device cuda             # asks; needs torch and numpy alone

Every input is a stored key disturbed at random, and is left out where it happens to be a key itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

BITS = (8, 16, 24)
BATCH = 250_000


def prepare(folder: Path, data: Path) -> None:
    import byheart as bh

    folder.mkdir(parents=True, exist_ok=True)
    dataset = bh.Dataset.from_csv(data)
    for bits in BITS:
        model = bh.compile(dataset, method="retrieval", precision="float64", reject_bits=bits)
        network = model.memory.network
        np.savez(
            folder / f"reject-{bits}.npz",
            spec=np.array(json.dumps(network.spec.to_json())),
            n_labels=len(model.memory.label_names),
            keys=model.memory.encode(dataset.inputs).astype(np.int16),
            lengths=dataset.inputs.lengths,
            pad=network.pad,
            **{f"weights.{name}": weights for name, weights in network.parameters()},
        )
        print(f"{bits} reject bits: {sum(w.size for _, w in network.parameters()):,} parameters")


class Keys:
    """Keys as rows filled up on the left, and the ways to disturb them."""

    def __init__(self, rows: np.ndarray, lengths: np.ndarray, pad: int, n_tokens: int) -> None:
        self.rows, self.lengths, self.pad, self.n_tokens = rows, lengths, pad, n_tokens
        self.width = rows.shape[1]
        self.known = np.sort(self.digests(rows))

    def digests(self, rows: np.ndarray) -> np.ndarray:
        """A number for each row; two rows share it with probability 2^-64."""
        odd = np.random.default_rng(5).integers(0, 2**63, self.width, dtype=np.uint64) * np.uint64(
            2
        ) + np.uint64(1)
        mixed = rows.astype(np.uint64) + np.uint64(1)
        mixed = (mixed * np.uint64(0x9E3779B97F4A7C15)) ^ (mixed << np.uint64(29))
        return (mixed * odd).sum(axis=1, dtype=np.uint64)

    def is_known(self, rows: np.ndarray) -> np.ndarray:
        digests = self.digests(rows)
        at = np.minimum(np.searchsorted(self.known, digests), len(self.known) - 1)
        return self.known[at] == digests

    def pick(self, rng: np.random.Generator, n: int, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
        chosen = rng.choice(np.flatnonzero(self.lengths >= least), n)
        return self.rows[chosen].copy(), self.lengths[chosen]

    def place(self, rng: np.random.Generator, lengths: np.ndarray) -> np.ndarray:
        """A column of each row's own tokens."""
        return self.width - lengths + (rng.random(len(lengths)) * lengths).astype(np.int64)

    def take(self, rows: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Each row with its columns rearranged; column -1 stands for the padding."""
        padded = np.concatenate([rows, np.full((len(rows), 1), self.pad, rows.dtype)], axis=1)
        return np.take_along_axis(padded, source, axis=1)

    def exchange_neighbours(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        left = np.minimum(self.place(rng, lengths), self.width - 2)
        at = np.arange(n)
        rows[at, left], rows[at, left + 1] = rows[at, left + 1].copy(), rows[at, left].copy()
        return rows

    def exchange_any(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        left, right, at = self.place(rng, lengths), self.place(rng, lengths), np.arange(n)
        rows[at, left], rows[at, right] = rows[at, right].copy(), rows[at, left].copy()
        return rows

    def delete(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        gone, columns = self.place(rng, lengths)[:, None], np.arange(self.width)[None]
        return self.take(rows, np.where(columns <= gone, columns - 1, columns))

    def insert(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        short = lengths < self.width
        rows, lengths = rows[short], lengths[short]
        at, columns = self.place(rng, lengths)[:, None], np.arange(self.width)[None]
        rows = self.take(rows, np.where(columns < at, np.minimum(columns + 1, self.width - 1), columns))
        rows[np.arange(len(rows)), at[:, 0]] = rng.integers(0, self.n_tokens, len(rows))
        return rows

    def repeat_token(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        short = lengths < self.width
        rows, lengths = rows[short], lengths[short]
        at, columns = self.place(rng, lengths)[:, None], np.arange(self.width)[None]
        return self.take(rows, np.where(columns < at, np.minimum(columns + 1, self.width - 1), columns))

    def keep_beginning(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        n_cut = 1 + (rng.random(len(rows)) * (lengths - 1)).astype(np.int64)[:, None]
        source = np.arange(self.width)[None] - n_cut
        return self.take(rows, np.where(source < 0, self.width, source))

    def keep_end(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        n_cut = 1 + (rng.random(len(rows)) * (lengths - 1)).astype(np.int64)
        rows[np.arange(self.width)[None] < (self.width - lengths + n_cut)[:, None]] = self.pad
        return rows

    def change_token(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        rows[np.arange(n), self.place(rng, lengths)] = rng.integers(0, self.n_tokens, n)
        return rows

    def random_text(self, rng: np.random.Generator, n: int) -> np.ndarray:
        rows, lengths = self.pick(rng, n)
        own = np.arange(self.width)[None] >= (self.width - lengths)[:, None]
        return np.where(own, rng.integers(0, self.n_tokens, rows.shape), self.pad).astype(rows.dtype)


DISTURBANCES: dict[str, Callable[..., np.ndarray]] = {
    "two neighbours exchanged": Keys.exchange_neighbours,
    "two tokens exchanged": Keys.exchange_any,
    "a token deleted": Keys.delete,
    "a token inserted": Keys.insert,
    "a token repeated": Keys.repeat_token,
    "a beginning": Keys.keep_beginning,
    "an end": Keys.keep_end,
    "a token changed": Keys.change_token,
    "random text": Keys.random_text,
}


def run(folder: Path, device: str, all_bits: list[int], n_inputs: int, n_most: int, seconds: float) -> None:
    """Ask n_inputs of every kind, n_most at 24 bits; stop in time, and say how many were asked."""
    from byheart.fields import Fields
    from byheart.network.families import read_spec
    from byheart.network.transformer.module import run_module

    end, found = time.monotonic() + seconds, []
    for bits in all_bits:
        stored = np.load(folder / f"reject-{bits}.npz")
        spec = read_spec(Fields(json.loads(str(stored["spec"])), folder, ""))
        weights = iter([stored[name] for name in stored.files if name.startswith("weights.")])
        network = spec.build(weights, {})
        pad, n_labels = int(stored["pad"]), int(stored["n_labels"])
        keys = Keys(stored["keys"], stored["lengths"], pad, pad)
        rng = np.random.default_rng(bits)
        for kind, disturb in DISTURBANCES.items():
            n_asked = n_answered = 0
            wanted = n_most if bits == max(BITS) else n_inputs
            while n_asked < wanted and time.monotonic() < end:
                rows = disturb(keys, rng, min(BATCH, wanted - n_asked + wanted // 50 + 1))
                rows = rows[~keys.is_known(rows)]
                outputs = run_module(network, rows.astype(np.int64), last_only=True, device=device).reshape(
                    -1
                )
                n_asked += len(rows)
                is_class = (outputs == np.rint(outputs)) & (outputs >= 1) & (outputs <= n_labels)
                n_answered += int(is_class.sum())
            share = n_answered / max(1, n_asked) * 2.0**bits
            row = {
                "reject_bits": bits,
                "kind": kind,
                "asked": n_asked,
                "answered": n_answered,
                "times_promise": share,
            }
            found.append(row)
            print(json.dumps(row), flush=True)
    target = folder / "reject_rates.json"
    target.write_text(json.dumps({"device": device, "rows": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--run", type=Path)
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--data", type=Path, default=root.parent / "shared" / "data" / "facts.csv")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bits", type=int, nargs="+", default=list(BITS))
    parser.add_argument("--inputs", type=float, default=1e6)
    parser.add_argument("--most", type=float, default=1e7)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    if options.prepare is not None:
        prepare(options.prepare, options.data)
    if options.run is not None:
        run(
            options.run, options.device, options.bits, int(options.inputs), int(options.most), options.seconds
        )


if __name__ == "__main__":
    main()
