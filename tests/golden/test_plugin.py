"""`pytest --golden DIR`, run as a user runs it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from byheart.golden.case import cases
from byheart.golden.signatures import SIGNATURES
from tests.golden.test_hostile_cases import write

PLUGIN = "byheart.golden.pytest_plugin"
TEST = """
from pathlib import Path

from byheart.golden.case import shapes
from byheart.golden.checkpoint import read_weights
from byheart.golden.reference import ReferenceEngine


def test_engine(golden_case, pytestconfig):
    root = Path(pytestconfig.getoption("--golden"))
    folder = root / golden_case.checkpoint
    engine = ReferenceEngine(shapes(root)[golden_case.checkpoint], read_weights(folder))
    assert tuple(engine.generate([golden_case.prompt], 5)[0]) == golden_case.answer


def test_engine_with_another_epsilon(golden_case, pytestconfig):
    root = Path(pytestconfig.getoption("--golden"))
    folder = root / golden_case.checkpoint
    engine = ReferenceEngine(shapes(root)[golden_case.checkpoint], read_weights(folder))
    engine.epsilon = lambda name: 1e-3
    assert tuple(engine.generate([golden_case.prompt], 5)[0]) == golden_case.answer


def test_without_a_case():
    pass
"""


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_engine.py").write_text(TEST)
    installed = {each.value for each in entry_points(group="pytest11")}
    load = [] if PLUGIN in installed else ["-p", PLUGIN]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *load,
        *options,
        "test_engine.py",
    ]
    source = str(Path(__file__).parents[2] / "src")
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={"PYTHONPATH": source}
    )


def _outcomes(folder: Path, *options: str) -> tuple[dict[str, int], set[str]]:
    """How many tests passed, failed and were skipped, and the functions that failed."""
    done = _pytest(folder, *options)
    words = done.stdout.strip().splitlines()[-1].replace(",", "").split()
    failed = set(re.findall(r"^FAILED test_engine.py::(\w+)", done.stdout, re.MULTILINE))
    return {word: int(count) for count, word in itertools.pairwise(words) if count.isdigit()}, failed


def test_a_test_for_each_case(small_family: Path, tmp_path: Path) -> None:
    n_cases = sum(case.holds_for("bfloat16") for case in cases(small_family))
    counts, failed = _outcomes(tmp_path, "--golden", str(small_family), "--golden-number-type", "bfloat16")
    assert counts["passed"] + counts["failed"] == 2 * n_cases + 1
    assert failed == {"test_engine_with_another_epsilon"}
    assert _outcomes(tmp_path) == ({"passed": 1, "skipped": 2}, set())


def test_long_texts_are_run_only_on_request(tmp_path: Path) -> None:
    """They were always run."""
    write(tmp_path, prompt=[0, *[5] * 1200])
    listed = [
        _pytest(tmp_path, "--golden", str(tmp_path), "--collect-only", *options).stdout.count("[first]")
        for options in ([], ["--golden-long"])
    ]
    assert listed == [0, 2]


@pytest.mark.parametrize("change", ["no folder", "a damaged file"])
def test_a_bad_folder_ends_in_one_message(tmp_path: Path, change: str) -> None:
    """It ended in a traceback, or in the failure of a correct engine."""
    if change == "a damaged file":
        write(tmp_path)
        (tmp_path / SIGNATURES).write_text("[]")
    done = _pytest(tmp_path, "--golden", str(tmp_path))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in done.stderr


def test_an_unknown_number_type_is_refused(tmp_path: Path) -> None:
    """No case holds for it, so every test would be skipped."""
    done = _pytest(tmp_path, "--golden-number-type", "fp32")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "choose from" in done.stderr
