"""Mistakes put into the code one at a time: how many do the tests notice? `make mutants` prints the score and what survives.

    python -m tests.attacks.mutants [verify storage bounds records files limits] [--each 60] [--seed 0] [--retry]

Every room gives a sample of its mutants (`mutations`); `limits` is the code of digests, limits and signatures, wherever it is
(`SELECTIONS`), and the path of a module, such as process/child.py, is a room too. Tests run once without any mutant, and each
function is remembered with the tests that call it, in out/mutants/calls; after a change of a test file only that file runs again
(delete the folder to trace all anew; a test that notices a mutant must pass without it, so an old trace only loses kills).
A mutant then meets those tests only, the quickest first, until one fails. Each runs in a process forked from this one, which has
imported PyTorch and pytest, on a copy of the package. Outcomes are appended to out/mutants/outcomes.jsonl, and one that is known
is not run again; --retry runs the survivors once more. Change no test while it runs.

tests/attacks/equivalent_mutants.json says of some survivors why no test can tell them from the original.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.attacks.mutations import Mutant, mutants_of, mutate

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
ROOMS = ("verify", "storage", "bounds", "records", "files")
SELECTIONS = {
    "limits": (
        "data/digest.py",
        "verify/digest.py",
        "process/memory_limit.py",
        "records/json_file.py",
        "storage/sparse_weights.py",
        "storage/tensor_file.py",
        "files/npz_archive.py",
        "storage/keys.py",
        "storage/signature.py",
        "data/tokenizer_document.py",
    )
}
TESTS = (
    "tests/verify",
    "tests/storage",
    "tests/bounds",
    "tests/records",
    "tests/data/test_hostile.py",
    "tests/data/test_documents.py",
    "tests/data/test_dataset.py",
    "tests/data/test_digest.py",
    "tests/data/test_tokenizer_document.py",
    "tests/data/test_tokenizers.py",
    "tests/process",
    "tests/measure/test_specification.py",
    "tests/measure/test_store.py",
    "tests/network/test_spec.py",
    "tests/test_model.py",
    "tests/test_shatter.py",
    "tests/cli/test_failures.py",
    "tests/files",
    "tests/construct/closed_forms/test_capacity.py",
    "tests/attacks/test_forged.py",
    "tests/attacks/test_guards.py",
    "tests/attacks/test_records.py",
    "tests/attacks/test_small_inputs.py",
)
_NO_SUCH_TEST = 4  # pytest's exit status
FIRST_FILES, FIRST_TESTS = 4, 40  # that a mutant meets before all the others
LONG_ENOUGH = 40  # seconds of tests for one mutant, as they were when calls were traced, which is slow
PACKAGES = (
    "pytest",
    "hypothesis",
    "jaxtyping",
    "beartype",
    "numba",
    "scipy",
    "msgspec",
    "safetensors.numpy",
    "click",
    "rich",
    "torch",
)


@dataclass(frozen=True)
class Task:
    """A mutant of a file, and a name that stays while the mutated expression and its function stay."""

    room: str
    file: str
    mutant: Mutant
    nth: int  # among equal changes of one function

    @property
    def name(self) -> str:
        m = self.mutant
        return f"{self.file}:{m.function}: {m.before}  ->  {m.after}" + (f" #{self.nth}" if self.nth else "")


def modules_of(room: str) -> list[str]:
    """The modules of a room, of a selection, or one that is named by its path; empty where there is no such room."""
    folder = ROOT / "src" / "byheart"
    if room in SELECTIONS:
        return list(SELECTIONS[room])
    if room.endswith(".py"):
        return [room] if (folder / room).is_file() else []
    return sorted(str(path.relative_to(folder)) for path in (folder / room).rglob("*.py"))


def sample(room: str, n: int, seed: int) -> list[Task]:
    """`n` mutants of a room, drawn at random by their names: after a change of the code most of them are drawn again."""
    tasks = []
    for file in modules_of(room):
        seen: Counter[tuple[str, str, str]] = Counter()
        for mutant in mutants_of((ROOT / "src" / "byheart" / file).read_text(encoding="utf-8")):
            key = (mutant.function, mutant.before, mutant.after)
            tasks.append(Task(room, file, mutant, seen[key]))
            seen[key] += 1
    return sorted(tasks, key=lambda task: hashlib.sha256(f"{seed} {task.name}".encode()).digest())[:n]


# --- running tests on a copy of the package -----------------------------------------------------------------

_source: Path  # the copy of this process


def _copy_package(folder: str) -> None:
    """Give this process a copy of the package, compiled kernels and bytecode included, to put mutants into."""
    global _source
    _source = Path(tempfile.mkdtemp(dir=folder)) / "src"
    shutil.copytree(ROOT / "src", _source)
    os.environ["PYTHONPATH"] = str(_source)  # for the processes that tests start


_moment = itertools.count(1_000_000_000, 10)


def _write(file: Path, text: str) -> None:
    """Write a source file with a time of its own, so that no bytecode of another text is taken for it."""
    file.write_text(text, encoding="utf-8")
    moment = next(_moment)
    os.utime(file, (moment, moment))


def _run_tests(tests: list[str], *plugins: Any, seconds: float = 120, stop: bool = True) -> int:
    """Run pytest in a forked process, for that many seconds of its time at most. Its exit status; -1 where a signal ended it."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 10 * seconds)  # the cores may be busy
            sys.path.insert(0, str(_source))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            import pytest

            options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
            options += ["-m", "not slow and not gpu and not cluster", "--rootdir", str(ROOT)]
            options += ["-x"] if stop else []
            os.environ["CI"] = "1"  # the same examples of hypothesis every time
            status = int(pytest.main([*options, *tests], plugins=list(plugins)))
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return -1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _likeliest(tests: list[str], room: str) -> list[str]:
    """The quickest tests of few files, of the room's own if it has any: most mutants fall to these."""
    own = [test for test in tests if test.startswith(f"tests/{room}/")] or tests
    files = list(dict.fromkeys(test.partition("::")[0] for test in own))[:FIRST_FILES]
    return [test for test in own if test.partition("::")[0] in files][:FIRST_TESTS]


