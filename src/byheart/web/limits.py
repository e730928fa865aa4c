"""How much of the machine's resources the page may use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

MIB = 1 << 20


def _half_of_memory() -> int:
    """Half of the machine's memory; 4 GiB where that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 4 << 30


@dataclass(frozen=True)
class Limits:
    """Sizes, numbers, seconds and memory; anything beyond is refused with a message.

    upload_bytes      one uploaded file
    request_bytes     any other request body
    n_data            uploaded files kept
    n_models          models in the folder
    n_running         jobs at a time, each in a process of its own
    n_waiting         jobs in the queue
    n_kept            ended jobs remembered
    job_seconds       one job
    question_seconds  one question, trace or plan
    memory_bytes      one worker process
    """

    upload_bytes: int = 64 * MIB
    request_bytes: int = MIB
    n_data: int = 100
    n_models: int = 1000
    n_running: int = 2
    n_waiting: int = 30
    n_kept: int = 200
    job_seconds: float = 3600.0
    question_seconds: float = 60.0
    memory_bytes: int = field(default_factory=_half_of_memory)
