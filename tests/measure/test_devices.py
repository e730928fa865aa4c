"""Memory is estimated before launch, and the estimate holds; the CUDA paths do what the CPU does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import pytest
import torch
from torch import Tensor

from byheart.errors import UsageError
from byheart.measure import steppers
from byheart.measure.families import ModelConfig
from byheart.measure.matmul import bmm
from byheart.measure.model_memory import bytes_per_model
from byheart.measure.objective import answers, training_losses
from byheart.measure.recipe import Training
from byheart.measure.stack import Stack, make_stack
from byheart.measure.steppers import make_stepper
from byheart.measure.trainer import train
from byheart.process.devices import choose_device, free_bytes
from byheart.process.memory_limit import OverMemoryLimit
from tests.measure.problems import clouds, pairs
from tests.refusal import refused

MODEL = ModelConfig("attention-only", {"dim": 6, "head_dim": 5, "n_heads": 8})


def test_the_estimate_grows_with_what_is_held() -> None:
    small = bytes_per_model(MODEL, pairs(10, 0), Training(steps=1))
    assert bytes_per_model(MODEL, pairs(20, 0), Training(steps=1)) > 2 * small
    assert bytes_per_model(MODEL, pairs(10, 0), Training(steps=1, dtype="float64")) > 1.8 * small
    assert bytes_per_model(MODEL, pairs(10, 0), Training(steps=1, optimiser="lbfgs")) > small
    # A GPU evaluates all rows and weighs them by how often they were drawn.
    drawn, gpu = Training(steps=1, batch=30), torch.device("cuda")
    assert bytes_per_model(MODEL, pairs(10, 0), drawn, gpu) == small
    assert bytes_per_model(MODEL, pairs(10, 0), drawn) != small


def test_an_estimate_frees_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ReferenceType[Tensor]] = []

    def losses(stack: Stack, flat: Tensor, *rest: Any) -> Any:
        seen.append(ref(flat))
        return training_losses(stack, flat, *rest)

    monkeypatch.setattr("byheart.measure.model_memory.training_losses", losses)
    sizes = {"dim": 3, "hidden_width": 8, "n_blocks": 1, "width": 2}
    options = {"embedding": "learned", "positions": "none"}
    bytes_per_model(ModelConfig("uniform-attention", sizes, options), clouds(10, 0), Training(steps=1))
    gc.collect()
    assert [parameters() for parameters in seen] == [None]


def test_a_step_over_the_memory_limit_is_refused_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Training(steps=1, batch=300_000)
    held = 8 * drawn.batch * pairs(10, 0).n_classes  # the outputs
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", str(2 * held))
    monkeypatch.setattr("byheart.measure.objective.answers", only_few_rows)
    with pytest.raises(OverMemoryLimit) as error:
        bytes_per_model(MODEL, pairs(10, 0), drawn)
    assert error.value.facts["n_bytes"] > 2 * held
    few = replace(drawn, batch=300)
    assert bytes_per_model(MODEL, pairs(10, 0), few) < 2 * held


def only_few_rows(stack: Stack, flat: Tensor, rows: Tensor | None) -> Tensor:
    assert rows is not None
    assert rows.shape[1] <= 300, "the step was run"
    return answers(stack, flat, rows)


def test_devices() -> None:
    assert free_bytes(torch.device("cpu")) > 0
    assert choose_device("cpu").type == "cpu"
    with refused(UsageError, device="meta"):
        choose_device("meta")
    if not torch.cuda.is_available():
        assert choose_device("auto").type == "cpu"
        with refused(UsageError, device="cuda"):
            choose_device("cuda")


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda").index is None
    assert choose_device("cuda:1").index == 1
    for name in ("cuda:2", "cuda:7"):
        with refused(UsageError, device=name, n_devices=2):
            choose_device(name)


@pytest.mark.slow
def test_compiled_steps_are_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU compiles is traced here without a compiler: one graph, and the same weights after it."""
    compiled: list[str] = []
    real = torch.compile

    def trace_only(function: object, **options: object) -> object:
        compiled.append(getattr(function, "__name__", ""))
        return real(function, backend="aot_eager", fullgraph=True, **options)

    monkeypatch.setattr(torch, "compile", trace_only)
    stack = make_stack([MODEL] * 2, [pairs(6, 0), pairs(6, 1)], [0, 1], dtype=torch.float64)
    plans = [Training(steps=3, batch=8, dtype="float64")] * 2
    flats = []
    for engine in ("eager", "compile"):
        stepper = make_stepper(stack, plans, engine)
        stepper.run(3)
        flats.append(stepper.flat.detach().clone())
    assert compiled == ["losses", "update"]
    torch.testing.assert_close(*flats, rtol=1e-12, atol=1e-12)


