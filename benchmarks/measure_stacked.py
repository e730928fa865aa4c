"""Model-steps per second: many models in one stack against one at a time, eagerly, as a paper's code would.

    python benchmarks/measure_stacked.py [--device auto|cpu|cuda] [--out FILE] [--quick]

One optimiser step of one model is one model-step. Three cases: DPC24 (50 tokens, d = d_h = 10, 20 heads, batches of 1024),
MFT24 (400 documents of 10 tokens, 32 hidden units, full batch) and KS25 (2,000 sequences of 8 tokens, 20 blocks before and
after the attention, full batch). The plain models below are also the tests' oracle for the stacked families.
Needs torch and numpy alone.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from byheart.measure import objective
from byheart.measure.families import ModelConfig
from byheart.measure.recipe import Training
from byheart.measure.stack import make_stack
from byheart.measure.steppers import make_stepper
from byheart.measure.training_set import TrainingSet, training_set_of_documents, training_set_of_labels

TIME_LIMIT = 300.0  # seconds after which no further variant is begun


# --- one model at a time, written plainly -------------------------------------------------------------------


def _uniform(*shape: int, fan_in: int) -> nn.Parameter:
    return nn.Parameter((2 * torch.rand(*shape) - 1) / math.sqrt(fan_in))


class PlainAttentionOnly(nn.Module):
    """DPC24 equations (1)-(2)."""

    def __init__(self, n_vocab: int, dim: int, head_dim: int, n_heads: int, seq_len: int = 2) -> None:
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.embedding = _uniform(n_vocab, dim, fan_in=n_vocab)
        self.positions = _uniform(seq_len, dim, fan_in=seq_len)
        self.query, self.key, self.value = (_uniform(dim, n_heads * head_dim, fan_in=dim) for _ in range(3))
        self.output = _uniform(n_heads * head_dim, dim, fan_in=head_dim)
        self.unembedding = _uniform(dim, n_vocab, fan_in=dim)

    def forward(self, tokens: Tensor) -> Tensor:
        placed = self.embedding[tokens] + self.positions
        batch, seq_len, _ = placed.shape
        split = (batch, seq_len, self.n_heads, self.head_dim)
        query = (placed[:, -1] @ self.query).view(batch, self.n_heads, 1, self.head_dim)
        key, value = ((placed @ w).view(split).transpose(1, 2) for w in (self.key, self.value))
        shares = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(self.head_dim), dim=-1)
        return (placed[:, -1] + (shares @ value).reshape(batch, -1) @ self.output) @ self.unembedding


class PlainDecoder(nn.Module):
    """MFT24's model over whole documents, every position at once."""

    def __init__(self, n_vocab: int, hidden_width: int, seq_len: int, dim: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, dim)
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))
        self.hidden, self.logits = nn.Linear(dim, hidden_width), nn.Linear(hidden_width, n_vocab)
        place, pair = torch.arange(seq_len).view(-1, 1), torch.arange(dim) // 2
        angle = place * torch.exp(-math.log(10000.0) * 2 * pair / dim)
        self.register_buffer("positions", torch.where(torch.arange(dim) % 2 == 0, angle.sin(), angle.cos()))
        self.register_buffer("future", torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1))

    def forward(self, tokens: Tensor) -> Tensor:
        placed = self.embedding(tokens) + self.positions
        scores = self.query(placed) @ self.key(placed).transpose(1, 2) / math.sqrt(placed.shape[2])
        mixed = torch.softmax(scores.masked_fill(self.future, -torch.inf), dim=-1) @ self.value(placed)
        return self.logits(F.gelu(self.hidden(self.output(mixed))))


