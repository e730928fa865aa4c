"""Data files of every kind, spoilt."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import byheart as bh
from byheart.data.dataset import Dataset
from tests.attacks.fuzz.mutation import TEXTS, mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target


class DataFiles(Target):
    """Data files of every kind, spoilt, read with options at random."""

    name, share = "data", 30

    def prepare(self, folder: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        self.seeds: list[tuple[str, bytes]] = []
        rows = [("capital of France", "Paris"), ("capital of Peru", "Lima"), ("3.5", "x y"), ("e", "é")]
        text = "key,value\n" + "\n".join(f'{a},"{b}"' for a, b in rows)
        lines = "\n".join(json.dumps({"key": a, "value": b, "text": a + " " + b}) for a, b in rows)
        for name, content in (
            ("a.csv", text),
            ("a.tsv", text.replace(",", "\t")),
            ("a.jsonl", lines),
            ("a.txt", "the cat sat\na dog\n"),
        ):
            self.seeds.append((name, content.encode()))
        table = pyarrow.table({"key": [a for a, _ in rows], "value": [1, 2, 3, 4]})
        for compression in ("none", "snappy", "zstd"):
            parquet.write_table(table, folder / "a.parquet", compression=compression)
            self.seeds.append(("a.parquet", (folder / "a.parquet").read_bytes()))
        for inputs, labels in (
            (np.arange(24.0).reshape(4, 3, 2), np.arange(4)),
            (np.arange(12).reshape(4, 3), np.arange(12).reshape(4, 3)),
        ):
            for save in (np.savez, np.savez_compressed):
                save(folder / "a.npz", inputs=inputs, labels=labels)
                self.seeds.append(("a.npz", (folder / "a.npz").read_bytes()))
        for name, content in self.seeds:
            (folder / name).write_bytes(content)
            Dataset.read(folder / name)

    def attack(self, random: Random, folder: Path) -> str:
        name, content = random.choice(self.seeds)
        if name.endswith(".jsonl") and random.random() < 0.5:
            lines = [json.loads(line) for line in content.splitlines()]
            content = b"\n".join(mutate_document(line, random) for line in lines)
        elif name.endswith(".npz") and random.random() < 0.5:
            content = _mutate_array(content, random)
        else:
            content = mutate_bytes(content, random)
        path = folder / (
            name
            if random.random() < 0.97
            else "a" + random.choice((".csv", ".npz", ".parquet", ".jsonl", ".xyz"))
        )
        path.write_bytes(content)
        options: dict[str, Any] = {}
        if random.random() < 0.3:
            options["tokenizer"] = random.choice(("char", "word", "bytes"))
        if random.random() < 0.2:
            options["task"] = random.choice(("next-token", "seq-to-seq", "set", "distribution"))
        if random.random() < 0.1:
            options["input"] = random.choice(("key", "value", "text", *TEXTS[:5]))
        if random.random() < 0.1:
            options["on_conflict"] = random.choice(("first", "last", "majority", "drop"))
        data = Dataset.read(path, **options)
        data.check()
        if random.random() < 0.05 and len(data.inputs) < 100:
            bh.bounds.table(data)
        if random.random() < 0.03 and len(data.inputs) < 50:
            model = bh.compile(data, method="two-layer-relu" if random.random() < 0.5 else "auto")
            assert model.certificate is not None
        return "taken"


def _mutate_array(content: bytes, random: Random) -> bytes:
    """The archive with the header of one array changed as text, its checksums made right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w") as spoilt:
        names = archive.namelist()
        chosen = random.choice(names)
        for name in names:
            piece = archive.read(name)
            if name == chosen:
                start, end = 10, 10 + int.from_bytes(piece[8:10], "little")
                header = (
                    mutate_bytes(piece[start:end], random)
                    if random.random() < 0.6
                    else _another_header(piece[start:end], random)
                )
                piece = piece[:8] + (len(header) % 65536).to_bytes(2, "little") + header + piece[end:]
            spoilt.writestr(name if random.random() < 0.95 else name + "x", piece)
    return out.getvalue()


def _another_header(header: bytes, random: Random) -> bytes:
    shape = random.choice(
        (
            "()",
            "(0,)",
            "(2**40,)",
            "(1099511627776,)",
            "(4, 3, 2, 1)",
            "(-1,)",
            "(4611686018427387904, 4)",
            "(True,)",
        )
    )
    kind = random.choice(
        ("|O", "<f2", "<c16", "|S5", "<U3", "<M8[s]", "|V8", ">i8", "<f16", "|b1", "[('a', '<i8')]")
    )
    return (
        (f"{{'descr': '{kind}', 'fortran_order': {random.random() < 0.5}, 'shape': {shape}, }}")
        .encode()
        .ljust(len(header))
    )
