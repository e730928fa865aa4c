"""On a bare GPU machine: the same curves as on the CPU, and a memory estimate that covers the peak.

    python benchmarks/measure_gpu_check.py

The same checks as tests/measure/test_devices.py, for machines without pytest. Exit status 1 if one fails; without a GPU it
says so and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.measure.families import ModelConfig
from byheart.measure.model_memory import bytes_per_model
from byheart.measure.recipe import Training
from byheart.measure.stack import make_stack
from byheart.measure.steppers import make_stepper
from byheart.measure.trainer import train
from byheart.measure.training_set import TrainingSet, training_set_of_labels


def pairs(n_vocab: int, seed: int) -> TrainingSet:
    grid = np.indices((n_vocab, n_vocab)).reshape(2, -1).T
    labels = np.random.default_rng(seed).integers(0, n_vocab, len(grid))
    return training_set_of_labels(grid, labels, n_classes=n_vocab, n_vocab=n_vocab)


def same_curves(engine: str) -> bool:
    """Mixed sizes, float64; other orders of summation change the last digits."""
    models = [
        ModelConfig("attention-only", {"dim": 3 + k, "head_dim": 5, "n_heads": 8 - k}) for k in range(4)
    ]
    plans = [Training(steps=50, batch=16, dtype="float64", record_every=10)] * 4
    curves = []
    for device in ("cpu", "cuda"):
        stack = make_stack(
            models, [pairs(8, k) for k in range(4)], range(4), device=device, dtype=torch.float64
        )
        outcomes = train(stack, plans, engine="eager" if device == "cpu" else engine)
        curves.append(np.array([outcome.curve["loss"] for outcome in outcomes]))
    worst = float(np.abs(curves[0] / curves[1] - 1).max())
    print(f"{engine}: losses on GPU and CPU agree to {worst:.1e}")
    return worst < 1e-9


def memory_is_covered(n_models: int = 256) -> bool:
    plan, training_set = Training(steps=10, batch=1024), pairs(50, 0)
    model = ModelConfig("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 20})
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    stack = make_stack([model] * n_models, [training_set] * n_models, range(n_models), device="cuda")
    make_stepper(stack, [plan] * n_models, "graph").run(10)
    peak = torch.cuda.max_memory_allocated()
    estimate = bytes_per_model(model, training_set, plan, torch.device("cuda")) * n_models
    print(f"memory: peak {peak / 2**20:.0f} MiB, estimate {estimate / 2**20:.0f} MiB")
    return 0.3 * estimate < peak < estimate


def main() -> None:
    if not torch.cuda.is_available():
        print("no CUDA device here; nothing checked")
        return
    answers = [same_curves(engine) for engine in ("eager", "graph", "compile")] + [memory_is_covered()]
    sys.exit(0 if all(answers) else 1)


if __name__ == "__main__":
    main()
