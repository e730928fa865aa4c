"""Writing a folder whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from byheart.errors import UsageError
from byheart.network.families import FAMILIES

WEIGHTS, MODEL, CERTIFICATE = "model.safetensors", "model.json", "certificate.json"
FILES = {WEIGHTS, MODEL, CERTIFICATE, *(name for family in FAMILIES.values() for name in family.files)}
"""Every file a model folder may hold."""


def check_target(path: Path) -> None:
    """Refuse a place where a model folder may not be written; nothing is touched.

    Allowed are a path that does not exist, an empty folder, and a model folder, which will be replaced.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise UsageError(
            f"{path} exists and is not a folder.\n  Choose another place, or remove it.", path=str(path)
        )
    names = sorted(entry.name for entry in path.iterdir())
    foreign = [name for name in names if name not in FILES]
    if foreign or (names and MODEL not in names):
        shown = ", ".join((foreign or names)[:3])
        raise UsageError(
            f"{path} exists and is no byheart model folder: it holds {shown}.\n"
            "  Nothing was written. Choose another place, or empty the folder.",
            path=str(path),
            holds=(foreign or names)[:20],
        )


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `target` when the block ends without an exception.

    The new folder is a sibling with a name of its own until every file in it is on disk. Whatever fails
    before that, the target stays as it was. A model folder already there is moved aside first, removed last.
    """
    target = Path(os.path.realpath(target))
    check_target(target)
    mark = secrets.token_hex(4)
    fresh = target.with_name(f".{target.name}.{mark}.new")
    aside = target.with_name(f".{target.name}.{mark}.old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        try:
            yield fresh
            for entry in fresh.iterdir():
                _to_disk(entry)
            _to_disk(fresh)
            _swap(fresh, target, aside)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror or error}.\n  Nothing was changed there.",
            path=str(target),
        ) from error


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    replaces = target.exists()
    if replaces:
        target.rename(aside)
    try:
        fresh.rename(target)
    except BaseException:
        if replaces:
            aside.rename(target)
        raise
    _to_disk(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
