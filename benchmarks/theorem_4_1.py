"""How KS25 Theorem 4.1 grows: random vectors (d = 4, n = 8, C = 16), every sample checked exactly.

Prints a table, writes out/benchmarks/theorem_4_1.json and draws theorem_4_1.png beside it. The depth is fitted as
depth = a · √log2(N) · N^e, the theorem's order with its logarithm; it says e = 1/2.

    python benchmarks/theorem_4_1.py [--largest 10000] [--seeds 2]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

import byheart as bh
from byheart.data.generators import uniform_vectors

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def measure(n_samples: int, seed: int) -> dict[str, object]:
    data = uniform_vectors(n_samples, seed=seed)
    start = time.perf_counter()
    model = bh.compile(data, method="kajitsuka-sato-2025", seed=seed, check=False)
    built = time.perf_counter()
    certificate = bh.verify(model, data)
    done = time.perf_counter()
    return {
        "n_samples": n_samples,
        "seed": seed,
        **asdict(model.size),
        "checked": certificate.checked,
        "wrong": certificate.wrong,
        "seconds_compile": round(built - start, 2),
        "seconds_verify": round(done - built, 2),
    }


def fitted_exponent(rows: list[dict[str, object]]) -> tuple[float, float]:
    """Least squares of log(depth / √log2 N) on log N: the slope and its standard error."""
    n = np.array([row["n_samples"] for row in rows], dtype=np.float64)
    depth = np.array([row["depth"] for row in rows], dtype=np.float64)
    x, y = np.log(n), np.log(depth / np.sqrt(np.log2(n)))
    (slope, _), residuals, *_ = np.polyfit(x, y, 1, full=True)
    variance = float(residuals[0]) / max(1, len(x) - 2) if len(residuals) else 0.0
    return float(slope), float(np.sqrt(variance / ((x - x.mean()) ** 2).sum()))


def draw(rows: list[dict[str, object]], exponent: float, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    n = np.array([row["n_samples"] for row in rows], dtype=np.float64)
    depth = np.array([row["depth"] for row in rows], dtype=np.float64)
    axes.loglog(n, depth, "o", label="built and verified")
    line = np.geomspace(n.min(), n.max(), 50)
    shape = np.sqrt(np.log2(line)) * line**exponent
    scale = float(np.exp(np.mean(np.log(depth) - np.log(np.sqrt(np.log2(n)) * n**exponent))))
    axes.loglog(line, scale * shape, "-", label=rf"$a\sqrt{{\log_2 N}}\,N^{{{exponent:.3f}}}$")
    axes.loglog(line, depth.min() * line / n.min(), ":", color="grey", label="slope 1, for the eye")
    axes.set(xlabel="samples N", ylabel="depth (blocks)", title="KS25 Theorem 4.1: depth grows as √N")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args()
    rows = []
    print(
        f"{'N':>7} {'seed':>4} {'depth':>6} {'width':>5} {'dense':>9} {'bits':>6} {'wrong':>5} {'compile':>8} {'verify':>7}"
    )
    for n_samples in (size for size in SIZES if size <= options.largest):
        for seed in range(options.seeds):
            row = measure(n_samples, seed)
            rows.append(row)
            print(
                f"{n_samples:>7} {seed:>4} {row['depth']:>6} {row['width']:>5} {row['parameters_dense']:>9} "
                f"{row['weight_bits']:>6} {row['wrong']:>5} {row['seconds_compile']:>7}s {row['seconds_verify']:>6}s",
                flush=True,
            )
    exponent, error = fitted_exponent(rows)
    print(
        f"depth = a · √log2(N) · N^e with e = {exponent:.3f} ± {2 * error:.3f} ({options.seeds} seeds); theory: 0.5"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    record = {
        "schema": "byheart.benchmark/1",
        "name": "theorem_4_1",
        "rows": rows,
        "exponent": exponent,
        "two_standard_errors": 2 * error,
        "machine": {
            "python": platform.python_version(),
            "processor": platform.machine(),
            "system": platform.system(),
        },
    }
    (options.out / "theorem_4_1.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(rows, exponent, options.out / "theorem_4_1.png")


if __name__ == "__main__":
    main()
