"""Run stores with spoilt pages, and sound ones whose records hold odd fields."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from random import Random

from byheart.measure.records import key_of
from byheart.measure.store import Store
from tests.attacks.fuzz.mutation import TEXTS, VALUES, mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, run_command
from tests.measure.test_store import record

SCHEMAS = (
    "CREATE TRIGGER {name} AFTER INSERT ON runs BEGIN DELETE FROM runs WHERE key = NEW.key; END",
    "CREATE TRIGGER {name} AFTER INSERT ON runs BEGIN INSERT INTO runs SELECT * FROM runs; END",
    "CREATE TRIGGER {name} BEFORE INSERT ON runs BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER {name} AFTER UPDATE ON runs BEGIN UPDATE runs SET status = 'done'; END",
    "CREATE VIEW {name} AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
    "CREATE INDEX {name} ON runs (hex(zeroblob(100000)))",
    "CREATE INDEX {name} ON runs (json_extract(config, '$.x'))",
    "ALTER TABLE runs ADD COLUMN more TEXT DEFAULT 'x'",
    "ALTER TABLE runs RENAME COLUMN status TO state",
    "ALTER TABLE runs RENAME TO others",
    "CREATE TABLE {name} (key TEXT)",
)


class Stores(Target):
    """Run stores with spoilt pages, and sound ones whose records hold odd fields."""

    name, share = "stores", 12

    def prepare(self, folder: Path) -> None:
        path = folder / "seed.sqlite"
        with Store(path) as store:
            for seed in range(4):
                store.add(record(seed))
            store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            store.connection.execute("PRAGMA journal_mode = DELETE")
        self.seed = path.read_bytes()
        with sqlite3.connect(path) as connection:
            self.row = connection.execute("SELECT * FROM runs").fetchone()
        connection.close()
        run_command("runs", "list", "--store", str(path))

    def attack(self, random: Random, folder: Path) -> str:
        path = folder / "runs.sqlite"
        kind = random.random()
        path.write_bytes(mutate_bytes(self.seed, random) if kind < 0.4 else self.seed)
        if kind >= 0.7:
            self._odd_schema(path, random)
        elif kind >= 0.4:
            self._odd_record(path, random)
        action = random.randrange(5)
        if action == 0:
            with Store(path) as store:
                store.claim(["k", self.row[0]])
                store.add(record(9))
                store.release()
        elif action == 1:
            run_command("runs", "compare", "--store", str(path), *random.choice(([], ["--json"])))
        elif action == 2:
            run_command("runs", "export", "--store", str(path), "-o", str(folder / "out.csv"))
        else:
            where = random.choice(
                ([], ["--where", "sizes.n_heads>=1"], ["--where", "seed=" + random.choice(TEXTS)])
            )
            run_command("runs", "list", "--store", str(path), *where, *random.choice(([], ["--json"])))
        return "taken"

    def _odd_schema(self, path: Path, random: Random) -> None:
        """A sound file whose triggers, views, indexes and columns are another's, under the names of ours."""
        connection = sqlite3.connect(path)
        found = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        ).fetchall()
        kind, name, _ = random.choice(found)
        if kind in ("index", "trigger", "view") and random.random() < 0.7:
            connection.execute(f"DROP {kind} {name}")
        new = random.choice(SCHEMAS).format(name=name if random.random() < 0.7 else "another")
        with suppress(sqlite3.Error):
            connection.execute(new)
        connection.commit()
        connection.close()

    def _odd_record(self, path: Path, random: Random) -> None:
        row = list(self.row)
        for _ in range(random.choice((1, 1, 2))):
            column = random.randrange(len(row))
            if column in (1, 4, 9) and random.random() < 0.8:
                row[column] = mutate_document(json.loads(self.row[column]), random).decode("utf-8", "replace")
            elif column == 11:
                row[column] = mutate_bytes(self.row[column], random)
            else:
                value = random.choice(VALUES)
                row[column] = (
                    value
                    if isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 2**63)
                    else "x"
                )
        if row[0] == self.row[0]:
            with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                row[0] = key_of(json.loads(row[1]))  # otherwise every odd config is refused for its key
        connection = sqlite3.connect(path)
        connection.execute("DROP INDEX runs_by_family")  # which asks for JSON
        connection.execute("INSERT OR REPLACE INTO runs VALUES (" + ", ".join("?" * len(row)) + ")", row)
        connection.commit()
        connection.close()
