"""Imports run one way, and importing byheart is cheap. Each check has a twin that shows it can fail."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import byheart

PACKAGE = Path(byheart.__file__).parent

# A part may import from the lines above its own. Parts on one line may import one another in one direction.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("theorems", "records", "files", "process"),
    ("data", "network"),
    ("program", "bounds"),
    ("construct",),
    ("verify", "storage", "export", "inspect"),
    ("model", "pipeline", "compare", "shatter"),
    ("golden", "measure", "graft"),
    ("reproduce", "report"),
    ("documents",),
    ("__init__",),
    ("web", "cli", "__main__"),
)
# the rest are folders
MODULES = {"errors", "theorems", "model", "pipeline", "compare", "shatter", "__init__", "__main__"}
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

# Whatever their lines: the verifier judges the constructions, so it shares no code with them.
FORBIDDEN = {("verify", "construct"), ("verify", "program")}

# The verifier knows networks only by their protocol: it imports no family. A family is a folder of network with a module.
FAMILIES = {file.parent.name for file in PACKAGE.glob("network/*/module.py")}

# What every room of construct may import besides itself; a second room is not among it.
SHARED_BY_ROOMS = {"registry"}

HEAVY = ("torch", "numba", "matplotlib", "scipy", "click", "rich")
MOST_MODULES = 100  # that `import byheart` loads; they were 30


# --- which part imports which ---------------------------------------------------------------------------


def imported_modules(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every (dotted name, line) imported anywhere in `tree`, also inside functions and by import_module."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{origin}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
            argument = node.args[0]
            if name in {"import_module", "__import__"} and isinstance(argument, ast.Constant):
                yield str(argument.value), node.lineno


def part_of(dotted: str, package: Path) -> str | None:
    """The part of byheart that a dotted name belongs to, or None outside byheart."""
    top, *rest = dotted.split(".")
    if top != "byheart":
        return None
    if rest and ((package / rest[0]).is_dir() or (package / f"{rest[0]}.py").is_file()):
        return rest[0]
    return "__init__"  # a name that byheart itself exports


def imports_of(package: Path, root: str = "byheart") -> Iterator[tuple[Path, str, int]]:
    """Every (importing file, dotted name, line) of the package whose dotted name is `root`."""
    for file in sorted(package.rglob("*.py")):
        relative = file.relative_to(package)
        is_package = file.name == "__init__.py"
        dotted = ".".join([root, *relative.with_suffix("").parts])
        module = dotted.removesuffix(".__init__") if is_package else dotted
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        for name, line in imported_modules(tree, module, is_package):
            yield relative, name, line


def imports_between_parts(package: Path) -> Iterator[tuple[str, str, str]]:
    """Every (importing part, imported part, file:line) that crosses a border between parts."""
    for file, name, line in imports_of(package):
        importer, imported = file.parts[0].removesuffix(".py"), part_of(name, package)
        if imported is not None and imported != importer:
            yield importer, imported, f"{file.as_posix()}:{line}"


def imports_between_rooms(package: Path) -> list[str]:
    """Each import of one room of construct by another, in words."""
    found = []
    for file, name, line in imports_of(package / "construct", "byheart.construct"):
        below = name.removeprefix("byheart.construct.") if name.startswith("byheart.construct.") else ""
        importer, imported = file.parts[0].removesuffix(".py"), below.split(".")[0]
        if len(file.parts) > 1 and imported not in {"", importer, *SHARED_BY_ROOMS}:
            found.append(f"construct/{file.as_posix()}:{line}: {importer} imports {imported}")
    return found


def families_known_to_verify(package: Path) -> list[str]:
    """Each import of a family of networks by verify, in words."""
    return [
        f"{file.as_posix()}:{line}: verify imports {name}"
        for file, name, line in imports_of(package / "verify", "byheart.verify")
        if name.startswith("byheart.network.") and name.split(".")[2] in FAMILIES
    ]


def wrong_imports(package: Path) -> list[str]:
    """Each import that runs upwards, both ways between neighbours, or against `FORBIDDEN`, in words."""
    crossings = list(imports_between_parts(package))
    unplaced = {part for importer, imported, _ in crossings for part in (importer, imported)} - set(RANK)
    if unplaced:
        return [f"{part} has no place in LAYERS" for part in sorted(unplaced)]
    directions = {(importer, imported) for importer, imported, _ in crossings}
    return [
        f"{where}: {importer} imports {imported}"
        for importer, imported, where in crossings
        if RANK[imported] > RANK[importer]
        or (RANK[imported] == RANK[importer] and (imported, importer) in directions)
        or (importer, imported) in FORBIDDEN
    ]


def test_imports_run_downwards() -> None:
    assert wrong_imports(PACKAGE) == []


def test_no_room_of_construct_imports_another() -> None:
    assert imports_between_rooms(PACKAGE) == []


def test_verify_imports_no_family_of_networks(tmp_path: Path) -> None:
    assert {"transformer", "llama"} <= FAMILIES
    assert families_known_to_verify(PACKAGE) == []
    package = copy_of_the_tree(tmp_path)
    (package / "verify" / "check.py").write_text(
        "from byheart.network.memoriser import Memoriser\n"
        "def late():\n    from byheart.network.llama.architecture import Llama"
    )
    assert families_known_to_verify(package) == [
        "check.py:3: verify imports byheart.network.llama.architecture.Llama"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "from byheart.construct.park_2021 import program",
        "from byheart.construct import park_2021",
        "from ..park_2021.program import Park",
        "from .. import park_2021",
        'from importlib import import_module\nimport_module("byheart.construct.park_2021")',
    ],
)
def test_a_room_that_imports_another_is_found(tmp_path: Path, source: str) -> None:
    package = copy_of_the_tree(tmp_path)
    for room in ("kim_2023", "park_2021"):
        (package / "construct" / room).mkdir()
    (package / "construct" / "registry.py").write_text(source)  # the registry knows every room
    (package / "construct" / "park_2021" / "program.py").write_text(
        "from byheart.construct.registry import Method\nfrom . import theorem\nfrom byheart.program import lookup"
    )
    assert imports_between_rooms(package) == []
    (package / "construct" / "kim_2023" / "theorem.py").write_text(source)
    (line,) = imports_between_rooms(package)
    assert line.startswith("construct/kim_2023/theorem.py:")
    assert line.endswith(": kim_2023 imports park_2021")


@pytest.mark.parametrize("lower", [part for parts in LAYERS for part in parts])
def test_an_import_of_anything_above_is_found(tmp_path: Path, lower: str) -> None:
    package = copy_of_the_tree(tmp_path)
    above = [part for part in RANK if RANK[part] > RANK[lower]]
    file = package / lower / "a.py" if (package / lower).is_dir() else package / f"{lower}.py"
    file.write_text(
        "\n".join("import byheart" if part == "__init__" else f"import byheart.{part}" for part in above)
    )
    complaints = [complaint.split(": ")[1] for complaint in wrong_imports(package)]
    assert complaints == [f"{lower} imports {part}" for part in above]


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("data/dataset.py", "import byheart.construct", "data/dataset.py:1: data imports construct"),
        ("data/dataset.py", "from byheart.cli import main", "data/dataset.py:1: data imports cli"),
        ("data/dataset.py", "from byheart import compile", "data/dataset.py:1: data imports __init__"),
        ("network/size.py", "from ..verify import check", "network/size.py:1: network imports verify"),
        (
            "network/__init__.py",
            "from .. import construct",
            "network/__init__.py:1: network imports construct",
        ),
        ("errors.py", "from . import theorems", "errors.py:1: errors imports theorems"),
        (
            "bounds/bound.py",
            "def late():\n    from byheart.export import folder",
            "bounds/bound.py:2: bounds imports export",
        ),
        (
            "bounds/bound.py",
            'from importlib import import_module\nimport_module("byheart.measure")',
            "bounds/bound.py:2: bounds imports measure",
        ),
        (
            "verify/check.py",
            "from byheart.construct import registry",
            "verify/check.py:1: verify imports construct",
        ),
        ("pipeline.py", "from byheart.cli import main", "pipeline.py:1: pipeline imports cli"),
        ("notes.py", "from byheart.data import dataset", "notes has no place in LAYERS"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    package = copy_of_the_tree(tmp_path)
    (package / file).write_text(source)
    assert wrong_imports(package) == [complaint]


def test_neighbours_may_import_one_way_only(tmp_path: Path) -> None:
    package = copy_of_the_tree(tmp_path)
    (package / "network" / "a.py").write_text("import byheart.data")
    assert wrong_imports(package) == []
    (package / "data" / "b.py").write_text("import byheart.network")
    assert wrong_imports(package) == [
        "data/b.py:1: data imports network",
        "network/a.py:1: network imports data",
    ]


def copy_of_the_tree(tmp_path: Path) -> Path:
    """The parts of byheart as empty packages and modules."""
    package = tmp_path / "byheart"
    package.mkdir()
    for part in RANK:
        if part in MODULES:
            (package / f"{part}.py").touch()
        else:
            (package / part).mkdir()
            (package / part / "__init__.py").touch()
    return package


# --- what `import byheart` costs ------------------------------------------------------------------------


def in_a_fresh_interpreter(statement: str) -> tuple[int, list[str]]:
    """How many modules `statement` loads in a new interpreter, and the heavy packages among them."""
    code = (
        "import sys\n"
        "before = len(sys.modules)\n"
        f"{statement}\n"
        "print(len(sys.modules) - before)\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    n_modules, heavy = answer.stdout.splitlines()
    return int(n_modules), heavy.split()


def test_import_is_fast_and_brings_nothing_heavy() -> None:
    # Modules are counted instead of seconds: how busy the machine is must not matter.
    n_modules, heavy = in_a_fresh_interpreter("import byheart")
    assert heavy == []
    assert n_modules <= MOST_MODULES


def test_a_heavy_or_slow_import_is_noticed() -> None:
    n_modules, heavy = in_a_fresh_interpreter("import byheart, rich, numpy")
    assert heavy == ["rich"]
    assert n_modules > MOST_MODULES


def test_the_sizes_of_all_constructions_are_told_without_torch() -> None:
    # `byheart plan` answers in a second because of this; torch alone takes longer to import.
    statement = "from byheart.construct.registry import get, names\n[get(name).size_of for name in names()]"
    assert "torch" not in in_a_fresh_interpreter(statement)[1]
