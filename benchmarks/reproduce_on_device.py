"""Train what the papers' figures need on a machine with nothing but torch and numpy; most valuable first, resumable.

    python benchmarks/reproduce_on_device.py --prepare --data FOLDER [--texts ../shared/data]
    python benchmarks/reproduce_on_device.py --device cuda --scale paper --data FOLDER --out FOLDER --minutes 8

The first line cuts the texts into a small file of token ids, where the texts are; the second trains, anywhere. Records go into
OUT/runs.sqlite as they are made: the same command again goes on. `byheart reproduce --store OUT/runs.sqlite` draws them. A
compressed copy, OUT/runs.sqlite.gz, a fifth of its size, is left for the way home.

Small models leave a large GPU mostly idle. Several of these commands, each with --figures of its own and the same --out, may run
side by side; start `nvidia-cuda-mps-control -d` before them, or they take turns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.measure.devices import choose_device, device_name
from byheart.measure.store import Store
from byheart.reproduce.registry import FIGURES
from byheart.reproduce.runner import stages_of, work
from byheart.reproduce.samples import FILE, Samples, prepare
from byheart.reproduce.texts import local_texts
from byheart.reproduce.wall_clock import Pass, beside, in_words, note, read


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", action="store_true", help="cut the texts into --data and stop")
    parser.add_argument("--texts", type=Path, default=root.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=root / "out" / "device_data")
    parser.add_argument("--out", type=Path, default=root / "out" / "reproduce")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--figures", default="all", help="names separated by commas, or all")
    parser.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="smoke")
    parser.add_argument("--minutes", type=float, default=1.0)
    options = parser.parse_args()
    if options.prepare:
        for found in prepare(local_texts(options.texts), options.data):
            print(json.dumps(asdict(found)))
        print(f"{options.data / FILE}: {(options.data / FILE).stat().st_size / 1e6:.2f} MB")
        return
    began, started = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    path = options.out / "runs.sqlite"
    names = list(FIGURES) if options.figures == "all" else options.figures.split(",")
    options.out.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(line, flush=True)

    stages = stages_of(names, options.scale, Samples.at(options.data))
    say(
        f"{len(stages)} stages, {sum(len(stage.runs) for stage in stages)} runs, at most {options.minutes:g} min"
    )
    with Store(path) as store:
        done = work(stages, store, device=options.device, seconds=60 * options.minutes, say=say, goes_on=True)
        say(f"{store.count()} records in {path}")
    name, seconds = device_name(choose_device(options.device)), round(time.monotonic() - started, 1)
    note(beside(path), Pass(began, seconds, name, sum(part.n_trained for part in done)))
    say(in_words(read(beside(path))))
    with path.open("rb") as whole, gzip.open(f"{path}.gz", "wb") as packed:
        shutil.copyfileobj(whole, packed)


if __name__ == "__main__":
    main()
