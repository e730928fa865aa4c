"""Sixty small hostile inputs: every format, and every command that reads one. Each is made, and what it takes is measured.

    python -m tests.attacks.hostile_inputs -o record.json

A case runs in a process of its own, forked from one that has imported everything. Measured are the time of the processor from
there to the end, children included, and the most memory that the process holds at once, the packages (some 400 MB) included. A
case that takes more than `MOST_SECONDS` or `MOST_BYTES`, or that ends in a crash, is named, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.files.work_folder import write_arrays, write_json
from byheart.measure.store import Store
from byheart.pipeline import load
from tests.graft.hosts import save_host
from tests.measure.test_store import record

ROOT = Path(__file__).resolve().parents[2]
FIXTURES, CAPITALS = ROOT / "tests" / "storage" / "fixtures", ROOT / "examples" / "capitals.csv"
MOST_SECONDS, MOST_BYTES = 2.0, 10**9
WRITES = ("compile", "export", "forget", "graft")

Make = Callable[[Path], list[str]]
"""Writes the input into an empty folder; the command line that reads it."""

CASES: dict[str, Make] = {}


def case(name: str) -> Callable[[Make], Make]:
    """Enter a case under the name of its format and of what is wrong with it."""

    def enter(make: Make) -> Make:
        assert name not in CASES
        CASES[name] = make
        return make

    return enter


# --- data files -------------------------------------------------------------------------------------------


def table(name: str, content: str | bytes, *command: str) -> None:
    """A data file that a command reads; DATA stands for it, and -o is added where the command writes."""

    def make(folder: Path) -> list[str]:
        path = folder / f"data{name.partition(':')[0]}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return [str(path) if each == "DATA" else each for each in command] + (
            ["-o", str(folder / "out")] if command[0] in WRITES else []
        )

    case(name)(make)


MIB = 2**20
table(".csv: one cell of 16 KiB", "key,value\n" + "a" * 16_384 + ",x\n", "compile", "DATA")
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
case(".npz: objects of Python")(npz(zipfile.ZIP_STORED, 64, (8,), "|O"))
case(".npz: 2^30 rows of nothing")(npz(zipfile.ZIP_STORED, 0, (2**30, 0)))


@case(".npz: questions that expand")
def npz_questions(folder: Path) -> list[str]:
    npz(zipfile.ZIP_DEFLATED, 64 * MIB, (64 * MIB, 1, 1))(folder)
    return ["predict", str(FIXTURES / "transformer-exact-vectors"), "--data", str(folder / "data.npz")]


# --- model folders ----------------------------------------------------------------------------------------


def model(
    name: str, fixture: str, change: Callable[[Path], object], *command: str, certified: bool = False
) -> None:
    """A saved model that was changed; DIR stands for it."""

    def make(folder: Path) -> list[str]:
        path = folder / "model"
        shutil.copytree(FIXTURES / fixture, path)
        if not certified:
            (path / "certificate.json").unlink()
        change(path)
        return [str(path) if each == "DIR" else each for each in command] + (
            ["-o", str(folder / "out")] if command[0] in WRITES else []
        )

    case(name)(make)


def edit(file: str, **changes: Any) -> Callable[[Path], object]:
    """Fields of a JSON file, or of its architecture, set to other values."""

    def change(folder: Path) -> None:
        document = json.loads((folder / file).read_text(encoding="utf-8"))
        inside = document.get("architecture", {}) if file == "model.json" else {}
        for name, value in changes.items():
            (inside if name in inside else document)[name] = value
        (folder / file).write_text(json.dumps(document), encoding="utf-8")

    return change


def write(file: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(content)


def header(**tensors: Mapping[str, Any]) -> Callable[[Path], object]:
    """A weight file of nothing but a header."""
    text = json.dumps(tensors).encode()
    return write("model.safetensors", len(text).to_bytes(8, "little") + text)


ASK = ("predict", "DIR", "capital of France")
HUGE = {"dtype": "F64", "shape": [2**31, 2**31], "data_offsets": [0, 2**63 - 1]}
model("folder: 2^24 tokens a sample", "schema-1-float64", edit("model.json", seq_len=2**24), *ASK)
model("folder: 2^18 tokens a sample", "schema-1-float64", edit("model.json", seq_len=2**18), *ASK)
model("folder, exact: 2^24 tokens a sample", "transformer-exact", edit("model.json", seq_len=2**24), *ASK)
model("folder: a width of 2^40", "retrieval-float64", edit("model.json", model_width=2**40), "inspect", "DIR")
model(
    "folder: 2^30 layers",
    "retrieval-float64",
    edit("model.json", layers=[{"kind": "feed-forward", "n_layers": 2**30, "hidden_width": 1}]),
    "inspect",
    "DIR",
)
model(
    "folder: five million brackets",
    "transformer-exact",
    write("model.json", b"[" + b"[]," * (5 * MIB) + b"0]"),
    *ASK,
)
model("folder: 100,000 levels", "transformer-exact", write("model.json", b"[" * 10**5), "inspect", "DIR")
model(
    "folder: a number of 10^7 digits",
    "transformer-exact",
    write("model.json", b'{"schema": ' + b"9" * 10**7 + b"}"),
    *ASK,
)
model(
    "folder: a million equal labels",
    "retrieval-float64",
    edit("model.json", labels=["x"] * 10**6),
    "export",
    "DIR",
    "--to",
    "onnx",
)
model(
    "folder: a record of a thousand levels",
    "retrieval-float64",
    edit("model.json", record={"notes": json.loads("[" * 900 + "]" * 900)}),
    "inspect",
    "DIR",
)
model("weights: a tensor of 2^62 numbers", "retrieval-float64", header(w=HUGE), *ASK)
model(
    "weights: a header of 2^63 bytes",
    "retrieval-float64",
    write("model.safetensors", b"\xff" * 8),
    "verify",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
)
model(
    "weights: 10,000 tensors",
    "retrieval-float64",
    header(**{f"t{i}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for i in range(10**4)}),
    *ASK,
)
model(
    "weights: no file but a device",
    "retrieval-float64",
    lambda folder: [
        (folder / "model.safetensors").unlink(),
        (folder / "model.safetensors").symlink_to("/dev/zero"),
    ],
    *ASK,
)
model(
    "certificate: 2^62 samples",
    "retrieval-coded",
    edit("certificate.json", checked=2**62, dataset={}),
    "inspect",
    "DIR",
    certified=True,
)
model(
    "certificate: a million problems",
    "retrieval-coded",
    edit("certificate.json", problems=["x"] * 10**6),
    "inspect",
    "DIR",
    certified=True,
)
model(
    "signature: a million digits",
    "retrieval-coded",
    write(
        "signature.json",
        json.dumps(
            {
                "schema": 1,
                "algorithm": "ed25519",
                "public_key": "0" * 10**6,
                "certificate": "",
                "signature": "",
            }
        ).encode(),
    ),
    "verify",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
    "--signed-by",
    "0" * 64,
    certified=True,
)
model(
    "key: a file without end",
    "retrieval-coded",
    lambda folder: None,
    "sign",
    "DIR",
    "--key",
    "/dev/zero",
    certified=True,
)
model(
    "Llama: a chat template",
    "llama-facts",
    write("chat_template.jinja", b"{{ 'x' * 10**9 }}"),
    *ASK,
    certified=True,
)
model(
    "Llama: 2^40 positions",
    "llama-facts",
    edit("config.json", max_position_embeddings=2**40),
    "recite",
    "DIR",
    "capital",
    certified=True,
)
model(
    "Llama: a tokenizer of 10^5 merges",
    "llama-facts",
    write(
        "tokenizer.json",
        json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": ["a b"] * 10**5}}).encode(),
    ),
    *ASK,
    certified=True,
)
model(
    "Llama: options of the record",
    "llama-facts",
    lambda folder: edit(
        "model.json", record={"method": "llama", "options": {"check": False, "reject_bits": 10**9}}
    )(folder),
    "forget",
    "DIR",
    str(FIXTURES / "data" / "short.csv"),
    "--keys",
    "a",
)

# --- tokenizers -------------------------------------------------------------------------------------------


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

# --- stores, specifications, work folders, figures, configurations ----------------------------------------


def store(name: str, statement: str, *command: str) -> None:
    def make(folder: Path) -> list[str]:
        path = folder / "runs.sqlite"
        with Store(path) as made:
            made.add(record(0))
            made.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with sqlite3.connect(path) as connection:
            connection.execute("DROP INDEX IF EXISTS runs_by_family")
            for name, sql in connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")
                restored.append(sql)
            connection.execute(statement)
            for sql in restored:
                connection.execute(sql)
            restored.clear()
        connection.close()
        return [str(path) if each == "STORE" else each for each in command]

    restored: list[str] = []
    case(name)(make)


store(
    "store: a cell of 100 MB",
    "UPDATE runs SET curve = zeroblob(100000000)",
    "runs",
    "list",
    "--store",
    "STORE",
    "--json",
)
store(
    "store: a text of 100 MB",
    "UPDATE runs SET measured = hex(zeroblob(50000000))",
    "runs",
    "compare",
    "--store",
    "STORE",
)
store(
    "store: a view without end",
    "CREATE VIEW more AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
    "runs",
    "list",
    "--store",
    "STORE",
)
store(
    "store: a trigger that undoes",
    "CREATE TRIGGER more AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
    "runs",
    "list",
    "--store",
    "STORE",
)


def text(name: str, file: str, content: str, *command: str) -> None:
    def make(folder: Path) -> list[str]:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)
        return [each.replace("FOLDER", str(folder)) for each in command]

    case(name)(make)


SPEC = (ROOT / "examples" / "heads.toml").read_text(encoding="utf-8")
text(
    "specification: 2^40 steps of 2^40 samples",
    "spec.toml",
    SPEC.replace("n_vocab = ", "n_vocab = 9999999999"),
    "measure",
    "FOLDER/spec.toml",
    "--store",
    "FOLDER/runs.sqlite",
)
text(
    "specification: 100,000 levels",
    "spec.toml",
    "a = " + "[" * 10**5,
    "measure",
    "FOLDER/spec.toml",
    "--store",
    "FOLDER/runs.sqlite",
)
text(
    "figure: five million brackets",
    "results/x.json",
    "[" + "[]," * 5 * MIB + "0]",
    "report",
    "--results",
    "FOLDER/results",
    "-o",
    "FOLDER/out",
)
text(
    "config.json: 10^30 of everything",
    "c.json",
    json.dumps(
        {
            "model_type": "llama",
            **dict.fromkeys(
                (
                    "hidden_size",
                    "num_hidden_layers",
                    "num_attention_heads",
                    "vocab_size",
                    "intermediate_size",
                ),
                10**30,
            ),
        }
    ),
    "bounds",
    "--config",
    "FOLDER/c.json",
)


@case("work folder: an archive that expands")
def work_archive(folder: Path) -> list[str]:
    work = folder / "work"
    work.mkdir()
    data = folder / "data.csv"
    data.write_text("key,value\n" + "".join(f"{i},{i % 3}\n" for i in range(50)))
    command = [
        "compile",
        str(data),
        "--method",
        "retrieval",
        "--shards",
        "2",
        "--work",
        str(work),
        "-o",
        str(folder / "out"),
    ]
    run([*command, "-q"])
    shutil.rmtree(folder / "out")
    for path in work.rglob("*.npz"):
        write_arrays(path, {"words": np.zeros(1)})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("words.npy", bytes(128 * MIB))
    return command


@case("work folder: a document of brackets")
def work_document(folder: Path) -> list[str]:
    command = work_archive(folder)
    write_json(Path(command[command.index("--work") + 1]) / "job.json", [[]] * 10**5)
    return command


# --- checkpoints of others, and numbers -------------------------------------------------------------------


def host(name: str, change: Callable[[Path], object], *command: str) -> None:
    def make(folder: Path) -> list[str]:
        save_host(folder / "host")
        change(folder / "host")
        (folder / "facts.csv").write_text("key,value\nThe capital of France is,Paris.\n")
        return [each.replace("FOLDER", str(folder)) for each in command]

    case(name)(make)


GRAFT = ("graft", "FOLDER/host", "FOLDER/facts.csv", "-o", "FOLDER/out")
host("host: a width of 2^17", edit("config.json", hidden_size=2**17), *GRAFT)
host("host: code of its own", edit("config.json", auto_map={"AutoModel": "x.py"}), *GRAFT)
host(
    "host: a header of 2^40 bytes",
    write("model.safetensors", (2**40).to_bytes(8, "little") + b"{}"),
    "detect",
    "FOLDER/host",
)
text(
    "golden: a checkpoint of 2^60 layers",
    "golden/family.json",
    json.dumps(
        {
            "checkpoints": {
                "x": {
                    "name": "x",
                    "architecture": "llama",
                    "n_layers": 2**60,
                    "hidden": 8,
                    "inner": 8,
                    "n_heads": 1,
                    "n_kv_heads": 1,
                    "head_dim": 8,
                }
            }
        }
    ),
    "golden",
    "check",
    "FOLDER/golden",
    "--engine",
    "transformers",
)
text(
    "golden: five million brackets",
    "golden/family.json",
    "[" + "[]," * 5 * MIB + "0]",
    "golden",
    "check",
    "FOLDER/golden",
    "--engine",
    "transformers",
)
text("numbers: 1e999999999 facts", "x", "", "plan", "--facts", "1e999999999")
text("numbers: 1e30 samples of dimension 1e30", "x", "", "bounds", "--samples", "1e30", "--dim", "1e30")


# --- measuring --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """What one case took: bytes of the input, exit status, seconds of the processor, bytes of memory at once."""

    name: str
    command: str
    input_bytes: int
    status: int
    seconds: float
    memory_bytes: int

    @property
    def is_small(self) -> bool:
        return (
            self.status not in (ExitStatus.CRASH, -1)
            and self.seconds < MOST_SECONDS
            and self.memory_bytes < MOST_BYTES
        )


def measure(name: str, folder: Path, limit: int | None = None) -> Taken:
    """Make one input, and run its command in a process of its own, which may take `limit` bytes more than it has, if given."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    maker = os.fork()  # making it may take more than reading it
    if maker == 0:
        _silence()
        (folder / ".command").write_text(json.dumps(CASES[name](folder)))
        os._exit(0)
    if os.waitpid(maker, 0)[1]:
        raise RuntimeError(f"{name} cannot be made")
    command = json.loads((folder / ".command").read_text())
    (folder / ".command").unlink()
    n_bytes = sum(
        path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    child = os.fork()
    if child == 0:
        _silence()
        if limit is not None:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (mapped + limit, mapped + limit))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        status = ExitStatus.CRASH
        try:
            status = run(command)
        finally:
            os._exit(status)
    _, ended, used = os.wait4(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return Taken(
        name,
        command[0],
        n_bytes,
        status if status >= 0 else -1,
        round(used.ru_utime + used.ru_stime, 3),
        used.ru_maxrss * 1024,
    )


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process


def warm_up(folder: Path) -> None:
    """Import what commands import, so that no case pays for it."""
    import pyarrow  # noqa: F401
    import torch
    import transformers  # noqa: F401

    import byheart.graft.workflow
    import byheart.reproduce.figure_files  # noqa: F401

    torch.set_num_threads(1)
    for fixture in ("transformer-exact", "retrieval-float64", "llama-facts", "schema-1-float64"):
        load(FIXTURES / fixture).predict(["capital of France"])
    warm = os.fork()
    if warm == 0:
        _silence()
        run(["compile", str(CAPITALS), "-q", "-o", str(folder / "warm")])
        os._exit(0)
    os.waitpid(warm, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="hostile_inputs", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="also write the record there")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        warm_up(Path(place))
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        found = []
        for name in CASES:
            if options.only in name:
                found.append(measure(name, Path(place) / "case"))
                print(f"{len(found)}: {found[-1]}", file=sys.stderr, flush=True)
    print(f"{len(found)} inputs; this process itself holds {own / 1e6:.0f} MB")
    print(f"{'input':45} {'command':9} {'bytes':>11} {'exit':>4} {'seconds':>8} {'MB':>6}")
    for each in found:
        flag = "" if each.is_small else "   <- too much"
        numbers = f"{each.input_bytes:11,} {each.status:4} {each.seconds:8.2f} {each.memory_bytes / 1e6:6.0f}"
        print(f"{each.name:45} {each.command:9} {numbers}{flag}")
    worst = (max(each.seconds for each in found), max(each.memory_bytes for each in found))
    print(f"at most {worst[0]:.2f} s and {worst[1] / 1e6:.0f} MB")
    if options.output is not None:
        document = {"cores": os.cpu_count(), "process_bytes": own, "cases": [asdict(each) for each in found]}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(each.is_small for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
