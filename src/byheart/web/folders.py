"""What the page may use: folders of uploaded data, bundled examples, models, exported models and figures, and the run store.

Names are converted to checked paths.
"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from byheart.errors import ByheartError, UsageError
from byheart.web.limits import Limits

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
DATA_NAME = re.compile(r"[\w][\w .()+-]{0,99}\.(csv|tsv|jsonl|txt|parquet|npz)", re.IGNORECASE)
NAME_BYTES = 200
"""The maximum length of an upload's name in bytes (a letter takes up to four).

File systems allow 255, and a number may be appended.
"""

DATA_MARK = ".data"
"""Part of a file name. For a model `NAME` that was compiled on the page, the data file is stored beside it, with its own
suffix: for example, as `NAME.data.csv`.
"""


class UnknownName(UsageError):
    """There is no data file, model, exported file or figure with that name."""


class TooLarge(ByheartError):
    """A file is too large, or there are too many data files or models."""


@dataclass(frozen=True)
class Folders:
    """The paths of all folders.

    data     uploaded files, in a folder that is removed when the server ends
    exports  models in other formats, in a folder that is removed when the server ends
    models   model folders, one level deep
    examples the data files that come with byheart
    figures  records of reproduced figures, or None
    store    the file with the training runs, or None
    keeps_models  whether the models are kept when the server ends
    """

    data: Path
    exports: Path
    models: Path
    examples: Path
    figures: Path | None
    store: Path | None
    keeps_models: bool

    # --- data -------------------------------------------------------------------------------------------------

    def list_data(self) -> list[dict[str, Any]]:
        """List every data file: the bundled ones first, then uploads."""
        bundled = [self._describe(path, "example") for path in sorted(self.examples.glob("*.csv"))]
        uploaded = sorted(self.data.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        return bundled + [
            self._describe(path, "upload") for path in uploaded if not path.name.startswith(".")
        ]

    def data_path(self, name: str) -> Path:
        if _names_data(name):
            for folder in (self.data, self.examples):
                path = folder / name
                if path.is_file() and path.resolve().parent == folder.resolve():
                    return path
        raise UnknownName(f"there is no data file {name!r}.", name=name)

    async def keep_upload(self, name: str, chunks: AsyncIterator[bytes], limits: Limits) -> dict[str, Any]:
        """Write an upload atomically under an unused name. Stop with an error when it exceeds the limits."""
        if not _names_data(name):
            raise UsageError(
                f"{name!r} is not a valid name for a data file. Begin with a letter, a digit or _, use only letters, "
                "digits, spaces and the characters . - _ ( ) +, and end with .csv, .tsv, .jsonl, .txt, .parquet or .npz. "
                f"At most 100 characters before this ending and {NAME_BYTES} bytes in all are allowed.",
                name=name,
            )
        if sum(1 for _ in self.data.iterdir()) >= limits.n_data:
            raise TooLarge(
                f"the limit of {limits.n_data} data files is reached. Restart the server to "
                "remove the uploads.",
                limit=limits.n_data,
            )
        with tempfile.NamedTemporaryFile(dir=self.data, prefix=".upload-", delete=False) as stream:
            part = Path(stream.name)
            try:
                size = 0
                async for chunk in chunks:
                    size += len(chunk)
                    if size > limits.upload_bytes:
                        raise too_large(limits)
                    stream.write(chunk)
                stream.flush()
                target = self._free_name(name)
                part.replace(target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return self._describe(target, "upload")

    def _free_name(self, name: str) -> Path:
        suffix = Path(name).suffix.lower()
        paths = (self.data / f"{each}{suffix}" for each in _names_from(Path(name).stem))
        return next(p for p in paths if not p.exists() and not (self.examples / p.name).exists())

    def _describe(self, path: Path, kind: str) -> dict[str, Any]:
        return {"name": path.name, "bytes": path.stat().st_size, "kind": kind}

    # --- models -----------------------------------------------------------------------------------------------

    def list_models(self) -> list[str]:
        """List the names of the model folders, the newest first."""
        found = [path for path in self.models.iterdir() if self._is_model(path)]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.name for path in found]

    def model_path(self, name: str) -> Path:
        path = self.models / name
        if MODEL_NAME.fullmatch(name) and self._is_model(path):
            return path
        raise UnknownName(f"there is no model {name!r}.", name=name)

    def _is_model(self, path: Path) -> bool:
        """Return whether `path` is a model folder directly inside `models`, or a link to one."""
        return (
            MODEL_NAME.fullmatch(path.name) is not None
            and path.resolve().parent == self.models.resolve()
            and (path / "model.json").is_file()
        )

    def new_model(self, name: str, limits: Limits, taken: Collection[str] = ()) -> Path:
        """Return an unused path for a model, named after `name`. `taken` holds the paths of models that are not yet written."""
        wanted = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:48] or "model"
        if len(self.list_models()) >= limits.n_models:
            raise TooLarge(
                f"the limit of {limits.n_models} models is reached. Start `byheart serve` with another folder for --models.",
                limit=limits.n_models,
            )
        paths = (self.models / each for each in _names_from(wanted))
        return next(path for path in paths if not path.exists() and str(path) not in taken)

    def data_of(self, model: str) -> Path | None:
        """Return the data file that a model was compiled from, if it was kept beside the model."""
        found = sorted(self.models.glob(f"{model}{DATA_MARK}.*"))
        return found[0] if found and found[0].resolve().parent == self.models.resolve() else None

    def new_export(self, model: str, suffix: str) -> Path:
        """Return an unused path for a model in another format."""
        return self.exports / f"{model}-{secrets.token_hex(4)}.{suffix}"

    def export_path(self, name: str) -> Path:
        path = self.exports / name
        if MODEL_NAME.fullmatch(name) and path.is_file() and path.resolve().parent == self.exports.resolve():
            return path
        raise UnknownName(f"there is no exported file {name!r}.\n  Export the model again.", name=name)

    # --- figures ----------------------------------------------------------------------------------------------

    def list_figures(self) -> list[str]:
        """List the names of the figure records. Links that lead out of the folder are left out."""
        if self.figures is None:
            return []
        home = self.figures.resolve()
        return sorted(path.stem for path in self.figures.glob("*.json") if path.resolve().parent == home)

    def figure_path(self, name: str) -> Path:
        if self.figures is None or name not in self.list_figures():
            raise UnknownName(f"there is no figure {name!r}.", name=name)
        return self.figures / f"{name}.json"


def _names_data(name: str) -> bool:
    return DATA_NAME.fullmatch(name) is not None and len(name.encode()) <= NAME_BYTES


def _names_from(name: str) -> Iterator[str]:
    """Yield the name, then the name followed by -2, -3 and so on."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def too_large(limits: Limits) -> TooLarge:
    """Return the error for a file that is larger than the limit."""
    return TooLarge(
        f"the file is larger than {limits.upload_bytes // (1 << 20):,} MiB, the limit of this page.\n"
        "  Compile it on the command line: byheart compile FILE -o DIR.",
        limit_bytes=limits.upload_bytes,
    )
