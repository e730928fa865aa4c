"""Architecture files (`bounds --config`) with odd values: of every family, as text and as bytes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from byheart.bounds.architecture import _READERS
from tests.attacks.fuzz.mutation import mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, run_command

USUAL = {
    "vocab_size": 100,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [0],
    "shared_expert_intermediate_size": 8,
    "tie_word_embeddings": False,
    "attention_bias": True,
    "hidden_act": "silu",
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "d_model": 8,
    "d_kv": 4,
    "d_ff": 16,
    "num_layers": 2,
    "num_heads": 2,
}
LITERALS = ("NaN", "Infinity", "1e999", "9" * 10_000, "[" * 100_000, '{"a":' * 100_000, "1.0", "-0")


class Architectures(Target):
    """Architecture files with odd values."""

    name, share = "architectures", 4

    def prepare(self, folder: Path) -> None:
        self.seeds = [
            USUAL | {"model_type": family, "architectures": [f"{family}Model"]} for family in _READERS
        ]
        for number, seed in enumerate(self.seeds):
            (folder / f"{number}.json").write_text(json.dumps(seed))
            run_command("bounds", "--config", str(folder / f"{number}.json"))

    def attack(self, random: Random, folder: Path) -> str:
        seed = random.choice(self.seeds)
        if random.random() < 0.8:
            content = mutate_document(seed, random)
        elif random.random() < 0.5:
            content = mutate_bytes(json.dumps(seed).encode(), random)
        else:
            field = random.choice(list(seed))
            content = json.dumps(seed | {field: "@"}).replace('"@"', random.choice(LITERALS)).encode()
        path = folder / "config.json"
        path.write_bytes(content)
        run_command("bounds", "--config", str(path), *random.choice(([], ["--json"])))
        return "taken"
