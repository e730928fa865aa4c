"""What the command line says about itself: its help, version, methods and theorems."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from byheart.cli.main import COMMANDS, group

from .conftest import Byheart


def test_theorems(byheart: Byheart) -> None:
    done = byheart("theorems", "--paper", "KS25")
    assert done.status == 0
    assert "KS25-T4.1" in done.out
    assert "MFT24-" not in done.out
    assert "KS25  Kajitsuka and Sato" in done.out
    found = byheart("theorems", "--json").document
    ids = [entry["id"] for entry in found["statements"]]
    assert len(ids) == len(set(ids)) > 80
    assert byheart("theorems", "--state", "open", "--json").document["statements"] != found["statements"]
    refused = byheart("theorems", "--paper", "XYZ")
    assert (refused.status, "'XYZ'" in refused.err) == (2, True)


def test_help_lists_every_command(byheart: Byheart) -> None:
    done = byheart("--help")
    assert done.status == 0
    for name, words in COMMANDS.items():
        assert name in done.out
        assert words.split()[0] in done.out
    assert byheart().out == done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(byheart: Byheart, name: str) -> None:
    done = byheart(name, "--help")
    assert done.status == 0
    assert f"Usage: byheart {name}" in done.out
    if "COMMAND [ARGS]" not in done.out:  # a group has them on its commands
        assert "--json" in done.out
        assert "--debug" in done.out
    command: Any = group.get_command(None, name)
    assert command.help


def test_methods(byheart: Byheart) -> None:
    from byheart.construct.registry import names

    every = byheart("methods", "--json").document["methods"]
    assert [method["name"] for method in every] == list(names())
    shown = byheart("methods", "--task", "distribution", "--precision", "float32").out
    assert "madden-2024" in shown
    assert "kim-2023" not in shown


def test_the_module_is_the_command() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "byheart", "version", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout)["versions"]["byheart"]


@pytest.mark.parametrize(("given", "meant"), [("predcit", "predict"), ("method", "methods")])
def test_a_command_that_is_nearly_right(byheart: Byheart, given: str, meant: str) -> None:
    done = byheart(given)
    assert done.status == 2
    assert f"`{meant}`" in done.err


def test_version(byheart: Byheart) -> None:
    import byheart as package

    assert byheart("--version").out == f"byheart, version {package.__version__}\n"
