"""Check where a folder may be written, tell models from grafts, and list the names of the files of a model."""

from __future__ import annotations

import os
from pathlib import Path

from byheart.errors import CorruptModel, UsageError
from byheart.files.whole_file import MODEL, WEIGHTS
from byheart.network.families import FAMILIES, TRANSFORMER, NetworkFamily, family_of
from byheart.records.fields import Fields

__all__ = [
    "CERTIFICATE",
    "GRAFT_RECORD",
    "LEFT_BY_SYSTEMS",
    "MODEL",
    "SIGNATURE",
    "WEIGHTS",
    "as_path",
    "check_target",
    "is_graft",
    "own_files",
    "refuse_same_folder",
]

CERTIFICATE = "certificate.json"
SIGNATURE = "signature.json"
GRAFT_RECORD = "graft.json"
LEFT_BY_SYSTEMS = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that operating systems put into folders. They are never read, and their presence is allowed."""


def own_files(family: NetworkFamily) -> set[str]:
    """Return the names of all files that a model folder of this family may hold."""
    return {WEIGHTS, MODEL, CERTIFICATE, SIGNATURE, *family.files}


def is_graft(folder: Path) -> bool:
    """Return whether the folder contains graft.json, the record that `byheart graft` writes."""
    return (folder / GRAFT_RECORD).is_file()


def as_path(path: object) -> Path:
    """Convert `path` to a `Path`. Raise `UsageError` if it is not a string or path object, or contains a null character."""
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise UsageError(f"{path!r} is not a path.\n  Give a folder, such as 'model'.", path=repr(path))
    return Path(os.fsdecode(path))


def check_target(path: Path) -> None:
    """Raise `UsageError` unless a model folder may be written at `path`. Nothing is changed.

    A path is allowed if nothing exists there, if it is an empty folder, or if it is a model folder without other files, which will
    be replaced. Files that operating systems put into folders (`LEFT_BY_SYSTEMS`) are ignored.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise UsageError(
            f"{path} exists and is not a folder.\n  Choose another path, or remove it.", path=str(path)
        )
    names = sorted({entry.name for entry in path.iterdir()} - LEFT_BY_SYSTEMS)
    own = own_files(_family(path / MODEL))
    foreign = [name for name in names if name not in own]
    if foreign or (names and MODEL not in names):
        shown = ", ".join((foreign or names)[:3])
        problem = (
            f"{path} is a model folder with files that do not belong to the model: {shown}"
            if MODEL in names
            else f"{path} exists and is not a byheart model folder: it holds {shown}"
        )
        raise UsageError(
            f"{problem}.\n  Nothing was written. Choose another folder, or empty this one.",
            path=str(path),
            holds=(foreign or names)[:20],
        )


def refuse_same_folder(output: Path, folder: Path) -> None:
    """Raise `UsageError` if `output` is the same folder as `folder`, which is read. Links are followed."""
    if output.exists() and folder.exists() and output.samefile(folder):
        raise UsageError(
            f"{output} is the folder that is read.\n  Nothing was written. Choose another folder to write.",
            path=str(output),
        )


def _family(document: Path) -> NetworkFamily:
    """Return the network family of a saved model. If the family is unknown, return a family without files of its own."""
    try:
        model = Fields.read(document)
        return FAMILIES[family_of(model.child("architecture"))]
    except (CorruptModel, OSError):
        return FAMILIES[TRANSFORMER]
