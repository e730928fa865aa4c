"""How much code a reader walks through who follows `compile` on a small table: functions, files, and changes of file.

The first path a newcomer takes should touch little: no construction but the one that is built, no helper that serves nobody.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from types import CodeType, FrameType

import byheart as bh
from tests.conftest import ROOT

SOURCE = str(ROOT / "src" / "byheart")
FUNCTIONS, FILES, CHANGES = 390, 56, 195


def walk() -> list[CodeType]:
    """The named functions of byheart that `compile` calls, in the order of their first calls."""
    first_calls: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            first_calls.setdefault(frame.f_code)

    data = ROOT / "examples" / "capitals.csv"
    bh.compile(data)  # what is imported and kept for the next call is no part of the walk
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        bh.compile(data)
    finally:
        sys.setprofile(before)
    return [code for code in first_calls if not code.co_name.startswith("<")]


def test_compile_walks_through_few_functions_and_files() -> None:
    called = walk()
    files = [code.co_filename for code in called]
    changes = sum(one != other for one, other in pairwise(files))
    print(f"{len(called)} functions, {len(set(files))} files, {changes} changes of file")
    assert any(code.co_name == "compile" for code in called)
    assert len(called) <= FUNCTIONS, "compile calls more functions than it did"
    assert len(set(files)) <= FILES, "compile goes through more files than it did"
    assert changes <= CHANGES, "compile changes files more often than it did"
