"""Tables, documents, archives and tokenizers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.attacks.hostile_inputs.case import CAPITALS, FIXTURES, MIB, WRITES, Make, case


def table(name: str, content: str | bytes, *command: str) -> None:
    """A data file that a command reads; DATA stands for it, and -o is added where the command writes."""

    def make(folder: Path) -> list[str]:
        path = folder / f"data{name.partition(':')[0]}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return [str(path) if each == "DATA" else each for each in command] + (
            ["-o", str(folder / "out")] if command[0] in WRITES else []
        )

    case(name)(make)


table(".csv: one cell of 16 KiB", "key,value\n" + "a" * 16_384 + ",x\n", "compile", "DATA")
table(".csv: one cell of 1 MiB", "key,value\n" + "a" * MIB + ",x\n", "compile", "DATA")
table(".csv: 100,000 columns", ",".join(map(str, range(10**5))) + "\n1\n", "bounds", "--data", "DATA")
table(".csv: an open quote", 'key,value\n"' + "a,b\n" * 10**5, "compile", "DATA")
table(".csv: NUL and bad bytes", b"key,value\n\0\xff\xfe,x\n", "compare", "DATA")
table(
    ".csv: 5,000 labels",
    "key,value\n" + "".join(f"{i},{i}\n" for i in range(5_000)),
    "bounds",
    "--data",
    "DATA",
)
table(".tsv: no tabs", "a" * MIB + "\n" + "b" * MIB, "compile", "DATA")
table(".jsonl: 100,000 brackets", "[" * 10**5 + "\n", "compile", "DATA")
table(".jsonl: a number of 10^7 digits", '{"key": "a", "value": ' + "9" * 10**7 + "}\n", "compile", "DATA")
table(".jsonl: 1e999999999", '{"key": "a", "value": 1e999999999}\n', "bounds", "--data", "DATA")
table(
    ".jsonl: ten thousand keys twice",
    '{"key": "a", ' + '"x": 1, ' * 10**4 + '"value": "b"}\n',
    "compile",
    "DATA",
)
table(".txt: one line of 64 KiB", "a b " * 16_384, "bounds", "--data", "DATA", "--task", "distribution")
table(".txt: a model of one line of 64 KiB", "a b " * 16_384, "compile", "DATA")
table(".txt: a model of 100 lines of a thousand words", ("a b " * 500 + "\n") * 100, "compile", "DATA")
table(".txt: bytes that are not text", bytes(range(256)) * 4096, "compile", "DATA")
table(".parquet: a magic number alone", b"PAR1" + b"\xff" * 64 + b"PAR1", "compile", "DATA")


PARQUET = """
import sys, numpy as np, pyarrow as pa
from pyarrow import parquet
index = pa.array(np.zeros(5 * 10**5, dtype=np.int32))
column = pa.DictionaryArray.from_arrays(index, pa.array(["a" * 1000]))
parquet.write_table(pa.table({"key": column, "value": column}), sys.argv[1])
"""


@case(".parquet: a column that expands")
def parquet(folder: Path) -> list[str]:
    path = str(folder / "data.parquet")
    subprocess.run([sys.executable, "-c", PARQUET, path], check=True)  # whose threads no fork inherits
    return ["compile", path, "-o", str(folder / "out")]


def npz(method: int, n_bytes: int, shape: tuple[int, ...] | None = None, descr: str = "|i1") -> Make:
    """An archive of zeros under `inputs` and `labels`, by this method, which claim this shape."""

    def make(folder: Path) -> list[str]:
        header = io.BytesIO()
        claim = {"descr": descr, "fortran_order": False, "shape": shape or (n_bytes,)}
        np.lib.format.write_array_header_1_0(header, claim)
        with zipfile.ZipFile(folder / "data.npz", "w", method, compresslevel=9) as archive:
            for name in ("inputs", "labels"):
                with archive.open(f"{name}.npy", "w") as file:
                    file.write(header.getvalue())
                    for _ in range(n_bytes // MIB):
                        file.write(bytes(MIB))
                    file.write(bytes(n_bytes % MIB))
        return ["compile", str(folder / "data.npz"), "-o", str(folder / "out")]

    return make


case(".npz: bzip2 of 64 MiB of zeros")(npz(zipfile.ZIP_BZIP2, 64 * MIB))
case(".npz: lzma of 64 MiB of zeros")(npz(zipfile.ZIP_LZMA, 64 * MIB))
case(".npz: deflate of 64 MiB of zeros")(npz(zipfile.ZIP_DEFLATED, 64 * MIB))
case(".npz: claims 2^60 numbers")(npz(zipfile.ZIP_STORED, 64, (2**60,)))
case(".npz: numbers of 2^30 bytes each")(npz(zipfile.ZIP_STORED, 64, (1,), "|V1073741824"))
case(".npz: one row of 2^20 ids")(npz(zipfile.ZIP_STORED, MIB, (1, MIB)))
case(".npz: objects of Python")(npz(zipfile.ZIP_STORED, 64, (8,), "|O"))
case(".npz: 2^30 rows of nothing")(npz(zipfile.ZIP_STORED, 0, (2**30, 0)))


@case(".npz: questions that expand")
def npz_questions(folder: Path) -> list[str]:
    npz(zipfile.ZIP_DEFLATED, 64 * MIB, (64 * MIB, 1, 1))(folder)
    return ["predict", str(FIXTURES / "transformer-exact-vectors"), "--data", str(folder / "data.npz")]


def tokenizer(name: str, document: Mapping[str, Any]) -> None:
    def make(folder: Path) -> list[str]:
        (folder / "tokenizer.json").write_text(json.dumps(document))
        return [
            "compile",
            str(CAPITALS),
            "--tokenizer",
            str(folder / "tokenizer.json"),
            "-o",
            str(folder / "out"),
        ]

    case(name)(make)


def replacing(n_rules: int) -> dict[str, Any]:
    rule: dict[str, Any] = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 60}
    nested: dict[str, Any] = rule
    for _ in range(n_rules - 1):
        nested = {"type": "Sequence", "normalizers": [rule, nested]}
    return nested


WORDS = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
tokenizer(
    "tokenizer: six rules that multiply", {"version": "1.0", "model": WORDS, "normalizer": replacing(6)}
)
tokenizer("tokenizer: an id of 2^60", {"version": "1.0", "model": {**WORDS, "vocab": {"a": 2**60}}})
tokenizer(
    "tokenizer: a pattern that backtracks",
    {
        "version": "1.0",
        "model": WORDS,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(a+)+$"},
            "behavior": "Isolated",
            "invert": False,
        },
    },
)
tokenizer(
    "tokenizer: 200,000 added tokens",
    {
        "version": "1.0",
        "model": WORDS,
        "added_tokens": [
            {
                "id": i + 2,
                "content": f"t{i}",
                "special": False,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for i in range(200_000)
        ],
    },
)
