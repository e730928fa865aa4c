"""A worker process. It reads requests from standard input, one JSON document per line, and answers on standard output.

Each answer is one of {"progress": [done, total, stage]}, {"result": ...} and {"error": ...}; the last two end a
request. When the server ends, standard input closes, and the worker ends. If one long computation keeps it busy, the janitor
ends it.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from byheart.errors import as_byheart_error
from byheart.process.liveness import end_tree
from byheart.records.json_values import json_default
from byheart.web.context import Context
from byheart.web.tasks import TASKS

PROGRESS_SECONDS = 0.1


def serve_requests(memory_bytes: int) -> None:
    """Serve requests until standard input closes. Except on Windows, the system is told to limit the memory for the data of this
    process (RLIMIT_DATA) to `memory_bytes`.
    """
    _limit_memory(memory_bytes)
    # Only answers go to the server. Everything that code prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    while True:
        _answer(json.loads(requests.get()), answers)


def _read(requests: queue.Queue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    end_tree(os.getpid())


def _answer(request: dict[str, Any], answers: IO[str]) -> None:
    last = 0.0

    def progress(done: int, total: int, stage: str = "", /) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_SECONDS or done >= total:
            last = now
            _write({"progress": [done, total, stage]}, answers)

    try:
        result = TASKS[request["task"]](Context(progress), **request["arguments"])
        _write({"result": result}, answers)
    except Exception as error:
        _write({"error": describe_error(error, request["arguments"])}, answers)


def describe_error(error: Exception, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the error document that the command line prints with --json. Data files are named without their folders."""
    known = as_byheart_error(error)
    if known is not None:
        message = _without_folders(str(known), arguments or {})
        facts = {name: _without_folders(str(value), arguments or {}) for name, value in known.facts.items()}
        document = {"error": type(known).__name__, "message": message, "facts": facts}
        # the page offers options for each kind of faulty row, and a choice of columns
        choices = {name: known.facts[name] for name in ("faults", "columns") if known.facts.get(name)}
        return {**document, "status": int(known.exit_status), **choices}
    traceback.print_exc()
    message = (
        f"{str(error) or type(error).__name__}\n"
        "  This is a bug in byheart. The terminal that runs `byheart serve` shows where it "
        "happened."
    )
    return {"error": type(error).__name__, "message": message, "facts": {}, "status": 1}


def _without_folders(text: str, arguments: Mapping[str, Any]) -> str:
    # the paths of data files are internal to the server
    for value in (arguments.get("path"), arguments.get("data")):
        text = text if not value else text.replace(str(value), Path(value).name)
    return text


def _write(document: dict[str, Any], answers: IO[str]) -> None:
    text = json.dumps(document, allow_nan=False, default=json_default)
    answers.write(text + "\n")
    answers.flush()


def _limit_memory(n_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
