"""A connection on which no request becomes complete is closed; one that asks is not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `web` is not installed")

import uvicorn

from byheart.web import connections

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
Client = Callable[[int], Awaitable[None]]


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An application that takes a while."""
    await asyncio.sleep(0.4)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def with_server(client: Client) -> None:
    """Let a client talk to a server on this port."""

    async def both() -> None:
        line = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(answer, http=connections.TimedConnection, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([line]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(client(line.getsockname()[1]), 60)
        finally:
            server.should_exit = True
            await serving

    asyncio.run(both())


def test_an_unfinished_request_is_ended_and_a_finished_one_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

    async def client(port: int) -> None:
        silent, _silent = await asyncio.open_connection("127.0.0.1", port)
        slow, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD)
        asking, asker = await asyncio.open_connection("127.0.0.1", port)
        asker.write(HEAD + b"\r\n")  # it is answered after more than that time
        assert (await asking.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await slow.read() == b""
        assert await silent.read() == b""
        asker.write(HEAD)  # and a second request on the same connection, which does not end either
        assert await asking.read() == b""

    with_server(client)


def test_the_oldest_of_too_many_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 5)

    async def client(port: int) -> None:
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        assert await lines[0][0].read() == b""
        for reader, writer in lines[1:]:
            writer.write(HEAD + b"\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

    with_server(client)
