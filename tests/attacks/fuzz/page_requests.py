"""Requests to the page, answered in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi import FastAPI

from byheart.errors import as_byheart_error
from byheart.measure.store import Store
from byheart.web.api import make_router
from byheart.web.context import Context
from byheart.web.folders import Folders
from byheart.web.guard import Guard
from byheart.web.limits import Limits
from byheart.web.processes import Refused
from byheart.web.server import EXAMPLES, _explain_errors
from byheart.web.tasks import TASKS
from byheart.web.worker import describe_error
from tests.attacks.fuzz.mutation import NUMBERS, TEXTS, mutate_bytes, mutate_document
from tests.attacks.fuzz.target import Target, Wrong
from tests.measure.test_store import record
from tests.storage.test_fixtures import FIXTURES

MODELS = (
    "retrieval-float64",
    "retrieval-coded",
    "retrieval-dual",
    "transformer-exact",
    "decoder-attention",
    "attention-only",
    "llama-facts",
)
QUERIES = ("facts", "value_bits", "vocab", "seq_len", "row", "column", "where", "key", "name")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


class Questions:
    """What a worker would answer, without the worker."""

    def ask(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            found = TASKS[task](Context(lambda *_: None), **json.loads(json.dumps(arguments)))
            json.dumps(found, allow_nan=False, default=str)
            return found
        except Exception as error:
            if as_byheart_error(error) is None:
                raise
            raise Refused(describe_error(error)) from error


class Jobs:
    """A queue that takes every job, keeps none and runs none."""

    def add(self, *arguments: Any) -> Jobs:
        json.dumps(arguments)
        return self

    def to_json(self, **_: Any) -> dict[str, Any]:
        return {}

    def all(self) -> list[Jobs]:
        return []

    def get(self, _: str) -> Jobs:
        return self

    cancel = get


class PageRequests(Target):
    """Addresses, queries and bodies at random, most of them nearly right."""

    name, share = "page", 12

    def prepare(self, folder: Path) -> None:
        for part in ("data", "exports", "models", "figures"):
            (folder / part).mkdir()
        for name in MODELS:
            shutil.copytree(FIXTURES / name, folder / "models" / name)
        shutil.copy(FIXTURES / "data" / "short.csv", folder / "data")
        shutil.copy(FIXTURES / "data" / "short.csv", folder / "models" / "retrieval-float64.data.csv")
        figure = {"panels": [], "verdict": {"outcome": "holds"}}
        (folder / "figures" / "one.json").write_text(json.dumps(figure))
        with Store(folder / "runs.sqlite") as store:
            for seed in range(2):
                store.add(record(seed))
        limits, parts = Limits(), [folder / part for part in ("data", "exports", "models")]
        folders = Folders(*parts, EXAMPLES, folder / "figures", folder / "runs.sqlite", True)
        app = FastAPI()
        _explain_errors(app)
        app.include_router(make_router(folders, Jobs(), Questions(), limits, "0"))
        self.app = Guard(app, limits, "127.0.0.1", 8000, None)
        for path in ("/api/models", "/api/models/retrieval-float64", "/api/runs"):
            assert self.send("GET", path, "", b"")[0] == 200, path
        for path in ("trace", "predict", "fact"):
            body = {"texts": ["ab"]} if path == "predict" else {"text": "ab"}
            address = f"/api/models/retrieval-float64/{path}"
            assert self.send("POST", address, "", json.dumps(body).encode())[0] == 200, path

    def attack(self, random: Random, folder: Path) -> str:
        question = random.choice(("ab", "b", "d", "1 2 3", random.choice(TEXTS)))
        name = random.choice(("short.csv", "capitals.csv", "x.csv", random.choice(TEXTS)))
        if random.random() < 0.5:
            method, path, body = "GET", _address(random), b""
        else:
            method = "POST"
            path, document = _body(random, question, name)
            body = (
                mutate_document(document, random) if random.random() < 0.6 else json.dumps(document).encode()
            )
            body = mutate_bytes(body, random) if random.random() < 0.2 else body
        if random.random() < 0.05:
            method = random.choice(("PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"))
        values = (_number(random), question, name, "seed=0", "a.csv")
        asked = [(random.choice(QUERIES), random.choice(values)) for _ in range(random.choice((0, 1, 2)))]
        request = [method, path, asked, body.decode("latin-1")]
        (folder / "request.json").write_text(json.dumps(request))
        status, answer = self.send(method, path, urlencode(asked), body)
        if status >= 500 and status != 503:
            raise Wrong(f"{method} {path} {asked} was answered {status}: {answer[:2000]!r}")
        return f"answered {status // 100}xx"

    def send(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        answers: list[Any] = []
        sent = iter([body])

        async def receive() -> dict[str, Any]:
            if next(sent, None) is None:
                await asyncio.Event().wait()  # the browser stays, and says nothing more
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            answers.append(message)

        headers = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(header.encode(), value.encode()) for header, value in headers.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8000),
        }
        asyncio.run(self.app(scope, receive, send))
        start = next(message for message in answers if message["type"] == "http.response.start")
        return int(start["status"]), b"".join(message.get("body", b"") for message in answers)


def _number(random: Random) -> str:
    return str(random.choice((*NUMBERS, "x", "")))


def _model(random: Random) -> str:
    return quote(random.choice((*MODELS, *TEXTS[:9])))


def _matrix(random: Random) -> str:
    return random.choice(("", "embedding", "x", "0", "blocks.0", random.choice(TEXTS)))


def _address(random: Random) -> str:
    model = f"/api/models/{_model(random)}"
    matrix = f"{model}/weights/{quote(_matrix(random))}"
    odd = quote(random.choice(TEXTS)) or "x"
    return random.choice(
        [f"/api/{part}" for part in ("state", "data", "jobs", "models", "figures", "figures/one", "runs")]
        + ["/api/runs/curves", "/api/plan", f"/api/jobs/{odd}", f"/api/figures/{odd}", f"/api/exports/{odd}"]
        + [model, f"{model}/examples", f"{model}/weights", f"{model}/download", matrix]
        + [f"{matrix}/{_number(random)}/{_number(random)}"]
    )


def _body(random: Random, question: str, name: str) -> tuple[str, Any]:
    model = _model(random)
    edit = {"matrix": _matrix(random), "row": 0, "column": 0, "power": 1}
    jobs: tuple[dict[str, Any], ...] = (
        {"kind": "compile", "data": name, "method": "auto", "seed": 0, "reject_bits": 8},
        {"kind": "examine", "data": name, "task": "set"},
        {"kind": "break", "model": model, "edits": [edit]},
        {"kind": "export", "model": model, "format": "onnx"},
        {"kind": "forget", "model": model, "text": question},
        {"kind": "predict", "model": model, "data": name},
    )
    return random.choice(
        (
            (f"/api/models/{model}/predict", {"texts": [question, "ab"]}),
            (f"/api/models/{model}/trace", {"text": question}),
            (f"/api/models/{model}/fact", {"text": question}),
            ("/api/capacity", CONFIG),
            ("/api/data", {"key": 1}),
            ("/api/jobs", random.choice(jobs)),
        )
    )
