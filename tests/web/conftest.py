"""A real server, and a real browser where there is one; both are started once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import httpx
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SLOW_METHOD = "kajitsuka-sato-2025"
HOSTILE = '<img src=x onerror="window.hacked=1">'
"""A label, a question, a title: never markup."""


@dataclass(frozen=True)
class Server:
    """A running `byheart serve` and a client that talks to it."""

    address: str
    pid: int
    models: Path
    client: httpx.Client

    def job(self, **request: Any) -> dict[str, Any]:
        """Start a job and return it when it has ended."""
        started = self.client.post("/api/jobs", json=request)
        assert started.status_code == 201, started.text
        return self.ended(started.json()["id"])

    def ended(self, job_id: str, seconds: float = 120) -> dict[str, Any]:
        for _ in range(round(seconds / 0.05)):
            job: dict[str, Any] = self.client.get(f"/api/jobs/{job_id}").json()
            if job["state"] not in ("waiting", "running"):
                return job
            time.sleep(0.05)
        raise AssertionError(f"it does not end: {job}")

    def workers(self) -> list[int]:
        """Process numbers of its workers."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.pid and b"byheart.web.worker" in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except (OSError, IndexError):
                continue
        return found


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Iterator[Server]:
    httpx = pytest.importorskip("httpx", reason="the package httpx is not installed")
    pytest.importorskip("fastapi", reason="the extra `web` is not installed")
    place = tmp_path_factory.mktemp("page")
    figures = place / "figures"
    figures.mkdir()
    for name in ("dana-2024-fig1a", "dana-2024-fig2a", "dana-2024-fig3", "madden-2024-fig1-left"):
        shutil.copy(project_root / "results" / f"{name}.json", figures)
    (figures / "hostile.json").write_text(json.dumps(_hostile_figure(figures / "dana-2024-fig1a.json")))
    (figures / "other.json").write_text("[1, 2]")
    _write_store(place / "runs.sqlite")
    options = ["--port", "0", "--models", str(place / "models"), "--store", str(place / "runs.sqlite")]
    process = subprocess.Popen(
        [sys.executable, "-m", "byheart", "serve", "--json", *options, "--figures", str(figures)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(project_root / "src")},
        cwd=place,
    )
    assert process.stdout is not None
    printed = ""
    while not printed.endswith("}\n"):
        line = process.stdout.readline()
        assert line, "the server did not start"
        printed += line
    address = json.loads(printed)["address"]
    with httpx.Client(base_url=address, timeout=60) as client:
        for _ in range(200):
            try:
                client.get("/api/state")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield Server(address, process.pid, place / "models", client)
    process.terminate()
    process.wait(timeout=20)


@pytest.fixture(scope="session")
def capitals(server: Server) -> str:
    """The name of a model of the bundled capitals that turns unknown questions away."""
    job = server.job(
        kind="compile", data="capitals.csv", method="retrieval", precision="float64", reject_bits=16
    )
    assert job["state"] == "done", job["error"]
    return str(job["result"]["model"])


@pytest.fixture(scope="session")
def hostile(server: Server) -> str:
    """The name of a model whose questions and labels look like markup."""
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    rows = f"key,value\nwho are you,{quoted}\n{quoted},me\nother,nobody\n"
    name = server.client.post("/api/data", params={"name": "hostile.csv"}, content=rows.encode()).json()[
        "name"
    ]
    job = server.job(kind="compile", data=name, method="retrieval", precision="float64")
    assert job["state"] == "done", job["error"]
    return str(job["result"]["model"])


@pytest.fixture(scope="session")
def many(server: Server) -> str:
    """The name of a table that takes SLOW_METHOD a quarter of a minute: time to watch, to cancel and to kill."""
    rows = [f"{number * 7919 % 1_000_003},{number * 31 % 97}\n" for number in range(30_000)]
    content = ("key,value\n" + "".join(rows)).encode()
    sent = server.client.post("/api/data", params={"name": "thousands.csv"}, content=content)
    return str(sent.json()["name"])


@pytest.fixture(scope="module")  # while it is open, its event loop keeps tests of other files from theirs
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no `chromium` here; apt-get install chromium brings it")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=program, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One tab for all: to open another takes a second, to lead this one elsewhere half of it."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


OpenPage = Callable[..., "Page"]


@pytest.fixture
def open_page(tab: Page, server: Server) -> Iterator[OpenPage]:
    """Open a view of the page. Afterwards: nothing was logged as an error, and no request left the machine."""
    errors: list[str] = []
    foreign: list[str] = []
    expected: list[str] = []

    def logged(message: Any) -> None:
        if message.type == "error" and not any(words in message.text for words in expected):
            errors.append(message.text)

    def failed(error: Any) -> None:
        errors.append(str(error))

    def asked(request: Any) -> None:
        if not request.url.startswith((server.address, "blob:", "data:")):
            foreign.append(request.url)

    def open_view(view: str, width: int = 1280, theme: Any = "light", allowed: tuple[int, ...] = ()) -> Page:
        expected[:] = [f"status of {status}" for status in allowed]
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=theme, media="null")
        tab.goto(server.address + view.lstrip("/"))
        return tab

    listeners = {"console": logged, "pageerror": failed, "request": asked}
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield open_view
    tab.evaluate("localStorage.clear()")  # the next test finds it as a new visitor does
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    tab.mouse.move(0, 0)
    tab.goto("about:blank")
    assert errors == []
    assert foreign == []


def _hostile_figure(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text())
    record |= {"title": HOSTILE, "claim": HOSTILE}
    record["verdict"] |= {"because": HOSTILE}
    record["panels"][0] |= {"title": HOSTILE, "x_label": HOSTILE}
    record["panels"][0]["series"][0] |= {"label": HOSTILE}
    return record


def _write_store(path: Path) -> None:
    """Twelve finished runs, as `byheart measure` stores them."""
    from byheart.measure.records import Record, key_of
    from byheart.measure.store import Store

    steps = np.arange(0, 200, 10)
    with Store(path) as store:
        for number in range(12):
            heads = 2 ** (number % 4)
            config = {
                "family": "attention-only",
                "seed": number // 4,
                "sizes": {"n_heads": heads, "dim": 4},
                "options": {},
                "data": {"kind": HOSTILE if number == 11 else "associations", "n_vocab": 8},
                "training": {"steps": 200, "learning_rate": 0.01},
            }
            accuracy = 1 - np.exp(-steps * heads / 200)
            record = Record(
                key=key_of(config),
                config=config,
                status="done",
                steps=200,
                measured={"loss": 1 / heads, "accuracy": float(accuracy[-1])},
                n_parameters=100 * heads,
                n_samples=64,
                seconds=1.0,
                device=HOSTILE if number == 11 else "cpu",
                versions={"torch": "2"},
                created=f"2026-01-01T00:00:{number:02d}Z",
                curve_steps=steps,
                curve={"loss": 1 - accuracy / 2, "accuracy": accuracy},
            )
            assert store.add(record)
