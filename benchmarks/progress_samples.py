"""What a person sees of a long compilation, sampled four times a second: the share, and the time it says is left.

    python benchmarks/progress_samples.py retrieval [--rows 200000]     # a table of keys of about 25 characters
    python benchmarks/progress_samples.py llama [--rows 156]            # facts in a stock Llama checkpoint

Prints a sample for each second, then three verdicts: the longest time without movement is at most 3 s; the estimate of the time
left is within a factor of 2 from a third of the time on; 100% is shown at the end alone. Exit status 1 if one of them does not
hold. With NUMBA_CACHE_DIR set to an empty folder the kernels are compiled too, as the first time on a machine.
`tests/process/test_progress.py` checks the order of what is told.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from byheart.cli.progress import Pace
from byheart.documents.compilation import compile_file

SAMPLE_SECONDS = 0.25
MOST_SECONDS_STILL, MOST_RATIO = 3.0, 2.0
"""What is promised of a bar."""


@dataclass(frozen=True)
class Sample:
    """What is shown after some seconds: stage, per cent, and seconds that are said to be left."""

    seconds: float
    stage: str
    share: float
    left: float | None


class Sampler:
    """Takes what is told, and keeps what would be shown every second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.pace = Pace(self.start, 0)
        self.latest = (0, 1, "")
        self.samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tell(self, done: int, total: int, stage: str = "", /) -> None:
        self.latest = (done, total, stage)

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._keep()

    def _keep(self) -> None:
        (done, total, stage), now = self.latest, time.monotonic()
        left = self.pace.seconds_left(now, done, total)
        self.samples.append(Sample(round(now - self.start, 1), stage, done / total, left))

    def end(self) -> float:
        """Seconds in all."""
        self._ended.set()
        self._thread.join()
        return time.monotonic() - self.start


def judge(samples: list[Sample], total: float) -> dict[str, Any]:
    """How long nothing moved, whether the end was shown too early, and the worst ratios of what was said to be left to what was."""
    still, since, shown = 0.0, 0.0, 0.0
    for sample in samples:
        still = max(still, sample.seconds - since)
        if sample.share > shown:
            since, shown = sample.seconds, sample.share
    late = [each for each in samples if total / 3 <= each.seconds < total - 1 and each.left is not None]
    ratios = [each.left / (total - each.seconds) for each in late if each.left is not None]
    least, most = min(ratios, default=1.0), max(ratios, default=1.0)
    return {
        "seconds": round(total, 1),
        "longest_without_movement": round(max(still, total - since), 1),
        "said_left_over_really_left": [round(least, 2), round(most, 2)],
        "shown_100_before_the_end": any(each.share >= 1 for each in samples if each.seconds < total - 1),
    }


def verdicts(judged: dict[str, Any]) -> dict[str, bool]:
    """What was asked of the bar, and whether it holds."""
    still, (least, most) = judged["longest_without_movement"], judged["said_left_over_really_left"]
    return {
        f"longest time without movement {still} s, at most {MOST_SECONDS_STILL:g}": still
        <= MOST_SECONDS_STILL,
        f"time said to be left over time really left {least} to {most}, at most a factor of {MOST_RATIO:g}": 1
        / MOST_RATIO
        <= least
        <= most
        <= MOST_RATIO,
        "100% at the end alone": not judged["shown_100_before_the_end"],
    }


def write_rows(path: Path, n_rows: int, seed: int = 0) -> None:
    """Keys such as `order 123456789-000017`, with one of a thousand labels each; a few questions for a Llama."""
    rng = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("key", "value"))
        for row in range(n_rows):
            kind = rng.choice(("order", "customer", "ticket"))
            writer.writerow((f"{kind} {rng.randrange(10**9):09d}-{row:06d}", f"class {rng.randrange(1000)}"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("method", choices=("retrieval", "llama"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("-o", "--output", type=Path, help="write samples and verdict as JSON")
    given = parser.parse_args()
    n_rows = given.rows or {"retrieval": 200_000, "llama": 156}[given.method]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.csv"
        write_rows(data, n_rows)
        sampler = Sampler()
        compile_file(data, Path(folder) / "model", reading={}, progress=sampler.tell, method=given.method)
        total = sampler.end()
    per_second = round(1 / SAMPLE_SECONDS)
    for each in sampler.samples[per_second - 1 :: per_second]:
        left = "" if each.left is None else f"about {each.left:.0f} s left"
        print(f"{each.seconds:6.1f} s  {each.stage:8} {100 * each.share:5.1f}%  {left}")
    judged = judge(sampler.samples, total)
    held = verdicts(judged)
    print(json.dumps(judged))
    for what, holds in held.items():
        print(f"{'holds' if holds else 'FAILS'}: {what}")
    if given.output is not None:
        samples = [asdict(sample) for sample in sampler.samples]
        document = {"method": given.method, "rows": n_rows, **judged, "samples": samples}
        given.output.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
