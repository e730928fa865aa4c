"""What holds the project together: pins for every requirement, notebooks that run, commands that exist."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
NOT_INSTALLED = ("lens", "ray", "hub")  # extras that `make setup` leaves out


def pins(text: str) -> dict[str, Version]:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return {
        canonicalize_name(name): Version(version)
        for name, _, version in (line.partition("==") for line in lines if line)
    }


def unpinned(project: dict[str, object], pinned: dict[str, Version]) -> list[str]:
    """Requirements of pyproject.toml that constraints.txt does not pin to a version they accept."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    asked: list[str] = list(project["dependencies"])
    for name, requirements in extras.items():
        if name not in NOT_INSTALLED:
            asked += requirements
    wrong = []
    for text in asked:
        requirement = Requirement(text)
        version = pinned.get(canonicalize_name(requirement.name))
        if requirement.name != "byheart" and (version is None or version not in requirement.specifier):
            wrong.append(text)
    return wrong


@pytest.fixture
def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_every_requirement_is_pinned(project: dict[str, object]) -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert unpinned(project, pins(text)) == [], "run `make lock`"
    # names alone
    assert not re.search(r"https?:|/", "".join(line.partition("#")[0] for line in text.splitlines()))


def test_a_missing_or_wrong_pin_is_noticed(project: dict[str, object]) -> None:
    pinned = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert unpinned(project, {**pinned, "numpy": Version("1.0")}) == ["numpy>=1.26"]
    del pinned["torch"]
    assert unpinned(project, pinned) == ["torch>=2.6"]


def test_the_readme_names_every_extra(project: dict[str, object]) -> None:
    extras = set(project["optional-dependencies"]) - {"test", "docs", "dev"}
    table = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("| extra | for |")[2].partition("\n\n")[0]
    )
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == extras


def run_notebook(path: Path) -> list[str]:
    """Run the code cells of a notebook one after the other, and return their sources."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(sources, start=1):
        exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    return sources


def notebooks() -> list[ParameterSet]:
    """All of examples/; slow are the one that opens TransformerLens and the one that trains."""
    slow = ("transformer_lens", "measure_capacity")
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in slow else [])
        for path in sorted((ROOT / "examples").glob("*.ipynb"))
    ]


@pytest.mark.parametrize("notebook", notebooks())
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if notebook.stem == "transformer_lens":
        pytest.importorskip("transformer_lens", reason="needs the extra lens, which no other test does")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    assert len(run_notebook(notebook)) >= 3


def test_a_notebook_that_fails_is_noticed(tmp_path: Path) -> None:
    notebook = tmp_path / "broken.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["assert 1 == 2"]}]}))
    with pytest.raises(AssertionError):
        run_notebook(notebook)


def test_the_workflow_runs_the_same_command() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"^ +- run: (.*)$", workflow, re.MULTILINE) == [".ci/run", "make fuzz SECONDS=60"]
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f'"{version}"' in workflow
