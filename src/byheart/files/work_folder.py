"""A folder of intermediate results. Every file in it is complete, so that interrupted work can continue.

Checksums and file names are stored with the results, so that a file that was damaged, truncated or swapped is detected.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from byheart.errors import ByheartError, MalformedFile, UsageError
from byheart.files.npz_archive import read_npz
from byheart.files.whole_file import write_whole
from byheart.process.memory_limit import OverMemoryLimit, require_memory

JOB = "job.json"
LOCK = "lock"  # holds the number of the process that uses the folder
NAME = "file name"  # the array that holds the name of its file
MEMORY_PER_BYTE = 8  # memory that reading a JSON document takes, per byte of the document


class DamagedWork(UsageError):
    """A file of an unfinished compilation was damaged or changed."""


def damaged(path: Path, problem: str) -> DamagedWork:
    """Return the exception for a damaged file. Its message names the folder to remove."""
    folder = next((each for each in path.parents if (each / JOB).exists()), path.parent)
    return DamagedWork(
        f"{path}: the stored parts of an unfinished compilation are damaged: {problem}.\n"
        f"  Remove the folder {folder} and run the same command again. It starts from the beginning.",
        path=str(path),
        folder=str(folder),
    )


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays to a file that `read_arrays` can read."""
    save: Callable[..., None] = np.savez
    write_whole(path, lambda file: save(file, **arrays, **{NAME: np.array(path.name)}))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what `write_arrays` wrote. The archive has a checksum of every array."""
    _require_plain(path)
    try:
        found = read_npz(path)
    except MalformedFile as error:
        raise damaged(path, "the file cannot be read as an .npz archive") from error
    if str(found.pop(NAME, None)) != path.name:
        raise damaged(path, "the file was written under another name")
    return found


def write_parts(path: Path, part_of: np.ndarray, n_parts: int, columns: Sequence[np.ndarray]) -> None:
    """Write rows of 64-bit integers to a file, sorted by part, so that `read_part` can read a single part.

    `columns` holds the columns of these rows, and `part_of` holds the number of the part of each row.
    """
    order = np.argsort(part_of, kind="stable")
    bounds = np.searchsorted(part_of[order], np.arange(n_parts + 1, dtype=part_of.dtype))
    rows = np.stack([column.view(np.int64)[order] for column in columns], axis=1)
    sums = [crc32(rows[begin:end].data) for begin, end in pairwise(bounds)]
    write_arrays(
        path.with_suffix(".bounds"), {"bounds": bounds, "checksums": np.array(sums, dtype=np.uint32)}
    )
    write_whole(path, lambda file: np.save(file, rows))


def read_part(paths: Iterable[Path], number: int) -> np.ndarray:
    """Return the rows of part `number` from all files in `paths`, in the order of the files, without reading other parts."""
    found = []
    for path in paths:
        about = read_arrays(path.with_suffix(".bounds"))
        _require_plain(path)
        try:
            begin, end = about["bounds"][number : number + 2]
            part = np.load(path, mmap_mode="r", allow_pickle=False)[begin:end]
            require_memory(f"{path}: part {number}", part.nbytes)
            rows, checksum = np.array(part), about["checksums"][number]
        except OverMemoryLimit:
            raise
        except Exception as error:  # numpy raises many types of exceptions
            raise damaged(path, str(error) or type(error).__name__) from error
        if rows.dtype != np.int64 or not rows.flags.c_contiguous or crc32(rows.data) != checksum:
            raise damaged(path, f"the checksum of part {number} is not the one that was written")
        found.append(rows)
    return np.concatenate(found)


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove the files that `write_parts` wrote."""
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_suffix(".bounds").unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document to a file. A second line holds a checksum, which covers the document and the name of the file."""
    text = json.dumps(document, ensure_ascii=True)
    write_whole(path, lambda file: file.write(f"{text}\n{_checksum(path, text)}\n".encode("ascii")))


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote. Return None if the file does not exist."""
    if not path.exists():
        return None
    _require_plain(path)
    require_memory(f"reading {path}", MEMORY_PER_BYTE * path.stat().st_size)
    text, _, checksum = path.read_bytes().decode("ascii", "replace").removesuffix("\n").rpartition("\n")
    if checksum != _checksum(path, text):
        raise damaged(path, "the checksum of the file is not the one that was written")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from error


