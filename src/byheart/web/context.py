"""What every task of a worker is given: the command line, and someone to tell how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from byheart.errors import ByheartError
from byheart.model import Model
from byheart.pipeline import load
from byheart.process.progress import StageProgress

Document = dict[str, Any]
MODELS_KEPT = 4


class CommandLine(Protocol):
    """The command line, as the worker is given it: `web` does not import `cli`, which imports `web`."""

    def document(self, arguments: list[str], progress: StageProgress) -> Document:
        """What a command prints with --json; its refusal is raised under its own name."""

    def explain(self, error: Exception) -> ByheartError | None:
        """The error in our own terms, where it is the user's and not ours."""


@dataclass(frozen=True)
class Context:
    """One request at work."""

    command_line: CommandLine
    progress: StageProgress

    def command(self, *arguments: str) -> Document:
        """What a command prints with --json."""
        return self.command_line.document(list(arguments), self.progress)


@lru_cache(maxsize=MODELS_KEPT)
def _load_version(path: str, version: int) -> Model:
    return load(path)


def open_model(path: str) -> Model:
    """The model at `path`, read once for each version of its folder."""
    return _load_version(path, Path(path, "model.json").stat().st_mtime_ns)
