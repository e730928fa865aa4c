"""One kind of child: it answers, tells how far it is, runs out of time, and ends with its parent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from byheart.process.child import ChildEnded, JsonChild
from byheart.process.liveness import end_tree, is_running

PROGRAM = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    for step in range(asked.get("steps", 0)):
        print(json.dumps({"progress": [step, asked["steps"], "work"]}), flush=True)
    if asked.get("status") is not None:
        sys.exit(asked["status"])
    if asked.get("cut"):
        print('{"echo": 1', end="", flush=True)
        sys.exit(0)
    time.sleep(asked.get("seconds", 0))
    print(json.dumps({"echo": asked}), flush=True)
"""
COMMAND = (sys.executable, "-c", PROGRAM)


@pytest.fixture
def child() -> Iterator[JsonChild]:
    process = JsonChild(COMMAND)
    yield process
    process.close()


def test_it_answers_again_and_again_and_tells_how_far_it_is(child: JsonChild) -> None:
    heard: list[tuple[object, ...]] = []
    for n in range(2):
        asked = {"number": n, "steps": 2}
        assert child.ask(asked, seconds=30, progress=lambda *news: heard.append(news)) == {"echo": asked}
    assert heard == 2 * [(0, 2, "work"), (1, 2, "work")]


def test_one_that_takes_too_long_is_ended(child: JsonChild) -> None:
    with pytest.raises(ChildEnded, match="seconds allowed"):
        child.ask({"seconds": 600}, seconds=0.2)
    assert not child.is_alive


@pytest.mark.parametrize("question", [{"status": 7}, {"cut": True}])
def test_one_that_ends_without_an_answer_is_said_to(child: JsonChild, question: dict[str, object]) -> None:
    with pytest.raises(ChildEnded) as ended:
        child.ask(question, seconds=30)
    assert ended.value.status in (7, 0, -9)
    with pytest.raises(ChildEnded):
        child.ask({}, seconds=30)


def test_it_ends_with_its_parent() -> None:
    script = (
        "import sys; from byheart.process.child import JsonChild\n"
        "child = JsonChild(sys.argv[1:]); child.ask({}, seconds=30); print(child.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.communicate()
    for _ in range(2000):
        if not is_running(pid):
            return
        subprocess.run([sys.executable, "-c", ""], check=True)  # a moment for it to notice
    pytest.fail("the child runs on")


def test_a_name_cut_in_the_middle_of_a_character_hides_no_process(tmp_path: Path) -> None:
    """Linux keeps the first 15 bytes of the name of a program, whatever characters they belong to."""
    program = Path(shutil.copy(shutil.which("sleep") or "", tmp_path / ("é" * 10)))
    with subprocess.Popen([program, "20"]) as process:
        assert is_running(process.pid)
        end_tree(process.pid)
        assert process.wait(timeout=20) < 0
