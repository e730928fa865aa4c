"""Choose the device on which PyTorch computes, and compute how much of its free memory may be used."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from byheart.errors import UsageError

SHARE_OF_FREE_MEMORY = {"cpu": 0.5, "cuda": 0.8}
"""The types of devices that may be used, and the share of the free memory that may be used on each."""


def choose_device(name: str = "auto") -> torch.device:
    """Return the device with this name; `auto` means a GPU if there is one. Raise `UsageError` if the device is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device `{name}`; use auto, cpu or cuda.", device=name) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("no CUDA device is available here; use the device cpu or auto.", device=name)
    if device.type == "cuda" and (device.index or 0) >= (n_devices := torch.cuda.device_count()):
        raise UsageError(
            f"there is no device `{name}`; the number of CUDA devices here is {n_devices}, and they are counted from 0.",
            device=name,
            n_devices=n_devices,
        )
    if device.type not in SHARE_OF_FREE_MEMORY:
        raise UsageError(f"there is no device `{name}`; use auto, cpu or cuda.", device=name)
    return device


def device_name(device: torch.device) -> str:
    """Return a description of the device for the record."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({os.cpu_count()} cores)"


def free_bytes(device: torch.device) -> int:
    """Return how many bytes of the device's free memory may be used."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _available_memory()
    return int(free * SHARE_OF_FREE_MEMORY[device.type])


def _available_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 << 30  # if the system does not report it
