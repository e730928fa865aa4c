"""A server as an engine: any server with OpenAI's completions API, such as vLLM, llama-server, TGI or Ollama.

The answers of a server are not trusted: at most `MOST_BYTES` are accepted, the time for reading them is limited, and the type of
every value is checked.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from byheart.errors import UsageError
from byheart.golden.case import Case, text_of, token_of
from byheart.golden.checkpoint import GGUF
from byheart.golden.engines.engine import Prompts, Session, UnansweredPrompt
from byheart.golden.shape import Shape
from byheart.records.json_file import parse_json
from byheart.records.reader import length, read_values
from byheart.records.refusals import refuse_usage
from byheart.records.vocabulary import NumberType

T = TypeVar("T")
TIMEOUT_SECONDS = 120
N_CONCURRENT = 8
MOST_BYTES = 2**22
SHOWN = 8  # the maximum number of models named in an error message
SHOWN_CHARACTERS = 300  # of the error message of a server


@dataclass(frozen=True)
class ServedModel:
    """One of the models that a server lists."""

    id: str


@dataclass(frozen=True)
class ModelList:
    """The answer of `/v1/models`. If Ollama has no models, `data` is null."""

    data: list[ServedModel] | None = None


@dataclass(frozen=True)
class Choice:
    """One completion of a prompt."""

    text: str


@dataclass(frozen=True)
class Completion:
    """The answer of `/v1/completions`."""

    choices: Annotated[list[Choice], length(1, 2**10)]


class ServerEngine:
    """A running server, tested with each checkpoint that it serves."""

    name = "server"

    def __init__(
        self, url: str, number_type: NumberType, model: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """List the models of the server. `timeout` limits the time for one answer, in seconds (see `request_json`)."""
        self.url, self.number_type, self.model = url.rstrip("/").removesuffix("/v1"), number_type, model
        self.timeout = timeout
        listed = request_json(f"{self.url}/v1/models", None, ModelList, timeout)
        self.served = [each.id for each in listed.data or ()]

    @property
    def shown(self) -> str:
        """The names of the models that the server has, for error messages. At most `SHOWN` are named."""
        others = f" and {len(self.served) - SHOWN:,} more" if len(self.served) > SHOWN else ""
        return f"{', '.join(self.served[:SHOWN]) or 'no model'}{others}"

    def open(self, shape: Shape, folder: Path) -> Session:
        return ServerSession(self.url, shape, self.require_model(shape.name), timeout=self.timeout)

    def model_of(self, name: str) -> str | None:
        """Return the served model that is this checkpoint, or None if there is none.

        It is the model that the user named, or one that has the name of the checkpoint, or one whose path ends in this name.
        The path may also end in the GGUF file of the checkpoint.
        """
        if self.model is not None:
            return self.model
        return next((each for each in self.served if _last_part(each) == name), None)

    def require_model(self, name: str) -> str:
        """Return the served model that is this checkpoint. Raise `UsageError` if there is none."""
        found = self.model_of(name)
        if found is None:
            raise UsageError(
                f"{self.url} does not serve the checkpoint {name}. It serves {self.shown}.\n"
                f"  If one of these is this checkpoint under another name, give both: only=[{name!r}] and model=... "
                f"(--only {name} --model ID).",
                served=self.served,
            )
        return found


def _last_part(model: str) -> str:
    """Return the last part of a path, or the part before it if the last part is the GGUF file of a checkpoint."""
    return model.replace("\\", "/").rstrip("/").removesuffix(f"/{GGUF}").rpartition("/")[2]


class ServerSession:
    """One checkpoint on the server."""

    def __init__(self, url: str, shape: Shape, model: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.url, self.shape, self.model, self.timeout = url, shape, model, timeout
        self.takes_ids = True

    def ways(self) -> Sequence[str]:
        return ("server", "concurrent requests")

    def why_not(self, way: str, case: Case) -> str | None:
        return None

    def generate(self, way: str, prompts: Prompts, n_new: int) -> list[list[int]]:
        if way == "server":
            return [self.complete(prompt, n_new) for prompt in prompts]
        with ThreadPoolExecutor(N_CONCURRENT) as pool:
            return list(pool.map(lambda prompt: self.complete(prompt, n_new), prompts))

    def close(self) -> None:
        pass

    def complete(self, prompt: Sequence[int], n_new: int, **options: Any) -> list[int]:
        """Return the greedy answer. Raise `UnansweredPrompt` if the server does not give one."""
        try:
            return self._complete(prompt, n_new, options)
        except UsageError as error:
            raise UnansweredPrompt(prompt, error) from error

    def _complete(self, prompt: Sequence[int], n_new: int, options: dict[str, Any]) -> list[int]:
        """Send the prompt as token ids, or as text if the server does not accept ids."""
        document = {"model": self.model, "max_tokens": n_new, "temperature": 0, **options}
        if self.takes_ids:
            try:
                return self._ask({**document, "prompt": list(prompt)})
            except UsageError as error:
                if error.facts.get("status") not in (400, 422):
                    raise
                self.takes_ids = False
        return self._ask({**document, "prompt": text_of(self.shape.vocab, prompt)})

    def _ask(self, document: dict[str, Any]) -> list[int]:
        answer = request_json(f"{self.url}/v1/completions", document, Completion, self.timeout)
        # one token too many makes the answer wrong, so the rest is not needed
        text = answer.choices[0].text[: document["max_tokens"] + 1]
        return [token_of(self.shape.vocab, character) for character in text]


def request_json(
    url: str, document: dict[str, Any] | None, kind: type[T], timeout: float = TIMEOUT_SECONDS
) -> T:
    """Send a request to a server, and convert its JSON answer to the type `kind`. `timeout` limits, in seconds, connecting and
    the whole time until the answer is complete.

    Raise `UsageError` if this fails. If the server refuses the request, the `facts` of the error hold the HTTP status.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is not an address.\n  An address begins with http:// or https://.", url=url)
    body = None if document is None else json.dumps(document).encode()
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        end = time.monotonic() + timeout
        opener = urllib.request.build_opener(_LimitedHTTP(end), _LimitedHTTPS(end))
        with opener.open(request, timeout=timeout) as answer:
            raw = _read_body(answer, url)
    except urllib.error.HTTPError as error:
        is_server_error = error.code >= 500
        remedy = (
            "See what the server has logged."
            if is_server_error
            else "Check the address of the server and the name of the model."
        )
        raise UsageError(
            f'{url} answered with the HTTP status {error.code} and the text "{_first_words(error)}".\n  {remedy}',
            url=url,
            status=error.code,
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
            raise _too_slow(url, timeout) from error
        raise UsageError(
            f"{url} cannot be reached: {error}.\n  Check that the server is running.", url=url
        ) from error
    found = parse_json(raw, url, refuse=refuse_usage)
    if isinstance(found, dict) and found.get("error"):
        raise _server_error(url, found["error"])
    return read_values(found, kind, url, ignore_unknown=True)


def _server_error(url: str, error: object) -> UsageError:
    """Return the exception for an error that a server reports with the HTTP status 200."""
    said = str(error.get("message", error) if isinstance(error, dict) else error)[:SHOWN_CHARACTERS]
    return UsageError(f'{url} answered with the error "{said}".', url=url, said=said)


def _too_slow(url: str, timeout: float) -> UsageError:
    return UsageError(
        f"{url} took more than {timeout:g} seconds to answer.\n"
        "  Check that the server is not busy with other requests, or allow more time with timeout=... (--timeout).",
        url=url,
        timeout=timeout,
    )


def _first_words(error: urllib.error.HTTPError) -> str:
    """Return the beginning of the body of an error response."""
    with suppress(OSError, ValueError, http.client.HTTPException):
        return error.fp.read1(SHOWN_CHARACTERS).decode("utf-8", "replace")  # type: ignore[attr-defined, no-any-return]  # an HTTPResponse, stated to be an IO
    return ""


class _LimitedStream(io.RawIOBase):
    """What a server sends, which can be read until the time `end` of `time.monotonic`.

    The time-out of a socket applies to each read. Without this class, a server that sends single bytes could block the check.
    """

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._socket, self._end, self._stream = sock, end, sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _LimitedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, end: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_LimitedStream(sock, end))


