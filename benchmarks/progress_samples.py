"""What a person sees of a long compilation, sampled every second: the share, and the time it says is left.

    python benchmarks/progress_samples.py retrieval [--rows 200000]     # a table of keys of about 25 characters
    python benchmarks/progress_samples.py llama [--rows 156]            # facts in a stock Llama checkpoint

Prints the samples, then the longest time without movement, whether 100% was shown before the end, and how far the estimate of the
time left was off from a third of the time on. `tests/process/test_progress.py` checks the order of what is told.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from byheart.cli.progress import Pace
from byheart.documents.compilation import compile_file


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
        while not self._ended.wait(1.0):
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


def judge(samples: list[Sample], total: float) -> dict[str, object]:
    """How long nothing moved, whether the end was shown too early, and the worst ratio of what was said to be left to what was."""
    still, since, shown = 0.0, 0.0, 0.0
    for sample in samples:
        if sample.share > shown:
            since, shown = sample.seconds, sample.share
        still = max(still, sample.seconds - since)
    late = [each for each in samples if total / 3 <= each.seconds < total - 1 and each.left is not None]
    ratios = [each.left / (total - each.seconds) for each in late if each.left is not None]
    return {
        "seconds": round(total, 1),
        "longest_without_movement": round(still, 1),
        "shown_100_before_the_end": any(each.share >= 1 for each in samples if each.seconds < total - 1),
        "said_left_over_really_left": [round(ratio, 2) for ratio in (min(ratios), max(ratios))]
        if ratios
        else None,
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


def main() -> None:
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
    for each in sampler.samples:
        left = "" if each.left is None else f"about {each.left:.0f} s left"
        print(f"{each.seconds:6.1f} s  {each.stage:8} {100 * each.share:5.1f}%  {left}")
    verdict = judge(sampler.samples, total)
    print(json.dumps(verdict))
    if given.output is not None:
        document = {
            "method": given.method,
            "rows": n_rows,
            **verdict,
            "samples": [asdict(s) for s in sampler.samples],
        }
        given.output.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
