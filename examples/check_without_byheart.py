"""Check a saved exact model with Python's standard library alone: nothing of byheart is imported.

    python check_without_byheart.py MODEL_FOLDER DATA.csv|DATA.tsv|DATA.npz [--input key] [--label value]

Reads the folder as docs/model-folder.md describes it and evaluates the network by its equations, in fractions.
Exit status: 0 all samples right, 3 something is wrong, 2 this program cannot check it.
"""

import argparse
import ast
import csv
import json
import re
import struct
import sys
import zipfile
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from pathlib import Path

NUMBERS = {"b1": "?", "f4": "f", "f8": "d", **{f"i{1 << k}": c for k, c in enumerate("bhiq")}}
NUMBERS.update({f"u{1 << k}": c for k, c in enumerate("BHIQ")})
CUT = {"char": list, "word": re.compile(r"\w+|[^\w\s]+").findall, "bytes": lambda text: text.encode()}


def read_rows(path):
    """Every row of every matrix, in the order they are stored: a dict from column to value, without zeros."""
    raw, tensors = path.read_bytes(), {}
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            kind = f"{entry['dtype'][0].lower()}{int(entry['dtype'][1:]) // 8}"
            data = raw[start:][slice(*entry["data_offsets"])]
            tensors[name] = [x for (x,) in struct.iter_unpack("<" + NUMBERS[kind], data)]
    limbs, entries = iter(tensors["limbs"]), []
    parts = (tensors[name] for name in ("columns", "negative", "exponents", "limb_counts"))
    for column, is_negative, power, n_limbs in zip(*parts, strict=True):
        mantissa = sum(next(limbs) << 64 * place for place in range(n_limbs))
        entries.append((column, (-1) ** is_negative * mantissa * Fraction(2) ** power))
    if sum(tensors["row_counts"]) != len(entries) or list(limbs):
        raise ValueError("the numbers of rows, weights and limbs do not agree")
    weights = iter(entries)
    return [dict(islice(weights, n_entries)) for n_entries in tensors["row_counts"]]


def times(matrix, vector):
    """Matrix times vector; vectors are dicts without zeros."""
    sums = ((i, sum(w * vector[j] for j, w in row.items() if j in vector)) for i, row in enumerate(matrix))
    return {i: value for i, value in sums if value}


def plus(*vectors):
    total = {}
    for vector in vectors:
        for i, value in vector.items():
            total[i] = total.get(i, 0) + value
    return {i: value for i, value in total.items() if value}


class Network:
    """E_out ∘ layers ∘ E_in, behind an embedding where the inputs are ids."""

    def __init__(self, plan, rows):
        self.plan, width, at = plan, plan["model_width"], 0

        def take(n_rows):
            nonlocal at
            at += n_rows
            return rows[at - n_rows : at]

        self.tokens = None if plan["n_vocab"] is None else take(plan["n_vocab"])
        self.positions = take(plan["seq_len"]) if plan["positions"] else None
        self.extra = take(1) if plan.get("extra_token") else []
        self.w_in, self.layers = take(width), []
        for run in plan["layers"]:
            for _ in range(run.get("n_layers", 1)):
                parts = []
                if run["kind"] == "feed-forward":
                    parts = [take(n) for n in (run["hidden_width"], run["hidden_width"], width, width)]
                elif run["kind"] == "attention":  # value, output, and key and query where tokens are scored
                    scored = run["attention"] != "uniform"
                    sizes = [(s, width, s, s) if scored else (s, width) for s in run["head_sizes"]]
                    parts = [[take(n) for n in size] for size in sizes]
                self.layers.append((run, parts))
        self.w_out = take(plan["n_outputs"])
        if at != len(rows):
            raise ValueError(f"the architecture has {at} rows of weights, the file {len(rows)}")
        self.block = lru_cache(1 << 16)(self._block)

    def _block(self, number, token):
        """H + W2 ReLU(W1 H + b1) + b2 of one token; equal tokens are computed once."""
        w1, b1, w2, b2 = self.layers[number][1]
        bias = [{i: row[0] for i, row in enumerate(b) if row} for b in (b1, b2)]
        hidden = plus(times(w1, dict(token)), bias[0])
        return plus(dict(token), times(w2, {i: v for i, v in hidden.items() if v > 0}), bias[1])

    def answers(self, sequence, names, n_labels):
        """The names of the last tokens' labels; None where the network names none or cannot be asked."""
        n_missing = self.plan["seq_len"] - len(sequence or ())
        if sequence is None or n_missing < 0 or (n_missing and self.plan["pad"] is None):
            return [None] * n_labels
        vectors = [*[self.plan["pad"]] * n_missing, *sequence]  # filled up on the left
        if self.tokens is None:
            vectors = [{i: Fraction(x) for i, x in enumerate(vector) if x} for vector in sequence]
        else:
            places = self.positions or [{}] * len(vectors)
            vectors = [plus(self.tokens[token], place) for token, place in zip(vectors, places, strict=True)]
        stream = [times(self.w_in, vector) for vector in [*self.extra, *vectors]]
        for number, (run, parts) in enumerate(self.layers):
            if run["kind"] == "feed-forward":
                stream = [self.block(number, tuple(sorted(token.items()))) for token in stream]
            elif run["kind"] == "attention":
                stream = attend(run, parts, stream)
            else:
                stream = [plus(*stream)]
        own = stream[1:] if self.extra and len(stream) > 1 else stream
        values = [times(self.w_out, token).get(0, Fraction(0)) for token in own[-n_labels:]]
        return [names[int(v) - 1] if v.denominator == 1 and 1 <= v <= len(names) else None for v in values]


