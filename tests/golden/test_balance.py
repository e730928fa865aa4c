"""`llama-balance` notices small faults in bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from byheart.golden.balance import Batch, draw_balance_weights, find_balance_cases
from byheart.golden.case import Case
from byheart.golden.checkpoint import write_checkpoint
from byheart.golden.engines.transformers import TransformersEngine
from byheart.golden.family import SHAPES
from byheart.golden.trials import TrialEngine
from tests.golden.catalogue import CATALOGUE

SHAPE = next(shape for shape in SHAPES if shape.design == "balance")
FEW = (Batch(24, 80, (0.4, 0.25), ("scale up", "epsilon up"), 1, n_judged=30, seconds=1.0),)


@pytest.fixture(scope="module")
def balance(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Case]]:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    folder = tmp_path_factory.mktemp("balance") / SHAPE.name
    weights = draw_balance_weights(SHAPE)
    write_checkpoint(SHAPE, weights, folder)
    return folder, find_balance_cases(SHAPE, weights, FEW)


def _answers(folder: Path, found: list[Case], attention: str, change: Any = lambda model: None) -> list[bool]:
    """Which cases transformers answers rightly in bfloat16."""
    session = TransformersEngine("bfloat16", attention=attention, change=change).open(SHAPE, folder)
    made = session.generate("one by one", [case.prompt for case in found], 5)
    return [tuple(answer) == case.answer for answer, case in zip(made, found, strict=True)]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_right_engine_in_bfloat16_is_right(balance: tuple[Path, list[Case]], attention: str) -> None:
    folder, found = balance
    assert found
    assert all(case.holds_for("bfloat16") and case.holds_for("float32") for case in found)
    assert not any(case.holds_for("float16") for case in found)
    assert all(_answers(folder, found, attention))


@pytest.mark.parametrize(
    "name",
    [
        "attention scale 0.5% off",
        "epsilon twice as large",
        "epsilon 1e-12",
        "RoPE on three quarters of a head",
        "float16 feed-forward part",
    ],
)
def test_a_small_fault_is_noticed_in_bfloat16(balance: tuple[Path, list[Case]], name: str) -> None:
    fault = next(fault for fault in CATALOGUE if fault.name == name)
    assert not all(_answers(*balance, "eager", fault.change))


def test_a_trial_rounds_what_is_not_exact_and_nothing_else() -> None:
    engine = TrialEngine(SHAPE, draw_balance_weights(SHAPE), 8, seed=0)
    exact = torch.tensor([0.0, 1.0, -(2.0**60), 42.25, 255.0, 2.0**-100], dtype=torch.float64)
    assert torch.equal(engine._stored(exact), exact)
    between = torch.full((4_000,), 1 + 2.0**-9, dtype=torch.float64)
    rounded = engine._stored(between)
    assert set(rounded.tolist()) == {1.0, 1 + 2.0**-7}
    assert 0.2 < float((rounded > 1).double().mean()) < 0.3  # a quarter: 7 standard deviations are 0.05