class _LimitedHTTP(urllib.request.HTTPHandler):
    """Opens http addresses. The status, the headers and the body of all answers must arrive before the time `end`."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_limited(http.client.HTTPConnection, self.end), req)


class _LimitedHTTPS(urllib.request.HTTPSHandler):
    """Opens https addresses, with the same limit."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_limited(http.client.HTTPSConnection, self.end), req)


def _limited(kind: type[http.client.HTTPConnection], end: float) -> Any:
    """Return a function that makes a connection whose answers must arrive before the time `end`."""

    def connect(host: str, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        connection.response_class = partial(_LimitedResponse, end=end)  # type: ignore[assignment]
        return connection

    return connect


def _read_body(answer: http.client.HTTPResponse, url: str) -> bytes:
    """Return the body of an answer, read piece by piece."""
    pieces, n_bytes = [], 0
    while piece := answer.read1(2**16):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > MOST_BYTES:
            raise UsageError(
                f"{url} answered with more than {MOST_BYTES:,} bytes.\n"
                "  Check that this is the address of an inference server.",
                url=url,
            )
    if answer.length:
        raise UsageError(
            f"{url} closed the connection after {n_bytes:,} of {n_bytes + answer.length:,} bytes of its answer.\n"
            "  See what the server has logged.",
            url=url,
            n_missing=answer.length,
        )
    return b"".join(pieces)
