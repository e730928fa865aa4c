"""Writing a folder whole or not at all, and mending what a crash left behind.

A save writes `.NAME.PID-MARK.new` beside the target, puts every file of it on disk, exchanges it with a folder that is there, in
one step, and removes the old one. Where the system has no such step (only Linux does), the old folder is moved to
`.NAME.PID-MARK.old`, then the new one into place. A crash between the two moves leaves no folder at the target, though both lie
beside it: `mend` finishes the second move. Anything else that an ended process left behind is removed.

`read_whole` reads a folder that may be replaced meanwhile: it returns the whole old one or the whole new one.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from byheart.errors import ByheartError, UsageError
from byheart.process.liveness import is_running

ABANDONED_SECONDS = 3600
ATTEMPTS, ATTEMPT_SECONDS = 20, 0.05
AT_FDCWD, RENAME_EXCHANGE = (
    -100,
    2,
)  # of Linux: a path counts from the current folder; two paths change places

T = TypeVar("T")


@contextmanager
def replaced_folder(target: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `target` when the block ends without an exception.

    check: raises where the target may not be replaced.

    The new folder has a temporary name beside the target until every file in it is on disk. If anything
    fails before that, the target stays as it was. An old folder at the target is removed last.
    """
    target = Path(os.path.realpath(target))
    mend(target)
    check(target)
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
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


def put_file(folder: Path, name: str, content: bytes) -> None:
    """Write the file `name` of a folder, whole or not at all, without temporary files in the folder.

    It is written in a folder beside it, named as those of `replaced_folder`, so that `mend` clears away what a crash leaves.
    """
    folder = Path(os.path.realpath(folder))
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        fresh.mkdir()
        try:
            (fresh / name).write_bytes(content)
            _to_disk(fresh / name)
            (fresh / name).replace(folder / name)
            _to_disk(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder / name}: {error.strerror or error}.\n  Nothing was changed there.",
            path=str(folder / name),
        ) from error


def mend(target: Path) -> None:
    """Finish or remove what interrupted saves left beside `target`; what cannot be written stays as it is."""
    target = Path(os.path.realpath(target))
    try:
        leftovers = _leftovers(target)
        for mark in sorted({mark for mark, _ in leftovers}):
            fresh, aside = leftovers.get((mark, "new")), leftovers.get((mark, "old"))
            # the old folder is moved aside only when every file of the new one is on disk
            if aside is not None and not target.exists():
                (fresh or aside).rename(target)
            for path in (fresh, aside):
                if path is not None and target.exists():
                    shutil.rmtree(path, ignore_errors=True)
            if fresh is not None and aside is None:
                shutil.rmtree(fresh, ignore_errors=True)
    except OSError:
        return


def _leftovers(target: Path) -> dict[tuple[str, str], Path]:
    """Folders left behind by saves whose processes have ended, by mark and kind."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(?:(\d+)-)?([0-9a-f]{8})\.(new|old)")
    found = {}
    for path in target.parent.iterdir() if target.parent.is_dir() else ():
        match = pattern.fullmatch(path.name)
        if match is not None and path.is_dir() and not _may_be_alive(match[1], path):
            found[match[2], match[3]] = path
    return found


def _may_be_alive(process: str | None, path: Path) -> bool:
    """Whether the process that writes this folder may still run. Folders of older versions do not name it, so their age decides."""
    if process is None:
        return time.time() - path.stat().st_mtime < ABANDONED_SECONDS
    if int(process) == os.getpid():
        return True
    return is_running(int(process))


def read_whole(folder: Path, read: Callable[[], T]) -> T:
    """The result of `read` on a folder; it reads again if the folder was replaced meanwhile."""
    for _ in range(ATTEMPTS):
        before = _identity(folder)
        try:
            found = read()
        except (ByheartError, OSError):
            if _identity(folder) == before and not _is_between_moves(folder):
                raise
            time.sleep(ATTEMPT_SECONDS)
            continue
        if _identity(folder) == before:
            return found
    return read()


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """What distinguishes a folder from the one that replaces it."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _is_between_moves(folder: Path) -> bool:
    """Whether a running process has moved the old folder away but not yet put the new one in its place."""
    target = Path(os.path.realpath(folder))
    if target.exists() or not target.parent.is_dir():
        return False
    names = (path.name for path in target.parent.iterdir())
    return any(name.startswith(f".{target.name}.") and name.endswith(".old") for name in names)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    paths = (os.fsencode(one), os.fsencode(other))
    return bool(renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0)


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    replaces = target.exists()
    if replaces and _exchange(fresh, target):  # `fresh` is the old folder now
        _to_disk(target.parent)
        return
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
