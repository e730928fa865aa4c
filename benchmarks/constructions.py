"""How every construction grows, and how they compare: three sizes, fitted exponents, the cost of length, and the figure.

Prints tables, writes out/benchmarks/constructions.json and draws constructions.png beside it. At the three sizes every
label is checked and the built size compared with the one estimated; for the softmax head also how far the network is off
before it rounds, where 1/4 is forgiven. For the exponents, every model up to --check-up-to samples is verified on every sample.
Sizes are fitted by least squares of logarithms to the order each
paper states, its logarithms included:

    KS25, VYS22, KKM23    a · √log2 M · M^e      M = N, or nN for one label per token
    PLYS21                a · N^e + the folds    the log Δ of the paper, counted, not fitted
    KS25 Theorem F.1      a · N^e + b · log2 N   the words of one group are read once
    two layers, KS23      a · M^e

    python benchmarks/constructions.py [--largest 10000] [--seeds 2] [--check-up-to 1000] [--seconds 5] [--no-figure]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from byheart.construct.registry import get
from byheart.data.dataset import Dataset
from byheart.data.generators import random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.network import size_of_network
from byheart.program.construction import Construction
from byheart.report.figures import draw_growth
from byheart.report.growth import growth
from byheart.verify.verifier import verify

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
LENGTHS = (8, 64, 512)


@dataclass(frozen=True)
class Study:
    """One construction on one kind of data, the order its size should have, and the exponent claimed."""

    method: str
    seq_len: int
    task: str
    claim: float
    root_log: bool = False
    plus_log: bool = False

    @property
    def per_sample(self) -> int:
        return self.seq_len if self.task == "seq-to-seq" else 1

    def data(self, n_samples: int, seed: int) -> Dataset:
        return uniform_vectors(n_samples, self.seq_len, 4, 16, seed=seed, task=self.task)

    def fitted(self, construction: Construction, parameters: int) -> float:
        """What the power law is fitted to: all parameters, without the folds of PLYS21."""
        folds = construction.notes.get("folds", 0)
        assert isinstance(folds, int)
        return parameters - 13.0 * folds  # a fold is a block of one unit on four registers


STUDIES = (
    Study("kajitsuka-sato-2025", 8, "next-token", 0.5, root_log=True),
    Study("kajitsuka-sato-2025", 4, "seq-to-seq", 0.5, root_log=True),
    Study("kajitsuka-sato-2025-bits", 2, "next-token", 1.0, plus_log=True),
    Study("vardi-2022", 1, "next-token", 0.5, root_log=True),
    Study("park-2021", 1, "next-token", 2 / 3),
    Study("two-layer-relu", 1, "next-token", 1.0),
    Study("kim-2023", 4, "seq-to-seq", 0.5, root_log=True),
    Study("kajitsuka-sato-2023", 4, "seq-to-seq", 1.0),
)


@dataclass(frozen=True)
class Family:
    """One construction, task and precision at three sizes; tokens where floats must not round, else uniform vectors."""

    method: str
    seq_len: int
    task: str
    precision: str = "exact"
    sizes: tuple[int, ...] = (10, 100, 1000)

    def data(self, n_samples: int) -> Dataset:
        if self.method != "kajitsuka-sato-2023" and self.precision == "float64":
            return random_tokens(n_samples, self.seq_len, 1000, 16, seed=n_samples)
        return uniform_vectors(n_samples, self.seq_len, 4, 16, seed=n_samples, task=self.task)


FAMILIES = (
    Family("kajitsuka-sato-2025", 8, "next-token"),
    Family("kajitsuka-sato-2025", 4, "seq-to-seq"),
    Family("kajitsuka-sato-2025", 8, "set"),
    Family("kajitsuka-sato-2025-bits", 8, "next-token"),
    Family("kajitsuka-sato-2025-bits", 8, "next-token", "float64", (20, 200, 2000)),
    Family("kajitsuka-sato-2025-sparse", 4, "seq-to-seq"),
    Family("vardi-2022", 1, "next-token"),
    Family("park-2021", 1, "next-token"),
    Family("two-layer-relu", 1, "next-token"),
    Family("kim-2023", 4, "seq-to-seq"),
    Family("kajitsuka-sato-2023", 4, "seq-to-seq", "float64"),
)


def three_sizes() -> list[dict[str, object]]:
    """Every label of every construction at three sizes, by the certificate's own check."""
    rows = []
    print(
        f"{'construction':<26} {'task':<11} {'weights':<8} {'N':>6} {'labels':>7} {'wrong':>6} {'size estimated':>14} "
        f"{'off by':>8} {'seconds':>8}"
    )
    for family in FAMILIES:
        for n_samples in family.sizes:
            start = time.perf_counter()
            data, method = family.data(n_samples), get(family.method)
            options = {} if family.precision == method.precisions[0] else {"precision": family.precision}
            plan = method.plan(data, method.read_options(options), np.random.default_rng(0), None)
            built = plan.emit()
            certificate = verify(built.memoriser, data, n_rechecked=1)
            size = size_of_network(built.memoriser.network)
            is_predicted = plan.size == size
            error = built.notes.get("value_error_measured")
            assert error is None or isinstance(error, float)
            seconds = round(time.perf_counter() - start, 1)
            rows.append(
                {
                    "method": family.method,
                    "task": family.task,
                    "precision": family.precision,
                    "n_samples": n_samples,
                    "labels_checked": certificate.dataset.n_labels,
                    "samples_wrong": certificate.wrong,
                    "size": asdict(size),
                    "size_is_predicted": is_predicted,
                    "error_before_rounding": error,
                    "margin": None
                    if error is None
                    else 0.25 - error,  # what is within 1/4 is rounded to the label
                    "seconds": seconds,
                }
            )
            print(
                f"{family.method:<26} {family.task:<11} {family.precision:<8} {n_samples:>6,} "
                f"{certificate.dataset.n_labels:>7,} {certificate.wrong:>6} {'exactly' if is_predicted else 'NO':>14} "
                f"{'' if error is None else f'{error:.1e}':>8} {seconds:>8}",
                flush=True,
            )
    return rows


