"""Where a model folder may be written, and the names of the files in it."""

from __future__ import annotations

from pathlib import Path

from byheart.errors import CorruptModel, UsageError
from byheart.network.families import FAMILIES, family_of
from byheart.records.fields import Fields, read_json

WEIGHTS, MODEL, CERTIFICATE = "model.safetensors", "model.json", "certificate.json"


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
    own = {WEIGHTS, MODEL, CERTIFICATE, *_files_of_its_family(path / MODEL)}
    foreign = [name for name in names if name not in own]
    if foreign or (names and MODEL not in names):
        shown = ", ".join((foreign or names)[:3])
        raise UsageError(
            f"{path} exists and is not a byheart model folder: it holds {shown}.\n"
            "  Nothing was written. Choose another place, or empty the folder.",
            path=str(path),
            holds=(foreign or names)[:20],
        )


def _files_of_its_family(document: Path) -> tuple[str, ...]:
    """What the family of a saved model keeps beside the files of every model; nothing where that cannot be told."""
    try:
        model = Fields(read_json(document), document)
        return FAMILIES[family_of(model.child("architecture"))].files
    except (CorruptModel, OSError):
        return ()
