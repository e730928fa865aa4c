"""Check every request: its token, its origin and its size. Also set the security headers of every response."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from byheart.web.limits import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "byheart_token"
UPLOAD_PATH = "/api/data"
BODY_SECONDS, BODY_BYTES_PER_SECOND = 20.0, 1000
"""The time limit for a request body: `BODY_SECONDS`, plus the time that the bytes received so far take at
`BODY_BYTES_PER_SECOND`.
"""

SAFE_METHODS = ("GET", "HEAD")

# Inline styles are allowed, because plots contain them. Inline scripts are not.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: "
        "blob:; "
        "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Refusal:
    """The status and reason of a refused request."""

    status: int
    name: str
    message: str


@dataclass(frozen=True)
class Guard:
    """ASGI middleware that refuses unsafe requests and adds security headers to responses.

    token   the token that every request must carry, as a cookie or bearer token; None on a loopback address, which
            only this machine can reach
    host    the address that the server listens on
    """

    app: App
    limits: Limits
    host: str
    port: int
    token: str | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on to the application. Either way, the response gets the security headers `HEADERS`."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        location = self._token_in_address(scope, headers)
        if location is not None:
            cookie = f"{COOKIE}_{self.port}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            await _respond(send, 303, b"", {"location": location, "set-cookie": cookie})
            return
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            document = {"schema": 1, "error": refusal.name, "message": refusal.message, "facts": {}}
            body = json.dumps(document).encode()
            await _respond(
                send, refusal.status, body, {"content-type": "application/json", "connection": "close"}
            )
            return
        await self.app(scope, self._count_bytes(scope, receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        host = headers.get("host", "")
        if not self._knows_host(host):
            return Refusal(
                421,
                "WrongHost",
                f"this server does not answer to the name {host!r}. Open the address that `byheart serve` printed.",
            )
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host:
            return Refusal(403, "WrongOrigin", f"requests from the page {origin!r} are refused.")
        is_page = scope["method"] in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_page:
            return Refusal(403, "WrongOrigin", "requests made by other sites are refused.")
        if self.token is not None and not self._has_token(headers):
            words = (
                "the token of this server is missing or wrong. Open the address that `byheart serve` printed."
            )
            return Refusal(401, "TokenNeeded", words)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._most_bytes(scope):
            most = self._most_bytes(scope)
            words = f"{int(length):,} bytes" if length.isdigit() else "not a number"
            return Refusal(413, "TooLarge", f"the content-length is {words}; the limit is {most:,} bytes.")
        return None

    def _most_bytes(self, scope: Scope) -> int:
        return self.limits.upload_bytes if scope["path"] == UPLOAD_PATH else self.limits.request_bytes

    def _knows_host(self, host: str) -> bool:
        """Return whether the Host header names this server. Another domain name that resolves to this address is refused."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if port not in (self.port, None if self.port == 80 else self.port) or parts.username is not None:
            return False
        if is_loopback(self.host):
            return name in ("127.0.0.1", "localhost", "::1")
        return _is_address(name) or name in (
            "localhost",
            socket.gethostname().lower(),
            socket.getfqdn().lower(),
        )

    def _token_in_address(self, scope: Scope, headers: dict[str, str]) -> str | None:
        """If the address of the request contains the right token, return the path and query of this address without the
        token; otherwise return None. The caller redirects the browser to the result and sets the token as a cookie.
        """
        if self.token is None or scope["method"] != "GET" or not self._knows_host(headers.get("host", "")):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = query.pop("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return None
        rest = urlencode(query, doseq=True)
        path = "/" + str(scope["path"]).lstrip("/")
        return path + (f"?{rest}" if rest else "")

    def _has_token(self, headers: dict[str, str]) -> bool:
        assert self.token is not None
        given = headers.get("authorization", "").removeprefix("Bearer ")
        candidates = [given, _cookie(headers.get("cookie", ""), f"{COOKIE}_{self.port}")]
        return any(secrets.compare_digest(each.encode(), self.token.encode()) for each in candidates)

    def _count_bytes(self, scope: Scope, receive: Receive) -> Receive:
        """Return a function to call instead of `receive`. If the request body is too long or arrives too slowly, this
        function returns the message that the client has disconnected.
        """
        most, seen, is_whole, start = self._most_bytes(scope), 0, False, time.monotonic()

        async def receive_counted() -> MutableMapping[str, Any]:
            nonlocal seen, is_whole
            if is_whole:  # after the body, only a disconnect can arrive
                return await receive()
            left = start + BODY_SECONDS + seen / BODY_BYTES_PER_SECOND - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), left)
            except TimeoutError:
                return {"type": "http.disconnect"}
            seen += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            return {"type": "http.disconnect"} if seen > most else message

        return receive_counted


def _host_of(origin: str) -> str | None:
    """Return the host of an Origin header with its port. It is empty if the header names none, as in "null", and None if the header
    cannot be parsed.
    """
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _cookie(header: str, name: str) -> str:
    """Return the value of a cookie, or an empty text if there is none. Other cookies in the header may be malformed."""
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            known = {name for name, _ in message["headers"]}
            if b"cache-control" not in known:
                extra.append((b"cache-control", b"no-cache"))
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sending


async def _respond(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    given = {**HEADERS, **headers, "content-length": str(len(body))}
    listed = [(name.encode(), value.encode("latin-1", "replace")) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
