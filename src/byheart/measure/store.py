"""The run store: an SQLite database (in WAL mode) of immutable records, keyed by configuration. Several processes may write to
it.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from byheart.errors import ByheartError, DataError, DoesNotHold, ExitStatus, UsageError
from byheart.measure import schema
from byheart.measure.records import Record, canonical, pack_curve
from byheart.measure.stored_record import COLUMNS, DOCUMENTS, read_row
from byheart.process.liveness import is_running, start_of

LEASE_SECONDS = 300.0  # time after which a claim counts as lost, if its process cannot be checked
BUSY_SECONDS = 60.0  # how long a writer waits for another writer
MOST_BYTES = 2**27  # maximum size of one value in a store; a list of a million keys fits
MOST_TEXT_BYTES = 2**22  # maximum size of one value of a run or claim, except the curve

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CorruptStore(DoesNotHold):
    """The file is not a run store, or is damaged."""


class NewerStore(UsageError):
    """The store was written by a newer version of byheart."""


class StoreStopped(ByheartError):
    """The store cannot be used at present: the disk is full, the file is locked, permission is missing, or the file was removed,
    moved or replaced while it was open.
    """

    exit_status = ExitStatus.STOPPED


def _explain(method: Callable[Concatenate[Store, _P], _T]) -> Callable[Concatenate[Store, _P], _T]:
    """Convert SQLite errors that `method` raises to byheart errors, which say what to do."""

    @wraps(method)
    def call(self: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _explaining(self.path):
            return method(self, *args, **kwargs)

    return call


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if any(words in str(error) for words in ("malformed", "Could not decode")):
            raise _corrupt(path, str(error)) from error
        raise StoreStopped(
            f"the run store {path} cannot be used: {error}.\n"
            "  Free disk space, fix permissions or wait until no other program locks the file, and run the same command "
            "again. Runs that are in the store are not repeated.",
            path=str(path),
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a text in the store may not be UTF-8
        raise _corrupt(path, str(error)) from error


def _corrupt(path: Path, reason: str, /, **facts: object) -> CorruptStore:
    return CorruptStore(
        f"{path} is damaged or is not a run store: {reason}.\n"
        f"  Nothing was deleted from the file. Save what can be read with `sqlite3 {path} .recover | sqlite3 "
        "rescued.sqlite`, or"
        " name another file with --store.",
        **facts | {"path": str(path)},
    )


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return the device and inode numbers of the file at `path`, or None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    """Open a store.

    SQLite creates files beside the store even for reading. In a read-only folder, the store is therefore opened read-only and, if
    it has no write-ahead log, without such files.
    """
    place, is_fixed = str(path), not os.access(path.parent, os.W_OK)
    if is_fixed:
        without_log = not path.with_name(f"{path.name}-wal").exists()
        place = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if without_log else ''}"
    return sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, uri=is_fixed)


class Store:
    """An open run store. Use it from one thread; open it again in each process."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        """Open the store at `path`, and upgrade it if it is older.

        If the file does not exist, make it if `create` is true, and otherwise raise `UsageError`.
        """
        self.path = Path(path)
        if not create and not self.path.exists():
            raise UsageError(
                f"there is no run store at {self.path}.\n"
                "  Give the path of an existing store, or train runs into a new one with `byheart measure`.",
                path=str(self.path),
            )
        if not self.path.parent.is_dir():
            raise UsageError(
                f"the folder {self.path.parent} of the run store does not exist.\n"
                "  Make the folder first, or give the store another path.",
                path=str(self.path),
            )
        if self.path.is_dir():
            raise UsageError(
                f"{self.path} is a folder, but a run store is a file.\n"
                f"  Name a file, such as {self.path / 'runs.sqlite'}.",
                path=str(self.path),
            )
        with _explaining(self.path):
            self.connection = _connect(self.path)
            self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise
        self._file = _file_at(self.path)

    def _prepare(self) -> None:
        version = schema.version_of(self.connection)
        if version > schema.VERSION:
            raise NewerStore(
                f"{self.path} has schema version {version}; this version of byheart knows versions up to "
                f"{schema.VERSION}.\n"
                "  Update byheart, or give another file with --store. The store was not changed.",
                path=str(self.path),
                version=version,
            )
        tables = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = self.connection.execute("PRAGMA application_id").fetchone()[0]
        if tables and application != schema.APPLICATION_ID:
            raise _corrupt(self.path, "it is a database of another program")
        answer = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise _corrupt(self.path, str(answer))
        if os.access(self.path.parent, os.W_OK):
            self.connection.execute("PRAGMA journal_mode = WAL")
            # a record that was reported as stored survives a power failure
            self.connection.execute("PRAGMA synchronous = FULL")
        if version < schema.VERSION:
            schema.migrate(self.connection)
        strange = schema.find_strange(self.connection)
        if strange is not None:
            raise _corrupt(self.path, strange)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    # --- records --------------------------------------------------------------------------------------------

    @_explain
    def add(self, record: Record) -> bool:
        """Store a record, and delete the claim on its run (the entry which says that a process trains it). If the run already has a
        record, keep that one and return False.
        """
        if _file_at(self.path) != self._file:  # SQLite would continue to write to the deleted file
            raise StoreStopped(
                f"the run store {self.path} was removed, moved or replaced while it was in "
                "use.\n"
                "  Put the file back, or run the same command again: it trains the runs that are missing from the file.",
                path=str(self.path),
            )
        row = vars(record) | {name: canonical(getattr(record, name)) for name in DOCUMENTS}
        for name in DOCUMENTS:
            if len(row[name]) > MOST_TEXT_BYTES:  # the JSON is ASCII
                raise UsageError(
                    f"run {record.key[:12]} cannot be stored: its {name} takes {len(row[name]):,} bytes; at most "
                    f"{MOST_TEXT_BYTES:,} are allowed.\n"
                    "  Describe the model and the data with fewer or shorter values.",
                    name=name,
                    n_bytes=len(row[name]),
                )
        row["curve"] = pack_curve(record.curve_steps, record.curve)
        places = ", ".join(f":{name}" for name in COLUMNS)
        with schema.transaction(self.connection):
            cursor = self.connection.execute(f"INSERT OR IGNORE INTO runs VALUES ({places})", row)
            self.connection.execute("DELETE FROM claims WHERE key = ?", (record.key,))
        return cursor.rowcount == 1

    @_explain
    def stored_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` that have a record."""
        return self._present("runs", keys)

    @_explain
    def records(self, keys: Iterable[str] | None = None, *, family: str | None = None) -> list[Record]:
        """Return records in order of creation: all of them, only those of `keys`, or only those of one family."""
        self._require_small("runs", COLUMNS)
        query, values = "SELECT * FROM runs WHERE true", []
        if keys is not None:
            query += " AND key IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(list(keys)))
        if family is not None:
            query += " AND json_extract(config, '$.family') = ?"
            values.append(family)
        found = [self._record(row) for row in self.connection.execute(query, values)]
        # ORDER BY would copy each row, with its curve, several times
        return sorted(found, key=lambda record: (record.created, record.key))

    def records_of(self, keys: Sequence[str]) -> list[Record]:
        """Return the records of `keys`, in the order of the keys. Keys without a record are skipped."""
        found = {record.key: record for record in self.records(keys)}
        return [found[key] for key in keys if key in found]

    def _record(self, row: Sequence[Any]) -> Record:
        try:
            return read_row(row)
        except DataError as error:
            raise _corrupt(self.path, str(error).rstrip("."), **error.facts) from error

    def _require_small(self, table: str, columns: Iterable[str]) -> None:
        """Raise `CorruptStore` if a value of `table`, other than a curve, exceeds the size limit. SQLite compares the sizes."""
        # the length of a text ends at its first NUL, that of a blob does not
        sizes = {name: f"length(CAST({name} AS BLOB))" for name in columns}
        if "curve" in sizes:
            sizes["curve"] = f"CASE typeof(curve) WHEN 'blob' THEN 0 ELSE {sizes['curve']} END"
        listed = ", ".join(sizes.values())
        query = f"SELECT substr(key, 1, 12), {listed} FROM {table} WHERE max({listed}) > ? LIMIT 1"
        large = self.connection.execute(query, (MOST_TEXT_BYTES,)).fetchone()
        if large is not None:
            key, *n_bytes = large
            _, name = max(zip(n_bytes, sizes, strict=True))
            reason = f"{name} of run {key} takes more than {MOST_TEXT_BYTES:,} bytes"
            raise _corrupt(self.path, reason, run=f"run {key}", name=name)

    @_explain
    def count(self) -> int:
        """Return the number of records."""
        return int(self.connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    # --- claims: which process trains which runs -----------------------------------------------------------------------

    @_explain
    def claim(self, keys: Sequence[str], owner: str | None = None, limit: int | None = None) -> list[str]:
        """Claim up to `limit` of `keys` and return them: the store notes that `owner` (default: this process) trains these runs.

        Keys that have a record or a valid claim are skipped. A claim is valid until its owner (a process) has ended. If this cannot
        be checked, the claim is valid until its time of expiry.
        """
        owner = owner or this_process()
        with schema.transaction(self.connection):
            self._drop_lost_claims()
            taken = self._present("runs", keys) | self._present("claims", keys)
            free = [key for key in dict.fromkeys(keys) if key not in taken][:limit]
            expires = time.time() + LEASE_SECONDS
            claims = [(key, owner, expires) for key in free]
            self.connection.executemany("INSERT INTO claims VALUES (?, ?, ?)", claims)
        return free

    @_explain
    def renew(self, owner: str | None = None) -> None:
        """Record that `owner` (default: this process) is alive, which keeps its claims on runs valid."""
        expires = time.time() + LEASE_SECONDS
        self.connection.execute(
            "UPDATE claims SET expires = ? WHERE owner = ?", (expires, owner or this_process())
        )

    @_explain
    def release(self, owner: str | None = None) -> None:
        """Delete all claims of `owner` (default: this process), so that other processes may train the claimed runs."""
        self.connection.execute("DELETE FROM claims WHERE owner = ?", (owner or this_process(),))

    def _drop_lost_claims(self) -> None:
        self._require_small("claims", ("key", "owner", "expires"))
        owners = self.connection.execute("SELECT owner, min(expires) FROM claims GROUP BY owner").fetchall()
        lost = [(owner,) for owner, expires in owners if _is_lost(owner, expires)]
        self.connection.executemany("DELETE FROM claims WHERE owner = ?", lost)

    def _present(self, table: str, keys: Iterable[str]) -> set[str]:
        query = f"SELECT key FROM {table} WHERE key IN (SELECT value FROM json_each(?))"
        return {row[0] for row in self.connection.execute(query, (json.dumps(list(keys)),))}


@lru_cache(maxsize=1)
def _own_name(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{start_of(pid)}"


def this_process() -> str:
    """Return a name for this process. On Linux, no other process has had it since this machine booted, even if it has ended."""
    return _own_name(os.getpid())


def _is_lost(owner: str, expires: float) -> bool:
    """Return whether the claims of an owner (a process that trains runs) may be deleted.

    A process of this machine loses its claims when it ends. Whether a process of another machine has ended cannot be checked, so
    its claims may be deleted once they have expired.
    """
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    started = owner.rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdigit():
        return expires < time.time()
    pid = int(rest)
    if not is_running(pid):
        return True
    # the id of a process that has ended may be used again, so its start must agree too
    return start_of(pid) != started if started else expires < time.time()
