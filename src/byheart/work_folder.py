"""A folder of intermediate results: every file in it is whole, so that work goes on where a kill ended it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from byheart.errors import UsageError


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under another name, put it on disk, and give it its name: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with fresh.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}.\n"
            "  What was finished before is kept; make room and run the same command again.",
            path=str(path),
        ) from error
    finally:
        fresh.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Named arrays, as `numpy.load` reads them."""
    save: Callable[..., None] = np.savez
    write_whole(path, lambda file: save(file, **arrays))


def write_parts(path: Path, part_of: np.ndarray, n_parts: int, columns: Sequence[np.ndarray]) -> None:
    """Columns of 64-bit whole numbers, their rows sorted into parts and otherwise in order, so that a part is read by itself."""
    order = np.argsort(part_of, kind="stable")
    bounds = np.searchsorted(part_of[order], np.arange(n_parts + 1, dtype=part_of.dtype))
    rows = np.stack([column.view(np.int64)[order] for column in columns], axis=1)
    write_whole(path.with_suffix(".bounds"), lambda file: np.save(file, bounds))
    write_whole(path, lambda file: np.save(file, rows))


def read_part(paths: Iterable[Path], number: int) -> np.ndarray:
    """The rows of one part of all these files, one file after the other; nothing else of them is read."""
    found = []
    for path in paths:
        begin, end = np.load(path.with_suffix(".bounds"), mmap_mode="r")[number : number + 2]
        found.append(np.array(np.load(path, mmap_mode="r")[begin:end]))
    return np.concatenate(found)


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove what `write_parts` wrote."""
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_suffix(".bounds").unlink(missing_ok=True)


def write_json(path: Path, document: Any) -> None:
    """One JSON document."""
    text = json.dumps(document, ensure_ascii=True)
    write_whole(path, lambda file: file.write(text.encode("ascii")))


def read_json(path: Path) -> Any:
    """What `write_json` wrote; None where there is no such file."""
    return json.loads(path.read_text("ascii")) if path.exists() else None


def claim_folder(folder: Path, job: Mapping[str, Any]) -> None:
    """Say in `folder` which job its files belong to; refuse a folder that belongs to another one or to nobody."""
    known = read_json(folder / "job.json")
    if known is None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(
                f"{folder} is not empty and not the folder of an unfinished compilation.\n  Choose another one.",
                path=str(folder),
            )
        write_json(folder / "job.json", dict(job))
        return
    differing = sorted(name for name in {*known, *job} if known.get(name) != job.get(name))
    if differing:
        shown = ", ".join(f"{name} ({known.get(name)!r} there, {job.get(name)!r} now)" for name in differing)
        raise UsageError(
            f"{folder} holds what is left of another compilation; these differ: {shown}.\n"
            "  Choose another folder, or remove this one.",
            path=str(folder),
            differing=differing,
        )
