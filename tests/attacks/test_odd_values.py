"""See `odd_values`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import byheart as bh
from byheart.errors import UsageError
from tests.refusal import refused


def test_what_is_of_another_kind_is_refused_in_words() -> None:
    program = [sys.executable, "-m", "tests.attacks.odd_values"]
    done = subprocess.run(program, cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_columns_of_a_frame_need_not_be_texts_and_must_be_one_each() -> None:
    pandas = pytest.importorskip("pandas", reason="the package pandas is not installed")
    rows = [["ab", "x"], ["cd", "y"], ["ef", "x"]]
    assert bh.Dataset.from_pandas(pandas.DataFrame(rows)).n_samples == 3  # columns 0 and 1
    with refused(UsageError, column="key"):
        bh.Dataset.from_pandas(pandas.DataFrame(rows, columns=["key", "key"]))
