"""A server by its address: anything that speaks OpenAI's completions, such as vLLM, llama-server, TGI or Ollama."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from byheart.errors import UsageError
from byheart.golden.case import Case, text_of, token_of
from byheart.golden.engines.engine import Prompts, Session
from byheart.golden.rounding import NumberType
from byheart.golden.shape import Shape

TIMEOUT_SECONDS = 120
N_CONCURRENT = 8


class ServerEngine:
    """Asks a server for each checkpoint that it serves."""

    name = "server"

    def __init__(self, url: str, number_type: NumberType, model: str | None = None) -> None:
        self.url, self.number_type, self.model = url.rstrip("/").removesuffix("/v1"), number_type, model
        listed = request_json(f"{self.url}/v1/models", None)
        self.served = [str(each["id"]) for each in listed.get("data", [])]

    def open(self, shape: Shape, folder: Path) -> Session:
        return ServerSession(self.url, shape, self._model(shape.name))

    def serves(self, name: str) -> bool:
        """Whether a served model has the checkpoint's name, or is in a folder of that name."""
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
                f"{self.url} serves {', '.join(self.served) or 'no model'}, which is not the checkpoint {name}.\n"
                "  Say which checkpoint it serves with --only NAME --model ID.",
                served=self.served,
            )
        return found


class ServerSession:
    """One served checkpoint."""

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
        """The greedy answer. Prompts are sent as token ids, or as text to servers that do not take ids."""
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
        answer = request_json(f"{self.url}/v1/completions", document)
        try:
            text = str(answer["choices"][0]["text"])
        except (KeyError, IndexError, TypeError):
            raise UsageError(
                f"{self.url}/v1/completions answered without a text.\n  The server must offer OpenAI's completions API.",
                url=self.url,
            ) from None
        return [token_of(self.shape.vocab, character) for character in text]


def request_json(url: str, document: dict[str, Any] | None) -> dict[str, Any]:
    """A server's JSON answer. Raises `UsageError` with the HTTP status if the server refuses."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is not an address.\n  It begins with http:// or https://.", url=url)
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            parsed: dict[str, Any] = json.load(answer)
            return parsed
    except urllib.error.HTTPError as error:
        said = error.read(300).decode("utf-8", "replace")
        raise UsageError(
            f"{url} answered with status {error.code}: {said}", url=url, status=error.code
        ) from error
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        raise UsageError(f"{url} cannot be asked: {error}.\n  Is the server running?", url=url) from error
