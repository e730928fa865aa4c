"""Write a file whole or not at all: it is written under another name, synced to disk, and then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from byheart.errors import UsageError

MODEL, WEIGHTS = "model.json", "model.safetensors"
"""Files by which a model folder is known."""


def check_file_target(path: Path) -> None:
    """Refuse to replace a pipe or a device by a file, and to write into the folder of a model."""
    if not path.name:
        raise UsageError(f"{path} is not a file name.\n  Name one; nothing was written.", path=str(path))
    if any((folder / MODEL).exists() and (folder / WEIGHTS).exists() for folder in _folders_of(path)):
        raise UsageError(
            f"{path} is in the folder of a model, which holds nothing but the model.\n"
            "  Choose another place; nothing was written.",
            path=str(path),
        )
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(
            f"{path} is a pipe or a device, not a file.\n  Name a file; nothing was written.", path=str(path)
        )


def _folders_of(path: Path) -> set[Path]:
    """The folders that would change: the one that is named, and the one that a link leads to."""
    return {path.parent, Path(os.path.realpath(path)).parent}


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends without an exception."""
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
            "  What was finished before is kept; make room and run the same command again.",
            path=str(path),
        ) from error
    finally:
        with suppress(OSError):  # which must not hide what went wrong before
            fresh.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` write a file, whole or not at all."""
    with whole_file(path) as fresh, fresh.open("wb") as file:
        write(file)
