"""A compiled module as a layer on a GPU: equal bits for every fact, whatever a program does with it.

    python benchmarks/layer_on_device.py compile                 # the capitals and 10,000 token sequences; into out/layer_on_device
    python benchmarks/layer_on_device.py check [--device cuda]   # on any machine with torch and numpy that has the folder

`check` moves the module to the device inside a program of its own, takes an AdamW step, copies it, replicates it as DataParallel
does, runs it under autocast, compiles it (on a CPU by the eager backend), and casts it to half precision, which must be refused.
Exit status 1 if a bit differs or the cast is not refused.
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import bare_machine
import numpy as np
import torch
from torch import nn

from byheart.errors import UsageError
from byheart.network.compiled_module import freeze
from byheart.network.transformer.module import to_module

FOLDER = Path("out/layer_on_device")


class Program(nn.Module):
    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        self.memory, self.scale = memory, nn.Linear(1, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.memory(ids)[:, -1, 0])


def write() -> None:
    import byheart as bh
    from byheart.data.generators import random_tokens

    capitals = bh.Dataset.read(bare_machine.ROOT / "examples" / "capitals.csv")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in (("capitals", capitals), ("tokens", random_tokens(10_000, 8, 1000, 16, seed=0))):
        memoriser = bh.compile(data).memoriser
        case = {
            "network": memoriser.network,
            "inputs": memoriser.encode(data.inputs),
            "labels": memoriser.expected_labels(data),
        }
        (FOLDER / f"{name}.pkl").write_bytes(pickle.dumps(case))


def check(case: dict[str, Any], device: str) -> dict[str, bool]:
    ids = torch.from_numpy(np.array(case["inputs"])).to(device)
    program = Program(freeze(to_module(case["network"]))).to(device)

    def is_right(module: nn.Module) -> bool:
        with torch.no_grad():
            return bool((module(ids).cpu().numpy() == case["labels"] + 1).all())

    found = {"to device": is_right(program)}
    optimiser = torch.optim.AdamW(program.parameters(), lr=0.1, weight_decay=0.5)
    program.scale(torch.ones(1, 1, device=device)).sum().backward()
    optimiser.step()
    found["one AdamW step"] = is_right(program)
    found["deepcopy"] = is_right(copy.deepcopy(program))
    if device.startswith("cuda"):
        found["DataParallel"] = is_right(nn.DataParallel(program))
        found["replica"] = is_right(nn.parallel.replicate(program, [torch.device(device).index or 0])[0])
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(torch.device(device).type, dtype):
            found[f"autocast to {str(dtype).removeprefix('torch.')}"] = is_right(program)
    found["torch.compile"] = is_right(
        torch.compile(program, backend="inductor" if device.startswith("cuda") else "eager")
    )
    try:
        copy.deepcopy(program).half()(ids)
        found["half is refused"] = False
    except UsageError:
        found["half is refused"] = True
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("compile", "check"))
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    if given.step == "compile":
        write()
        return 0
    paths = sorted(FOLDER.glob("*.pkl"))
    found = {path.stem: check(pickle.loads(path.read_bytes()), given.device) for path in paths}
    print(json.dumps({"torch": torch.__version__, "device": given.device, "cases": found}, indent=1))
    return 0 if found and all(all(case.values()) for case in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
