"""Close connections that take too long to send the head of a request, so that many slow clients cannot block the others."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""The time limit for the head of a request. For the first request of a connection, the time starts when the connection opens; for
later requests, it starts when their first byte arrives.
"""

MOST_WAITING = 400
"""The maximum number of connections that have not yet sent the complete head of a request.

If another connection opens, the one that has waited longest is closed.
"""


class TimedConnection(H11Protocol):
    """The HTTP protocol of uvicorn, except that it closes connections that do not send the head of a request in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Start the timer for the first request. If too many connections are waiting, close the one that has waited longest."""
        super().connection_made(transport)
        self._wait()
        waiting = {
            each: each._timer.when()
            for each in self.connections
            if isinstance(each, TimedConnection) and each._timer is not None
        }
        if len(waiting) > MOST_WAITING:
            min(waiting, key=waiting.__getitem__)._end()

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the head of a request is complete. Start it again when data arrive after an answer."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.close()
