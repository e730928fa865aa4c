"""Limits on the resources of the machine that the page may use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

MIB = 1 << 20


def _half_of_memory() -> int:
    """Return half of the machine's memory, or 4 GiB if that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 4 << 30


@dataclass(frozen=True)
class Limits:
    """The limits on what the page may use.

    A request beyond a limit is refused, and a task beyond a limit is ended, with a message. But jobs beyond `n_running` wait, and
    the oldest ended jobs beyond `n_kept` are removed.

    upload_bytes      size of one uploaded file
    request_bytes     size of any other request body
    n_data            number of uploaded files
    n_models          number of models in the folder
    n_running         number of jobs that run at a time, each in its own process
    n_waiting         number of jobs in the queue
    n_kept            number of ended jobs that are stored
    job_seconds       time for one job
    question_seconds  time for one request that is no job, such as a question, a trace or a plan
    memory_bytes      memory for the data of one worker process; not limited on Windows
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
