"""Every error keeps the values of its message as facts, so that programs need not parse the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

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
