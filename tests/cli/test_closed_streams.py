"""A standard stream that the caller closed: `>&-` and `2>&-` in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from byheart.errors import ExitStatus

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
PREDICT = ("predict", str(FIXTURES / "retrieval-float64"), "ab")
VERIFY = ("verify", str(FIXTURES / "retrieval-float64"), str(FIXTURES / "data" / "short.csv"))
ABSENT = ("predict", "absent", "ab")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that can close a stream")
@pytest.mark.parametrize(
    ("words", "closed", "status"),
    [
        (PREDICT, ">&-", ExitStatus.USAGE),  # the answer is lost
        (VERIFY, "2>&-", ExitStatus.HOLDS),
        pytest.param(ABSENT, "2>&-", ExitStatus.USAGE, marks=pytest.mark.slow),
        (ABSENT, "<&- >&- 2>&-", ExitStatus.USAGE),
    ],
)
def test_a_closed_stream(words: tuple[str, ...], closed: str, status: ExitStatus) -> None:
    command = ["sh", "-c", f'exec "$0" -m byheart "$@" {closed}', sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert ("Error" in done.stderr) == (closed == ">&-")
    assert bool(done.stdout) == (words == VERIFY)
