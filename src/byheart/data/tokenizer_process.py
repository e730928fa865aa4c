"""The Rust code that reads a `tokenizer.json`, in a process of its own: a file may make it abort, hang or eat memory.

The process imports the package `tokenizers` and nothing of ours. It is started at the first question, is asked over pipes, ends
with this process, and is started again after a fork. A question and its answer are JSON, one line each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any

from byheart.errors import MalformedFile, require_extra
from byheart.process.memory_limit import memory_limit

SECONDS = 60.0
"""For one question. A batch of texts of ordinary size takes a small part of it."""

_PROGRAM = """
import json, sys
try:
    import resource
    n_bytes = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError, OSError):
    pass
from tokenizers import Tokenizer
tokenizer = None
for line in sys.stdin:
    asked, found = json.loads(line), []
    try:
        if "document" in asked:
            tokenizer = Tokenizer.from_str(asked["document"])
            found = tokenizer.get_vocab(with_added_tokens=True)
        elif "texts" in asked:
            for text in asked["texts"]:
                found.append(tokenizer.encode(text, add_special_tokens=False).ids)
        else:
            for ids in asked["rows"]:
                found.append(tokenizer.decode(ids, skip_special_tokens=asked["skip_special"]))
        answer = {"found": found}
    except BaseException as error:  # the package raises bare Exception, and panics that are not even that
        answer = {"refused": str(error), "row": len(found)}
    print(json.dumps(answer), flush=True)
"""
_ROOM = 2**30  # addresses that the interpreter and the package take for themselves


class RefusedText(Exception):
    """The package refused what it was asked; `row` is the number of the text that it refused."""

    def __init__(self, reason: str, row: int) -> None:
        """Keep the package's words."""
        super().__init__(reason)
        self.row = row


class TokenizerProcess:
    """A tokenizer that runs elsewhere. Threads may share it."""

    def __init__(self, document: str) -> None:
        """Nothing is started yet."""
        self.document = document
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def __reduce__(self) -> tuple[type[TokenizerProcess], tuple[str]]:
        return TokenizerProcess, (self.document,)

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""
        with self._lock:
            if self._process is not None:
                self._end()
            return dict(self._start())

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        return list(self._ask({"texts": texts}))

    def decode(self, rows: list[list[int]], *, skip_special: bool) -> list[str]:
        """A text for each row of ids."""
        return list(self._ask({"rows": rows, "skip_special": skip_special}))

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._start()
            return self._exchange(question)

    def _start(self) -> Any:
        """Start the process and hand it the document; the vocabulary is its first answer."""
        require_extra("tokenizers", "tokenizers", "a tokenizer.json")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(memory_limit() + _ROOM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="surrogatepass",
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        self._owner = os.getpid()
        weakref.finalize(self, _close, self._process, self._owner)
        return self._exchange({"document": self.document})

    def _exchange(self, question: dict[str, Any]) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        answer = ""
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        timer.cancel()
        if not answer.endswith("\n"):
            raise self._lost_process()
        found = json.loads(answer)
        if "refused" in found:
            raise RefusedText(found["refused"], found["row"])
        return found["found"]

    def _lost_process(self) -> MalformedFile:
        status = self._end()
        how = f"exit status {status}"
        if status is not None and status < 0:
            how = signal.Signals(-status).name
            how += f", after {SECONDS:g} s or for lack of memory" if how == "SIGKILL" else ""
        return MalformedFile(
            f"the package tokenizers ended ({how}) while it worked with this tokenizer.json.\n"
            "  The file asks for something impossible, such as a text that grows without end; use another.",
            exit_status=status,
        )

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        _close(process, self._owner)
        return process.returncode


def _close(process: subprocess.Popen[str], owner: int) -> None:
    """End the process, if it is a child of this one."""
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
