"""Run the package `tokenizers` in a separate process, because a `tokenizer.json` can make the Rust code of the package abort,
hang or use up memory.

The separate process imports `tokenizers` and nothing from byheart. It is started at the first request. If it has ended, or if it
belongs to another process because of a fork, the next request starts a new one.
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
"""The time limit of one request. A batch of texts of usual size takes a small part of this time."""

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
                found.append(tokenizer.encode(text, add_special_tokens=asked["add_special"]).ids)
        else:
            for ids in asked["rows"]:
                found.append(tokenizer.decode(ids, skip_special_tokens=asked["skip_special"]))
        answer = {"found": found}
    except BaseException as error:  # an error of the package is an Exception, but a panic is only a BaseException
        answer = {"refused": str(error), "row": len(found)}
    print(json.dumps(answer), flush=True)
"""
_ROOM = 2**30  # address space that the interpreter and the package need for themselves


class RefusedText(Exception):
    """The package `tokenizers` refused the tokenizer.json, a text or a list of ids. `row` is the index of the text or list in the
    request.
    """

    def __init__(self, reason: str, row: int) -> None:
        """Store the message of the package, and the index of the text or list of ids that it refused."""
        super().__init__(reason)
        self.row = row


class TokenizerProcess:
    """A tokenizer that runs in another process. Threads may share it."""

    def __init__(self, document: str) -> None:
        """Store `document`, the content of a tokenizer.json. The process starts at the first request."""
        self.document = document
        self._lock = threading.Lock()
        self._child: JsonChild | None = None

    def __reduce__(self) -> tuple[type[TokenizerProcess], tuple[str]]:
        return TokenizerProcess, (self.document,)

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token."""
        with self._lock:
            return dict(self._start())

    def encode(self, texts: list[str], *, add_special: bool = False) -> list[list[int]]:
        """Return the ids of each text. `add_special` adds the special tokens of the tokenizer's template."""
        return list(self._ask({"texts": texts, "add_special": add_special}))

    def decode(self, rows: list[list[int]], *, skip_special: bool) -> list[str]:
        """Return the text of each row of ids. `skip_special` leaves out special tokens."""
        return list(self._ask({"rows": rows, "skip_special": skip_special}))

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            if self._child is None or not self._child.is_alive:
                self._start()
            return self._exchange(question)

    def _start(self) -> Any:
        """Start the process and send it the tokenizer.json. Return the answer of the process, which is the vocabulary."""
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
                how += (
                    f", probably because it took more than {SECONDS:g} s or too much memory"
                    if how == "SIGKILL"
                    else ""
                )
            raise MalformedFile(
                f"the process of the package tokenizers ended ({how}) while it used this "
                "tokenizer.json.\n"
                "  Some rule of the file cannot be run, for example because a text grows without limit. "
                "Use another file.",
                exit_status=error.status,
            ) from error
        if "refused" in found:
            raise RefusedText(found["refused"], found["row"])
        return found["found"]
