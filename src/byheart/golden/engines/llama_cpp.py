"""The engine llama.cpp on this machine. For each checkpoint, a separate llama.cpp server is started and used over HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from byheart.errors import UsageError, require_extra
from byheart.golden.case import Case
from byheart.golden.checkpoint import GGUF
from byheart.golden.engines.engine import Prompts, Session
from byheart.golden.engines.server import ServerSession
from byheart.golden.shape import Shape
from byheart.records.vocabulary import NumberType


class LlamaCppEngine:
    """llama.cpp with its cache in float16 (the default) or float32, and with flash attention on or off.

    With flash attention and a float32 cache, llama.cpp failed float32 cases that it passes without flash attention;
    it seems to cast keys and values to float16. With flash attention, llama.cpp is therefore checked as a float16 engine.
    """

    name = "llama.cpp"

    def __init__(self, cache: NumberType = "float16", flash: bool = True) -> None:
        if cache == "bfloat16":
            raise UsageError(
                "llama.cpp cannot be checked in bfloat16, because the GGUF files have float32 "
                "weights.\n"
                "  Use cache='float32' or 'float16' (--number-type float32 or float16). With float16, only the cache is in float16."
            )
        require_extra("xllamacpp", "llama-cpp", "the engine llama.cpp")
        self.number_type: NumberType = "float16" if flash else cache
        self.cache, self.flash = cache, flash

    @property
    def note(self) -> str:
        """A note for users, if the number type that is checked is not the one they asked for; otherwise an empty text."""
        if self.number_type == self.cache:
            return ""
        return (
            f"llama.cpp with flash attention is checked as {self.number_type}. "
            f"Use flash=False (--no-flash) to check it as {self.cache}."
        )

    def open(self, shape: Shape, folder: Path) -> Session:
        return LlamaCppSession(self.start(shape, folder / GGUF), shape)

    def start(self, shape: Shape, path: Path) -> Server:
        """Start a server for one checkpoint, on a free port."""
        options = [str(shape.max_positions), self.cache, "flash" if self.flash else "plain"]
        command = [
            sys.executable,
            "-m",
            "byheart.golden.engines.llama_server",
            str(path),
            shape.name,
            *options,
        ]
        return Server(command)


class Server:
    """A server in a child process, which runs until it is closed or this process ends."""

    def __init__(self, command: list[str]) -> None:
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith("listening: "):
                self.address = line.partition(": ")[2].strip()
                return
        self.close()
        raise UsageError(
            "llama.cpp could not open the checkpoint.\n"
            "  Make the checkpoints again with: byheart golden make -o DIR",
            command=command,
        )

    def close(self) -> None:
        self.child.terminate()
        self.child.communicate()


class LlamaCppSession(ServerSession):
    """A checkpoint that is open in a llama.cpp server of its own."""

    def __init__(self, server: Server, shape: Shape) -> None:
        super().__init__(server.address, shape, shape.name)
        self.server = server

    def ways(self) -> Sequence[str]:
        return ("one by one", "concurrent requests", "prefix reuse")

    def why_not(self, way: str, case: Case) -> str | None:
        window = self.shape.window
        if window is not None and len(case.prompt) + len(case.answer) - 1 > window:
            return "llama.cpp has no sliding window for Mistral"
        return None

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        if way == "one by one":
            return [self.complete(prompt, n_new, cache_prompt=False) for prompt in prompts]
        if way == "prefix reuse":
            return [self._after_another(prompt, n_new) for prompt in prompts]
        return super().generate(way, prompts, n_new)

    def _after_another(self, prompt: Sequence[int], n_new: int) -> list[int]:
        half = len(prompt) // 2
        other = [*prompt[:half], *[2 + (token + 7) % (self.shape.vocab - 2) for token in prompt[half:]]]
        self.complete(other, 1, cache_prompt=True, id_slot=0)
        return self.complete(prompt, n_new, cache_prompt=True, id_slot=0)

    def close(self) -> None:
        self.server.close()