class _FirstFailure:
    """A pytest plugin: writes down which test failed first."""

    def __init__(self, into: Path) -> None:
        self._into = into

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self._into.exists():
            self._into.write_text(report.nodeid)


_sound: set[str] = set()  # tests that were seen to pass without any mutant


def _try(given: tuple[Task, dict[str, float]]) -> dict[str, Any]:
    """Whether the tests notice a mutant. A test that fails without it too ends the whole run."""
    task, tests = given
    file = _source / "byheart" / task.file
    original = file.read_text(encoding="utf-8")
    failed = _source.parent / "failed"
    failed.unlink(missing_ok=True)
    began = time.monotonic()
    _write(file, mutate(original, task.mutant.number))
    try:
        first = _likeliest(list(tests), task.room)
        status = _meet({test: tests[test] for test in first}, failed)
        if status == 0:
            status = _meet({test: tests[test] for test in tests if test not in set(first)}, failed)
    finally:
        _write(file, original)
    assert status in (-1, 0, 1, 2), f"pytest could not run the tests of {task.name}: status {status}"
    if status != 0:
        by = failed.read_text() if failed.exists() else next(iter(tests))
        if by not in _sound and _run_tests([by]) not in (0, _NO_SUCH_TEST):
            raise SystemExit(f"{by} fails without any mutant")
        _sound.add(by)
    return {
        "name": task.name,
        "room": task.room,
        "line": task.mutant.line,
        "killed": status != 0,
        "n_tests": len(tests),
        "seconds": round(time.monotonic() - began, 1),
    }


def _meet(tests: dict[str, float], failed: Path) -> int:
    """Run these tests, if there are any. Those that take several times as long as without a mutant would never end."""
    if not tests:
        return 0
    seconds = 15 + 3 * sum(tests.values())
    status = _run_tests(list(tests), _FirstFailure(failed), seconds=seconds)
    if status == _NO_SUCH_TEST:  # a mutated constant is part of the name of a test
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        status = _run_tests(files, _FirstFailure(failed), seconds=10 * seconds)
    return status


# --- which tests call which function ------------------------------------------------------------------------


class _Calls:
    """A pytest plugin: which functions of the package each test calls, and how long it takes."""

    def __init__(self, source: Path, into: Path) -> None:
        self._root, self._into, self._now = f"{source / 'byheart'}/", into, ""
        self._found: dict[str, dict[str, Any]] = {}

    def _see(self, frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._root):
            called = f"{code.co_filename[len(self._root) :]}:{code.co_qualname.replace('.<locals>', '')}"
            self._of(self._now)["calls"].add(called)

    def _of(self, test: str) -> dict[str, Any]:
        return self._found.setdefault(test, {"calls": set(), "seconds": 0.0, "failed": False})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._now = nodeid
        sys.settrace(self._see)

    def pytest_runtest_logreport(self, report: Any) -> None:
        of = self._of(report.nodeid)
        of["seconds"] += report.duration
        of["failed"] |= report.failed

    def pytest_sessionfinish(self) -> None:
        sys.settrace(None)
        found = {name: {**of, "calls": sorted(of["calls"])} for name, of in self._found.items()}
        self._into.write_text(json.dumps(found))


def _trace(tests: list[str], into: str) -> int:
    return _run_tests(tests, _Calls(_source, Path(into)), seconds=1800, stop=False)


def _test_files() -> list[str]:
    found = [
        path
        for name in TESTS
        for path in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("test_*.py")))
    ]
    return [str(path.relative_to(ROOT)) for path in found]


def _digests() -> dict[str, str]:
    """For each test file a digest of itself and of what tests share. Which functions it calls changes little with the package."""
    shared = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not path.name.startswith("test_")]
    common = hashlib.sha256(b"".join(path.read_bytes() for path in shared))
    return {
        file: hashlib.sha256(common.digest() + (ROOT / file).read_bytes()).hexdigest()[:32]
        for file in _test_files()
    }


