"""Every error keeps the values of its message as facts, so that programs need not parse the text."""

from __future__ import annotations

import ast
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import byheart.errors

SOURCE = Path(byheart.errors.__file__).parent


def error_types(trees: list[ast.Module]) -> set[str]:
    """The names of `ByheartError` and of every class that derives from it."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"ByheartError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def without_facts(tree: ast.Module, types: set[str]) -> Iterator[ast.Call]:
    """Errors whose message shows a value that varies, made with nothing but the message."""
    for node in ast.walk(tree):
        is_error = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in types
        if not is_error or node.keywords or len(node.args) != 1:
            continue
        shown = (part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.FormattedValue))
        names = [name for value in shown for name in ast.walk(value) if isinstance(name, ast.Name)]
        if any(not name.id.isupper() for name in names):
            yield node


def test_every_error_keeps_the_values_of_its_message() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    types = error_types(list(trees.values()))
    assert len(types) > 20
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path, tree in trees.items()
        for call in without_facts(tree, types)
    ]
    assert not found


def test_an_error_without_facts_is_noticed() -> None:
    tree = ast.parse(
        "class Odd(UsageError): ...\n"
        "class UsageError(ByheartError): ...\n"
        "Odd(f'{name} is odd')\n"
        "Odd(f'{name} is odd', name=name)\n"
        "Odd(f'at most {LIMIT}')\n"
        "Odd('a constant')\n"
        "print(f'{name}')\n"
    )
    assert [call.lineno for call in without_facts(tree, error_types([tree]))] == [3]


def test_a_missing_extra_names_the_command_that_works_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "my checkout"
    monkeypatch.setattr(byheart.errors, "_CONSTRAINTS", root / "constraints.txt")
    assert _command() == ["pip", "install", "byheart[figures]"]
    root.mkdir()
    (root / "constraints.txt").touch()
    assert _command() == [
        *(sys.executable, "-m", "pip", "install"),
        *("-c", str(root / "constraints.txt"), "-e", f"{root}[figures]"),
    ]


def test_the_checkout_is_found(project_root: Path) -> None:
    assert f"{project_root}[figures]" in _command()


def _command() -> list[str]:
    error = byheart.errors.MissingExtra("matplotlib", "figures", "drawing")
    return shlex.split(str(error.facts["command"]))
