"""From a statement of the papers to the code that realises it.

`@realises("KS25-L G.2")` on a function claims a statement; `@checks("KS25-L G.2")` on a test says the
test would fail if the statement did not hold of that function. `byheart theorems` prints the index and a
test fails on a statement that a function claims and no test checks.

The two decorators only leave a mark. `index()` finds them by parsing the source, so that listing what is
done imports nothing heavy and sees functions behind optional dependencies too.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

from byheart.errors import ByheartError, did_you_mean

F = TypeVar("F", bound=Callable[..., object] | type)

State = Literal["done", "untested", "claimed", "open"]
"""Where a statement stands.

done: a function claims it and a test checks it. untested: a function claims it and no test checks it.
claimed: a function claims it and the tests are not here to look at (installed without the checkout).
open: no function claims it.
"""

Grade = Literal["built", "special case", "formula", "open"]
"""How much of a statement the code has.

built: the object of the statement, in its generality. special case: part of it, and `case` says which. formula: its number only.
open: nothing.
"""

_PACKAGE = Path(__file__).parent
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def realises(*statements: str) -> Callable[[F], F]:
    """Claim that the decorated function or class realises these statements (ids of statements.json)."""

    return _mark("__realises__", statements)


def checks(*statements: str) -> Callable[[F], F]:
    """Claim that the decorated test checks these statements."""

    return _mark("__checks__", statements)


def _mark(name: str, statements: tuple[str, ...]) -> Callable[[F], F]:
    def mark(item: F) -> F:
        setattr(item, name, (*getattr(item, name, ()), *statements))
        return item

    return mark


@dataclass(frozen=True)
class Statement:
    """One numbered statement of a paper. `becomes` says what kinds of code realise it, `grade` how much of it is realised."""

    id: str
    paper: str
    statement: str
    becomes: tuple[str, ...]
    grade: Grade
    case: str = ""


@dataclass(frozen=True)
class Entry:
    """A statement with the functions that realise it and the tests that check it."""

    statement: Statement
    functions: tuple[Place, ...]
    tests: tuple[Place, ...]
    state: State

    @property
    def id(self) -> str:
        """The statement's id, such as `KS25-T4.1`."""
        return self.statement.id

    def to_json(self) -> dict[str, object]:
        """The entry as plain values."""
        places = {"functions": self.functions, "tests": self.tests}
        listed = {name: [asdict(place) for place in found] for name, found in places.items()}
        return {
            **asdict(self.statement),
            "becomes": list(self.statement.becomes),
            "state": self.state,
            **listed,
        }


@dataclass(frozen=True)
class Place:
    """Something in the source: `name` is a module.qualname or a test's node id, `where` is file:line."""

    name: str
    where: str


def papers() -> dict[str, str]:
    """The cited papers: short name to full citation."""
    return dict(json.loads(_table())["papers"])


def statements() -> tuple[Statement, ...]:
    """Every statement of statements.json, in the order of the papers."""
    return tuple(
        Statement(**{**row, "becomes": tuple(row["becomes"])}) for row in json.loads(_table())["statements"]
    )


def index(package: Path | None = None, tests: Path | None = None) -> tuple[Entry, ...]:
    """Every statement with the functions that claim it, the tests that check it, and its state.

    `package` is the folder of the package's source and `tests` that of its tests. Without `package`, both are
    those of this installation; the tests are found when it runs from a checkout.

    Raises `ByheartError`, naming the place, when a decorator names an unknown id, is given anything but
    string literals, or when `checks` decorates something that pytest does not collect.
    """
    if package is None:
        package, tests = _PACKAGE, tests or _tests_beside(_PACKAGE)
    known = statements()
    ids = {statement.id for statement in known}
    claims: dict[str, dict[str, list[Place]]] = {name: {"realises": [], "checks": []} for name in ids}
    for folder, decorator in ((package, "realises"), (tests, "checks")):
        for place, claimed in _claims(folder, decorator) if folder is not None else ():
            claims[_known_id(claimed, ids, place)][decorator].append(place)
    entries = []
    for statement in known:
        functions, checked = (tuple(places) for places in claims[statement.id].values())
        state = _state(bool(functions), bool(checked), tests is not None)
        entries.append(Entry(statement, functions, checked, state))
    return tuple(entries)


def _table() -> str:
    return (_PACKAGE / "statements.json").read_text(encoding="utf-8")


def _tests_beside(package: Path) -> Path | None:
    """The tests of the checkout that `package` lies in, if it lies in one."""
    root = package.parents[1]
    tests = root / "tests"
    in_checkout = package.parent.name == "src" and (root / "pyproject.toml").is_file() and tests.is_dir()
    return tests if in_checkout else None


def _state(is_realised: bool, is_checked: bool, tests_are_here: bool) -> State:
    if not is_realised:
        return "open"
    if not tests_are_here:
        return "claimed"
    return "done" if is_checked else "untested"


def _known_id(claimed: str, ids: set[str], place: Place) -> str:
    if claimed in ids:
        return claimed
    hint = did_you_mean(claimed, sorted(ids))
    raise ByheartError(
        f"{place.where}: {place.name} names the statement {claimed!r}, which does not exist.{hint}\n"
        "  The ids are those of src/byheart/statements.json.",
        id=claimed,
        where=place.where,
    )


def _claims(folder: Path, decorator: str) -> Iterator[tuple[Place, str]]:
    """Each (place, id) that `@decorator(...)` claims in the source files under `folder`, in file order."""
    base = folder.parents[1] if folder.parent.name == "src" else folder.parent
    for file in sorted(folder.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if decorator not in source:
            continue
        path = file.relative_to(base).as_posix()
        for qualname, node in _definitions(ast.parse(source, filename=path)):
            where = f"{path}:{node.lineno}"
            for ids in _decorator_ids(node, decorator, where):
                if decorator == "checks":
                    place = Place(_node_id(path, qualname, where), where)
                else:
                    place = Place(f"{_module(file, folder)}.{qualname}", where)
                for claimed in ids:
                    yield place, claimed


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Definition]]:
    """Every function and class under `tree` with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition):
            qualname = prefix + node.name
            yield qualname, node
            inner = "." if isinstance(node, ast.ClassDef) else ".<locals>."
            yield from _definitions(node, qualname + inner)
        else:
            yield from _definitions(node, prefix)


def _decorator_ids(node: _Definition, decorator: str, where: str) -> Iterator[list[str]]:
    for mark in node.decorator_list:
        function = mark.func if isinstance(mark, ast.Call) else mark
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if name != decorator:
            continue
        arguments = mark.args if isinstance(mark, ast.Call) else []
        ids = [
            argument.value
            for argument in arguments
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if not ids or len(ids) != len(arguments):
            raise ByheartError(
                f"{where}: @{decorator} on {node.name} must be called with ids written out as strings, "
                f'such as @{decorator}("KS25-T4.1"), because the index reads the source.',
                where=where,
            )
        yield ids


def _module(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _node_id(path: str, qualname: str, where: str) -> str:
    """The id pytest gives the test, or an error when pytest would not collect it and so it checks nothing."""
    parts = qualname.split(".")
    in_test_file = Path(path).name.startswith("test_")
    collected = in_test_file and all(part.startswith(("test", "Test")) for part in parts)
    if not collected:
        raise ByheartError(
            f"{where}: @checks decorates {qualname}, which pytest does not collect, so it checks nothing.\n"
            "  Put it on a test function or class of a file named test_*.py.",
            where=where,
        )
    return "::".join([path, *parts])
