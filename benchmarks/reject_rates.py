"""How often an unknown input near a key is answered, beside the 2^-f that f reject bits promise.

    python benchmarks/reject_rates.py --bits 24 --models 850 --most 12000

Every input that one small change makes of a key is listed once, keys left out. Models of many seeds are asked, each a
random part of the list, `--most` of a kind: first as the whole numbers that the network computes, which take a microsecond. On some
thousand inputs, and on every input that is answered, the network itself must say the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import byheart as bh
from byheart.construct.llama import compiler
from byheart.construct.retrieval import method, table_solver
from byheart.data.generators import random_tokens
from byheart.network.memoriser import UNKNOWN
from byheart.program import gf2

N_MODELS_COMPARED, N_COMPARED = 10, 250
BATCH = 25_000

# What one change makes of a key. A key is a `bytes`, a token id each; `tokens` are those there are.

Changes = Callable[[bytes, list[bytes]], Iterator[bytes]]


def exchange_neighbours(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[:i] + key[i + 1 : i + 2] + key[i : i + 1] + key[i + 2 :] for i in range(len(key) - 1))


def exchange_any(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    for i in range(len(key)):
        for j in range(i + 1, len(key)):
            yield key[:i] + key[j : j + 1] + key[i + 1 : j] + key[i : i + 1] + key[j + 1 :]


def delete(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[:i] + key[i + 1 :] for i in range(len(key)))


def insert(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[:i] + token + key[i:] for i in range(len(key) + 1) for token in tokens)


def repeat(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[: i + 1] + key[i:] for i in range(len(key)))


def begin(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[:i] for i in range(1, len(key)))


def end(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[i:] for i in range(1, len(key)))


def change(key: bytes, tokens: list[bytes]) -> Iterator[bytes]:
    return (key[:i] + token + key[i + 1 :] for i in range(len(key)) for token in tokens)


KINDS: dict[str, Changes] = {
    "two neighbours exchanged": exchange_neighbours,
    "two tokens exchanged": exchange_any,
    "a token deleted": delete,
    "a token inserted": insert,
    "a token repeated": repeat,
    "a beginning": begin,
    "an end": end,
    "a token changed": change,
}


def inputs_near(
    data: bh.Dataset, kinds: list[str], n_keys: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The distinct unknown inputs of each kind near `n_keys` of the keys: ids from the right, 255 before them."""
    width = data.seq_len
    known = {np.asarray(data.inputs[i]).astype(np.uint8).tobytes() for i in range(data.n_samples)}
    tokens = [bytes([token]) for token in range(data.vocab or 0)]
    keys = sorted(known)
    chosen = [keys[i] for i in rng.permutation(len(keys))[:n_keys]]
    found = {}
    for kind in kinds:
        near = {text for key in chosen for text in KINDS[kind](key, tokens) if 0 < len(text) <= width}
        joined = b"".join(text.rjust(width, b"\xff") for text in sorted(near - known))
        found[kind] = np.frombuffer(joined, dtype=np.uint8).reshape(-1, width)
    return found


class RetrievalModel:
    """One model of the method `retrieval`, and the whole numbers that it computes."""

    def __init__(self, data: bh.Dataset, bits: int, seed: int, precision: Any) -> None:
        kept: list[method.Solution] = []
        solve = method._solve
        with patch.object(method, "_solve", lambda *given: kept.append(solve(*given)) or kept[-1]):
            self.memoriser = bh.compile(
                data, method="retrieval", precision=precision, reject_bits=bits, seed=seed, check=False
            ).memoriser
        self.found, self.layout = kept[-1], kept[-1].layout
        self.pad = self.memoriser.network.pad
        self.n_labels = len(self.memoriser.label_names)
        self.expected = self.n_labels / 2.0 ** (self.layout.n_parts * self.layout.field_bits)
        hashed = self.found.hashed
        # by position and id
        self.own, self.extra = (hashed.tokens[None] + hashed.positions[:, None], hashed.extra)
        for centre in hashed.centres:
            self.own, self.extra = _reflect(self.own, centre), _reflect(self.extra, centre)
        words = self.found.words.reshape(-1, self.layout.n_parts, self.layout.n_channels)
        self.words = [np.ascontiguousarray(words[:, part]).reshape(-1) for part in range(self.layout.n_parts)]

    def answer(self, rows: np.ndarray) -> np.ndarray:
        """The class of each input, or `UNKNOWN`."""
        layout = self.layout
        fields = layout.pool(_sum_tokens(self.own, self._encode(rows)), self.extra, True)[:, 0]
        for number, field in enumerate(layout.hashed_fields):
            for level in reversed(range(field.n_folds)):
                fields[:, number] = _reflect(fields[:, number], field.base << level)
        where = layout.addresses(fields)
        ids = table_solver._row_ids(layout, where.rows)
        read = np.zeros(len(rows), dtype=np.int64)
        for part, words in enumerate(self.words):
            sums = gf2.sums(ids, where.patterns, layout.n_channels, words)
            read |= table_solver.read_labels(layout, where, sums) << part * layout.field_bits
        return np.where(read < self.n_labels, read, UNKNOWN)

    def ask(self, rows: np.ndarray) -> np.ndarray:
        """What the network itself says."""
        return self.memoriser.answer(self._encode(rows).astype(np.int64)).reshape(-1)

    def _encode(self, rows: np.ndarray) -> np.ndarray:
        encoded = rows.copy()
        if self.pad is not None:
            encoded[rows == 255] = self.pad
        return encoded