def fit(n: np.ndarray, size: np.ndarray, study: Study) -> tuple[float, float]:
    """The exponent e and twice its standard error."""
    factor = np.sqrt(np.log2(n)) if study.root_log else np.ones_like(n)

    def residuals(p: np.ndarray) -> np.ndarray:
        more = np.exp(p[2]) * np.log2(n) if study.plus_log else 0.0
        return np.log(np.exp(p[0]) * factor * n ** p[1] + more) - np.log(size)

    start = np.array([np.log(size[0] / n[0] ** study.claim) - 0.5, study.claim, np.log(size[0] / 20)])
    found = least_squares(residuals, start[: 3 if study.plus_log else 2])
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    variance = 2 * found.cost / max(1, len(n) - len(found.x))
    return float(found.x[1]), float(2 * np.sqrt(variance * covariance[1, 1]))


def exponents(largest: int, n_seeds: int, check_up_to: int) -> list[dict[str, object]]:
    rows = []
    print(
        f"\n{'construction':<26} {'task':<11} {'N or nN':>16} {'exponent':>16} {'claimed':>8} {'checked':>8} {'wrong':>6}"
    )
    for study in STUDIES:
        points, checked, wrong = [], 0, 0
        for n_samples in (size // study.per_sample for size in SIZES if size <= largest):
            for seed in range(n_seeds):
                data = study.data(n_samples, seed)
                built = get(study.method).build(data, {}, np.random.default_rng(seed), None)
                parameters = size_of_network(built.memoriser.network).parameters_dense
                points.append((n_samples * study.per_sample, study.fitted(built, parameters), parameters))
                if n_samples <= check_up_to:
                    certificate = verify(built.memoriser, data, n_rechecked=0)
                    checked, wrong = checked + certificate.dataset.n_labels, wrong + certificate.wrong
        table = np.array(points, dtype=np.float64)
        exponent, error = fit(table[:, 0], table[:, 1], study)
        span = f"{int(table[0, 0]):,}-{int(table[-1, 0]):,}"
        print(
            f"{study.method:<26} {study.task:<11} {span:>16} {exponent:>8.3f} ± {error:.3f} {study.claim:>8.2f} "
            f"{checked:>8,} {wrong:>6}",
            flush=True,
        )
        rows.append(
            {
                **asdict(study),
                "exponent": exponent,
                "two_standard_errors": error,
                "points": [[int(n), int(size)] for n, _, size in points],
                "labels_checked": checked,
                "samples_wrong": wrong,
            }
        )
    return rows


def lengths(n_samples: int = 1000) -> list[dict[str, object]]:
    """KS25's claim that next-token prediction hardly depends on the length, beside KKM23, which pays for it."""
    rows = []
    print(f"\nnext-token, N = {n_samples:,}, vocabulary 1,000: dense parameters, depth, seconds to compile")
    for seq_len in LENGTHS:
        data = random_tokens(n_samples, seq_len, 1000, 16, seed=0, ordered=False)
        for method in ("kajitsuka-sato-2025", "kim-2023"):
            start = time.perf_counter()
            built = get(method).build(data, {}, np.random.default_rng(0), None)
            size = size_of_network(built.memoriser.network)
            seconds = round(time.perf_counter() - start, 2)
            rows.append({"method": method, "seq_len": seq_len, **asdict(size), "seconds_compile": seconds})
            print(
                f"  n = {seq_len:<4} {method:<20} {size.parameters_dense:>9,} {size.depth:>6,} {seconds:>6.1f}s",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--check-up-to", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="where a curve of the figure ends")
    parser.add_argument("--no-figure", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, object] = {
        "schema": "byheart.benchmark/1",
        "name": "constructions",
        "three_sizes": three_sizes(),
        "exponents": exponents(options.largest, options.seeds, options.check_up_to),
        "lengths": lengths(),
        "machine": {
            "python": platform.python_version(),
            "processor": platform.machine(),
            "system": platform.system(),
        },
    }
    if not options.no_figure:
        shapes = (DataShape(1, 1, 16, dim=4), DataShape(1, 8, 16, dim=4, task="seq-to-seq"))
        records = [growth(shape, seconds=options.seconds) for shape in shapes]
        draw_growth(records, options.out / "constructions.png")
        record["growth"] = [each.to_json() for each in records]
        for each in records:
            print(f"\n{each.shape.task}, n = {each.shape.seq_len}: where the smallest construction changes")
            for crossover in each.crossovers:
                if crossover.on_envelope:
                    print(f"  N = {crossover.n_samples:,.0f}: {crossover.larger} -> {crossover.smaller}")
    (options.out / "constructions.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
