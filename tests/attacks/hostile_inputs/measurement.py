"""What one case takes.

A case runs in a process of its own, forked from one that has imported everything. Measured are the time of the processor from
there to the end, children included, and the most memory that the process holds at once, the packages (some 650 MB) included.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from byheart.cli.main import run
from byheart.errors import ExitStatus
from byheart.pipeline import load
from tests.attacks.hostile_inputs.case import CAPITALS, CASES, FIXTURES, run_case

MOST_SECONDS, MOST_BYTES = 2.0, 10**9


@dataclass(frozen=True)
class Taken:
    """What one case took: bytes of the input, exit status, seconds of the processor, bytes of memory at once."""

    name: str
    command: str
    input_bytes: int
    status: int
    seconds: float
    memory_bytes: int

    @property
    def is_small(self) -> bool:
        return (
            self.status not in (ExitStatus.CRASH, -1)
            and self.seconds < MOST_SECONDS
            and self.memory_bytes < MOST_BYTES
        )


def measure(name: str, folder: Path, limit: int | None = None) -> Taken:
    """Make one input, and run its command in a process of its own, which may take `limit` bytes more than it has, if given."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    maker = os.fork()  # making it may take more than reading it
    if maker == 0:
        _silence()
        (folder / ".command").write_text(json.dumps(CASES[name](folder)))
        os._exit(0)
    if os.waitpid(maker, 0)[1]:
        raise RuntimeError(f"{name} cannot be made")
    command = json.loads((folder / ".command").read_text())
    (folder / ".command").unlink()
    n_bytes = sum(
        path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    child = os.fork()
    if child == 0:
        _silence()
        if limit is not None:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (mapped + limit, mapped + limit))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        status = ExitStatus.CRASH
        try:
            status = run_case(name, command)
        finally:
            os._exit(status)
    _, ended, used = os.wait4(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    return Taken(
        name,
        command[0],
        n_bytes,
        status if status >= 0 else -1,
        round(used.ru_utime + used.ru_stime, 3),
        used.ru_maxrss * 1024,
    )


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process


def warm_up(folder: Path) -> None:
    """Import what commands import, so that no case pays for it."""
    import pyarrow  # noqa: F401  # the import is the warm-up
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM  # noqa: F401 - loaded only when named

    import byheart.graft.workflow
    import byheart.reproduce.figure_files  # noqa: F401  # the import is the warm-up

    torch.set_num_threads(1)
    for fixture in ("transformer-exact", "retrieval-float64", "llama-facts", "schema-1-float64"):
        load(FIXTURES / fixture).predict(["capital of France"])
    warm = os.fork()
    if warm == 0:
        _silence()
        run(["compile", str(CAPITALS), "-q", "-o", str(folder / "warm")])
        os._exit(0)
    os.waitpid(warm, 0)
