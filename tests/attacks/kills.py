"""kill -9 at random moments in compile, verify, measure with workers and export: nothing half, nothing lost.

    python -m tests.attacks.kills --times 100

Commands run in processes forked from this one, which has imported everything, so most of each life is the work itself. A command is
first timed, then killed at moments drawn uniformly from that time. After each kill what is on disk is examined, then the same
command runs to its end; how long it takes to go on is the time to its end, or for `measure` to its next stored run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from byheart.cli.main import run
from byheart.measure.store import Store
from byheart.pipeline import load
from byheart.process.liveness import is_running
from tests.measure.small_sweep import small_sweep

ROWS = {f"capital of country {i}": f"city {i % 7}" for i in range(60)}
SPEC = small_sweep(n_steps=60, seeds=4, more="[budget]\nmax_stack = 1\n")
N_RUNS = 8


@dataclass
class Tally:
    """What happened to one command."""

    n_killed: int = 0
    n_finished_first: int = 0
    problems: list[str] = field(default_factory=list)
    seconds_after: list[float] = field(default_factory=list)  # until the next command went on
    slowest_clean: float = 0.0

    def to_json(self) -> dict[str, object]:
        after = sorted(self.seconds_after)
        return {
            "killed": self.n_killed,
            "finished_first": self.n_finished_first,
            "problems": self.problems,
            "next_goes_on_after_s": {
                "median": round(after[len(after) // 2], 2),
                "slowest": round(after[-1], 2),
            },
            "undisturbed_s": round(self.slowest_clean, 2),
        }


def start(*arguments: str) -> int:
    """Run a command in a forked process; its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            status = run(list(arguments))
        finally:
            os._exit(status)
    return child


def finish(*arguments: str, goes_on: Callable[[], bool] = lambda: False) -> tuple[int, float]:
    """Run a command to its end: its exit status, and the seconds until it has gone on or ended."""
    began, child, seconds = time.monotonic(), start(*arguments), None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if seconds is None and (ended or goes_on()):
            seconds = time.monotonic() - began
        if ended:
            assert seconds is not None
            return os.waitstatus_to_exitcode(status), seconds
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill_often(
    arguments: list[str],
    times: int,
    rng: random.Random,
    before: Callable[[int], None],
    examine: Callable[[], str | None],
    complete: Callable[[], str | None],
    again: list[str] | None = None,
    goes_on: Callable[[], bool] = lambda: False,
) -> Tally:
    """Kill the command `times` times; `examine` says what is wrong on disk, `complete` what is wrong after the next run."""
    tally = Tally()
    before(0)
    clean = [finish(*arguments)[1] for _ in range(2)]
    tally.slowest_clean = max(clean)
    number = 0
    while tally.n_killed < times and number < 3 * times:
        number += 1
        before(number)
        child = start(*arguments)
        time.sleep(rng.uniform(0, max(clean)))
        helpers = children_of(child)
        is_over = os.waitpid(child, os.WNOHANG)[0] == child
        if is_over:
            tally.n_finished_first += 1
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            tally.n_killed += 1
        problem = examine()
        status, seconds = finish(*(again or arguments), goes_on=goes_on)
        tally.seconds_after.append(seconds)
        problem = problem or (f"the next command ended with status {status}" if status else complete())
        deadline = time.monotonic() + 20
        while any(is_running(helper) for helper in helpers) and time.monotonic() < deadline:
            time.sleep(0.05)
        if any(is_running(helper) for helper in helpers):
            problem = problem or "a worker outlived its parent"
        if problem is not None:
            tally.problems.append(problem)
    return tally


def kill_compile(folder: Path, times: int, rng: random.Random) -> Tally:
    data, model = folder / "data.csv", folder / "model"
    arguments = [
        "compile",
        str(data),
        "-o",
        str(model),
        "--method",
        "retrieval",
        "--precision",
        "float64",
        "-q",
    ]

    def before(number: int) -> None:
        if number % 2:
            shutil.rmtree(model, ignore_errors=True)

    def examine() -> str | None:
        if not model.exists():
            return None
        return (
            None if load(model).predict(list(ROWS)) == list(ROWS.values()) else "a model that answers wrongly"
        )

    def complete() -> str | None:
        left = [path.name for path in folder.iterdir() if path.name.startswith(".model")]
        return f"left behind: {left}" if left else examine()

    return kill_often(arguments, times, rng, before, examine, complete)


def kill_verify(folder: Path, times: int, rng: random.Random) -> Tally:
    data, model = folder / "data.csv", folder / "model"
    files = {path: path.read_bytes() for path in model.iterdir()}

    def examine() -> str | None:
        found = {path: path.read_bytes() for path in model.iterdir()}
        return None if found == files else "the model changed"

    return kill_often(["verify", str(model), str(data)], times, rng, lambda number: None, examine, examine)


def kill_measure(folder: Path, times: int, rng: random.Random) -> Tally:
    store = folder / "runs.sqlite"
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    known: set[str] = set()

    def before(number: int) -> None:
        for path in folder.glob("runs.sqlite*"):
            path.unlink()
        known.clear()

    def stored() -> set[str]:
        with Store(store) as opened:
            return {record.key for record in opened.records()}

    def examine() -> str | None:
        known.update(stored() if store.exists() else ())
        return None

    def goes_on() -> bool:
        """Whether a run was stored since; looked up without a word to the writer."""
        try:
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
                return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0]) > len(known)
        except sqlite3.Error:
            return False

    def complete() -> str | None:
        found = stored()
        if not known <= found:
            return "a stored run was lost"
        return None if len(found) == N_RUNS else f"{len(found)} runs are stored, not {N_RUNS}"

    alone = ["measure", str(spec), "--store", str(store), "--device", "cpu"]
    return kill_often([*alone, "--workers", "2"], times, rng, before, examine, complete, alone, goes_on)


def kill_export(folder: Path, times: int, rng: random.Random) -> Tally:
    target = folder / "model.onnx"
    arguments = ["export", str(folder / "model"), "--to", "onnx", "-o", str(target)]
    assert finish(*arguments)[0] == 0
    whole = target.read_bytes()

    def before(number: int) -> None:
        if number % 2:
            target.unlink(missing_ok=True)

    def examine() -> str | None:
        return None if not target.exists() or target.read_bytes() == whole else "half a file"

    def complete() -> str | None:
        left = [path.name for path in folder.iterdir() if "model.onnx" in path.name and path != target]
        return f"left behind: {left}" if left else examine()

    return kill_often(arguments, times, rng, before, examine, complete)


COMMANDS = {"compile": kill_compile, "verify": kill_verify, "measure": kill_measure, "export": kill_export}


def main() -> int:
    parser = argparse.ArgumentParser(prog="kills", description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("commands", nargs="*", help=f"of {', '.join(COMMANDS)}; all unless given")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    is_well = True
    with tempfile.TemporaryDirectory(prefix="byheart-kills-") as temporary:
        folder = Path(temporary)
        rows = "".join(f"{key},{value}\n" for key, value in ROWS.items())
        (folder / "data.csv").write_text("key,value\n" + rows)
        for command in ("compile", "verify", "measure", "export"):  # imported here, once
            __import__(f"byheart.cli.{command}")
        made = ["compile", str(folder / "data.csv"), "-o", str(folder / "model"), "-q"]
        made += ["--method", "retrieval", "--precision", "float64"]
        assert run(made) == 0
        for name in options.commands or COMMANDS:
            tally = COMMANDS[name](folder, options.times, random.Random(options.seed))
            is_well &= not tally.problems
            print(json.dumps({"command": name, **tally.to_json()}), flush=True)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
