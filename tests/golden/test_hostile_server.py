"""A server that is asked for answers may send anything: it is read to a limit, by type, and refused in words."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from byheart.cli.golden import command
from byheart.errors import UsageError
from byheart.golden.case import text_of
from byheart.golden.engine_check import check
from byheart.golden.engines import server as engine
from byheart.golden.engines.server import Completion, ServerEngine, ServerSession, request_json
from tests.golden.test_hostile_cases import SHAPE, write
from tests.refusal import refused

MODELS = json.dumps({"data": [{"id": "llama"}]}).encode()
LIST_FAULTS: dict[str, bytes] = {
    "a list": b"[]",
    "a text": b'"x"',
    "no JSON": b"<html>",
    "nothing": b"",
    "brackets": b"[" * 10**5,
    "a digit of 10^5 digits": b'{"data": ' + b"9" * 10**5 + b"}",
    "models that are no list": b'{"data": 3}',
    "models that are texts": b'{"data": ["llama"]}',
    "a model without a name": b'{"data": [{}]}',
    "a model whose name is a number": b'{"data": [{"id": 3}]}',
    "bytes that are not UTF-8": b"\xff\xfe",
}
ANSWER_FAULTS: dict[str, bytes] = {
    "a list": b"[]",
    "no choices": b"{}",
    "no choice": b'{"choices": []}',
    "choices that are an object": b'{"choices": {"0": {"text": "x"}}}',
    "a choice that is a text": b'{"choices": ["x"]}',
    "no text": b'{"choices": [{"message": {"content": "x"}}]}',
    "a text that is null": b'{"choices": [{"text": null}]}',
    "a text that is a list": b'{"choices": [{"text": ["x"]}]}',
    "half a character": b'{"choices": [{"text": "\\ud800"}]}',
}


@contextmanager
def serving(models: bytes = MODELS, answer: bytes = b"{}", **how: Any) -> Iterator[str]:
    """The address of a server that says these two things, with another length, status or pace where asked to."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say(models)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(how.get("seconds", 0))
            with suppress(OSError):  # the client has given up; a traceback would appear in a later test
                self.say(answer)

        def say(self, body: bytes) -> None:
            if how.get("raw"):
                self.wfile.write(body)
                return
            self.send_response(how.get("status", 200))
            self.send_header("Content-Length", str(len(body) + how.get("missing", 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("fault", LIST_FAULTS)
def test_a_list_of_models_is_read_by_type(fault: str) -> None:
    with serving(LIST_FAULTS[fault]) as address, pytest.raises(UsageError):
        ServerEngine(address, "float32")


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_an_answer_is_read_by_type(fault: str) -> None:
    with serving(answer=ANSWER_FAULTS[fault]) as address, pytest.raises(UsageError):
        request_json(f"{address}/v1/completions", {}, Completion)


def test_what_servers_add_is_left_unread() -> None:
    said = {"object": "list", "data": [{"id": "llama", "meta": {"n": [1.5, None]}}], "models": [3]}
    with serving(json.dumps(said).encode()) as address:
        assert ServerEngine(address, "float32").served == ["llama"]
    with serving(b'{"object": "list", "data": null}') as address:  # Ollama without a model
        assert ServerEngine(address, "float32").served == []
    told = {"choices": [{"index": 0, "text": "ab", "logprobs": None}], "usage": {}}
    with serving(answer=json.dumps(told).encode()) as address:
        assert request_json(address, {}, Completion).choices[0].text == "ab"


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    with serving(b" " * (engine.MOST_BYTES + 1)) as address, refused(UsageError, "url"):
        ServerEngine(address, "float32")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.0 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_one_limit_is_for_the_status_the_headers_and_the_body(start: bytes) -> None:
    began = time.monotonic()
    with dripping(start) as address, refused(UsageError, timeout=0.5):
        request_json(address, None, Completion, timeout=0.5)
    assert 0.5 <= time.monotonic() - began < 2


@contextmanager
def dripping(start: bytes) -> Iterator[str]:
    """The address of a server that sends these bytes at once, and then one byte after the other for four seconds."""

    def send() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(2**16)
            connection.sendall(start)
            for _ in range(40):
                connection.sendall(b"H")
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=send)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "how",
    [
        {"raw": True, "models": b""},
        {"raw": True, "models": b"HTTP/9 x\r\n\r\n"},
    ],
)
def test_a_connection_that_breaks_is_said_so(how: dict[str, Any]) -> None:
    with serving(**how) as address, pytest.raises(UsageError):
        ServerEngine(address, "float32")


def test_little_of_what_a_server_says_is_shown() -> None:
    models = json.dumps({"data": [{"id": f"model-{number}"} for number in range(10**4)]}).encode()
    answer = json.dumps({"choices": [{"text": "x" * 10**5}]}).encode()
    with serving(models, answer) as address:
        with refused(UsageError, "served") as raised:
            ServerEngine(address, "float32").open(SHAPE, Path())
        assert len(str(raised.value)) < 500
        assert len(ServerSession(address, SHAPE, "model-1").complete([0, 5], 5)) == 6


def test_a_model_is_named_with_one_checkpoint(tmp_path: Path) -> None:
    write(tmp_path)
    ask = ["check", str(tmp_path), "--number-type", "float32"]
    with serving() as address:
        with refused(UsageError, model="llama", only=[]):
            command.main([*ask, "--engine", address, "--model", "llama"], standalone_mode=False)
        with refused(UsageError, served=["llama"]):
            command.main([*ask, "--engine", address], standalone_mode=False)


def test_a_refusal_is_quoted_in_part() -> None:
    with serving(b"no\x1b[31m " * 1000, status=503) as address, refused(UsageError, status=503) as raised:
        ServerEngine(address, "float32")
    assert len(str(raised.value)) < 500


def test_a_slow_server_is_said_to_be_slow() -> None:
    """The error said that it cannot be reached, and the time could not be chosen."""
    with serving(seconds=0.5) as address, refused(UsageError, timeout=0.1):
        ServerSession(address, SHAPE, "tiny", timeout=0.1).complete([0, 5], 5)


def test_the_error_of_a_server_is_quoted() -> None:
    """With the status 200, the error said that `choices` is missing."""
    said = {"error": {"message": "model overloaded"}}
    with serving(answer=json.dumps(said).encode()) as address, refused(UsageError, said="model overloaded"):
        request_json(address, {}, Completion)
    with serving(answer=b'{"error": "busy"}') as address, refused(UsageError, said="busy"):
        request_json(address, {}, Completion)


def test_a_connection_that_is_closed_early_is_said_so() -> None:
    """The error said that the answer is not valid JSON."""
    with serving(models=MODELS[:-3], missing=3) as address, refused(UsageError, n_missing=3):
        ServerEngine(address, "float32")


def test_an_error_names_the_case(tmp_path: Path) -> None:
    write(tmp_path)
    listed = json.dumps({"data": [{"id": "tiny"}]}).encode()
    with serving(listed, b"[]") as address, refused(UsageError, case="first, server"):
        check(ServerEngine(address, "float32"), tmp_path)


@pytest.mark.parametrize(
    ("served", "model"),
    [
        ("tiny", "tiny"),
        ("family/tiny", "family/tiny"),
        ("family/tiny/", "family/tiny/"),
        ("C:\\family\\tiny", "C:\\family\\tiny"),
        ("family/tiny/model.gguf", "family/tiny/model.gguf"),
        ("tiny:8b", None),
        ("mistral:tiny", None),
        ("tiny/other", None),
        ("tiny-2", None),
    ],
)
def test_only_whole_names_are_taken_for_a_checkpoint(served: str, model: str | None) -> None:
    """An unrelated `qwen3:8b` was asked the cases of the checkpoint qwen3."""
    with serving(json.dumps({"data": [{"id": served}]}).encode()) as address:
        assert ServerEngine(address, "float32").model_of("tiny") == model


def test_a_server_without_models_is_said_so(tmp_path: Path) -> None:
    write(tmp_path)
    ask = ["check", str(tmp_path), "--number-type", "float32"]
    with serving(b'{"data": []}') as address, refused(UsageError, url=address):
        command.main([*ask, "--engine", address], standalone_mode=False)


def test_the_model_that_is_asked_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    ask = ["check", str(tmp_path), "--number-type", "float32", "--only", "tiny"]
    answer = json.dumps({"choices": [{"text": text_of(SHAPE.vocab, [2] * 5)}]}).encode()
    with serving(MODELS, answer) as address:
        command.main([*ask, "--engine", address, "--model", "llama"], standalone_mode=False)
    assert "llama" in capsys.readouterr().err


def test_a_checkpoint_that_is_not_served_is_refused_before_any_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its prompts were said to go to "the server's model None"."""
    write(tmp_path)
    ask = ["check", str(tmp_path), "--number-type", "float32", "--only", "tiny"]
    with serving(b'{"data": [{"id": "other"}]}') as address, refused(UsageError, served=["other"]):
        command.main([*ask, "--engine", address], standalone_mode=False)
    assert capsys.readouterr().err == ""
