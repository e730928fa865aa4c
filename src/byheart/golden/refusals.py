"""Raise errors for damaged files in a folder of golden checkpoints, and for names of checkpoints that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from byheart.errors import UsageError, did_you_mean
from byheart.records import refusals

REMEDY = (
    "Restore the folder from a copy you trust, or make the checkpoints again: byheart golden make -o NEW_DIR"
)
corrupt = partial(refusals.corrupt, remedy=REMEDY)


def require_checkpoints(only: Iterable[str], known: Collection[str], owner: str) -> tuple[str, ...]:
    """Return the names in `only`. Raise `UsageError` if `only` is a text instead of a list of names, or if one of the names is not
    among the checkpoints that `owner` has.
    """
    if isinstance(only, str):
        raise UsageError(
            f"only must be a list of names, not the text {only!r}.\n  Give: only=[{only!r}]", only=only
        )
    names = tuple(only)
    for name in names:
        if name not in known:
            raise UsageError(
                f"{owner} has no checkpoint {name!r}.{did_you_mean(name, known)}\n"
                f"  Choose from: {', '.join(known)}",
                name=name,
                known=list(known),
            )
    return names
