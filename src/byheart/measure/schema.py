"""The database tables of a run store, for every version of its schema.

An older store is upgraded when it is opened; no store is ever downgraded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache

APPLICATION_ID = 0x62796865  # "byhe", which distinguishes our stores from other SQLite files

_RUNS = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,
    config TEXT NOT NULL,
    status TEXT NOT NULL,
    steps INTEGER NOT NULL,
    measured TEXT NOT NULL,
    n_parameters INTEGER NOT NULL,
    n_samples REAL NOT NULL,
    seconds REAL NOT NULL,
    device TEXT NOT NULL,
    versions TEXT NOT NULL,
    created TEXT NOT NULL,
    curve BLOB NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER runs_are_never_changed BEFORE UPDATE ON runs
    BEGIN SELECT RAISE(ABORT, 'records are immutable'); END;
CREATE TRIGGER runs_are_never_removed BEFORE DELETE ON runs
    BEGIN SELECT RAISE(ABORT, 'records are immutable'); END;
"""

_CLAIMS = """
CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_family ON runs (json_extract(config, '$.family'));
"""

# Entry v brings a store from version v to v + 1.
MIGRATIONS: tuple[str, ...] = (_RUNS, _CLAIMS)
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of an open store, or 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run all statements of the block in one transaction, while other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection, upto: int = VERSION) -> None:
    """Upgrade a store to version `upto`, with one transaction per version."""
    while True:
        with transaction(connection):
            # read inside the transaction, because another process may have upgraded the store already
            version = version_of(connection)
            if version >= upto:
                return
            for statement in _statements(MIGRATIONS[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1}")


def find_strange(connection: sqlite3.Connection) -> str | None:
    """Compare a store with what `migrate` creates. Describe the first forbidden difference, or return None if there is none.

    The tables and triggers that `migrate` creates must be present and unchanged. Its indexes may be missing, but not changed.
    Other tables are allowed; other views, triggers and indexes are not. They may do harm: the query of a view may never end,
    and a trigger may delete records.
    """
    ours, found = _own_parts(), _parts(connection)
    for (kind, name), sql in ours.items():
        # without an index, a query is slower but gives the same result
        is_spare = kind == "index" and (kind, name) not in found
        if found.get((kind, name)) != sql and not is_spare:
            return f"its {kind} {name} is missing or differs from the one that byheart makes"
    others = [f"{kind} {name}" for kind, name in found if kind != "table" and (kind, name) not in ours]
    return f"it contains {others[0]}, which byheart does not make" if others else None


@cache
def _own_parts() -> dict[tuple[str, str], tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        return _parts(fresh)


def _parts(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, for each table, view, trigger and index, the SQL statement that created it, split into words.

    The keys are pairs of kind and name. A name alone is not unique, because a trigger may have the name of a table.
    """
    parts = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return {(kind, name): tuple(sql.split()) for kind, name, sql in connection.execute(parts).fetchall()}


def _statements(script: str) -> list[str]:
    """Split a script into complete statements. SQLite decides where a statement ends, because a trigger contains semicolons."""
    statements, current = [], ""
    for line in script.strip().splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    assert not current.strip()
    return statements
