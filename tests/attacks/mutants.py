"""Sixty mistakes put into the code one at a time, then every guard against an attack taken out: tests must notice.

`make mutants` prints the score. A mutant is one exact replacement in one file. Each runs in a process forked from this one, which
has imported PyTorch and pytest once, on a copy of the package with that one line changed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.attacks.mistakes import MUTANTS, Mutant
from tests.attacks.removed_guards import REMOVED_GUARDS

ROOT = Path(__file__).resolve().parents[2]
TOO_SLOW = "not cut_anywhere and not thousands_of_exact and not more_samples and not come_back_to_the_bit"
SECONDS = 180  # for one mutant; one that never ends is noticed too


def is_killed(mutant: Mutant, source: Path) -> bool:
    """Whether the tests fail on this mutant; `source` is a copy of the package, which is left as it was."""
    file = source / "byheart" / mutant.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, (
        f"{mutant.name}: {mutant.file} holds the old text {text.count(mutant.old)} times"
    )
    _write(file, text.replace(mutant.old, mutant.new))
    try:
        return _tests_fail(mutant.tests.split(), source, mutant.only)
    finally:
        _write(file, text)


_moment = itertools.count(1_000_000_000, 10)


def _write(file: Path, text: str) -> None:
    """Write a source file with a time of its own, so that no bytecode of another text is taken for it."""
    file.write_text(text, encoding="utf-8")
    moment = next(_moment)
    os.utime(file, (moment, moment))


def _tests_fail(tests: list[str], source: Path, only: str = "") -> bool:
    """Run pytest in a forked process; whether a test failed, or the process ended by a signal."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            sys.path.insert(0, str(source))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            import pytest

            options = [
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:randomly",
                "-m",
                "not slow and not gpu and not cluster",
                "-k",
                f"{TOO_SLOW} and {only}" if only else TOO_SLOW,
            ]
            status = int(
                pytest.main([*options, "--rootdir", str(ROOT), *(str(ROOT / test) for test in tests)])
            )
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    code = os.WEXITSTATUS(status)
    assert code in (0, 1, 2), f"pytest could not run {' '.join(tests)}: status {code}"
    return code != 0


def _import_others() -> None:
    """Import what tests and package import of other people's, once for all children."""
    for name in (
        "pytest",
        "hypothesis",
        "jaxtyping",
        "beartype",
        "numba",
        "scipy",
        "msgspec",
        "safetensors.numpy",
        "click",
        "torch",
    ):
        import_module(name)
    sys.modules["torch"].set_num_threads(1)


_source: Path  # of this process


def _copy_package() -> None:
    """Give this process a copy of the package, compiled kernels and bytecode included, to put mutants into."""
    global _source
    _source = Path(tempfile.mkdtemp(dir=os.environ["MUTANTS_FOLDER"])) / "src"
    shutil.copytree(ROOT / "src", _source)
    os.environ["PYTHONPATH"] = str(_source)  # for the processes that tests start


def _try(mutant: Mutant) -> tuple[Mutant, bool, float]:
    began = time.monotonic()
    return mutant, is_killed(mutant, _source), time.monotonic() - began


def _try_none(tests: tuple[str, str]) -> bool:
    return _tests_fail(tests[0].split(), _source, tests[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write the outcome of each")
    options = parser.parse_args()
    offered = (*MUTANTS, *REMOVED_GUARDS)
    unknown = set(options.names) - {mutant.name for mutant in offered}
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in offered if not options.names or mutant.name in options.names]
    _import_others()
    outcomes, began = {}, time.monotonic()
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="byheart-mutants-") as temporary:
        os.environ["MUTANTS_FOLDER"] = temporary
        with multiprocessing.get_context("fork").Pool(options.processes, _copy_package) as pool:
            tests = sorted({(mutant.tests, mutant.only) for mutant in chosen})
            if any(pool.map(_try_none, tests, chunksize=1)):
                print("the tests fail without any mutant", file=sys.stderr)
                return 2
            for mutant, killed, seconds in pool.imap_unordered(_try, chosen):
                outcomes[mutant.name] = {"killed": killed, "seconds": round(seconds, 1)}
                word = "killed" if killed else "SURVIVES"
                print(f"{mutant.name:4} {word} in {seconds:.0f} s  {mutant.file}: {mutant.new!r}", flush=True)
    seconds = time.monotonic() - began
    survivors = [mutant for mutant in chosen if not outcomes[mutant.name]["killed"]]
    for what, group in (("mutants killed", MUTANTS), ("removed guards noticed", REMOVED_GUARDS)):
        tried = [mutant for mutant in group if mutant in chosen]
        print(f"{len([mutant for mutant in tried if mutant not in survivors])} of {len(tried)} {what}")
    print(f"in {seconds:.0f} s")
    for mutant in survivors:
        print(f"  {mutant.name} survives: {mutant.survives or 'no test sees it'}")
    if options.json is not None:
        record = {
            "survivors": {mutant.name: mutant.survives for mutant in survivors},
            "mutants": {mutant.name: outcomes[mutant.name] for mutant in chosen},
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if any(not mutant.survives for mutant in survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
