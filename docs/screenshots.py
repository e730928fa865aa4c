"""Take the pictures of `page.md`, or with a folder as argument one of every view, at two widths, in light and dark.

    python docs/screenshots.py [DIR]

It needs the extras `web` and `test` and the program `chromium`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "docs" / "_static"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
QUESTION = "capital+of+France"
VIEWS = {
    "compile": ("/compile?data=capitals.csv", "#compile-button"),
    "ask": (f"/ask?model=capitals&q={QUESTION}", ".answer .known"),
    "inside": (f"/inside?model=capitals&q={QUESTION}&step=5", ".heat svg"),
    "inside-theorem": (f"/inside?model=capitals-2&q={QUESTION}&step=10", ".heat svg"),
    "break": (f"/break?model=capitals&q={QUESTION}", "button.bit.marked"),
    "fits": ("/fits?facts=1000000", "figure svg circle"),
    "figures": ("/figures?figure=dana-2024-fig1a", ".panel svg"),
    "api": ("/api", ".operation"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        server, address = start(Path(place))
        try:
            for method in ("retrieval", "kajitsuka-sato-2025"):
                compile_capitals(address, method)
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
            if len(sys.argv) > 1:
                take_all(browser, address, Path(sys.argv[1]))
            else:
                take_three(browser, address)
            browser.close()
        finally:
            server.terminate()
            server.wait()


def start(place: Path) -> tuple[subprocess.Popen[str], str]:
    store = place / "runs.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    byheart = [sys.executable, "-m", "byheart"]
    specification = ROOT / "examples" / "heads.toml"
    subprocess.run(
        [*byheart, "measure", str(specification), "--store", str(store)], check=True, env=environment
    )
    options = ["--port", "0", "--models", str(place / "models"), "--store", str(store)]
    figures = ["--figures", str(ROOT / "results")]
    command = [*byheart, "serve", "--json", *options, *figures]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    printed = ""
    while not printed.endswith("}\n"):
        printed += server.stdout.readline()
    return server, json.loads(printed)["address"].rstrip("/")


def compile_capitals(address: str, method: str) -> None:
    body: dict[str, Any] = {"kind": "compile", "data": "capitals.csv", "method": method}
    if method == "retrieval":
        body |= {"precision": "float64", "reject_bits": 16}
    job = ask(address + "/api/jobs", body)
    while job["state"] in ("waiting", "running"):
        time.sleep(0.2)
        job = ask(f"{address}/api/jobs/{job['id']}")
    assert job["state"] == "done", job["error"]


def ask(address: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    for attempt in range(50):
        try:
            request = urllib.request.Request(address, content, {"content-type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.URLError:
            time.sleep(0.1 * (attempt + 1))
    raise ConnectionError(address)


def show(page: Page, address: str, name: str) -> None:
    path, sign = VIEWS[name]
    page.goto(address + path)
    page.locator(sign).first.wait_for(timeout=60_000)
    if name == "break":
        page.locator("button.bit.marked").nth(23).click()
        page.locator(".damage .stamp").wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)


def take_three(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    places = (
        ("compile", ".card:has(.numbers)", 960),
        ("inside", ".verdict", 935),
        ("break", "header.top", 1040),
    )
    for name, first, height in places:
        show(page, address, name)
        box = page.locator(first).first.bounding_box()
        top = max(0, box["y"] - 20)
        clip = {"x": 0, "y": top, "width": 1180, "height": height}
        page.screenshot(path=STATIC / f"page-{name}.png", clip=clip, full_page=True)


def take_all(browser: Any, address: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for width in (1280, 400):
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            for name in VIEWS:
                show(page, address, name)
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
            page.close()


if __name__ == "__main__":
    main()
