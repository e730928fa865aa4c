"""Processes that must not react to Ctrl-C do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import multiprocessing, signal, sys
from byheart.process.liveness import children_ignore_interrupts

def masked(results):
    results.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    found = []
    with children_ignore_interrupts():
        for _ in range(2):
            here, there = context.Pipe()
            child = context.Process(target=masked, args=(there,))
            child.start()
            found.append(here.recv())
            child.join()
    sys.exit(0 if found == [True, True] else 3)
"""


def test_the_first_child_of_a_fresh_process_ignores_interrupts_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert subprocess.run([sys.executable, tmp_path / "program.py"], timeout=120).returncode == 0