def require_json(path: Path) -> Any:
    """Read what `write_json` wrote. The file must exist."""
    found = read_json(path)
    if found is None:
        raise damaged(path, "the file is missing")
    return found


def _checksum(path: Path, text: str) -> str:
    return f"{crc32(f'{path.name} {text}'.encode()):08x}"


def _require_plain(path: Path) -> None:
    """Raise an error for a missing file, and for a pipe or device, which may never end."""
    if not path.is_file():
        raise damaged(path, "the file is missing, or it is a folder, a pipe or a device")


def describe_job(file: Path, **settings: Any) -> dict[str, Any]:
    """Return everything that the results of a job depend on: the path, size and modification time of the file, and the settings.

    If a setting is a mapping, its values are converted to text.
    """
    stat = file.stat()
    words = {
        name: {key: str(item) for key, item in value.items()} if isinstance(value, Mapping) else value
        for name, value in settings.items()
    }
    return {"file": str(file.resolve()), "bytes": stat.st_size, "changed": stat.st_mtime_ns, **words}


@contextmanager
def claimed_folder(folder: Path, job: Mapping[str, Any]) -> Iterator[None]:
    """Return a context manager that locks `folder` for this process and records in it the job that its files belong to.

    `job` is what `describe_job` returns. A folder is refused if another process uses it, if it belongs to another job, or if it
    holds unrelated files. The kernel holds the lock, so the lock ends with the process, however the process ends. If the folder
    already held files, an unexpected error in the block is reported as damage to these files, because a file may have a correct
    checksum and wrong content.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.\n  Choose a folder.", path=str(folder))
    if (
        folder.exists()
        and not (folder / JOB).exists()
        and any(path.name != LOCK for path in folder.iterdir())
    ):
        raise UsageError(
            f"{folder} is not empty, and it is not the folder of an unfinished compilation.\n"
            "  Choose another folder.",
            path=str(folder),
        )
    with _locked(folder):
        is_old = (folder / JOB).exists()
        _claim(folder, job)
        try:
            yield
        except (ByheartError, MemoryError, OSError):
            raise
        except Exception as error:
            if not is_old:
                raise
            problem = f"the files in this folder do not match each other ({type(error).__name__}: {error})"
            raise damaged(folder / JOB, problem) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror or error}.\n  Choose another folder.", path=str(folder)
        ) from error
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise UsageError(
                    f"cannot lock {folder}: {error.strerror}.\n  Choose a folder on a disk that supports file locks.",
                    path=str(folder),
                ) from error
            holder = file.read(100).decode("ascii", "replace").strip() or "unknown"
            raise UsageError(
                f"{folder} is in use by another process (process id: {holder}).\n"
                "  Wait until that process ends, or choose another folder.",
                path=str(folder),
                holder=int(holder.partition(" ")[0]) if holder[:1].isdigit() else None,
            ) from None
        file.truncate()
        file.write(f"{os.getpid()} on {socket.gethostname()}\n".encode("ascii", "replace"))
        file.flush()
        yield


def _claim(folder: Path, job: Mapping[str, Any]) -> None:
    known = read_json(folder / JOB)
    if known is None:
        write_json(folder / JOB, dict(job))
        return
    if not isinstance(known, dict):
        raise damaged(folder / JOB, "the file does not describe a job")
    differing = sorted(name for name in {*known, *job} if known.get(name) != job.get(name))
    if differing:
        shown = ", ".join(
            f"{name} (in the folder: {known.get(name)!r}, now: {job.get(name)!r})" for name in differing
        )
        raise UsageError(
            f"{folder} holds the unfinished parts of another compilation, with other settings: {shown}.\n"
            "  Choose another folder, or remove this one.",
            path=str(folder),
            differing=differing,
        )
