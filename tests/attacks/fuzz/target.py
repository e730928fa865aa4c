"""What a target is, and what all of them share.

A case ends well if what it hands over is taken, or refused by an error of ours. Whatever else is raised is a finding; so is
`Wrong`, raised where an answer changed under a certificate that holds.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import ClassVar

from byheart.cli.main import run
from byheart.errors import ByheartError, ExitStatus


class Wrong(Exception):
    """byheart said something that is not so."""


class Target(ABC):
    """One way in. `prepare` runs once before any child is forked; `attack` runs in a child, in an empty folder."""

    name: ClassVar[str]
    share: ClassVar[int]  # of cases, out of the sum of all

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Make the seeds in `folder`, and do once what takes long the first time."""

    @abstractmethod
    def attack(self, random: Random, folder: Path) -> str:
        """Run one case, whose files lie in `folder`; say in a word how it ended."""


def run_command(*arguments: str) -> None:
    """A command, as on the terminal. One that crashes is a finding; so is one that prints control characters."""
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        status = run([*arguments, "--debug"])
    if status == ExitStatus.CRASH:
        raise Wrong(f"{arguments} crashed:\n{said.getvalue()}")
    if "\x1b" in printed.getvalue():
        raise Wrong(f"{arguments} prints an escape")


def is_ours(error: BaseException) -> bool:
    """Whether an error is one that we raise for users, in words."""
    return isinstance(error, ByheartError) and bool(str(error))
