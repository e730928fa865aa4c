"""Check on random prompts that TransformerLens, which can open the folder of a Llama directly, computes the same logits as
transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from byheart.errors import import_extra
from byheart.network.llama.architecture import Llama
from byheart.network.llama.stock import transformers_model


def open_bridge(folder: Path) -> Any:
    """Open a model folder as a `TransformerBridge` of TransformerLens, which has hooks on every part of the network."""
    bridges = import_extra("transformer_lens.model_bridge", "lens", "TransformerLens")
    return bridges.TransformerBridge.boot_transformers(str(folder), device="cpu")


def count_different_logits(folder: Path, llama: Llama, n_prompts: int = 100, seed: int = 0) -> int:
    """Run random prompts in TransformerLens and in transformers, and return the number of logits that differ."""
    import torch

    spec = llama.spec
    rng = np.random.default_rng(seed)
    # use ordinary tokens only; the special tokens have the ids after them
    ids = rng.integers(0, spec.bos, (n_prompts, min(24, spec.seq_len)))
    ids[:, 0] = spec.bos
    tokens = torch.from_numpy(ids)
    with torch.no_grad():
        ours = transformers_model(llama)(tokens).logits
        theirs = open_bridge(folder)(tokens)
    return int((ours != theirs).sum())