def attend(run, heads, stream):
    """Z + Σ_h W_O W_V Z A_h; column k of A_h is the mean over the tokens that token k scores highest."""
    everyone, results = range(len(stream)), list(stream)
    for value, output, *scoring in heads:
        known, values = {}, [times(value, token) for token in stream]
        keys, queries = ([times(matrix, token) for token in stream] for matrix in scoring or ([], []))
        for reader in everyone:  # without keys all scores are 0
            sparse = {"scatter": [0], "gather": everyone if reader == 0 else [0]}
            seen = sparse.get(run.get("pattern"), everyone)
            scores = {k: sum(keys[k].get(i, 0) * q for i, q in queries[reader].items()) for k in seen}
            best = frozenset(k for k in seen if scores[k] == max(scores.values()))
            if run["attention"] == "softmax" and len(best) < len(seen):
                raise NotImplementedError("softmax of unequal scores is irrational")
            if best not in known:
                total = plus(*(values[k] for k in best))
                known[best] = times(output, {i: v / len(best) for i, v in total.items()})
            results[reader] = plus(results[reader], known[best])
    return results


def read_array(archive, name):
    raw = archive.read(f"{name}.npy")
    size = "<I" if raw[6] > 1 else "<H"
    start = 8 + struct.calcsize(size) + struct.unpack_from(size, raw, 8)[0]
    header = ast.literal_eval(raw[8 + struct.calcsize(size) : start].decode("latin1"))
    order, kind = header["descr"][0].replace("|", "<"), header["descr"][1:]
    if header["fortran_order"]:
        raise NotImplementedError("arrays in Fortran order are not read here")
    nested = [x for (x,) in struct.iter_unpack(order + NUMBERS[kind], raw[start:])]
    for length in reversed(header["shape"][1:]):
        nested = [nested[i : i + length] for i in range(0, len(nested), length)]
    return nested


def read_samples(model, path, input_column, label_column):
    """(sequence, labels) of every sample; the sequence is None where the model lacks a token."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            pairs = zip(read_array(archive, "inputs"), read_array(archive, "labels"), strict=True)
            return [(x, [str(int(y)) for y in (ys if isinstance(ys, list) else [ys])]) for x, ys in pairs]
    name, samples = model["tokenizer"]["name"], []
    known = {token: number for number, token in enumerate(model["tokenizer"].get("vocabulary", []))}
    csv.field_size_limit(1 << 30)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        for row in csv.DictReader(stream, delimiter="\t" if path.suffix == ".tsv" else ","):
            ids = [piece if name == "bytes" else known.get(piece) for piece in CUT[name](row[input_column])]
            labels = row[label_column].split() if model["task"] == "seq-to-seq" else [row[label_column]]
            samples.append((None if None in ids else ids, labels))
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--input", default="key")
    parser.add_argument("--label", default="value")
    asked = parser.parse_args()
    try:
        model = json.loads((asked.folder / "model.json").read_text(encoding="utf-8"))
        if model["architecture"].get("precision") != "exact" or "family" in model["architecture"]:
            raise NotImplementedError("these weights are floats; only exact models are checked in fractions")
        network = Network(model["architecture"], read_rows(asked.folder / "model.safetensors"))
        samples = read_samples(model, asked.data, asked.input, asked.label)
        pairs = [(network.answers(x, model["labels"], len(labels)), labels) for x, labels in samples]
    except NotImplementedError as reason:
        print(f"cannot be checked here: {reason}")
        return 2
    except (ValueError, LookupError, TypeError, RuntimeError, struct.error) as error:
        print(f"wrong: folder or data contradict themselves: {type(error).__name__}: {error}")
        return 3
    wrong = [f"sample {n}: the data say {y}, the network {x}" for n, (x, y) in enumerate(pairs, 1) if x != y]
    print(*wrong[:5], sep="\n", end="\n" if wrong else "")
    print(f"{len(pairs) - len(wrong)} right, {len(wrong)} wrong")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
