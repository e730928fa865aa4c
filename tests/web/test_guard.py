"""Who may ask: Host, Origin, token and size are checked before anything else happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

import httpx
from fastapi import FastAPI, Request

from byheart.web.guard import Guard
from byheart.web.limits import Limits

LIMITS = Limits(upload_bytes=1000, request_bytes=100)


def call(
    method: str,
    path: str = "/api/state",
    *,
    headers: dict[str, str] | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    content: bytes | AsyncIterator[bytes] | None = None,
    base: str = "http://127.0.0.1:8000",
) -> httpx.Response:
    """One request to a guarded application that answers with what it was sent."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST", "DELETE"])
    async def echo(request: Request) -> dict[str, Any]:
        return {"n_bytes": len(await request.body())}

    guarded: Any = Guard(app, LIMITS, host, 8000, token)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(guarded, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(send())


@pytest.mark.parametrize("name", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"])
def test_own_names_are_answered(name: str) -> None:
    assert call("GET", headers={"host": name}).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1:9999",
        "127.0.0.1.evil.example:8000",
        "",
        "a@127.0.0.1:8000",
        "[::1",
    ],
)
def test_a_name_that_points_here_by_a_trick_is_not_answered(name: str) -> None:
    answer = call("GET", headers={"host": name})
    assert answer.status_code == 421
    assert answer.json()["error"] == "WrongHost"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:8001", "https://localhost", "http://["]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_another_origin_is_refused(method: str, origin: str) -> None:
    answer = call(method, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"] == "WrongOrigin"


def test_the_page_itself_may_ask() -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert call("POST", headers=headers, content=b"x").json() == {"n_bytes": 1}


def test_what_other_sites_embed_is_refused_but_a_link_may_be_followed() -> None:
    assert (
        call("GET", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403
    )
    assert (
        call(
            "GET", "/ask", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        ).status_code
        == 200
    )
    assert (
        call("POST", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code
        == 403
    )


def test_beyond_this_machine_a_token_is_needed() -> None:
    base = "http://192.168.1.5:8000"
    ask = lambda **options: call("GET", host="0.0.0.0", token="secret", base=base, **options)  # noqa: E731 - one call, many options
    assert ask().status_code == 401
    assert ask(headers={"authorization": "Bearer wrong"}).status_code == 401
    assert ask(headers={"authorization": "Bearer secret"}).status_code == 200
    assert ask(headers={"cookie": "byheart_token_8000=secret"}).status_code == 200
    others = "a/b=c; d(e)=f; =; "  # of another server under the same name
    assert ask(headers={"cookie": f"{others}byheart_token_8000=secret"}).status_code == 200
    assert ask(headers={"cookie": others}).status_code == 401
    opened = ask(path="/ask?q=a+b&token=secret")
    assert (opened.status_code, opened.headers["location"]) == (303, "/ask?q=a+b")
    assert "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
    assert ask(path="/ask?token=wrong").status_code == 401


def test_a_token_does_not_send_the_browser_elsewhere() -> None:
    base = "http://192.168.1.5:8000"
    opened = call("GET", "//evil.example/?token=secret", host="0.0.0.0", token="secret", base=base)
    assert opened.headers.get("location", "/").startswith("/")
    assert not opened.headers.get("location", "/").startswith("//")


def test_a_body_that_is_too_large_is_refused_by_its_announced_size() -> None:
    answer = call("POST", headers={"content-length": str(2 << 30)}, content=b"x")
    assert answer.status_code == 413
    assert "2,147,483,648 bytes" in answer.json()["message"]
    assert call("POST", "/api/data", content=b"x" * 1000).json() == {"n_bytes": 1000}
    assert call("POST", "/api/data", content=b"x" * 1001).status_code == 413


def test_a_body_that_does_not_announce_its_size_is_cut_off() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 100

    answer = call("POST", "/api/data", content=endless())
    assert answer.status_code >= 400


def test_a_body_that_comes_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byheart.web.guard.BODY_SECONDS", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    answer = call("POST", "/api/data", content=slow())
    assert answer.status_code >= 400
    assert call("POST", "/api/data", content=b"x").json() == {"n_bytes": 1}


def test_browsers_are_told_to_run_and_load_nothing_else() -> None:
    for answer in (call("GET"), call("GET", headers={"host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
