"""Small mistakes, made in the syntax tree of a module: what `make mutants` puts into the code, one at a time.

Comparisons lose or gain their boundary or turn round, `and` becomes `or`, `not` goes, a guard never fires, `raise` and calls for
their effect vanish, what is returned is None, whole numbers are one off, operators become their neighbours.

Left alone: annotations, decorators, docstrings, texts, assertions, and the arguments of `raise` (tests of errors judge those).
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITE = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
NEIGHBOUR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """One change: in which function, what it was and what it becomes. `number` is its own among those of its module."""

    number: int
    kind: str
    function: str  # "" at the top level of the module
    line: int
    before: str
    after: str


Slot = tuple[str, int | None]
"""A field of a parent, and the place in it where it is a list."""
Change = tuple[str, Callable[[], ast.AST]]
"""What kind it is, and how to make the node that takes the other's place."""


def changes_of(node: ast.AST) -> Iterator[Change]:
    """Every change of one node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for kind, table in (("boundary", BOUNDARY), ("comparison", OPPOSITE)):
                if type(operator) in table:
                    ops = [*node.ops[:at], table[type(operator)](), *node.ops[at + 1 :]]
                    yield kind, lambda ops=ops: _with(node, ops=ops)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "and/or", lambda: _with(node, op=other())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", lambda: node.operand
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in NEIGHBOUR and not _is_union(node):
        yield "arithmetic", lambda: _with(node, op=NEIGHBOUR[type(node.op)]())
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", lambda: ast.Constant(node.value + 1)
        yield "constant", lambda: ast.Constant(node.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", lambda: ast.Constant(not node.value)
    elif isinstance(node, ast.If | ast.IfExp):
        yield "never", lambda: _with(node, test=ast.Constant(False))
        if not isinstance(node, ast.If) or not _is_guard(node):
            yield "always", lambda: _with(node, test=ast.Constant(True))
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "removed", lambda: ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return", lambda: ast.Return(ast.Constant(None))


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module."""
    found = []
    for number, (node, _, _, function, kind, make) in enumerate(_mutations(ast.parse(source))):
        line: int = node.lineno
        found.append(Mutant(number, kind, function, line, _first_line(node), _first_line(make())))
    return found


def mutate(source: str, number: int) -> str:
    """The module with its mutant of this number."""
    tree = ast.parse(source)
    node, parent, slot, _, _, make = next(itertools.islice(_mutations(tree), number, None))
    _put(parent, slot, ast.copy_location(make(), node))
    return ast.unparse(ast.fix_missing_locations(tree))


def _mutations(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, Slot, str, str, Callable[[], ast.AST]]]:
    for node, parent, slot, function in _places(tree):
        for kind, make in changes_of(node):
            yield node, parent, slot, function, kind, make


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, Slot, str]]:
    """Every node that may change, with its parent, its place there and the function that it is in."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        parent, function = pending.pop()
        if isinstance(parent, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            function = f"{function}.{parent.name}" if function else parent.name
        for slot, node in _children(parent):
            yield node, parent, slot, function
            pending.append((node, function))


def _children(parent: ast.AST) -> Iterator[tuple[Slot, ast.AST]]:
    if isinstance(parent, ast.Assert | ast.Raise | ast.JoinedStr) or _is_for_types(parent):
        return
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(
            parent, ast.Call
        ):
            continue
        for at, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(each, ast.AST) and not isinstance(each, ast.operator | ast.cmpop | ast.boolop):
                yield (name, at), each


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_guard(node: ast.If) -> bool:
    """Whether the branch only refuses: it would then refuse everything, which any test sees."""
    return len(node.body) == 1 and isinstance(node.body[0], ast.Raise)


def _is_union(node: ast.AST) -> bool:
    """Whether it is a union of types, such as `int | None`."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitOr)
        and isinstance(node.right, ast.Name)
        and (
            node.right.id[0].isupper()
            or node.right.id in ("int", "float", "str", "bytes", "list", "dict", "tuple")
        )
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _put(parent: ast.AST, slot: Slot, node: ast.AST) -> None:
    name, at = slot
    if at is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[at] = node


def _first_line(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {_first_line(node.test)}:"
    return ast.unparse(ast.copy_location(node, node)).splitlines()[0]
