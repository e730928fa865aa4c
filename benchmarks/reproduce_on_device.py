"""Train what the papers' figures need on a machine with nothing but torch and numpy; most valuable first, resumable.

    python benchmarks/reproduce_on_device.py --prepare --data FOLDER [--texts ../shared/data]
    python benchmarks/reproduce_on_device.py --device cuda --scale paper --data FOLDER --store FILE --seconds 540 \\
        --lanes dana-2024-fig1a,dana-2024-fig2b kajitsuka-sato-2025-fig3

The first line cuts the texts into a small file of token ids, where the texts are; the second trains, anywhere. Small models
leave a large GPU mostly idle, so every lane (figures separated by commas) is a process of its own; all write into one store,
and NVIDIA's multi-process service is started where it is there, or they would take turns. Small operations wait for large ones
of other lanes, unless those are named by --behind. A lane trains its figures' stages in order of worth. What cannot end within
--seconds is given up early, what is still at work then is stopped, and the store is packed into --pack as files of at most
15 MiB, every minute. The pass is noted from its first minute on, so one that is cut off is known too. The same command goes on:
--resume takes the packed files of an earlier pass. `byheart reproduce --draw-only` draws them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.measure.store import Store
from byheart.measure.text_samples import FILE, Samples
from byheart.reproduce.registry import FIGURES
from byheart.reproduce.runner import stages_of, work
from byheart.reproduce.samples import local_texts, prepare
from byheart.reproduce.wall_clock import Pass, beside, in_words, note, read

ROOT = Path(__file__).resolve().parents[1]
PIECE = 15 << 20  # bytes of a packed file
PACKED = "runs.sqlite.gz"
NOTE_SECONDS = 20.0
PACK_SECONDS = 60.0  # so that a pass that is cut off keeps what it had
PROBE_SECONDS = 40.0
SERVICE = "nvidia-cuda-mps-control"
PACKING_SECONDS = 15.0  # kept back at the end
GRACE_SECONDS = 5.0  # for a lane that is told to stop


def main() -> None:
    options = _options()
    if options.prepare:
        for found in prepare(local_texts(options.texts), options.data):
            print(json.dumps(asdict(found)))
        print(f"{options.data / FILE}: {(options.data / FILE).stat().st_size / 1e6:.2f} MB")
    elif options.lane:
        _train(options, options.lane)
    else:
        _oversee(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", action="store_true", help="cut the texts into --data and stop")
    parser.add_argument("--texts", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=ROOT / "out" / "device_data")
    parser.add_argument("--store", type=Path, default=ROOT / "out" / "reproduce" / "runs.sqlite")
    parser.add_argument("--resume", type=Path, help="folder of an earlier pass's packed files")
    parser.add_argument("--pack", type=Path, help="folder for the packed store; none: it is not packed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="smoke")
    parser.add_argument("--seconds", type=float, default=60.0, help="wall-clock of the whole command")
    parser.add_argument(
        "--lanes", nargs="+", default=[",".join(FIGURES)], help="figures, by commas; a process each"
    )
    parser.add_argument(
        "--behind", nargs="+", default=[], help="more lanes, whose work gives way to that of the others"
    )
    parser.add_argument("--lane", help=argparse.SUPPRESS)
    return parser.parse_args()


def _train(options: argparse.Namespace, lane: str) -> None:
    """One lane: its figures' stages into the store, in order of worth."""
    names = [name.partition("/")[0] for name in lane.split(",")]
    samples = Samples.at(options.data) if (options.data / FILE).is_file() else None
    stages = stages_of(names, options.scale, samples)
    if "/" in lane:  # NAME/WORD keeps the stages with that word in their names
        words = {name.partition("/")[2] for name in lane.split(",")} - {""}
        stages = [stage for stage in stages if any(word in stage.name for word in words)]

    def say(line: str) -> None:
        print(f"[{names[0]}] {line}", flush=True)

    say(f"{len(stages)} stages, {sum(len(stage.runs) for stage in stages)} runs, {options.seconds:.0f} s")
    with Store(options.store) as store:
        work(stages, store, device=options.device, seconds=options.seconds, say=say, goes_on=True)


