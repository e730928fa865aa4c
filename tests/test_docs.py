"""What the README and the docs show runs, and prints what they say it prints."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import re
import shlex
import shutil
from dataclasses import asdict, dataclass
from html import unescape
from importlib import import_module
from itertools import combinations, pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<kind>[\w{}-]*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `follows` says that only white space parts it from the block before."""

    kind: str
    body: str
    line: int
    follows: bool


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        follows = bool(found) and not text[end : match.start()].strip()
        found.append(Block(match["kind"], match["body"], text.count("\n", 0, match.start()) + 1, follows))
        end = match.end()
    return found


def run_python(text: str, name: str) -> list[str]:
    """Run the Python blocks of a page one after the other; return what was printed against what was promised.

    A `text` block directly after a Python block is the promise of what that block prints.
    """
    differences = []
    names: dict[str, object] = {"__name__": "__main__"}
    nothing = Block("", "", 0, follows=False)
    for block, after in pairwise([*blocks_of(text), nothing]):
        if block.kind != "python":
            continue
        source = "\n" * block.line + block.body
        code = compile(source, name, "exec")
        # as a notebook does
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if after.kind == "text" and after.follows and printed.getvalue() != after.body:
            differences.append(f"{name}:{block.line} printed\n{printed.getvalue()}instead of\n{after.body}")
    return differences


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """The `byheart` commands of a page's console blocks, without the prompt, and the lines shown below each.

    A command may go on after a backslash.
    """
    found: list[tuple[str, list[str]]] = []
    for block in blocks_of(text):
        if block.kind != "console":
            continue
        for line in block.body.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif found and line.strip():
                found[-1][1].append(line.rstrip())
    return [(command, shown) for command, shown in found if command.startswith("byheart ")]


def not_printed(shown: list[str], printed: str) -> list[str]:
    """The shown lines that were not printed, in order; `...` stands for any lines, and within a line for any text."""
    rest, missing = [line.rstrip() for line in printed.splitlines()], []
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
        at = next((at for at, each in enumerate(rest) if pattern.fullmatch(each)), None)
        if at is None and line != "...":
            missing.append(line)
        elif at is not None and line != "...":
            rest = rest[at + 1 :]
    return missing


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the examples, to run the docs in."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_they_promise(page: Path, workplace: Path) -> None:
    assert run_python(page.read_text(encoding="utf-8"), page.name) == []


