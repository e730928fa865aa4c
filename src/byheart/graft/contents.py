"""Compare the files in the folder of a graft with the host's, except for the configuration and the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from byheart.graft.folder import CARD, KEPT, RECORD, tokenizer_files
from byheart.graft.host import CONFIG, INDEX, FolderHost, digest_of


def file_faults(grafted: FolderHost, host: Path, tokenizer: Any) -> list[str]:
    """Return a fault for each tokenizer file that differs from the host's, and for each file that does not belong to a graft.

    A GGUF host has no tokenizer files. For such a host, the files must be those that transformers writes for its tokenizer.
    """
    with _tokenizer_folder(host, tokenizer) as (source, what):
        compared = tokenizer_files(source) | tokenizer_files(grafted.path)
        differing = [
            f"{name}: it differs from {what}, or only one of the two exists"
            for name in sorted(compared)
            if not _are_equal(grafted.path / name, source / name)
        ]
        own = {
            CONFIG,
            INDEX,
            RECORD,
            CARD,
            *compared,
            *(place.file.name for place in grafted.places.values()),
        }
        unknown = [
            f"{name}: it does not belong to a graft, and the host has no equal file"
            for name in _files(grafted.path)
            if name not in own and not _are_equal(grafted.path / name, source / name)
        ]
    return [*differing, *unknown]


@contextmanager
def _tokenizer_folder(host: Path, tokenizer: Any) -> Iterator[tuple[Path, str]]:
    """Yield a folder with the host's tokenizer files, and a description of such a file."""
    if host.is_dir():
        yield host, "the host's file"
        return
    import transformers

    with TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        what = f"the file that transformers {transformers.__version__} writes for the host's tokenizer"
        yield Path(saved), what


def _files(folder: Path) -> list[str]:
    """Return the paths of all files in a graft, relative to `folder`. Leave out hidden files, and the copies that only
    `byheart graft --remove` reads.
    """
    found = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_read = name.parts[0] != KEPT and not name.parts[0].startswith(".")
        if is_read and (path.is_symlink() or not path.is_dir()):
            found.append(name.as_posix())
    return sorted(found)


def _are_equal(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and digest_of(one) == digest_of(other)
