"""Run the Rust code that reads a `tokenizer.json` in its own process: a file may make it abort, hang or use up memory.

The process imports the package `tokenizers` and nothing of ours. It is started at the first question, and again after a fork.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from byheart.errors import MalformedFile, require_extra
from byheart.process.child import ChildEnded, JsonChild
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
    """The package refused a text; `row` is its number."""

    def __init__(self, reason: str, row: int) -> None:
        """Keep the package's words."""
        super().__init__(reason)
        self.row = row


class TokenizerProcess:
    """A tokenizer that runs elsewhere. Threads may share it."""

    def __init__(self, document: str) -> None:
        """Keep the document; the process starts at the first question."""
        self.document = document
        self._lock = threading.Lock()
        self._child: JsonChild | None = None

    def __reduce__(self) -> tuple[type[TokenizerProcess], tuple[str]]:
        return TokenizerProcess, (self.document,)

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""
        with self._lock:
            return dict(self._start())

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        return list(self._ask({"texts": texts}))

    def decode(self, rows: list[list[int]], *, skip_special: bool) -> list[str]:
        """A text for each row of ids."""
        return list(self._ask({"rows": rows, "skip_special": skip_special}))

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            if self._child is None or not self._child.is_alive:
                self._start()
            return self._exchange(question)

    def _start(self) -> Any:
        """Start the process and hand it the document; the vocabulary is its first answer."""
        require_extra("tokenizers", "tokenizers", "a tokenizer.json")
        if self._child is not None:
            self._child.close()
        self._child = JsonChild(
            [sys.executable, "-P", "-c", _PROGRAM, str(memory_limit() + _ROOM)],
            env={"TOKENIZERS_PARALLELISM": "false"},
            errors="surrogatepass",
            hides_errors=True,
        )
        return self._exchange({"document": self.document})

    def _exchange(self, question: dict[str, Any]) -> Any:
        assert self._child is not None
        try:
            found = self._child.ask(question, seconds=SECONDS)
        except ChildEnded as error:
            how = f"exit status {error.status}"
            if error.status < 0:
                how = signal.Signals(-error.status).name
                how += f", after {SECONDS:g} s or for lack of memory" if how == "SIGKILL" else ""
            raise MalformedFile(
                f"the package tokenizers ended ({how}) while it worked with this tokenizer.json.\n"
                "  The file asks for something impossible, such as a text that grows without end; use another.",
                exit_status=error.status,
            ) from error
        if "refused" in found:
            raise RefusedText(found["refused"], found["row"])
        return found["found"]
