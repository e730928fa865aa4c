"""Options that no construction can follow are refused before any work, in the user's own values."""

from __future__ import annotations

import math

import pytest

import byheart as bh
from byheart.cli.compile import _setting
from byheart.construct.registry import get
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, DoesNotHold, UsageError
from byheart.process.memory_limit import OverMemoryLimit


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_options_are_finite(value: float) -> None:
    with pytest.raises(UsageError, match=r"madden-2024: margin is -?(nan|inf); it must be a finite number"):
        get("madden-2024").read_options({"margin": value})


@pytest.mark.parametrize("options", [{"margin": -1.0}, {"margin": 1e308}, {"gap": 0.0}])
def test_margins_lie_in_a_range(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be above 0 and at most 1,000,000"):
        get("madden-2024").read_options(options)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("madden-2024", {"dim": 1 << 31}),
        ("madden-2024-averaging", {"dim": 1 << 31}),
        ("mahdavi-2023", {"n_heads": 1 << 31}),
        ("dana-2024", {"dim": 1 << 31}),
        ("linear-memory", {"dim": 1 << 31}),
    ],
)
def test_sizes_without_memory_for_them_are_not_drawn(method: str, options: dict[str, object]) -> None:
    example = get(method).example
    assert example is not None
    with pytest.raises(OverMemoryLimit, match=f"{method} of these sizes would take about"):
        bh.compile(example().data, method=method, **options)


def test_more_shards_than_keys_are_solved() -> None:
    model = bh.compile({f"key {n}": str(n) for n in range(20)}, method="retrieval", shards=60)
    assert model.predict("key 7") == "7"


def test_fewer_neurons_than_contexts_are_refused() -> None:
    example = get("madden-2024").example
    assert example is not None
    with pytest.raises(AssumptionViolated, match="3 neurons are fewer than the"):
        bh.compile(example().data, method="madden-2024", hidden_width=3)


def test_texts_longer_than_any_llama_are_not_sized() -> None:
    shape = DataShape(1000, 40_000, 4, vocab=1000, ordered=True)
    with pytest.raises(AssumptionViolated, match="longer than the 32,768 positions"):
        get("llama").estimate(shape)


def test_a_wrong_network_is_laid_to_the_options_first() -> None:
    example = get("madden-2024").example
    assert example is not None
    with pytest.raises(DoesNotHold, match=r"Leave out the options \(margin=0.001\), or change them"):
        bh.compile(example().data, method="madden-2024", margin=1e-3)


def test_a_setting_nested_without_end_is_a_text() -> None:
    assert _setting("B=" + "[" * 100_000) == ("B", "[" * 100_000)
