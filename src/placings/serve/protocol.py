"""What a client may do to a connection: how long a request may take to arrive, and how large its head may be.

uvicorn waits for ever for a request's first line, and each byte of a slow client renews its patience.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 32 << 10  # bytes of a request's first line and headers
MOST_HEADERS = 100
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s"
)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a clock that a byte now and then does not turn back."""

    seconds = 15.0
    most = 1000
    _clock: asyncio.TimerHandle | None = None
    _head = 0
    _in_head = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._clock is None:  # the first byte of a further request
            self._start()
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > MOST_HEAD:
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MOST_HEAD or len(self.headers) > MOST_HEADERS:
            self._refuse()
            raise ValueError("the head of the request is too large")
        self._in_head, self._head = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        self._in_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _start(self) -> None:
        self._stop()
        self._clock = self.loop.call_later(self.seconds, self._cut)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _cut(self) -> None:
        self._clock = None
        self.transport.abort()

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            said = b'{"error":"the first line and headers must have %d bytes and %d lines or fewer."}' % (
                MOST_HEAD,
                MOST_HEADERS,
            )
            self.transport.write(TOO_LARGE % (len(said), said))
            self.transport.close()


def guard_connections(seconds: float, most: int) -> type[HttpToolsProtocol]:
    """A protocol whose requests must arrive whole within `seconds`, on at most `most` connections."""
    return type("GuardedProtocol", (GuardedProtocol,), {"seconds": seconds, "most": most})
