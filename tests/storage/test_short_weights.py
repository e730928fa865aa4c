"""Weights in int8 and bfloat16 are loaded again to the bit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from byheart.errors import CorruptModel
from byheart.network import FeedForward, Transformer
from byheart.network.weight_format import BFLOAT16, FLOAT32, Storage, smallest_format
from byheart.storage import load_folder, save_folder
from byheart.storage.tensor_file import read_header, write_tensors
from tests.refusal import refused

from .test_folder import RECORD, memory_of

WEIGHTS = "model.safetensors"


def short_network(precision: Literal["int8", "bfloat16"]) -> Transformer:
    """Weights of seven bits: whole numbers in each row for int8, with an exponent of its own."""
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        exponents = rng.integers(-3, 4, size=(shape[0], *[1] * (len(shape) - 1)))
        return np.ldexp(rng.integers(-100, 100, size=shape).astype(np.float32), exponents)

    layer = FeedForward(draw(4, 3), draw(4), draw(3, 4), draw(3))
    network = Transformer(draw(3, 2), (layer,), draw(1, 3), seq_len=4)
    arrays = [np.asarray(weights) for _, weights in network.parameters()]
    formats = (FLOAT32, *map(smallest_format, arrays[1:-1]), FLOAT32)  # embeddings and outputs stay whole
    return replace(network, storage=Storage(precision, formats if precision == "int8" else (BFLOAT16,) * 6))


@pytest.mark.parametrize(("precision", "dtype"), [("int8", "I8"), ("bfloat16", "BF16")])
def test_short_weights_come_back_to_the_bit(
    tmp_path: Path, precision: Literal["int8", "bfloat16"], dtype: str
) -> None:
    network = short_network(precision)
    save_folder(tmp_path / "m", memory_of(network), RECORD, None)
    again = load_folder(tmp_path / "m")[0].network
    assert again.precision == precision
    for (name, old), (same, new) in zip(network.parameters(), again.parameters(), strict=True):
        assert name == same
        assert (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())
    with safe_open(tmp_path / "m" / WEIGHTS, framework="pt") as file:
        stored = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    assert dtype in stored.values()
    has_exponents = {name for name in stored if name.endswith(".exponents")}
    assert bool(has_exponents) == (precision == "int8")
    assert all(stored[name] == "I8" for name in has_exponents)


@pytest.mark.parametrize("change", [
    lambda t: t.pop("layers.0.w1.exponents"), lambda t: t.update(extra=t["layers.0.w1"]),
    lambda t: t.update({"layers.0.w1.exponents": t["layers.0.w1.exponents"].astype(np.int16)}),
    lambda t: t.update({"layers.0.w1.exponents": np.append(t["layers.0.w1.exponents"], t["layers.0.w1.exponents"])}),
    lambda t: t.update({"layers.0.w1": t["layers.0.w1"].astype(np.int16)}),
    lambda t: t.update({"layers.0.w1": t["layers.0.w1"].T.copy()}),
])  # fmt: skip
def test_a_lie_in_short_weights_is_refused(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any]
) -> None:
    save_folder(tmp_path / "m", memory_of(short_network("int8")), RECORD, None)
    tensors = load_file(tmp_path / "m" / WEIGHTS)
    change(tensors)
    write_tensors(tmp_path / "m" / WEIGHTS, tensors)
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
        load_folder(tmp_path / "m")


def test_short_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", memory_of(short_network("bfloat16")), RECORD, None)
    file = tmp_path / "m" / WEIGHTS
    stored = read_header(file)["w_in"]
    raw = bytearray(file.read_bytes())
    raw[stored.start : stored.start + 2] = struct.pack("<H", 0x7F80)  # the infinity of bfloat16
    file.write_bytes(raw)
    with refused(CorruptModel, "problem", file=str(file)):
        load_folder(tmp_path / "m")
