"""Write a folder atomically, and repair what a crash left behind.

A save writes the folder `.NAME.PID-MARK.new` beside the target and syncs every file to disk. NAME is the name of the target, PID
the number of the process, and MARK a random number. If the target exists, the two folders are exchanged in one step, and the old
one is removed. This exchange is done on Linux only. On other systems, and if the exchange fails, the old folder is moved to
`.NAME.PID-MARK.old`, and then the new one to the target. After a crash between these two moves, no folder is at the target, but
the old and the new folder are beside it. `mend` then makes the second move. It removes anything else that an ended process left
behind.

`read_whole` reads a folder that may be replaced during reading. If it was replaced meanwhile, it is read again, so the result is
not a mixture of two folders. If this happens `ATTEMPTS` times in a row, the folder is read once more, and that result may be a
mixture.
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
# constants of Linux: paths are relative to the current folder; exchange the two paths
AT_FDCWD, RENAME_EXCHANGE = (-100, 2)

T = TypeVar("T")


@contextmanager
def replaced_folder(target: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """Return a context manager with a new folder to write into.

    The folder replaces `target` if the block ends without an exception.

    check: a function that raises an error if the target may not be replaced.

    Until every file is on disk, the new folder has a temporary name beside the target. If anything fails before that,
    the target is unchanged. An old folder at the target is removed last.
    """
    target = Path(os.path.realpath(target))
    mend(target)
    check(target)
    is_replaced = False
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
            is_replaced = True
            _to_disk(target.parent)
            shutil.rmtree(aside, ignore_errors=True)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(target, error, is_written=is_replaced) from error


def put_file(folder: Path, name: str, content: bytes) -> None:
    """Write the file `name` of a folder atomically, without temporary files in the folder.

    The file is first written to a temporary folder beside `folder`. That folder is named like those of
    `replaced_folder`, so that `mend` removes it after a crash.
    """
    folder = Path(os.path.realpath(folder))
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    is_put = False
    try:
        fresh.mkdir()
        try:
            (fresh / name).write_bytes(content)
            _to_disk(fresh / name)
            (fresh / name).replace(folder / name)
            is_put = True
            _to_disk(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(folder / name, error, is_written=is_put) from error


def _cannot_write(path: Path, error: OSError, *, is_written: bool) -> UsageError:
    reason = error.strerror or error
    message = (
        f"{path} was written, but it may be lost if the power fails now: {reason}.\n  Write it again."
        if is_written
        else f"cannot write {path}: {reason}.\n  Nothing was changed there."
    )
    return UsageError(message, path=str(path))


def mend(target: Path) -> None:
    """Finish or remove what interrupted saves left beside `target`. What cannot be moved or removed is left there."""
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
    """Return the folders left behind by saves whose process has ended. Each key is a pair: the random mark in the name of the
    folder, and `new` or `old`.
    """
    pattern = re.compile(re.escape(f".{target.name}.") + r"(?:(\d+)-)?([0-9a-f]{8})\.(new|old)")
    found = {}
    for path in target.parent.iterdir() if target.parent.is_dir() else ():
        match = pattern.fullmatch(path.name)
        if match is not None and path.is_dir() and not _may_be_alive(match[1], path):
            found[match[2], match[3]] = path
    return found


def _may_be_alive(process: str | None, path: Path) -> bool:
    """Return whether the process that writes this folder may still be running.

    Folders that older versions wrote do not contain the number of the process in their names, so their age decides.
    """
    if process is None:
        return time.time() - path.stat().st_mtime < ABANDONED_SECONDS
    if int(process) == os.getpid():
        return True
    return is_running(int(process))


def read_whole(folder: Path, read: Callable[[], T]) -> T:
    """Return the result of `read`, a function that reads `folder`. If the folder is replaced meanwhile, read again.

    If this happens `ATTEMPTS` times in a row, return the result of one more call, which may mix two folders.
    """
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
    """Return numbers that identify a folder and differ from those of its replacement, or None if the folder cannot be accessed."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _is_between_moves(folder: Path) -> bool:
    """Return whether the old folder was moved away and the new one is not yet at the target."""
    target = Path(os.path.realpath(folder))
    if target.exists() or not target.parent.is_dir():
        return False
    names = (path.name for path in target.parent.iterdir())
    return any(name.startswith(f".{target.name}.") and name.endswith(".old") for name in names)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step. Return False if the system cannot do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    paths = (os.fsencode(one), os.fsencode(other))
    return bool(renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0)


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    """Put the new folder at the target. The old one is then at `fresh` or `aside`."""
    replaces = target.exists()
    if replaces and _exchange(fresh, target):
        return
    if replaces:
        target.rename(aside)
    try:
        fresh.rename(target)
    except BaseException:
        if replaces:
            aside.rename(target)
        raise


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
