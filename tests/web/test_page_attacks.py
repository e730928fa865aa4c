"""The page under attack: markup in labels, other sites, and files that are too large."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import HOSTILE, OpenPage, Server
from tests.web.page import seen


def test_a_label_that_looks_like_markup_is_text_in_every_view(
    server: Server, open_page: OpenPage, hostile: str
) -> None:
    page = open_page("/", allowed=(400, 404, 409))
    origin = page.url.rstrip("/")
    visits = {
        "/compile?data=hostile.csv": "#compile-button",
        f"/ask?model={hostile}&q=who+are+you": ".answer .known",
        f"/inside?model={hostile}&q=who+are+you": ".heat svg",
        f"/break?model={hostile}&q=who+are+you": "button.bit",
        "/figures?figure=hostile": ".panel svg",
        f"/compile?data={HOSTILE}": ".problem",
        f"/ask?model={HOSTILE}&q={HOSTILE}": ".problem",
        f"/break?model={hostile}&edits={HOSTILE}": "button.bit",
        f"/figures?figure={HOSTILE}&where={HOSTILE}": ".problem",
    }
    for address, sign in visits.items():
        page.goto(origin + address)
        page.locator(sign).first.wait_for()
        if "q=who" in address or "figure=hostile" in address:
            page.get_by_text(HOSTILE).first.wait_for()
        for details in page.locator("details > summary").all():
            details.click()
        if address.startswith("/break"):
            page.locator("button.bit.marked").first.click()
            page.locator(".damage .stamp").wait_for()
        assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0, address
        assert page.evaluate("window.hacked") is None, address


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[str]:
    """Another origin on this machine."""
    (tmp_path / "index.html").write_text("<!doctype html><title>other</title>")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def test_another_site_can_neither_ask_nor_read(server: Server, browser: Any, other_site: str) -> None:
    n_before = len(server.client.get("/api/jobs").json()["jobs"])
    page = browser.new_page()
    page.goto(other_site)
    script = """async (address) => {
        const body = '{"kind":"examine","data":"capitals.csv"}';
        const tries = [
            () => fetch(address + "api/jobs", { method: "POST", body }),
            () => fetch(address + "api/jobs", { method: "POST", mode: "no-cors", body }),
            () => fetch(address + "api/models"),
        ];
        const read = [];
        for (const one of tries) { try { read.push(await (await one()).text()); } catch { read.push(null); } }
        return read;
    }"""
    assert page.evaluate(script, server.address) in ([None, None, None], [None, "", None])
    page.close()
    assert len(server.client.get("/api/jobs").json()["jobs"]) == n_before


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("/")
    big = tmp_path / "big.csv"
    with big.open("wb") as stream:
        stream.truncate(2 << 30)
    page.locator("#data-file").set_input_files(big)
    seen(page, "byheart compile FILE -o DIR")
