"""Stores of runs, specifications, work folders, records of figures, configurations and numbers."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from pathlib import Path

import numpy as np

from byheart.cli.main import run
from byheart.files.work_folder import write_arrays, write_json
from byheart.measure.store import Store
from tests.attacks.hostile_inputs.case import MIB, ROOT, case
from tests.attacks.hostile_inputs.changes import text
from tests.measure.test_store import record


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
    "store: 33 million brackets",
    "UPDATE runs SET config = '[' || replace(hex(zeroblob(16500000)), '0', '[],') || '0]'",
    "runs",
    "list",
    "--store",
    "STORE",
)
store(
    "store: a text of 100 MB with an emoji",
    "UPDATE runs SET device = hex(zeroblob(50000000)) || char(0x1f600)",
    "runs",
    "list",
    "--store",
    "STORE",
)
store(
    "store: an owner of 100 MB",
    "INSERT INTO claims VALUES ('key', hex(zeroblob(50000000)), 0)",
    "measure",
    str(ROOT / "examples" / "heads.toml"),
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


text("numbers: 1e999999999 facts", "x", "", "plan", "--facts", "1e999999999")
text("numbers: 1e30 samples of dimension 1e30", "x", "", "bounds", "--samples", "1e30", "--dim", "1e30")
text(
    "figure: a pass of 100,000 brackets",
    "results/passes.jsonl",
    "[" * 10**5 + "\n",
    "report",
    "--results",
    "FOLDER/results",
    "-o",
    "FOLDER/out",
)
