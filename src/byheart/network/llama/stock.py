"""Run a Llama with Hugging Face transformers.

There are two ways: generate greedily in left-padded batches with the key-value cache, or read whole texts without the cache.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from byheart.errors import import_extra
from byheart.network.llama.architecture import Llama
from byheart.network.llama.checkpoint import config_of
from byheart.process.package_loading import imports_told
from byheart.process.progress import Progress, Steps

GENERATES, FOLLOWS = "sdpa", "eager"
"""Attention implementations of transformers: the first generates with the cache, the second reads whole texts without it. Both must
yield the same tokens."""
_LLAMA = "transformers.models.llama.modeling_llama"
_PACKAGES = {"torch": 800, _LLAMA: 1700}
"""The packages to import, with the approximate number of modules that each loads."""
LOGITS = 1 << 24
"""Maximum number of logits held in memory at a time."""


def attention_run(llama: Llama) -> str:
    """Return a text that names the attention implementations with which `llama` is verified, and says which use the cache."""
    if llama.spec.mode == "texts":
        return f"{GENERATES} without the cache"
    return f"{GENERATES} with the cache, {FOLLOWS} without"


def load_transformers(progress: Progress | None) -> None:
    """Import the packages that run a Llama, which takes seconds the first time."""
    steps = Steps(progress, _PACKAGES)
    for package, n_modules in _PACKAGES.items():
        with imports_told(steps.begin(package), n_modules):
            import_extra(package, "huggingface", "running a Llama in transformers")


def seconds_to_load() -> float:
    """Return the approximate time to load transformers on two cores. It is almost zero if transformers is already loaded."""
    return 0.2 if _LLAMA in sys.modules else 8.0


def transformers_model(llama: Llama, attention: str = GENERATES) -> Any:
    """Return the checkpoint as transformers would load it. It shares the memory of the weights."""
    import torch

    transformers = import_extra("transformers", "huggingface", "running a Llama in transformers")
    config = transformers.LlamaConfig(**config_of(llama.spec), attn_implementation=attention)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    state = {name: torch.from_numpy(array) for name, array in llama.weights.items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def generate_batch(model: Any, llama: Llama, prompts: list[list[int]], n_most: int) -> list[list[int]]:
    """Return the tokens that `model.generate` produces after each prompt, at most `n_most`. The end token is left out."""
    import torch

    from byheart.network.compiled_module import own_precision

    eos, longest, device = llama.spec.eos, max(map(len, prompts)), model.device
    ids = torch.tensor([[eos] * (longest - len(p)) + p for p in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    with torch.no_grad(), own_precision(ids):
        out = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=n_most,
            do_sample=False,
            pad_token_id=eos,
            eos_token_id=list(llama.spec.ends),
        )
    return [row[: row.index(eos)] if eos in row else row for row in out[:, longest:].tolist()]


def tokens_after(
    model: Any, ids: Int[np.ndarray, "batch seq"], asked: Bool[np.ndarray, "batch seq"]
) -> Int[np.ndarray, " n_asked"]:
    """Return the tokens that the model predicts at the positions that `asked` marks, without using its cache."""
    import torch

    from byheart.network.compiled_module import own_precision

    given, marked = torch.from_numpy(ids).to(model.device), torch.from_numpy(asked).to(model.device)
    step = max(1, LOGITS // model.config.vocab_size)
    with torch.no_grad(), own_precision(given):
        hidden = model.model(given, use_cache=False).last_hidden_state[marked]
        parts = [model.lm_head(hidden[i : i + step]).argmax(-1).cpu() for i in range(0, len(hidden), step)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part.numpy() for part in parts)])