@pytest.mark.parametrize(
    "page",
    # the one trains, the other builds every rival
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in ("measure.md", "rivals.md") else [])
        for page in PAGES
    ],
    ids=lambda page: page.name,
)
def test_commands_succeed_and_print_what_is_shown(
    page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from byheart.cli.main import run

    for command, shown in commands_of(page.read_text(encoding="utf-8")):
        capsys.readouterr()
        assert run(shlex.split(command)[1:]) == 0, command
        assert not_printed(shown, capsys.readouterr().out) == [], command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target.split("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_opens_with_the_quickstart() -> None:
    script = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    without_docstring = script.split('"""\n\n', 1)[1]
    for page in (ROOT / "README.md", ROOT / "docs" / "first-steps.md"):
        first = next(block for block in blocks_of(page.read_text(encoding="utf-8")) if block.kind == "python")
        assert first.body == without_docstring


def test_a_wrong_promise_and_a_failing_block_are_noticed() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert run_python(page, "page.md") == ["page.md:1 printed\n2\ninstead of\n3\n"]
    assert run_python(page.replace("3", "2"), "page.md") == []
    with pytest.raises(ZeroDivisionError):
        run_python("```python\n1 / 0\n```\n", "page.md")


def test_blocks_of_one_page_share_their_names() -> None:
    assert run_python("```python\na = 1\n```\nthen\n```python\nprint(a)\n```\n\n```text\n1\n```\n", "p") == []


def test_commands_are_found_in_console_blocks() -> None:
    page = "```console\n$ byheart bounds \\\n  --samples 5\noutput\n$ make run\n```\n"
    ((command, shown),) = commands_of(page)
    assert shlex.split(command) == ["byheart", "bounds", "--samples", "5"]
    assert shown == ["output"]


def test_output_that_is_not_printed_is_noticed() -> None:
    printed = "runs  15\ntime  2 s\n\nmean 0.724\n"
    assert not_printed(["runs  15", "...", "mean 0.724"], printed) == []
    assert not_printed(["time  ...", "mean 0.74"], printed) == ["mean 0.74"]
    assert not_printed(["mean 0.724", "runs  15"], printed) == ["runs  15"]


@pytest.mark.slow
def test_the_pictures_of_the_readme_show_what_is_built_and_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps what it was drawn from. Where this fails, draw them anew: `make pictures`."""
    pytest.importorskip("matplotlib", reason="needs the `figures` extra")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pictures = import_module("readme_pictures")
    drawn = {
        "question.svg": asdict(pictures.follow()),
        "bits-per-stored-bit.svg": [asdict(point) for point in pictures.measured()],
        "graft-stream.svg": asdict(pictures.stream()),
    }
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/graft.md")]
    for name, record in drawn.items():
        text = (ROOT / "docs" / "_static" / name).read_text(encoding="utf-8")
        kept = re.search(r"<dc:description>(.*?)</dc:description>", text, re.DOTALL)
        assert kept is not None
        assert json.loads(unescape(kept[1])) == record
        assert any(f"](docs/_static/{name})" in page or f"](_static/{name})" in page for page in pages)


def test_names_in_the_picture_of_stored_bits_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all curves end at one point, or near the names of the lines."""
    pytest.importorskip("matplotlib", reason="needs the `figures` extra")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pictures = import_module("readme_pictures")
    precisions = ("int8", "float64", "float32", "bfloat16")
    same = [
        [pictures.Point(precision, n_facts, bits) for precision in precisions for n_facts in (10**4, last)]
        for bits in (0.02, 0.24, 0.96)
        for last in (10**5, 10**7)
    ]
    for points in [pictures.measured(), *same]:
        figure = pictures.draw_measured(points)
        (axes,) = figure.axes
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == 8
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert all(axes.bbox.contains(*corner) for box in boxes for corner in box.corners())
        pictures.plt.close(figure)


def test_what_vulture_is_told_is_documented_is_documented() -> None:
    documented = (ROOT / ".ci" / "reached.py").read_text("utf-8").split("\n\n")[1]
    assert "Documented for users" in documented
    pages = "\n".join(page.read_text("utf-8") for page in PAGES)
    names = [line.removeprefix("_.") for line in documented.splitlines() if not line.startswith("#")]
    assert len(names) > 10
    assert [name for name in names if not re.search(rf"\b{name}\b", pages)] == []


def test_every_room_is_in_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    rooms = import_module("rooms")
    assert rooms.present() - set(rooms.ROOMS) == set()
    assert {name for start, end, _ in rooms.FLOW for name in (start, end)} <= set(rooms.ROOMS)


def test_the_site_shows_what_notebooks_print(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    notebooks = import_module("notebooks")
    assert {path.stem for path in (ROOT / "examples").glob("*.ipynb")} == set(notebooks.ORDER)
    cells = [("markdown", "# A title"), ("code", "a = 1\nprint(a)\na + 1"), ("code", "b = a")]
    document = {"cells": [{"cell_type": kind, "source": [source]} for kind, source in cells]}
    (tmp_path / "one.ipynb").write_text(json.dumps(document), encoding="utf-8")
    heading, file, first, printed, second = notebooks.page_of(tmp_path / "one.ipynb")
    assert (heading, file) == ("## A title", "`examples/one.ipynb`")
    assert (first, printed) == ("```python\na = 1\nprint(a)\na + 1\n```", "```text\n1\n2\n```")
    assert second == "```python\nb = a\n```"
