"""Inputs near a key are unknown too: the share that is answered stays below twice what the reject bits promise."""

from __future__ import annotations

import numpy as np
import pytest

import byheart as bh
from byheart.data.generators import random_tokens
from byheart.network.memoriser import UNKNOWN

REJECT_BITS = 8
N_INPUTS = 20_000


def exchange(keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two tokens of a key exchanged."""
    rows, columns = np.arange(len(keys)), np.argsort(rng.random(keys.shape), axis=1)[:, :2]
    changed = keys.copy()
    changed[rows, columns[:, 0]], changed[rows, columns[:, 1]] = (
        keys[rows, columns[:, 1]],
        keys[rows, columns[:, 0]],
    )
    return changed


def rotate(keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A token moved to another place, those between shifted by one."""
    changed = keys.copy()
    ends = np.sort(rng.integers(0, keys.shape[1] + 1, (len(keys), 2)), axis=1)
    for row, (start, end) in zip(changed, ends, strict=True):
        row[start:end] = np.roll(row[start:end], 1)
    return changed


def change_one(keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = keys.copy()
    columns = rng.integers(0, keys.shape[1], len(keys))
    changed[np.arange(len(keys)), columns] = rng.integers(0, 20, len(keys))
    return changed


@pytest.fixture(scope="module")
def model() -> tuple[bh.Model, np.ndarray]:
    data = random_tokens(300, 12, 20, 4, seed=0)
    keys = data.inputs.pad(0, 12)
    return bh.compile(data, method="retrieval", precision="float64", reject_bits=REJECT_BITS), keys


@pytest.mark.parametrize("disturb", [exchange, rotate, change_one])
def test_near_misses_are_turned_away(disturb, model: tuple[bh.Model, np.ndarray]) -> None:
    compiled, keys = model
    rng = np.random.default_rng(1)
    asked = disturb(keys[rng.integers(0, len(keys), N_INPUTS)], rng)
    stored = {row.tobytes() for row in keys}
    unknown = np.array([row for row in asked if row.tobytes() not in stored])
    answers = compiled.memoriser.answer(unknown, backend="module")
    # a share of 2^-8 is expected: 60 to 78 of 20,000; 2 · 2^-8 lies more than 8 standard deviations above
    assert (answers != UNKNOWN).mean() < 2 * 2.0**-REJECT_BITS
    assert len(unknown) > N_INPUTS // 2
