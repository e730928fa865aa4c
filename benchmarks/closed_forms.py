"""One-layer closed forms: solvers against training, steps, bigrams, ranks, encoders.

    python benchmarks/closed_forms.py [SECTION ...] [--long]

Sections: stories, fewest, training, steps, activations, associations, bigrams, compact, encoders, ranks (all of them by default).
Prints a table a section and writes out/closed_forms.json. Needs ../shared/data for the stories. `--long` adds what takes
minutes each; what wants a GPU is in closed_forms_on_device.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from typing import Any

import torch
from closed_forms_dana import bigrams, compact, encoders
from closed_forms_madden import activations, associations, fewest, steps, stories, training
from closed_forms_ranks import ranks
from closed_forms_shared import ROOT

ALL = (stories, fewest, training, steps, activations, associations, bigrams, compact, encoders, ranks)
SECTIONS = {function.__name__: function for function in ALL}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS])
    parser.add_argument("--long", action="store_true", help="also what takes minutes each")
    options = parser.parse_args()
    path = ROOT / "out" / "closed_forms.json"
    path.parent.mkdir(exist_ok=True)
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    results["machine"] = {
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    for name in options.sections or list(SECTIONS):
        section = SECTIONS[name]
        print(f"{name}: {section.__doc__}")
        start, rows = time.perf_counter(), []
        for row in section(options.long):
            rows.append(row)
            print("  " + ", ".join(f"{key} {_short(value)}" for key, value in row.items()), flush=True)
        print(f"  ({time.perf_counter() - start:.0f} s)", flush=True)
        results[name] = rows
        path.write_text(json.dumps(results, indent=1))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
