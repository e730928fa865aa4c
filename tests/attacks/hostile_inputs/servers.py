"""What a server says that `golden check` asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from byheart.cli.main import run
from tests.attacks.hostile_inputs.case import AROUND, MIB, case
from tests.golden.test_hostile_cases import write

ADDRESS = "ADDRESS"
Body = Callable[[], Iterator[bytes]]


def server(name: str, models: Body, answer: Body = lambda: iter((b"{}",))) -> None:
    """A server that lists its models and answers prompts in these words; it is asked for the answers of a small golden folder."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say(models())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.say(answer())

        def say(self, pieces: Iterator[bytes]) -> None:
            self.send_response(200)
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # nobody listens any more
                self.close_connection = True

    def make(folder: Path) -> list[str]:
        write(folder)
        return ["golden", "check", str(folder), "--engine", ADDRESS, "--number-type", "float32"]

    def run_beside(command: list[str]) -> int:
        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=listening.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{listening.server_port}"
        return run([address if each == ADDRESS else each for each in command])

    case(name)(make)
    AROUND[name] = run_beside


def endless() -> Iterator[bytes]:
    while True:
        yield b" " * MIB


def says(document: object) -> Body:
    return lambda: iter((json.dumps(document).encode(),))


SERVED = says({"data": [{"id": "tiny"}]})
server("server: a list of models without end", endless)
server("server: 100,000 models", says({"data": [{"id": f"model-{i}"} for i in range(10**5)]}))
server("server: an answer without end", SERVED, endless)
server(
    "server: an answer of 4 million characters", SERVED, says({"choices": [{"text": "x" * (4 * MIB - 99)}]})
)
server("server: 100,000 answers", SERVED, says({"choices": [{"text": "x"}] * 10**5}))
