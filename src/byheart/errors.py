"""Every exception of byheart: what was wrong, where, and what to do, in the user's own values.

All share one base class. Each keeps its facts as fields, so programs need not parse text, and each
knows the exit status the command line answers with (see `ExitStatus`).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from errno import EBADF, EFBIG, EIO, ENOSPC
from importlib import import_module
from importlib.util import find_spec
from typing import Any


class ExitStatus(IntEnum):
    """The exit status of a command."""

    HOLDS = 0
    CRASH = 1  # Python's own default, so it must not also mean "false"
    USAGE = 2
    FALSE = 3  # checked, and does not hold
    OUTSIDE = 4  # the data fall outside the assumptions
    STOPPED = 5  # stopped early, resumable


class ByheartError(Exception):
    """Base of all our exceptions. `facts` holds the values that the message mentions."""

    exit_status = ExitStatus.CRASH

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the message and the values that it mentions."""
        super().__init__(message)
        self.facts = facts


class UsageError(ByheartError):
    """The request itself is wrong: a missing file, an unknown column, method or option."""

    exit_status = ExitStatus.USAGE


class ImpossibleSize(UsageError, ValueError):
    """A bound was asked for an argument that is not a number, or that no data set or network can have."""


class MissingExtra(UsageError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        """Name the package, the extra that brings it and what it is needed for."""
        super().__init__(
            f"{purpose} needs the package `{package}`, which is not installed.\n"
            f"  Install it with: pip install 'byheart[{extra}]'",
            package=package,
            extra=extra,
            purpose=purpose,
        )


def require_extra(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra unless `package` is installed; called before work that would need it at the end."""
    try:
        is_there = find_spec(package) is not None
    except ValueError:  # it was put out of reach
        is_there = False
    if not is_there:
        raise MissingExtra(package, extra, purpose)


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module. Raises `MissingExtra`, naming the package and the extra, where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(module.partition(".")[0], extra, purpose) from None


def amount(number: int, noun: str) -> str:
    """A number with a noun, in the singular for 1."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the known name most like `name`, to end a message; empty if none is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


class DataError(ByheartError):
    """The data cannot be read, or fall outside what any construction can memorise."""

    exit_status = ExitStatus.OUTSIDE


class MalformedFile(DataError):
    """A data file is empty, cut short, wrongly encoded or otherwise unreadable."""


class ConflictingLabels(DataError):
    """Two equal inputs carry different labels."""


class UnknownToken(DataError):
    """A text holds a token that the tokenizer's vocabulary lacks."""


class NonFiniteInput(DataError):
    """An input holds NaN or an infinity."""


class AssumptionViolated(DataError):
    """The data are valid but outside the assumptions of the chosen construction."""


class DoesNotHold(ByheartError):
    """Something was checked and is false."""

    exit_status = ExitStatus.FALSE


class CorruptModel(DoesNotHold):
    """A saved model cannot be trusted: cut short, inconsistent, or claiming impossible sizes."""


class InexactWeights(ByheartError):
    """Exact weights were asked for in a floating-point type that cannot hold them."""

    exit_status = ExitStatus.USAGE


NO_MEMORY = ("can't allocate memory", "failed to map segment")
"""What torch says in a RuntimeError, and the loader of a library in an ImportError."""

UNWRITABLE = (ENOSPC, EFBIG, EIO, EBADF)
"""What writing to a full disk, a broken device or a closed standard output ends with."""


def as_byheart_error(error: Exception) -> ByheartError | None:
    """The byheart error for an error that the user can fix; None for a bug of byheart."""
    if isinstance(error, ByheartError):
        return error
    if isinstance(error, OSError) and error.filename is not None:
        return UsageError(f"{error.filename}: {error.strerror}.", path=str(error.filename))
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        what = "the output cannot be written" if error.errno != EIO else "a file cannot be read or written"
        return UsageError(f"{what}: {error.strerror}.")
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return ByheartError("there is not enough memory for this.")
    return None
