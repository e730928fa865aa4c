"""A hundred million facts on a machine with many cores and a GPU: compiled out of core, killed half way, gone on with, all asked.

    python benchmarks/large_on_device.py OUT --bundle FOLDER [--precision float64 int8 bfloat16] [--uninterrupted]

    make      the facts of `large.py`, on disk
    compile   `byheart compile --shards`, its whole process group killed (-9) when half of the shards are solved
    resume    the same command again, to the end; with --uninterrupted nothing is killed, and this is left out
    check     every fact asked on the GPU, or as many as the time allows

With several precisions these steps are done for each, one after the other. OUT receives large_on_device.json, rewritten after every
step, and what the commands said. FOLDER holds `site.tar.xz`, packages that the machine lacks (numba, msgspec, click, rich), and
`numpy.tar.xz`, taken only if numba refuses the machine's own. Steps that are done are not done again: the same call goes on where
the last one ran out of time, as long as --work is still there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from bare_machine import ROOT
from large import STEP

START = time.monotonic()
IMPORTS = """
import json, sys, numpy, torch, numba, llvmlite, msgspec, click, rich, safetensors, jaxtyping
import byheart.cli.compile, byheart.construct.retrieval.out_of_core
assert numba.njit(lambda number: number + 1)(1) == 2
found = {m.__name__: m.__version__ for m in (numpy, torch, numba, llvmlite, msgspec)}
print(json.dumps({"python": sys.version.split()[0], **found, "cuda": torch.cuda.is_available()}))
"""


def say(*words: object) -> None:
    print(time.strftime("%H:%M:%S"), f"{time.monotonic() - START:6.1f} s", *words, flush=True)


class Machine:
    """Where the commands run, and how long they may."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.work, self.out = given, given.work, given.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(parents=True, exist_ok=True)
        self.state = self.work / "state.json"  # outlasts a call
        self.found: dict[str, Any] = json.loads(self.state.read_text()) if self.state.exists() else {}
        self.paths = [str(ROOT / "src")]

    @property
    def seconds_left(self) -> float:
        return float(self.given.seconds - (time.monotonic() - START))

    def keep(self, name: str, value: Any) -> None:
        """One more finding, on disk at once."""
        self.found[name] = value
        text = json.dumps(self.found, indent=1) + "\n"
        self.state.write_text(text)
        (self.out / "large_on_device.json").write_text(text)
        say(name, json.dumps(value))

    def start(self, *command: object) -> subprocess.Popen[bytes]:
        """A command in a process group of its own; what it says goes to OUT."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(self.paths),
            "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_CACHE_DIR": str(self.work / "numba"),
            "PYTHONUNBUFFERED": "1",
        }
        with (self.out / "said.txt").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, *map(str, command)],
                env=environment,
                cwd=ROOT,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def try_imports(self) -> str | None:
        """What is wrong with the packages; None if everything is there."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(self.paths)}
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return done.stderr[-1500:]
        self.keep("versions", json.loads(done.stdout))
        return None


class Watched:
    """A process group looked at five times a second: seconds of processor, largest process, what lies on disk."""

    def __init__(self, process: subprocess.Popen[bytes], work: Path) -> None:
        self.process, self.work, self.start = process, work, time.monotonic()
        self.cpu: dict[int, float] = {}
        self.peak: dict[int, int] = {}
        self.events: dict[str, float] = {}
        self.most_at_once = self.most_on_disk = 0
        self.known = self.solved

    @property
    def solved(self) -> int:
        return len(list(self.work.glob("solution/draw-*/shard-*.npz")))

    def look(self) -> None:
        now = round(time.monotonic() - self.start, 1)
        resident = 0
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError):  # a process that ended meanwhile
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if not folder.name.isdigit() or int(fields[2]) != self.process.pid:
                    continue
                pid = int(folder.name)
                self.cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                self.peak[pid] = max(
                    self.peak.get(pid, 0), int(lines.get("VmHWM", lines["VmRSS"]).split()[0])
                )
                resident += int(lines["RssAnon"].split()[0])
        self.most_at_once = max(self.most_at_once, resident)
        marks = {
            "read": self.work / "pieces" / "merged.json",
            "contexts counted": self.work / "contexts" / "counted.json",
        }
        for name, path in marks.items():
            if path.exists():
                self.events.setdefault(name, now)
        solved = self.solved
        if solved > self.known:
            self.events.setdefault("first shard solved", now)
            self.events["last shard solved"] = now
            self.known = solved
        if not int(now) % 20:
            files = [file for file in self.work.rglob("*") if file.is_file()]
            with contextlib.suppress(OSError):
                self.most_on_disk = max(self.most_on_disk, sum(file.stat().st_size for file in files))

    def summary(self) -> dict[str, Any]:
        return {
            "seconds": round(time.monotonic() - self.start, 1),
            "cpu_seconds": round(sum(self.cpu.values()), 1),
            "processes": len(self.cpu),
            "peak_gb_main": round(self.peak.get(self.process.pid, 0) / 1e6, 3),
            "peak_gb_largest_worker": round(
                max((kb for pid, kb in self.peak.items() if pid != self.process.pid), default=0) / 1e6, 3
            ),
            "anonymous_gb_all_at_once": round(self.most_at_once / 1e6, 3),
            "gb_on_disk": round(self.most_on_disk / 1e9, 3),
            "shards_solved": self.solved,
            "seconds_until": self.events,
        }