def _known_calls(pool: Any, folder: str) -> dict[str, Any]:
    """Which tests call what, those of files that changed traced anew."""
    digests, cache = _digests(), OUT / "calls"
    cache.mkdir(exist_ok=True)
    due = [file for file, digest in digests.items() if not (cache / f"{digest}.json").exists()]
    if due:
        print(f"running {len(due)} files of tests once without a mutant", file=sys.stderr, flush=True)
        fresh = Path(folder, "calls.json")
        pool.apply(_trace, (due, str(fresh)))
        found = json.loads(fresh.read_text())
        for file in due:
            own = {name: of for name, of in found.items() if name.startswith(f"{file}::")}
            if not any(of["failed"] for of in own.values()):
                (cache / f"{digests[file]}.json").write_text(json.dumps(own))
        failed = sorted(name for name, of in found.items() if of["failed"])
        if failed:
            raise SystemExit("tests fail without any mutant:\n  " + "\n  ".join(failed))
    every: dict[str, Any] = {}
    for digest in digests.values():
        every |= json.loads((cache / f"{digest}.json").read_text())
    order = sorted(every, key=lambda name: every[name]["seconds"])
    calls: dict[str, list[str]] = {}
    for name in order:
        for called in every[name]["calls"]:
            calls.setdefault(called, []).append(name)
    return {"calls": calls, "order": order, "seconds": {name: every[name]["seconds"] for name in order}}


def _tests_of(task: Task, known: dict[str, Any]) -> list[str]:
    """The tests that call the mutated function; of what is outside any function, all that call a function of the file."""
    parts, calls = task.mutant.function.split("."), known["calls"]
    for end in range(len(parts), 0, -1):  # a function, else what encloses it
        name = f"{task.file}:{'.'.join(parts[:end])}"
        found: list[str] = calls.get(name, [])
        if found:
            return found
    whole = {test for name, tests in calls.items() if name.startswith(f"{task.file}:") for test in tests}
    return [test for test in known["order"] if test in whole]


def _affordable(tests: list[str], seconds: dict[str, float]) -> dict[str, float]:
    """The quickest of the tests, as many as take `LONG_ENOUGH` together; what only others notice survives."""
    total = list(itertools.accumulate(seconds[test] for test in tests))
    n_kept = max(1, sum(until <= LONG_ENOUGH for until in total))
    return {test: seconds[test] for test in tests[:n_kept]}


# --- the whole run -----------------------------------------------------------------------------------------


def _past(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.splitlines()[0])
    names = (*ROOMS, *SELECTIONS)
    parser.add_argument(
        "rooms", nargs="*", default=list(names), help=", ".join(names) + ", or paths of modules"
    )
    parser.add_argument("--each", type=int, default=60, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--retry", action="store_true", help="run survivors of an earlier run again")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if unknown := [room for room in options.rooms if not modules_of(room)]:
        parser.error(f"there is no room {', '.join(unknown)}")
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / "outcomes.jsonl"
    outcomes = {each["name"]: each for each in _past(log)}
    tasks = [task for room in options.rooms for task in sample(room, options.each, options.seed)]
    due = [
        task
        for task in tasks
        if task.name not in outcomes or (options.retry and not outcomes[task.name]["killed"])
    ]
    for name in PACKAGES:
        import_module(name)
    sys.modules["torch"].set_num_threads(1)
    os.chdir(ROOT)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="byheart-mutants-") as folder:
        context = multiprocessing.get_context("fork")
        with context.Pool(options.processes, _copy_package, (folder,)) as pool:
            known = _known_calls(pool, folder) if due else {}
            given = [(task, _affordable(_tests_of(task, known), known["seconds"])) for task in due]
            for done, outcome in enumerate(pool.imap_unordered(_try, given), 1):
                outcomes[outcome["name"]] = outcome
                with log.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(outcome, ensure_ascii=False) + "\n")
                if not outcome["killed"]:
                    print(f"survives  {outcome['name']}", flush=True)
                print(f"{done} of {len(due)}, {time.monotonic() - began:.0f} s", file=sys.stderr, end="\r")
    return show(options.rooms, tasks, outcomes)


def show(rooms: list[str], tasks: list[Task], outcomes: dict[str, dict[str, Any]]) -> int:
    """Print the score of each room and its survivors; 1 where a survivor is not argued to be equivalent."""
    reasons: dict[str, str] = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    left = 0
    for room in rooms:
        mine = [task for task in tasks if task.room == room]
        alive = [task for task in mine if not outcomes[task.name]["killed"]]
        argued = [task for task in alive if task.name in reasons]
        n_killed = len(mine) - len(alive)
        share = (n_killed + len(argued)) / max(1, len(mine))
        print(f"{room}: {n_killed} of {len(mine)} killed, {len(argued)} argued equivalent: {share:.1%}")
        for task in alive:
            why = reasons.get(task.name, "no test notices")
            print(
                f"  {task.file}:{task.mutant.line}  {task.mutant.before}  ->  {task.mutant.after}\n    {why}"
            )
        left += len(alive) - len(argued)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
