from __future__ import annotations

from pathlib import Path

import pytest
import torch

from byheart.golden.family import make
from byheart.golden.shape import Shape

SMALL = (
    Shape("llama", "llama", 2, 32, 40, 4, 2, 8, vocab=24, seed=1),
    Shape(
        "qwen3",
        "qwen3",
        1,
        32,
        40,
        4,
        4,
        16,
        vocab=24,
        norm_eps=1e-6,
        is_tied=True,
        dtype="bfloat16",
        seed=5,
    ),
)
COUNTS = {"float32": 6, "float16": 2, "bfloat16": 2}


@pytest.fixture(scope="session")
def small_family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A family like the real one, from fewer prompts, so that it is made in seconds."""
    for package in ("gguf", "transformers"):
        pytest.importorskip(package, reason=f"the package {package} is not installed")
    folder = tmp_path_factory.mktemp("golden") / "family"
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    make(folder, family=SMALL, counts=COUNTS, lengths=(5, 11))
    torch.set_num_threads(n_threads)
    return folder