def prepare(machine: Machine) -> None:
    """Unpack what is missing and make the facts, side by side; end at once if packages are missing."""
    facts = machine.work / "facts.npz"
    making = None
    if "make" not in machine.found:
        making = machine.start("benchmarks/large.py", "make", machine.given.facts, facts)
    try:
        for name in ("site", "numpy"):
            bundle = machine.given.bundle and machine.given.bundle / f"{name}.tar.xz"
            target = machine.work / name
            if bundle and not target.exists():
                with tarfile.open(bundle) as archive:
                    archive.extractall(target, filter="data")
                say("unpacked", bundle)
            machine.paths.append(str(target))
            wrong = machine.try_imports()
            if wrong is None:
                break
            say(wrong)
        else:
            raise SystemExit("packages are missing; nothing was done.")
    except BaseException:
        if making is not None:
            making.kill()
        raise
    if making is not None:
        if making.wait():
            raise SystemExit("the facts could not be made; see said.txt.")
        made = {"facts": int(float(machine.given.facts)), "bytes": facts.stat().st_size}
        machine.keep("make", {**made, "seconds": round(time.monotonic() - START, 1)})


def named(step: str, precision: str) -> str:
    """The name of a step, or of a folder."""
    return step if precision == "float64" else f"{step}-{precision}"


def compile_facts(machine: Machine, step: str, precision: str, stop_at: int | None) -> None:
    """Run the command until `stop_at` shards are solved, then kill all of it; to the end without."""
    given, unfinished = machine.given, machine.work / named("unfinished", precision)
    name, model = named(step, precision), machine.work / named("model", precision)
    before = {path: path.stat().st_mtime_ns for path in unfinished.glob("solution/draw-*/shard-*.npz")}
    command = ["-c", "from byheart.cli.main import main; main()", "compile", machine.work / "facts.npz"]
    command += ["-o", model, "--method", "retrieval", "--reject-bits", 0, "--precision", precision]
    command += ["--shards", given.shards]
    command += ["--work", unfinished, "--workers", given.workers, "--sample", given.sample]
    process = machine.start(*command)
    watched, shown = Watched(process, unfinished), 0.0
    while process.poll() is None:
        watched.look()
        if stop_at is not None and watched.solved >= stop_at:
            break
        if machine.seconds_left < 5:
            say("out of time")
            break
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            say(
                name,
                json.dumps(watched.events),
                watched.known,
                f"solved, {sum(watched.cpu.values()):.0f} CPU s",
            )
        time.sleep(0.2)
    was_killed = process.poll() is None
    if was_killed:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = watched.summary()
    found |= {"killed": was_killed, "exit_status": process.returncode, "shards": given.shards}
    found["shards_kept_untouched"] = sum(path.stat().st_mtime_ns == then for path, then in before.items())
    found["model_folder_there"] = model.exists()
    is_done = was_killed if stop_at is not None else process.returncode == 0
    machine.keep(name if is_done else f"{name}, cut short", found)
    if not is_done:
        raise SystemExit(f"{name} did not end as it should; see said.txt.")


def check(machine: Machine, precision: str) -> None:
    """Ask the facts that no earlier call asked; with half the batch if it does not fit."""
    batch, n_facts = machine.given.batch, int(float(machine.given.facts))
    name, model = named("check", precision), machine.work / named("model", precision)
    parts = machine.found.get(name, [])
    n_asked = sum(part["asked"] for part in parts)
    target = machine.out / f"{name}.json"
    while n_asked < n_facts and machine.seconds_left > 20 and batch >= 1024:
        say("checking from fact", n_asked, "in batches of", batch)
        process = machine.start(
            *("benchmarks/large.py", "check", model, machine.given.facts, "-o", target),
            *("--first", n_asked // STEP, "--device", machine.given.device, "--batch", batch),
            *("--seconds", machine.seconds_left - 15),
        )
        shown = time.monotonic()
        while process.poll() is None and machine.seconds_left > 2:
            time.sleep(0.5)
            if target.exists() and time.monotonic() - shown > 10:
                shown = time.monotonic()
                say(target.read_text().replace("\n", ""))
        process.kill()
        if target.exists():
            machine.keep(name, [*parts, {**json.loads(target.read_text()), "batch": batch}])
            break
        batch //= 2
    parts = machine.found.get(name, [])
    say(precision, *(f"{of} {sum(part[of] for part in parts)}," for of in ("asked", "wrong")), "of", n_facts)
    certificate = json.loads((model / "certificate.json").read_text())
    found = {of: certificate.get(of) for of in ("holds", "checked", "size")}
    machine.keep(named("certificate", precision), found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "large")
    parser.add_argument("--facts", default="1e8")
    parser.add_argument("--precision", nargs="+", default=["float64"])
    parser.add_argument("--uninterrupted", action="store_true")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--sample", type=int, default=20_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=16_384)
    parser.add_argument("--seconds", type=float, default=560, help="of this call, in all")
    machine = Machine(parser.parse_args())
    say(platform.platform(), os.cpu_count(), "cores", Path("/proc/meminfo").read_text().split("\n")[0])
    subprocess.run(["df", "-h", machine.work], check=False)
    prepare(machine)
    for precision in machine.given.precision:
        stop_at = None if machine.given.uninterrupted else machine.given.shards // 2
        if named("compile", precision) not in machine.found:
            compile_facts(machine, "compile", precision, stop_at)
        if stop_at is not None and named("resume", precision) not in machine.found:
            compile_facts(machine, "resume", precision, None)
        check(machine, precision)


if __name__ == "__main__":
    main()
