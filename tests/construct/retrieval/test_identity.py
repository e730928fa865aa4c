"""The same weights give the same bits: threads, batch sizes, compilers. (ONNX Runtime: tests/export/test_onnx.py; other devices:
benchmarks/retrieval_identity.py.)"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens
from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.module import run_module, to_module
from tests.construct.retrieval.layouts import memorise

# six tokens: a sixth is no float, so the average may not be taken by a rounded reciprocal
CASES = {"grid": grid_vectors(500, seed=1), "tokens": random_tokens(500, 6, 60, seed=1)}


def _network(data: Dataset, precision: str) -> tuple[Transformer, np.ndarray]:
    memoriser = memorise(data, {"precision": precision}, 0).memoriser
    return memoriser.network, memoriser.encode(data.inputs)


COMPUTED = {"float64": np.float64, "float32": np.float32, "int8": np.float32, "bfloat16": np.float32}


@pytest.mark.parametrize(
    "precision",
    ["float64", "int8", *(pytest.param(p, marks=pytest.mark.slow) for p in ("float32", "bfloat16"))],
)
@pytest.mark.parametrize("name", CASES)
def test_threads_and_batches_change_no_bit(name: str, precision: str) -> None:
    data = CASES[name]
    network, encoded = _network(data, precision)
    expected = (data.labels + 1).astype(COMPUTED[precision])
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for batch_size, n in ((1, 50), (7, 300), (4096, 500)):
                outputs = run_module(network, encoded[:n], last_only=True, batch_size=batch_size)
                assert outputs.tobytes() == expected[:n].tobytes()
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("precision", COMPUTED)
@pytest.mark.parametrize("name", CASES)
def test_torch_compile_changes_no_bit(name: str, precision: str) -> None:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler, and there is none")
    data = CASES[name]
    network, encoded = _network(data, precision)
    module = to_module(network).eval()
    torch.compiler.reset()
    compiled = torch.compile(module, dynamic=False, fullgraph=True)
    inputs = torch.from_numpy(np.array(encoded))
    if module.embedding is None:
        inputs = inputs.to(module.w_in.dtype)
    with torch.no_grad():
        outputs = compiled(inputs, True)[:, -1, 0].numpy()
    assert outputs.tobytes() == (data.labels + 1).astype(COMPUTED[precision]).tobytes()