class PlainUniformAttention(nn.Module):
    """KS25 equation (165), answer read at the first token."""

    def __init__(self, n_vocab: int, n_blocks: int, n_classes: int, width: int = 2, hidden: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, width)

        def blocks() -> nn.ModuleList:
            return nn.ModuleList(
                nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
                for _ in range(n_blocks)
            )

        self.before, self.after = blocks(), blocks()
        self.value, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.embed_out = nn.Linear(width, n_classes, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.embedding(tokens)
        for block in self.before:
            stream = stream + block(stream)
        stream = stream + self.output(self.value(stream.mean(dim=1, keepdim=True)))
        for block in self.after:
            stream = stream + block(stream)
        return self.embed_out(stream[:, 0])


# --- the cases ----------------------------------------------------------------------------------------------


def dana(seed: int = 0) -> tuple[ModelConfig, TrainingSet, Training]:
    grid = np.indices((50, 50)).reshape(2, -1).T
    labels = np.random.default_rng(seed).integers(0, 50, 2500)
    model = ModelConfig("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 20})
    return (
        model,
        training_set_of_labels(grid, labels, n_classes=50, n_vocab=50),
        Training(steps=10_000, batch=1024),
    )


def _stories(seed: int) -> np.ndarray:
    """Documents with about as many distinct tokens and contexts as 400 of MFT24's stories (417 and 1,223)."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, 1001) ** 2.6
    ranks = rng.choice(1000, size=(400, 10), p=weights / weights.sum())
    shifts = rng.integers(0, 530, size=530)
    documents = np.empty_like(ranks)
    documents[:, 0] = ranks[:, 0] % 530
    for t in range(1, 10):
        documents[:, t] = (ranks[:, t] + shifts[documents[:, t - 1]]) % 530
    return np.unique(documents, return_inverse=True)[1].reshape(400, 10)


def madden(seed: int = 0) -> tuple[ModelConfig, TrainingSet, Training]:
    documents = _stories(seed)
    training_set = training_set_of_documents(documents, int(documents.max()) + 1)
    plan = Training(steps=50_000, learning_rate=1e-4, reduction="sum")
    return ModelConfig("one-layer-decoder", {"hidden_width": 32}), training_set, plan


def _sentences(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, 20_001)
    words = rng.choice(20_000, size=(2000, 8), p=weights / weights.sum())
    return np.unique(words, return_inverse=True)[1].reshape(2000, 8), rng.integers(0, 3, 2000)


def kajitsuka(seed: int = 0) -> tuple[ModelConfig, TrainingSet, Training]:
    words, labels = _sentences(seed)
    training_set = training_set_of_labels(
        words, labels, n_classes=3, n_vocab=int(words.max()) + 1, read="first"
    )
    plan = Training(steps=1000, optimiser="adamw", weight_decay=0.01)
    return ModelConfig("uniform-attention", {"n_blocks": 20}), training_set, plan


CASES = {"DPC24": dana, "MFT24": madden, "KS25": kajitsuka}


def plain_step(case: str, device: torch.device) -> Any:
    """A function that makes one eager step of one model, as a paper's code would."""
    torch.manual_seed(0)
    if case == "DPC24":
        net: nn.Module = PlainAttentionOnly(50, 10, 10, 20).to(device)
        labels = torch.randint(50, (2500,), device=device)
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)

        def loss() -> Tensor:
            drawn = torch.randint(2500, (1024,), device=device)
            tokens = torch.stack([drawn // 50, drawn % 50], dim=1)
            return F.cross_entropy(net(tokens), labels[drawn])
    elif case == "MFT24":
        documents = torch.from_numpy(_stories(0)).to(device)
        n_vocab = int(documents.max()) + 1
        net = PlainDecoder(n_vocab, 32, 9).to(device)
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-4)

        def loss() -> Tensor:
            return F.cross_entropy(
                net(documents[:, :-1]).flatten(0, 1), documents[:, 1:].flatten(), reduction="sum"
            )
    else:
        words, answers = _sentences(0)
        inputs, classes = torch.from_numpy(words).to(device), torch.from_numpy(answers).to(device)
        net = PlainUniformAttention(int(words.max()) + 1, 20, 3).to(device)
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)

        def loss() -> Tensor:
            return F.cross_entropy(net(inputs), classes)

    def step() -> None:
        value = loss()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


# --- timing -------------------------------------------------------------------------------------------------


def rate(
    run: Any, device: torch.device, seconds: float, per_call: int, clock: Any = time.perf_counter
) -> float:
    """Model-steps per second of `run(n_steps)`, which makes n_steps · per_call of them."""

    def timed(n_steps: int) -> float:
        start = clock()
        run(n_steps)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return float(clock() - start)

    timed(5)
    n_steps = max(2, int(seconds / max(timed(2) / 2, 1e-6)))
    return per_call * n_steps / timed(n_steps)


def solo_rate(case: str, device: torch.device, seconds: float, clock: Any = time.perf_counter) -> float:
    step = plain_step(case, device)

    def run(n_steps: int) -> None:
        for _ in range(n_steps):
            step()

    return rate(run, device, seconds, 1, clock)


def stacked_rate(
    case: str,
    device: torch.device,
    seconds: float,
    n_models: int,
    engine: str,
    clock: Any = time.perf_counter,
) -> float:
    return rate(_stepper(case, device, n_models, engine).run, device, seconds, n_models, clock)


def _stepper(case: str, device: torch.device, n_models: int, engine: str) -> Any:
    model, training_set, plan = CASES[case]()
    training_sets = [
        CASES[case](seed)[1] if case == "DPC24" else training_set for seed in range(min(n_models, 64))
    ]
    training_sets = [training_sets[k % len(training_sets)] for k in range(n_models)]
    stack = make_stack([model] * n_models, training_sets, range(n_models), device=device)
    return make_stepper(stack, [plan] * n_models, engine)


def _worker(case: str, n_models: int, engine: str, orders: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    stepper = _stepper(case, torch.device("cpu"), n_models, engine)
    stepper.run(3)
    answers.put(0.0)
    while (seconds := orders.get()) is not None:
        answers.put(rate(stepper.run, torch.device("cpu"), seconds, n_models))


class SideBySide:
    """Several processes with a stack each, kept ready; called, they step together and tell their rate in all."""

    def __init__(self, case: str, n_models: int, engine: str, n_processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.answers, self.orders = context.Queue(), [context.Queue() for _ in range(n_processes)]
        self.workers = [
            context.Process(target=_worker, args=(case, n_models, engine, orders, self.answers))
            for orders in self.orders
        ]
        for worker in self.workers:
            worker.start()
        for _ in self.workers:
            self.answers.get()

    def __call__(self, seconds: float) -> float:
        for orders in self.orders:
            orders.put(seconds)
        return float(sum(self.answers.get() for _ in self.workers))

    def close(self) -> None:
        for orders, worker in zip(self.orders, self.workers, strict=True):
            orders.put(None)
            worker.join()


def has_compiler() -> bool:
    """Whether steps can be compiled for this CPU."""
    stack = make_stack([CASES["DPC24"]()[0]], [CASES["DPC24"]()[1]], [0])
    try:
        make_stepper(stack, [CASES["DPC24"]()[2]], "compile").run(1)
    except Exception as error:
        print(f"nothing is compiled: {type(error).__name__}")
        return False
    return True


def _ratio(rates: list[float], others: list[list[float]]) -> float:
    """Median over the rounds of a rate against the best of the others in the same round."""
    return statistics.median(rate / max(rest) for rate, *rest in zip(rates, *others, strict=True))


def on_cpu(quick: bool) -> dict[str, Any]:
    """Rounds go through all ways in turn, so that a busy machine slows all of them alike; ratios are taken per round."""
    device, result = torch.device("cpu"), {}
    rounds, seconds = (1, 0.5) if quick else (5, 1.0)
    sizes = {"DPC24": 8, "MFT24": 4, "KS25": 4}
    compiles = not quick and has_compiler()
    for case in ["DPC24"] if quick else CASES:
        n_models = sizes[case]
        alone, paired = "one at a time, 1 thread", "one at a time, 2 threads"
        stacks = {
            f"stack of {n_models}, {engine}, {n} process{'' if n == 1 else 'es'}": SideBySide(
                case, n_models, engine, n
            )
            for engine in (("eager", "compile") if compiles and case == "DPC24" else ("eager",))
            for n in (1, 2)
        }
        kept: dict[str, list[float]] = {}
        for _ in range(rounds):
            for threads, name in ((1, alone), (2, paired)):
                torch.set_num_threads(threads)
                kept.setdefault(name, []).append(solo_rate(case, device, seconds))
            for name, run in stacks.items():
                kept.setdefault(name, []).append(run(seconds))
        for run in stacks.values():
            run.close()
        result[case] = {
            "model_steps_per_second": {name: statistics.median(values) for name, values in kept.items()},
            "ratios": {  # one process has one core, two have both, and so have the models one at a time
                f"{name}, to {against}": _ratio(kept[name], [kept[other] for other in others])
                for name in stacks
                for against, others in [
                    ("1 thread", [alone])
                    if name.endswith("process")
                    else ("the better of 1 and 2 threads", [alone, paired])
                ]
            },
        }
        print(case)
        for name, value in result[case]["model_steps_per_second"].items():
            print(f"  {name:70} {value:12,.0f} model-steps/s")
        for name, value in result[case]["ratios"].items():
            print(f"  {name:70} {value:12.1f} times", flush=True)
    return result


def on_gpu(quick: bool) -> dict[str, Any]:
    device, began = torch.device("cuda"), time.perf_counter()
    seconds, result = (0.5, {}) if quick else (2.0, {})
    variants = {
        "DPC24": [
            ("graph", 512, "counts"), ("graph", 1024, "rows"),
            ("compile", 512, "counts"), ("compile", 512, "rows"), ("compile", 1024, "rows"), ("compile", 2048, "rows"),
        ],
        "MFT24": [("graph", 512, "counts"), ("compile", 512, "counts")],
        "KS25": [("graph", 512, "counts"), ("compile", 512, "counts")],
    }  # fmt: skip
    rates: dict[str, dict[str, float]] = {}
    errors: dict[str, str] = {}
    memory: dict[str, float] = {}
    for case in CASES:
        rates[case] = {"one at a time, eager": solo_rate(case, device, seconds)}
        print(f"{case}: one at a time, eager: {rates[case]['one at a time, eager']:,.0f}/s", flush=True)
    # Cheap variants of all cases first, then the compiled ones while time is left.
    queue = [(case, *variant) for case in CASES for variant in variants[case]]
    for case, engine, n_models, form in sorted(queue, key=lambda entry: entry[1] == "compile"):
        if time.perf_counter() - began > TIME_LIMIT:
            errors[f"{case} {engine} {n_models} {form}"] = "not begun: out of time"
            continue
        objective.COUNTS_UP_TO = 4 if form == "counts" else 0
        name = f"stack of {n_models}, {engine}" + (f", {form}" if case == "DPC24" else "")
        try:
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            rates[case][name] = stacked_rate(case, device, seconds, n_models, engine)
            memory[f"{case}: {name}"] = torch.cuda.max_memory_allocated() / 2**30
            print(
                f"{case}: {name}: {rates[case][name]:,.0f}/s ({time.perf_counter() - start:.0f} s)",
                flush=True,
            )
        except Exception as error:  # a variant that fails must not hide the others
            errors[f"{case}: {name}"] = f"{type(error).__name__}: {error}"[:2000]
            print(traceback.format_exc()[-1500:], flush=True)
        torch.cuda.empty_cache()
    for case in CASES:
        result[case] = _summary(rates[case])
        _show(case, result[case])
    return result | {"errors": errors, "peak_gib": memory, "kernels": kernels(device)}


def kernels(device: torch.device, n_models: int = 512) -> dict[str, float]:
    """Where the time of an eager DPC24 step goes: microseconds of the longest kernels."""
    model, training_set, plan = dana()
    stack = make_stack([model] * n_models, [training_set] * n_models, range(n_models), device=device)
    stepper = make_stepper(stack, [plan] * n_models, "eager")
    stepper.run(3)
    with torch.profiler.profile() as profile:
        stepper.run(2)
        torch.cuda.synchronize()
    events = profile.key_averages(group_by_input_shape=False)
    times = {event.key[:120]: event.self_device_time_total / 2 for event in events}
    longest = sorted(times.items(), key=lambda entry: -entry[1])[:25]
    for name, microseconds in longest:
        print(f"  {microseconds:9.0f} us  {name}")
    return dict(longest)


def _summary(rates: dict[str, float]) -> dict[str, Any]:
    solo = max(value for name, value in rates.items() if name.startswith("one at a time"))
    best = max((n for n in rates if n.startswith("stack")), key=rates.__getitem__, default=None)
    return {
        "model_steps_per_second": rates,
        "best": best,
        "ratio": None if best is None else rates[best] / solo,
    }


def _show(case: str, summary: dict[str, Any]) -> None:
    print(case)
    for name, value in summary["model_steps_per_second"].items():
        print(f"  {name:40} {value:12,.0f} model-steps/s")
    if summary["ratio"] is not None:
        print(f"  {summary['best']}: {summary['ratio']:.1f} times one at a time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--out", type=Path, default=None, help="a JSON file; by default under out/")
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    options = parser.parse_args()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    out = options.out or Path("out") / f"measure_stacked_{device}.json"
    began = time.perf_counter()
    cases = on_gpu(options.quick) if device == "cuda" else on_cpu(options.quick)
    report = {
        "schema": 1,
        "benchmark": "measure_stacked",
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "seconds": time.perf_counter() - began,
        "cases": cases,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1))
    print(f"written to {out}")


if __name__ == "__main__":
    main()
