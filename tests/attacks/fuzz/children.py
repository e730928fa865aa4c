"""Processes that run cases. A child is forked from one that has imported everything, so a case costs milliseconds.

A child runs many cases one after the other and tells its parent before and after each. If it dies, the case it had begun is
to blame, and another child goes on with the next.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.attacks.fuzz.architectures import Architectures
from tests.attacks.fuzz.command_lines import CommandLines
from tests.attacks.fuzz.data_files import DataFiles
from tests.attacks.fuzz.figure_records import FigureRecords
from tests.attacks.fuzz.forgeries import Forgeries
from tests.attacks.fuzz.golden_folders import GoldenFolders
from tests.attacks.fuzz.graft_folders import GraftFolders
from tests.attacks.fuzz.model_folders import ModelFolders
from tests.attacks.fuzz.page_requests import PageRequests
from tests.attacks.fuzz.settings import Settings
from tests.attacks.fuzz.specifications import Specifications
from tests.attacks.fuzz.stores import Stores
from tests.attacks.fuzz.target import Target, Wrong, is_ours
from tests.attacks.fuzz.tokenizer_files import Tokenizers
from tests.attacks.fuzz.work_folders import WorkFolders

CPU_SECONDS = (
    30.0  # of one case; the longest honest one, a search that ends with "no layout fits", takes half of it
)
WALL_SECONDS = 300.0  # the same, where it waits instead of working
LEAST_WORK = (
    0.5  # seconds of processor time in that time that tell working from waiting, however busy the machine is
)
ADDRESS_BYTES = 3 << 30  # that a child may map beyond what its parent has
RESIDENT_BYTES = 1 << 30  # that it may use beyond that
CASES_PER_CHILD = 200
EXAMPLES_KEPT = 3  # of each kind of finding

Outcome = dict[str, Any]
TARGETS: tuple[Target, ...] = (
    ModelFolders(),
    DataFiles(),
    Stores(),
    Tokenizers(),
    PageRequests(),
    CommandLines(),
    Specifications(),
    WorkFolders(),
    Architectures(),
    FigureRecords(),
    Settings(),
    Forgeries(),
    GraftFolders(),
    GoldenFolders(),
)


def target_of(random: Random) -> Target:
    return random.choices(TARGETS, [target.share for target in TARGETS])[0]


def run_case(seed: int, number: int, folder: Path) -> Outcome:
    """Run one case here; its files are left in `folder`."""
    random = Random(f"{seed}:{number}")
    target = target_of(random)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found: Outcome = {"number": number, "target": target.name}
    try:
        return {**found, "outcome": target.attack(random, folder)}
    except BaseException as error:
        if is_ours(error):
            return {**found, "outcome": "refused"}
        return {**found, "outcome": "finding", "kind": _signature(error), "detail": traceback.format_exc()}


def _signature(error: BaseException) -> str:
    """What two findings of one cause share: the exception, and the innermost line of ours it went through."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "/src/byheart/" in frame.filename
    ]
    where = f"{Path(frames[-1].filename).name}-{frames[-1].name}" if frames else "nowhere"
    if isinstance(error, Wrong):
        where = "".join(c if c.isalnum() else "-" for c in str(error).strip().splitlines()[-1])[:60]
    return f"{type(error).__name__}-{where}"


def run_cases(
    seed: int, numbers: Iterator[int], scratch: Path, out: Path, deadline: float
) -> Iterator[Outcome]:
    """Run cases in children until the time is up or there are no more."""
    pending: list[int] = []
    while time.monotonic() < deadline:
        while len(pending) < CASES_PER_CHILD and (number := next(numbers, None)) is not None:
            pending.append(number)
        if not pending:
            return
        for outcome in _one_child(seed, pending, scratch, out, deadline):
            pending.remove(outcome["number"])
            yield outcome


def _one_child(seed: int, numbers: list[int], scratch: Path, out: Path, deadline: float) -> Iterator[Outcome]:
    """The outcomes of one child, the last of them its death if it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            _be_a_child(seed, numbers, scratch, out, writer, deadline)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    begun, buffer, is_hanging, worked = None, b"", False, 0.0
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], WALL_SECONDS)
            if not ready:
                before, worked = worked, _processor_seconds(child)
                if worked - before >= LEAST_WORK:
                    continue  # `CPU_SECONDS` ends it
                is_hanging = True
                os.kill(child, signal.SIGKILL)
                break
            piece = os.read(reader, 1 << 16)
            if not piece:
                break
            buffer += piece
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "outcome" in message:
                    begun = None
                    yield message
                else:
                    begun = message["number"]
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if begun is not None:
        kind = (
            "hang"
            if is_hanging or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF)
            else "death"
        )
        how = (
            f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
        )
        target = target_of(Random(f"{seed}:{begun}")).name
        found = {
            "number": begun,
            "target": target,
            "outcome": "finding",
            "kind": f"{kind}-{target}",
            "detail": f"{kind}: {how}",
        }
        _keep(seed, found, scratch, out)
        yield found


def _processor_seconds(process: int) -> float:
    """How long a process has worked."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _keep(seed: int, found: Outcome, scratch: Path, out: Path) -> None:
    """Keep the files of a finding, and what was raised; a few of each kind are enough."""
    place = out / found["kind"] / f"{seed}-{found['number']}"
    place.parent.mkdir(parents=True, exist_ok=True)
    if len(list(place.parent.iterdir())) < EXAMPLES_KEPT:
        shutil.copytree(scratch, place, dirs_exist_ok=True, ignore=_pipes)
        (place / "FOUND.txt").write_text(
            f"{found['target']}, seed {seed}, case {found['number']}\n{found['detail']}\n"
        )


def _pipes(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied."""
    return [name for name in names if (Path(folder) / name).is_fifo()]


def _be_a_child(
    seed: int, numbers: list[int], scratch: Path, out: Path, writer: int, deadline: float
) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESS_BYTES, mapped + ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = _resident_bytes()
    for number in numbers:
        if time.monotonic() > deadline:
            return
        os.write(writer, json.dumps({"number": number}).encode() + b"\n")
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # nothing handles it, so it ends the process
        outcome = run_case(seed, number, scratch)
        signal.setitimer(signal.ITIMER_PROF, 0)
        taken = _resident_bytes() - used
        if taken > RESIDENT_BYTES and outcome["outcome"] != "finding":
            outcome = {
                **outcome,
                "outcome": "finding",
                "kind": f"memory-{outcome['target']}",
                "detail": f"{taken:,} bytes",
            }
        if outcome["outcome"] == "finding":
            _keep(seed, outcome, scratch, out)
        os.write(writer, json.dumps(outcome).encode() + b"\n")
        if taken > RESIDENT_BYTES:
            return


def _resident_bytes() -> int:
    """The most memory this process has used at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
