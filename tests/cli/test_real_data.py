"""The whole way on real facts, each step in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def in_a_new_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from byheart.cli.main import main; main()"]
    return subprocess.run(
        [*program, *map(str, arguments)], capture_output=True, text=True, check=True, encoding="utf-8"
    )


@pytest.mark.slow
def test_facts_are_compiled_saved_verified_and_answered(shared_data: Path, tmp_path: Path) -> None:
    facts, model = shared_data / "facts.csv", tmp_path / "facts"
    method = ("--method", "kajitsuka-sato-2025", "--precision", "exact")
    compiled = json.loads(in_a_new_process("compile", facts, "-o", model, *method, "--json").stdout)
    assert compiled["verified"]["checked"] == 1790
    assert compiled["verified"]["wrong"] == 0
    assert compiled["dataset"]["n_classes"] == 1271
    verified = json.loads(in_a_new_process("verify", model, facts, "--json").stdout)
    assert (verified["holds"], verified["digest"]) == (True, compiled["dataset"]["digest"])
    asked = in_a_new_process("predict", model, "capital of Georgia", "symbol of Gold", "capital of Mars")
    assert asked.stdout.splitlines() == ["Tbilisi", "Au", "unknown"]
