"""Writing a folder whole or not at all, and mending what a crash left behind.

A save writes `.NAME.PID-MARK.new` beside the target, puts every file of it on disk, moves a folder that is there to
`.NAME.PID-MARK.old`, moves the new one into place and removes the old one. A crash between the two moves leaves no folder at
the target, though both lie beside it: `mend` finishes the second move. Whatever else a process that is gone left behind is
removed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from byheart.errors import UsageError
from byheart.process.liveness import is_running

ABANDONED_SECONDS = 3600


@contextmanager
def replaced_folder(target: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `target` when the block ends without an exception.

    check: raises where the target may not be replaced.

    The new folder is a sibling with a name of its own until every file in it is on disk. Whatever fails
    before that, the target stays as it was. A folder already there is moved aside first, removed last.
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
    """Write the file `name` of a folder, whole or not at all; nothing else is ever seen in the folder.

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
    """Finish or clear away what saves that were cut short left beside `target`; what cannot be written is left as it is."""
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
    """Folders that saves of processes no longer alive left behind, by mark and kind."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(?:(\d+)-)?([0-9a-f]{8})\.(new|old)")
    found = {}
    for path in target.parent.iterdir() if target.parent.is_dir() else ():
        match = pattern.fullmatch(path.name)
        if match is not None and path.is_dir() and not _may_be_alive(match[1], path):
            found[match[2], match[3]] = path
    return found


def _may_be_alive(process: str | None, path: Path) -> bool:
    """Whether the process that writes this folder may still run; folders of older versions name none, so their age decides."""
    if process is None:
        return time.time() - path.stat().st_mtime < ABANDONED_SECONDS
    if int(process) == os.getpid():
        return True
    return is_running(int(process))


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
