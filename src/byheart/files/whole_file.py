"""Write a file atomically: a temporary file is written and synced to disk, and then it is renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from byheart.errors import UsageError

MODEL, WEIGHTS = "model.json", "model.safetensors"
"""A folder that contains both of these files is a model folder."""


def check_file_target(path: Path) -> None:
    """Raise an error if `path` has no file name, lies in a model folder, or is a pipe or a device."""
    if not path.name:
        raise UsageError(
            f"{path} is not a file name.\n  Nothing was written. Give the path of a file.", path=str(path)
        )
    if any((folder / MODEL).exists() and (folder / WEIGHTS).exists() for folder in _folders_of(path)):
        raise UsageError(
            f"{path} is in a model folder, which may hold nothing but the model.\n"
            "  Nothing was written. Choose another folder.",
            path=str(path),
        )
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(
            f"{path} is a pipe or a device, not a file.\n  Nothing was written. Give the path of a file.",
            path=str(path),
        )


def _folders_of(path: Path) -> set[Path]:
    """Return the folders that writing to `path` may change: the folder of `path` itself and, if `path` goes through links, the
    folder of the file to which they lead.
    """
    return {path.parent, Path(os.path.realpath(path)).parent}


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Return a context manager that gives the block a temporary path to write to.

    If the block ends without an exception, the temporary file is renamed to `path`; otherwise, it is removed.
    """
    check_file_target(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}.\n"
            "  Nothing was changed there. Free some disk space if the disk is full, and run the same command "
            "again.",
            path=str(path),
        ) from error
    finally:
        with suppress(OSError):  # usually, it was renamed; an error here must not hide the original one
            fresh.unlink()


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write the file `path` atomically: `write` is called with a binary file that becomes `path` when it is complete."""
    with whole_file(path) as fresh, fresh.open("wb") as file:
        write(file)