def test_small_stacks_make_many_steps_a_turn_and_large_ones_few(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = make_stack([MODEL] * 2, [pairs(6, 0), pairs(6, 1)], [0, 1])
    n_logits = 2 * 36 * 6  # models, pairs, classes
    assert steppers.steps_of_turn(stack) == steppers.TURN_STEPS
    for logits, steps in ((3 * n_logits, 3), (n_logits // 2, 1)):
        monkeypatch.setattr(steppers, "TURN_LOGITS", logits)
        assert steppers.steps_of_turn(stack) == steps


WITHOUT_A_COMPILER = """
import torch
from byheart.measure.objective import answers, training_losses
from byheart.measure.recipe import Training
from byheart.measure.stack import Stack, make_stack
from byheart.measure.steppers import COMPILE_FROM_STEPS, AdamStepper, make_stepper
from tests.measure.problems import clouds, pairs
from tests.measure.test_devices import MODEL

stack = make_stack([MODEL] * 2, [pairs(6, 0), pairs(6, 1)], [0, 1])
plans = [Training(steps=COMPILE_FROM_STEPS, batch=8)] * 2
chosen, plain = make_stepper(stack, plans, "auto"), make_stepper(stack, plans, "eager")
assert chosen.engine == "compile"
chosen.run(3), plain.run(3)
print(chosen.engine, chosen.is_fixed, torch.equal(chosen.flat, plain.flat))
"""


@pytest.mark.slow
def test_a_machine_without_a_compiler_takes_uncompiled_steps(tmp_path: Path) -> None:
    environment = os.environ | {"CXX": "/no/compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_COMPILER],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["eager", "False", "True"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("engine", ["eager", "graph", "compile"])
def test_a_gpu_trains_as_a_cpu_does(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steppers, "COMPILE_FROM_STEPS", 50)
    monkeypatch.setattr(steppers, "TURN_STEPS", 4)  # two turns and two single steps between records
    plans = [Training(steps=50, batch=16, dtype="float64", record_every=10)] * 4
    curves = []
    for device in ("cpu", "cuda"):
        stack = make_stack(
            [MODEL] * 4, [pairs(8, k) for k in range(4)], range(4), device=device, dtype=torch.float64
        )
        chosen = "eager" if device == "cpu" else engine
        curves.append([outcome.curve["loss"] for outcome in train(stack, plans, engine=chosen)])
    for one, other in zip(*curves, strict=True):
        assert one == pytest.approx(other, rel=1e-9)  # other orders of summation, as in test_stacking


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_memory_estimate_covers_the_peak() -> None:
    plan, n_models = Training(steps=10, batch=1024), 128
    model = ModelConfig("attention-only", {"dim": 10, "head_dim": 10, "n_heads": 20})
    torch.cuda.reset_peak_memory_stats()
    stack = make_stack([model] * n_models, [pairs(50, 0)] * n_models, range(n_models), device="cuda")
    make_stepper(stack, [plan] * n_models, "graph").run(10)
    peak = torch.cuda.max_memory_allocated()
    estimate = bytes_per_model(model, pairs(50, 0), plan, torch.device("cuda")) * n_models
    assert 0.3 * estimate < peak < estimate


def test_products_are_products() -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(5, 3, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    right = torch.randn(5, 7, 40, generator=generator, dtype=torch.float64, requires_grad=True)
    expected = torch.bmm(left, right)
    found = bmm(left, right)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), (left, right)),
        torch.autograd.grad(torch.bmm(left, right).square().sum(), (left, right)),
        rtol=1e-12,
        atol=1e-12,
    )
    tall = bmm(right.transpose(1, 2), left.transpose(1, 2))  # 40 rows, 3 columns: written transposed
    torch.testing.assert_close(tall, expected.transpose(1, 2), rtol=1e-13, atol=1e-13)
