"""Make the exceptions for files and arguments that are refused.

Each function takes `where` (the option, file or argument) and `problem` (what is wrong with it), and returns the exception.

refuse_usage    for what the user typed: options, specifications
refuse_file     for a file with invalid content
corrupt         for a damaged or inconsistent file of a saved model
refuse_size     for a number given to a function
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from byheart.errors import ByheartError, CorruptModel, ImpossibleSize, MalformedFile, UsageError

Refusal = Callable[[str, str], ByheartError]
"""A function (where, problem) that makes the exception. `problem` is a clause without a full stop."""

REMEDY = "Restore the folder from a copy you trust, or compile the data again."


def refuse_usage(where: str, problem: str) -> ByheartError:
    return UsageError(f"{where}: {problem}.", problem=problem)


def refuse_file(where: str, problem: str) -> ByheartError:
    return MalformedFile(f"{where}: {problem}.", file=where, problem=problem)


def corrupt(where: str | Path, problem: str, remedy: str = REMEDY) -> CorruptModel:
    return CorruptModel(f"{where}: {problem}.\n  {remedy}", file=str(where), problem=problem)


def refuse_size(name: str, problem: str) -> ByheartError:
    return ImpossibleSize(f"{problem}.", name=name)
