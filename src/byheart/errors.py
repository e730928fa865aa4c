"""The exceptions that many parts of byheart share. Messages say what was wrong, where, and what to do.

All exceptions that byheart raises for its users share one base class. Each keeps the values in its message as `facts`, so that
programs need not parse text. Each also has the exit status with which a command ends if the exception is raised (see `ExitStatus`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from errno import EBADF, EFBIG, EIO, ENOSPC
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

_CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"  # exists in a checkout only


class ExitStatus(IntEnum):
    """The exit status of a command."""

    HOLDS = 0
    CRASH = 1  # Python's own default, so it must not also mean "false"
    USAGE = 2
    FALSE = 3  # something was checked and is false
    OUTSIDE = 4  # the data fall outside the assumptions
    STOPPED = 5  # stopped early; the same command continues
    INTERRUPTED = 130  # the exit status that shells give to a program ended by Ctrl-C


class ByheartError(Exception):
    """Base class of all exceptions of byheart. `facts` holds the values that the message mentions."""

    exit_status = ExitStatus.CRASH

    def __init__(self, message: str, **facts: object) -> None:
        """Store the message and the values that it mentions."""
        super().__init__(message)
        self.facts = facts


class UsageError(ByheartError):
    """The request itself is wrong, for example because of a missing file or an unknown column, method or option."""

    exit_status = ExitStatus.USAGE


class ImpossibleSize(UsageError, ValueError):
    """An argument of a bound is not a number, or is a size that no data set or network can have."""


class MissingExtra(UsageError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        """Make the message from the package, the extra that installs it, and the purpose."""
        command = _install_command(extra)
        super().__init__(
            f"{purpose} needs the package `{package}`, which is not installed.\n  Install it with: {command}",
            package=package,
            extra=extra,
            purpose=purpose,
            command=command,
        )


def _install_command(extra: str) -> str:
    """Return the command that installs an extra. In a checkout, it works in every folder and without activating `.venv`."""
    if not _CONSTRAINTS.is_file():
        return f"pip install 'byheart[{extra}]'"
    root = quote(f"{_CONSTRAINTS.parent}[{extra}]")
    return f"{quote(sys.executable)} -m pip install -c {quote(str(_CONSTRAINTS))} -e {root}"


def require_extra(package: str, extra: str, purpose: str) -> None:
    """Raise `MissingExtra` unless `package` is installed. This is called before long work that needs the package at its end."""
    try:
        is_there = find_spec(package) is not None
    except ValueError:  # its import was blocked
        is_there = False
    if not is_there:
        raise MissingExtra(package, extra, purpose)


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module. If it is not installed, raise `MissingExtra`, which names the package and the extra."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(module.partition(".")[0], extra, purpose) from None


def amount(number: int, noun: str) -> str:
    """Format a number with a noun, which is singular for 1."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the known name most similar to `name`, for the end of a message.

    Return an empty text if no name is similar.
    """
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


class DataError(ByheartError):
    """The data cannot be read, or no construction can memorise them."""

    exit_status = ExitStatus.OUTSIDE


class MalformedFile(DataError):
    """A data file is empty, truncated, wrongly encoded or otherwise unreadable."""


class ConflictingLabels(DataError):
    """Equal contexts have different labels, for example because two equal inputs do."""


class UnknownToken(DataError):
    """A text holds a token that is not in the vocabulary of the tokenizer."""


class NonFiniteInput(DataError):
    """An input holds NaN or an infinity."""


class AssumptionViolated(DataError):
    """The data are valid but outside the assumptions of the chosen construction."""


class DoesNotHold(ByheartError):
    """Something was checked and is false."""

    exit_status = ExitStatus.FALSE


class CorruptModel(DoesNotHold):
    """A saved model cannot be trusted, because its files are truncated, inconsistent or declare impossible sizes."""


class InexactWeights(ByheartError):
    """A floating-point type cannot represent the exact weights."""

    exit_status = ExitStatus.USAGE


NO_MEMORY = ("can't allocate memory", "failed to map segment")
"""Parts of messages that report a lack of memory: in a RuntimeError of torch, and in an ImportError while a library is loaded."""

UNWRITABLE = (ENOSPC, EFBIG, EIO, EBADF)
"""The error numbers for a full disk, a file that is too large, a broken device and a closed standard output."""


def as_byheart_error(error: Exception) -> ByheartError | None:
    """If the user can fix the cause of `error`, return it as a `ByheartError`. Return None for a bug of byheart."""
    if isinstance(error, ByheartError):
        return error
    if isinstance(error, OSError) and error.filename is not None:
        return UsageError(f"{error.filename}: {error.strerror}.", path=str(error.filename))
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        what = "the output cannot be written" if error.errno != EIO else "a file cannot be read or written"
        return UsageError(f"{what}: {error.strerror}.", what=what, reason=error.strerror)
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return ByheartError("there is not enough memory. Use less data, or a machine with more memory.")
    return None
