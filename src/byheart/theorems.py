"""An index of the statements of the papers. It lists the code that implements each statement and the tests that check it.

`@realises("KS25-L G.2")` on a function claims that the function implements the statement with this id. `@checks("KS25-L G.2")`
on a test claims that the test would fail if the statement did not hold for the functions that claim it. `byheart theorems`
prints the index. One of byheart's own tests fails if a function claims a statement that no test checks.

The two decorators only set an attribute. `index()` finds them by parsing the source. It therefore imports no large
package, and also finds functions that need optional dependencies.
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
"""The state of a statement.

done: a function claims it and a test checks it. untested: a function claims it and no test checks it.
claimed: a function claims it, and the tests were not read, for example because the package was installed without them.
open: no function claims it.
"""

Grade = Literal["built", "special case", "formula", "open"]
"""How much of a statement the code implements.

built: the whole statement. special case: the part that `Statement.case` describes.
formula: only the numbers in the statement are computed, such as a bound or a count of bits. open: nothing.
"""

_PACKAGE = Path(__file__).parent
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def realises(*statements: str) -> Callable[[F], F]:
    """Claim that the decorated function or class implements these statements, given by their ids in statements.json."""

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
    """One numbered statement of a paper.

    `paper` is the short name of the paper. `statement` is a summary of the statement. `becomes` names the kinds of code that
    implement it, such as "construct" or "bound". `grade` tells how much of it is implemented; `case` says which part, if it is only
    a part.
    """

    id: str
    paper: str
    statement: str
    becomes: tuple[str, ...]
    grade: Grade
    case: str = ""


@dataclass(frozen=True)
class Entry:
    """A statement with the functions that implement it and the tests that check it."""

    statement: Statement
    functions: tuple[Place, ...]
    tests: tuple[Place, ...]
    state: State

    @property
    def id(self) -> str:
        """The id of the statement, such as `KS25-T4.1`."""
        return self.statement.id

    def to_json(self) -> dict[str, object]:
        """Return the entry as a dictionary that can be written as JSON."""
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
    """A place in the source: a function, a class or a test.

    `name` is `module.qualname` for a function or class, and pytest's node id for a test. `where` is `file:line`.
    """

    name: str
    where: str


def papers() -> dict[str, str]:
    """Return the full citation of each paper, by short name."""
    return dict(json.loads(_table())["papers"])


def statements() -> tuple[Statement, ...]:
    """Return every statement of statements.json, in the order of the papers."""
    return tuple(
        Statement(**{**row, "becomes": tuple(row["becomes"])}) for row in json.loads(_table())["statements"]
    )


def index(package: Path | None = None, tests: Path | None = None) -> tuple[Entry, ...]:
    """Return every statement with the functions that claim it, the tests that check it, and its state.

    `package` is the folder of the source, and `tests` the folder of the tests. By default, both are those of this
    installation; the tests are found only in a checkout. If only `package` is given, no tests are read.

    Raise `ByheartError`, naming the place, if a decorator names an unknown id or is not called with string literals,
    or if `checks` decorates something that pytest does not collect.
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
    """If `package` is in a checkout, return the checkout's tests folder, otherwise None."""
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
        "  The ids are listed in src/byheart/statements.json.",
        id=claimed,
        where=place.where,
    )


def _claims(folder: Path, decorator: str) -> Iterator[tuple[Place, str]]:
    """Yield each (place, id) that `@decorator(...)` claims in the source files under `folder`, in file order."""
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
    """Yield every function and class under `tree` with its qualified name."""
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
    """Return pytest's node id of a test. Raise an error if pytest would not collect the test, because then it checks nothing."""
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
