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
from tests.refusal import refused


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_options_are_finite(value: float) -> None:
    with refused(UsageError, option="margin"):
        get("madden-2024").read_options({"margin": value})


@pytest.mark.parametrize("options", [{"margin": -1.0}, {"margin": 1e308}, {"gap": 0.0}])
def test_margins_lie_in_a_range(options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
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
    with refused(OverMemoryLimit, "n_bytes", limit=4294967296):
        bh.compile(example().data, method=method, **options)


def test_more_shards_than_keys_are_solved() -> None:
    model = bh.compile({f"key {n}": str(n) for n in range(20)}, method="retrieval", shards=60)
    assert model.predict("key 7") == "7"


def test_fewer_neurons_than_contexts_are_refused() -> None:
    example = get("madden-2024").example
    assert example is not None
    with refused(AssumptionViolated, n_neurons=3, n_contexts=15):
        bh.compile(example().data, method="madden-2024", hidden_width=3)


def test_texts_longer_than_any_llama_are_not_sized() -> None:
    shape = DataShape(1000, 40_000, 4, vocab=1000, ordered=True)
    with pytest.raises(AssumptionViolated):
        get("llama").estimate(shape)


def test_a_wrong_network_is_laid_to_the_options_first() -> None:
    example = get("madden-2024").example
    assert example is not None
    with refused(DoesNotHold, "certificate"):
        bh.compile(example().data, method="madden-2024", margin=1e-3)


def test_a_setting_nested_without_end_is_a_text() -> None:
    assert _setting("B=" + "[" * 100_000) == ("B", "[" * 100_000)
