"""Checkpoints of others: hosts of grafts, grafts and golden folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.attacks.hostile_inputs.case import MIB, case
from tests.attacks.hostile_inputs.changes import edit, text, write
from tests.golden.test_hostile_cases import write as write_golden
from tests.graft.hosts import save_host
from tests.graft.test_hostile_gguf import HOSTILE


def host(name: str, change: Callable[[Path], object], *command: str) -> None:
    def make(folder: Path) -> list[str]:
        save_host(folder / "host")
        change(folder / "host")
        (folder / "facts.csv").write_text("key,value\nThe capital of France is,Paris.\n")
        return [each.replace("FOLDER", str(folder)) for each in command]

    case(name)(make)


GRAFT = ("graft", "FOLDER/host", "FOLDER/facts.csv", "-o", "FOLDER/out")
host("host: a width of 2^17", edit("config.json", hidden_size=2**17), *GRAFT)
host("host: code of its own", edit("config.json", auto_map={"AutoModel": "x.py"}), *GRAFT)
host(
    "host: a header of 2^40 bytes",
    write("model.safetensors", (2**40).to_bytes(8, "little") + b"{}"),
    "detect",
    "FOLDER/host",
)
text(
    "golden: a checkpoint of 2^60 layers",
    "golden/family.json",
    json.dumps(
        {
            "checkpoints": {
                "x": {
                    "name": "x",
                    "architecture": "llama",
                    "n_layers": 2**60,
                    "hidden": 8,
                    "inner": 8,
                    "n_heads": 1,
                    "n_kv_heads": 1,
                    "head_dim": 8,
                }
            }
        }
    ),
    "golden",
    "check",
    "FOLDER/golden",
    "--engine",
    "transformers",
)
text(
    "golden: five million brackets",
    "golden/family.json",
    "[" + "[]," * 5 * MIB + "0]",
    "golden",
    "check",
    "FOLDER/golden",
    "--engine",
    "transformers",
)


@case("golden: a case of a million tokens")
def golden_case(folder: Path) -> list[str]:
    write_golden(folder, prompt=[5] * 10**6)
    return ["golden", "check", str(folder), "--engine", "transformers"]


host("host: 2^40 positions", edit("config.json", max_position_embeddings=2**40), *GRAFT)
host("host: 2^20 positions", edit("config.json", max_position_embeddings=2**20), *GRAFT)
host(
    "host: an index of 100,000 files",
    write(
        "model.safetensors.index.json",
        json.dumps({"weight_map": {f"w{i}": f"{i}.safetensors" for i in range(10**5)}}).encode(),
    ),
    "detect",
    "FOLDER/host",
)
host(
    "graft: a record of 100,000 files",
    write(
        "graft.json",
        json.dumps({"host": {f"f{i}": "0" * 64 for i in range(10**5)}, "layers": [2, 3]}).encode(),
    ),
    "graft",
    "--remove",
    "FOLDER/host",
    "-o",
    "FOLDER/out",
)
for name in ("2^60 bytes in a list", "2^60 texts in a list", "2^60 settings", "a tensor of 2^124 numbers"):
    host(
        f"GGUF host: {name}",
        write("../host.gguf", HOSTILE[name]),
        "graft",
        "FOLDER/host.gguf",
        "FOLDER/facts.csv",
        "-o",
        "FOLDER/out",
    )
