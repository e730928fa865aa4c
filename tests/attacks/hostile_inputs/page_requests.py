"""Requests to the page of `byheart serve`, sent to its application in the process that is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from byheart.errors import ExitStatus
from tests.attacks.fuzz.page_requests import CONFIG, PageRequests
from tests.attacks.hostile_inputs.case import AROUND, MIB, case

MODEL = "/api/models/retrieval-float64"


def request(name: str, method: str, path: str, content: Callable[[], bytes] = bytes, query: str = "") -> None:
    """One request with a body."""

    def make(folder: Path) -> list[str]:
        (folder / "body").write_bytes(content())
        (folder / "page").mkdir()
        return ["page", method, path, query, str(folder)]

    def send(command: list[str]) -> int:
        _, method, path, query, folder = command
        page = PageRequests()
        page.prepare(Path(folder) / "page")
        status, _ = page.send(method, path, query, (Path(folder) / "body").read_bytes())
        return ExitStatus.HOLDS if status < 400 else ExitStatus.USAGE if status < 500 else ExitStatus.CRASH

    case(name)(make)
    AROUND[name] = send


def body(document: object) -> Callable[[], bytes]:
    return lambda: json.dumps(document).encode()


request("page: five million brackets", "POST", f"{MODEL}/predict", lambda: b"[" + b"[]," * (5 * MIB) + b"0]")
request("page: 100,000 questions", "POST", f"{MODEL}/predict", body({"texts": ["ab"] * 10**5}))
request("page: a question of 4 MiB", "POST", f"{MODEL}/trace", body({"text": "a" * (4 * MIB)}))
request("page: a shape of 10^30", "POST", "/api/capacity", body({**CONFIG, "hidden_size": 10**30}))
request("page: 1e999999999 facts", "GET", "/api/plan", query="facts=1e999999999")
request("page: a weight beyond all", "GET", f"{MODEL}/weights/embedding/{10**30}/{10**30}")
