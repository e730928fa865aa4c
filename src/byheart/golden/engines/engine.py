"""The interface that an engine must offer to be checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from byheart.errors import UsageError
from byheart.golden.case import Case
from byheart.golden.shape import Shape
from byheart.records.vocabulary import NumberType

Prompts = Sequence[Sequence[int]]
Generate = Callable[[Path, list[list[int]], int], list[list[int]]]
"""A user's own engine: a function of the folder of a checkpoint, prompts as lists of token ids, and the number of tokens to
generate.
"""

LONG_TEXT = 1_000  # tokens; longer prompts are not run in all ways


class UnansweredPrompt(UsageError):
    """An engine failed to answer a prompt."""

    def __init__(self, prompt: Sequence[int], error: UsageError) -> None:
        super().__init__(str(error), **error.facts)
        self.prompt = tuple(prompt)


class Session(Protocol):
    """A checkpoint that is open in an engine."""

    def ways(self) -> Sequence[str]:
        """Return the names of the ways in which the engine can be run."""

    def why_not(self, way: str, case: Case) -> str | None:
        """Return why the engine cannot run this case in the given way (one of `ways`), or None if it can."""

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        """Run the engine in the given way (one of `ways`). Return its greedy answer to each prompt, as `n_new` token ids."""

    def close(self) -> None:
        """Free the resources of the session."""


@runtime_checkable
class ShowsLogits(Protocol):
    """A session whose engine gives access to logits."""

    def logits(self, prompts: Prompts) -> list[list[float]]:
        """Return the logits of the token after each prompt."""


@runtime_checkable
class Engine(Protocol):
    """An inference engine. `number_type` is the type that it computes with."""

    name: str
    number_type: NumberType

    def open(self, shape: Shape, folder: Path) -> Session:
        """Load one checkpoint."""


class FunctionEngine:
    """An engine that calls a function of the user. It is run in one way only: the function gets the prompts as they are."""

    def __init__(self, generate: Generate, number_type: NumberType, name: str = "function") -> None:
        self.name, self.number_type, self._generate = name, number_type, generate

    def open(self, shape: Shape, folder: Path) -> Session:
        return _FunctionSession(folder, self._generate)


class _FunctionSession:
    def __init__(self, folder: Path, generate: Generate) -> None:
        self.folder, self._generate = folder, generate

    def ways(self) -> Sequence[str]:
        return ("as given",)

    def why_not(self, way: str, case: Case) -> str | None:
        return None

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        return self._generate(self.folder, [list(prompt) for prompt in prompts], n_new)

    def close(self) -> None:
        pass
