"""The notebooks of examples/ as one page: their text, their code, and what it prints when it is run."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ORDER = ("first_model", "look_inside", "measure_capacity", "canary", "transformer_lens")
NEEDS = {"transformer_lens": "transformer_lens"}
"""A package without which a notebook is shown and not run: `make setup` leaves it out."""


def write(folder: Path) -> None:
    """Write notebooks.md into `folder`."""
    with TemporaryDirectory() as place:
        shutil.copytree(EXAMPLES, Path(place) / "examples")
        with contextlib.chdir(Path(place) / "examples"):
            parts = [part for name in ORDER for part in page_of(Path(f"{name}.ipynb"))]
    (folder / "notebooks.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def page_of(path: Path) -> Iterator[str]:
    """The parts of a page, one for each cell; headings are one level lower than in the notebook."""
    needed = NEEDS.get(path.stem)
    is_run = needed is None or find_spec(needed) is not None
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield re.sub(r"^#", "##", source, flags=re.MULTILINE)
            if number == 0:
                yield f"`examples/{path.name}`" + (
                    "" if is_run else "; not run here, for lack of its package."
                )
            continue
        yield f"```python\n{source}\n```"
        printed = run_cell(source, names).rstrip() if is_run else ""
        if printed:
            yield f"```text\n{printed}\n```"


def run_cell(source: str, names: dict[str, Any]) -> str:
    """What a cell prints; a last line that is an expression shows its value, as in a notebook."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue().replace(str(Path.cwd()), "examples")
