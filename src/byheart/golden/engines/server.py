"""A server as an engine: any server with OpenAI's completions API, such as vLLM, llama-server, TGI or Ollama.

The answers of a server are not trusted: at most `MOST_BYTES` are read, for at most `TIMEOUT_SECONDS`, and the type of every
value is checked.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from byheart.errors import UsageError
from byheart.golden.case import Case, text_of, token_of
from byheart.golden.engines.engine import Prompts, Session
from byheart.golden.rounding import NumberType
from byheart.golden.shape import Shape
from byheart.records.json_file import parse_json
from byheart.records.reader import length, read_values
from byheart.records.refusals import refuse_usage

T = TypeVar("T")
TIMEOUT_SECONDS = 120
N_CONCURRENT = 8
MOST_BYTES = 2**22
SHOWN = 8  # the maximum number of models named in an error message


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

    def __init__(self, url: str, number_type: NumberType, model: str | None = None) -> None:
        self.url, self.number_type, self.model = url.rstrip("/").removesuffix("/v1"), number_type, model
        listed = request_json(f"{self.url}/v1/models", None, ModelList)
        self.served = [each.id for each in listed.data or ()]

    @property
    def shown(self) -> str:
        """The names of the models that the server has, for error messages. At most `SHOWN` are named."""
        others = f" and {len(self.served) - SHOWN:,} more" if len(self.served) > SHOWN else ""
        return f"{', '.join(self.served[:SHOWN]) or 'no model'}{others}"

    def open(self, shape: Shape, folder: Path) -> Session:
        return ServerSession(self.url, shape, self._model(shape.name))

    def serves(self, name: str) -> bool:
        """Return whether the server has a model that is named like this checkpoint, or that is in a folder of this name.

        If the user named the model, return True.
        """
        return self._match(name) is not None

    def _match(self, name: str) -> str | None:
        if self.model is not None:
            return self.model
        parts = ((each, each.replace("\\", "/").replace(":", "/").split("/")) for each in self.served)
        return next((each for each, path in parts if name in path), None)

    def _model(self, name: str) -> str:
        found = self._match(name)
        if found is None:
            raise UsageError(
                f"{self.url} does not serve the checkpoint {name}. It serves {self.shown}.\n"
                f"  If one of these is this checkpoint under another name, give both: --only {name} --model ID.",
                served=self.served,
            )
        return found


class ServerSession:
    """One checkpoint on the server."""

    def __init__(self, url: str, shape: Shape, model: str, options: dict[str, Any] | None = None) -> None:
        self.url, self.shape, self.model, self.options = url, shape, model, options or {}
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
        """Return the greedy answer. The prompt is sent as token ids, or as text if the server does not accept ids."""
        document = {"model": self.model, "max_tokens": n_new, "temperature": 0, **self.options, **options}
        if self.takes_ids:
            try:
                return self._ask({**document, "prompt": list(prompt)})
            except UsageError as error:
                if error.facts.get("status") not in (400, 422):
                    raise
                self.takes_ids = False
        return self._ask({**document, "prompt": text_of(self.shape.vocab, prompt)})

    def _ask(self, document: dict[str, Any]) -> list[int]:
        answer = request_json(f"{self.url}/v1/completions", document, Completion)
        # one token too many makes the answer wrong, so the rest is not needed
        text = answer.choices[0].text[: document["max_tokens"] + 1]
        return [token_of(self.shape.vocab, character) for character in text]


def request_json(url: str, document: dict[str, Any] | None, kind: type[T]) -> T:
    """Send a request to a server, and convert its JSON answer to the type `kind`.

    Raise `UsageError` if that fails, with the HTTP status if the server refuses.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is not an address.\n  An address begins with http:// or https://.", url=url)
    body = None if document is None else json.dumps(document).encode()
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            raw = _read_body(answer, url)
    except urllib.error.HTTPError as error:
        raise UsageError(
            f'{url} answered with the HTTP status {error.code} and the text "{_first_words(error)}".\n'
            "  Check the address of the server and the name of the model.",
            url=url,
            status=error.code,
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UsageError(
            f"{url} cannot be reached: {error}.\n  Check that the server is running.", url=url
        ) from error
    found = parse_json(raw, url, refuse=refuse_usage)
    return read_values(found, kind, url, ignore_unknown=True)


def _first_words(error: urllib.error.HTTPError) -> str:
    """Return the beginning of the body of an error response."""
    with suppress(OSError, ValueError, http.client.HTTPException):
        return error.fp.read1(300).decode("utf-8", "replace")  # type: ignore[attr-defined, no-any-return]
    return ""


def _read_body(answer: http.client.HTTPResponse, url: str) -> bytes:
    """Return the body of an answer, read piece by piece.

    The time-out of `urlopen` applies to each read. This function applies it to the whole answer, so that a server
    that sends single bytes cannot block the check.
    """
    pieces, n_bytes, end = [], 0, time.monotonic() + TIMEOUT_SECONDS
    while piece := answer.read1(2**16):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > MOST_BYTES:
            raise UsageError(
                f"{url} answered with more than {MOST_BYTES:,} bytes.\n"
                "  Check that this is the address of an inference server.",
                url=url,
            )
        if time.monotonic() > end:
            raise UsageError(
                f"{url} took more than {TIMEOUT_SECONDS} seconds to answer.\n"
                "  Check that the server is not busy with other requests.",
                url=url,
            )
    return b"".join(pieces)