@njit(cache=True)
def _sum_tokens(own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Two tokens for each row, to be pooled like all of them: the sum of all but the last, and the last."""
    n_rows, n_tokens = rows.shape
    found = np.zeros((n_rows, 2, own.shape[2]), dtype=np.int64)
    for i in range(n_rows):
        for at in range(n_tokens):
            for field in range(own.shape[2]):
                found[i, int(at == n_tokens - 1), field] += own[at, rows[i, at], field]
    return found


def _reflect(values: np.ndarray, centre: Any) -> np.ndarray:
    return np.where(values >= centre, 2 * centre - 1 - values, values)


class LlamaModel:
    """One model of the method `llama`; it answers 0 for whatever it continues."""

    def __init__(self, data: bh.Dataset, bits: int, seed: int, precision: Any) -> None:
        emitted: list[tuple[Any, ...]] = []
        emit = compiler.emit
        with patch.object(compiler, "emit", lambda *given: emitted.append(given) or emit(*given)):
            self.memoriser = bh.compile(
                data, method="llama", reject_bits=bits, seed=seed, check=False
            ).memoriser
        self.layout, self.hash, self.tables, _ = emitted[-1]
        self.spec = self.memoriser.network.spec
        n_bits = compiler.WORD_BITS + compiler.FIELD_BITS * self.layout.shape.n_side
        self.expected = self.layout.shape.n_labels / 2.0**n_bits

    def answer(self, rows: np.ndarray) -> np.ndarray:
        ids, offsets, asked = self._prompts(rows)
        starts = np.repeat(offsets[:-1], np.diff(offsets))
        limbs = self.hash.limbs(ids, starts, asked)
        return np.where(compiler.find_known(self.layout, self.tables, limbs), 0, UNKNOWN)

    def ask(self, rows: np.ndarray) -> np.ndarray:
        from byheart.network.llama.chains import ChainedTexts
        from byheart.network.llama.evaluator import evaluate

        ids, offsets, asked = self._prompts(rows)
        said = evaluate(self.memoriser.network, ChainedTexts(ids, offsets, asked)).tokens
        return np.where(said != self.spec.eos, 0, UNKNOWN)

    def _prompts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`bos key sep` of every row, end to end, asked at the separator."""
        n, width = rows.shape
        framed = np.full((n, width + 2), -1, dtype=np.int64)
        framed[:, 1:-1] = np.where(rows == 255, -1, rows.astype(np.int64))
        lengths = (rows != 255).sum(axis=1)
        framed[np.arange(n), width - lengths], framed[:, -1] = self.spec.bos, self.spec.sep
        ids = framed[framed >= 0]
        return ids, np.concatenate([[0], np.cumsum(lengths + 2)]), ids == self.spec.sep


MODELS = {"retrieval": RetrievalModel, "llama": LlamaModel}


def measure(
    model: Any, near: dict[str, np.ndarray], most: int, n_compared: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Inputs asked, answers to be expected, and answers, of each kind."""
    counts = {}
    for kind, rows in near.items():
        asked = rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]
        said = np.concatenate([model.answer(asked[at : at + BATCH]) for at in range(0, len(asked), BATCH)])
        is_answered = said != UNKNOWN
        compared = is_answered | (np.arange(len(asked)) < n_compared)
        assert not compared.any() or (model.ask(asked[compared]) == said[compared]).all(), (
            "the network computes something else"
        )
        counts[kind] = [len(asked), len(asked) * model.expected, int(is_answered.sum())]
    return counts


def dataset_of(name: str) -> bh.Dataset:
    """A file of keys and values, or so many random keys of 4 to 16 tokens of 40."""
    if not name.isdigit():
        return bh.Dataset.from_csv(name)
    rng = np.random.default_rng(7)
    whole = random_tokens(int(name), 16, 40, 100, seed=7)
    rows = [whole.inputs[i][: rng.integers(6, 17)].tolist() for i in range(whole.n_samples)]
    texts = {
        "".join(chr(65 + token) for token in row): f"v{label}"
        for row, label in zip(rows, whole.labels, strict=True)
    }
    return bh.Dataset.from_pairs(list(texts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument(
        "--data",
        default=str(root.parent / "shared" / "data" / "facts.csv"),
        help="or a number of random keys",
    )
    parser.add_argument("--method", choices=MODELS, default="retrieval")
    parser.add_argument("--precision", default="float64")
    parser.add_argument("--bits", type=int, default=8)
    parser.add_argument("--models", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=12_000, help="inputs of a kind for each model")
    parser.add_argument("--keys", type=int, default=2_000, help="keys whose neighbours are listed")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--out", type=Path, default=root / "out" / "reject_rates.json")
    options = parser.parse_args()
    data, began = dataset_of(options.data), time.monotonic()
    near = inputs_near(data, options.kinds, options.keys, np.random.default_rng(0))
    totals = {kind: [0, 0.0, 0] for kind in near}
    for seed in range(options.first_seed, options.first_seed + options.models):
        model = MODELS[options.method](data, options.bits, seed, options.precision)
        n_compared = N_COMPARED if seed < options.first_seed + N_MODELS_COMPARED else 0
        found = measure(model, near, options.most, n_compared, np.random.default_rng([options.bits, seed]))
        totals = {
            kind: [a + b for a, b in zip(total, found[kind], strict=True)] for kind, total in totals.items()
        }
    record = {
        "method": options.method,
        "precision": model.memoriser.network.precision,
        "layout": getattr(model.layout, "name", ""),
        "reject_bits": options.bits,
        "data": Path(options.data).name,
        "keys": data.n_samples,
        "seeds": [options.first_seed, options.first_seed + options.models],
        "kinds": {
            kind: {"near": len(near[kind]), "asked": n, "expected": round(expected, 2), "answered": answered}
            for kind, (n, expected, answered) in totals.items()
        },
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record) + "\n")
    print(json.dumps(record))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
