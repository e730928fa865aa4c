"""What the folder of a graft contains, and which of its files differ from the host's. The configuration and the weights are
compared elsewhere (see `structure`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from byheart.files.digest import digest_of_file
from byheart.graft.host import CONFIG, INDEX, FolderHost
from byheart.storage.target import GRAFT_RECORD, LEFT_BY_SYSTEMS

CARD, KEPT, NORMS = "README.md", "host", "kept.safetensors"
REMEDY = "Restore the folder from a copy you trust, or graft the host again."
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "tokenizer.*.json",
    "tiktoken.model",
    "tekken.json",
    "vocab.txt",
    "additional_chat_templates/*.jinja",
)
"""The files that transformers may read for a tokenizer, its chat templates and generation, as patterns."""


def tokenizer_files(folder: Path) -> set[str]:
    """Return the paths of the tokenizer files in a checkpoint, relative to its folder."""
    return {
        path.relative_to(folder).as_posix()
        for pattern in TOKENIZER_FILES
        for path in folder.glob(pattern)
        if path.is_file()
    }


def foreign_files(folder: Path, tokenizer: Collection[str], weights: Collection[str]) -> list[str]:
    """Return the paths of the files in a graft's `folder` that do not belong to the graft. `tokenizer` and `weights` are the paths
    of its tokenizer files and weights. All paths are relative to `folder`.

    Hidden files are listed too, and so are folders in which nothing is found. Everything in host/ belongs to the graft, and files
    that operating systems put into folders (`LEFT_BY_SYSTEMS`) are not listed.
    """
    own = {CONFIG, INDEX, GRAFT_RECORD, CARD, *tokenizer, *weights}
    found = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_own = name.as_posix() in own or name.parts[0] == KEPT or name.name in LEFT_BY_SYSTEMS
        if not is_own and (path.is_symlink() or not path.is_dir() or not any(path.glob("*"))):
            found.append(name.as_posix())
    return sorted(found)


def file_faults(grafted: FolderHost, host: Path, tokenizer: Any) -> list[str]:
    """Return a fault for each tokenizer file that differs from the host's, and for each other file that neither belongs to a graft
    nor equals a file of the host.

    Files whose path begins with a dot are ignored, because transformers does not read them. A GGUF host has no tokenizer files. For
    such a host, the files must be those that transformers writes for its tokenizer.
    """
    folder = grafted.path
    with _tokenizer_folder(host, tokenizer) as (source, what):
        compared = tokenizer_files(source) | tokenizer_files(folder)
        differing = [
            f"{name}: it differs from {what}, or only one of the two exists"
            for name in sorted(compared)
            if not _are_equal(folder / name, source / name)
        ]
        weights = {place.file.name for place in grafted.places.values()}
        unknown = [
            f"{name}: it is not a file of a graft, and the host has no file with this name and content"
            for name in foreign_files(folder, compared, weights)
            if not (
                name.startswith(".") or _is_folder(folder / name) or _are_equal(folder / name, source / name)
            )
        ]
    return [*differing, *unknown]


@contextmanager
def _tokenizer_folder(host: Path, tokenizer: Any) -> Iterator[tuple[Path, str]]:
    """Yield a folder with the host's tokenizer files, and words that describe one of these files in an error message."""
    if host.is_dir():
        yield host, "the host's file"
        return
    import transformers

    with TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        what = f"the file that transformers {transformers.__version__} writes for the host's tokenizer"
        yield Path(saved), what


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _are_equal(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and digest_of_file(one) == digest_of_file(other)
