"""Record the digest of every file of a family, and check the files before an engine is asked.

A damaged file would make a correct engine give wrong answers. Digests protect against damage, not against forgery: whoever replaces
files can also replace their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from byheart.errors import UsageError
from byheart.files.digest import digest_of_file
from byheart.golden.case import CASES, FAMILY
from byheart.golden.checkpoint import FILES, require_settings
from byheart.golden.refusals import REMEDY, corrupt
from byheart.golden.shape import Shape
from byheart.golden.signatures import SIGNATURES
from byheart.records.fields import Fields, read_json

DIGESTS = "digests"
"""The key of the digests in the file `FAMILY`."""


def file_digests(folder: Path, checkpoints: Iterable[str]) -> dict[str, str]:
    """Return the digests of the files of a family of checkpoints, by their paths in the folder. The file family.json is left out,
    because the digests are stored in it.
    """
    return {name: digest_of_file(folder / name) for name in _files(checkpoints)}


def require_intact(folder: Path, chosen: Mapping[str, Shape]) -> None:
    """Raise `CorruptModel` if a file of the family has changed. Of the checkpoints, only the chosen ones are checked."""
    path = folder / FAMILY
    family = Fields(read_json(path, REMEDY), path, remedy=REMEDY)
    if not family.has(DIGESTS):
        raise UsageError(
            f"{path} has no digests of the files, because an older version of byheart made it.\n"
            "  Without them, a damaged file looks like a fault of the engine.\n"
            "  Make the checkpoints again: byheart golden make -o NEW_DIR",
            path=str(path),
        )
    recorded = family.child(DIGESTS).values
    for name in _files(chosen):
        if not (folder / name).is_file():
            raise corrupt(folder / name, "it is missing")
        if recorded.get(name) != digest_of_file(folder / name):
            raise corrupt(folder / name, "it is not the file that `byheart golden make` wrote")
    for name, shape in chosen.items():
        require_settings(shape, folder / name)


def _files(checkpoints: Iterable[str]) -> list[str]:
    return [CASES, SIGNATURES, *(f"{name}/{file}" for name in checkpoints for file in FILES)]
