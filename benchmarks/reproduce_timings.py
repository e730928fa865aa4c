"""Write the timings that `byheart reproduce --dry-run` reads: seconds per run of every stage.

python benchmarks/reproduce_timings.py cuda --store FILE --data FOLDER     from the runs of a store
python benchmarks/reproduce_timings.py cpu --data FOLDER                   from a few steps of one run of every stage, here
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.measure.devices import choose_device, device_name
from byheart.measure.forecast import seconds_per_run
from byheart.measure.store import Store
from byheart.measure.text_samples import Samples
from byheart.reproduce.cost_estimate import FILE
from byheart.reproduce.figure import SCALES
from byheart.reproduce.registry import FIGURES
from byheart.reproduce.runner import stages_of

LONGEST = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("cpu", "cuda"))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    samples = Samples.at(options.data)
    table: dict[str, object] = {scale: {} for scale in SCALES}
    for scale in SCALES:
        for stage in stages_of(list(FIGURES), scale, samples):
            if options.store is not None:
                with Store(options.store) as store:
                    records = store.records([run.key for run in stage.runs])
                if records:
                    table["device"] = records[0].device
                    table[scale][stage.name] = round(statistics.fmean(r.seconds for r in records), 4)
                continue
            chosen = choose_device(options.kind)
            table["device"] = device_name(chosen)
            middle = stage.runs[len(stage.runs) // 2]
            if middle.data.get("seq_len", 0) > LONGEST:
                continue  # gigabytes; the figure's other stages stand for it
            seconds = seconds_per_run([middle], chosen, n_models=1)
            table[scale][stage.name] = round(seconds, 3)
            print(f"{scale}: {stage.name}: {seconds:.2f} s a run", flush=True)
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    FILE.write_text(
        json.dumps(known | {options.kind: table}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