def _oversee(options: argparse.Namespace) -> None:
    """Start the lanes, note the pass while they work, stop them in time and pack what they stored."""
    began, started = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    options.store.parent.mkdir(parents=True, exist_ok=True)
    if options.resume is not None and not options.store.is_file():
        unpack(options.resume, options.store)
    passes = beside(options.store)
    earlier = read(passes)
    with Store(options.store) as store:
        before = store.count()
    n_lanes = len(options.lanes) + len(options.behind)
    service = options.device != "cpu" and n_lanes > 1 and _start_service()
    print(f"{n_lanes} lanes, multi-process service {'on' if service else 'off'}", flush=True)
    end = started + options.seconds - (PACKING_SECONDS if options.pack else 0)
    lanes = [
        _start(options, lane, end - time.monotonic(), priority)
        for priority, some in enumerate((options.lanes, options.behind))
        for lane in some
    ]
    noted = packed = time.monotonic()
    while any(lane.poll() is None for lane in lanes) and time.monotonic() < end:
        if time.monotonic() - noted > NOTE_SECONDS:
            noted = time.monotonic()
            _note(options.store, passes, earlier, began, started, before)
        if options.pack is not None and time.monotonic() - packed > PACK_SECONDS:
            _pack(options.store, options.pack)
            packed = time.monotonic()
        time.sleep(0.2)
    _stop(lanes)
    if service:
        _stop_service()
    _note(options.store, passes, earlier, began, started, before)
    with Store(options.store) as store:
        print(f"{store.count()} records in {options.store}, {store.count() - before} of them new", flush=True)
    print(in_words(read(passes)), flush=True)
    if options.pack is not None:
        _pack(options.store, options.pack)
        for path in sorted(options.pack.iterdir()):
            print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB", flush=True)


def _start(options: argparse.Namespace, lane: str, seconds: float, priority: int) -> subprocess.Popen[bytes]:
    """A lane as a process; of priority 0, or 1 where the multi-process service lets it wait for others."""
    command = [sys.executable, __file__, "--lane", lane, "--seconds", str(max(seconds, 0.0))]
    for name in ("data", "store", "device", "scale"):
        command += [f"--{name}", str(getattr(options, name))]
    environment = os.environ | {"CUDA_MPS_CLIENT_PRIORITY": str(priority)}
    return subprocess.Popen(command, start_new_session=True, env=environment)


def _stop(lanes: list[subprocess.Popen[bytes]]) -> None:
    """Ask every lane to end, and end the process group of one that does not."""
    for lane in lanes:
        if lane.poll() is None:
            lane.terminate()
    until = time.monotonic() + GRACE_SECONDS
    for lane in lanes:
        try:
            lane.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(lane.pid, signal.SIGKILL)
            lane.wait()


def _start_service() -> bool:
    """NVIDIA's multi-process service, where it is installed and a process can use it."""
    os.environ["PATH"] += os.pathsep + "/usr/local/nvidia/bin"
    try:
        if subprocess.run([SERVICE, "-d"], check=False).returncode != 0:
            return False
    except OSError:
        return False
    probe = [sys.executable, "-c", "import torch; torch.ones(9, device='cuda').sum().item()"]
    try:
        works = subprocess.run(probe, check=False, timeout=PROBE_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    if not works:
        _stop_service()
    return works


def _stop_service() -> None:
    subprocess.run([SERVICE], input="quit\n", text=True, check=False, timeout=PROBE_SECONDS)


def _note(
    store_path: Path, passes: Path, earlier: list[Pass], began: str, started: float, before: int
) -> None:
    """This pass as it stands, after the earlier ones; on the device of the newest record."""
    with Store(store_path) as store:
        n_trained = store.count() - before
        newest = store.connection.execute("SELECT device FROM runs ORDER BY created DESC LIMIT 1").fetchone()
    name = newest[0] if newest else ""
    draft = passes.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    for one in [*earlier, Pass(began, round(time.monotonic() - started, 1), name, n_trained)]:
        note(draft, one)
    if draft.is_file():
        draft.replace(passes)


def _pack(store: Path, folder: Path) -> None:
    """The store and its passes; what was packed before stays whole until the new pieces are."""
    draft = folder / "draft"
    for piece in pack(store, draft):
        piece.replace(folder / piece.name)
    draft.rmdir()
    if beside(store).is_file():
        shutil.copy(beside(store), folder / "passes.jsonl")


def pack(store: Path, folder: Path) -> list[Path]:
    """A compressed copy of the store in pieces that travel; what others still write is not torn."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "copy.sqlite"
    with sqlite3.connect(store) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    target.close()
    source.close()
    whole = gzip.compress(copy.read_bytes(), 6)
    copy.unlink()
    pieces = []
    for number, start in enumerate(range(0, len(whole), PIECE)):
        pieces.append(folder / f"{PACKED}.{number}")
        pieces[-1].write_bytes(whole[start : start + PIECE])
    return pieces


def unpack(folder: Path, store: Path) -> None:
    """The inverse of `pack`; an empty folder leaves nothing."""
    pieces = sorted(folder.glob(f"{PACKED}.*"), key=lambda path: int(path.suffix[1:]))
    if pieces:
        store.write_bytes(gzip.decompress(b"".join(path.read_bytes() for path in pieces)))
        if (folder / "passes.jsonl").is_file():
            shutil.copy(folder / "passes.jsonl", beside(store))


if __name__ == "__main__":
    main()
