"""Pelias' other paths, handed on to the Pelias server behind us: bounded, with a deadline, no redirects."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import Any

import orjson

from placings.core import PlacingsError, escape_line, need_library

LOG = logging.getLogger("placings.serve")
PATHS = {
    "/v1/reverse": "v1/reverse",
    "/v1/place": "v1/place",
    "/v1/search/structured": "v1/search/structured",
    "/attribution": "attribution",
    "/status": "status",
}  # what we answer: what is asked of the server
PLAIN = frozenset({"/attribution", "/status"})  # paths whose answer is a text
PREFIX = "pelias+"
KEY = "PLACINGS_PELIAS_KEY"
MOST_BYTES = 4 << 20
MOST_AT_ONCE = 16
FIRST_BYTES = 200


class ProxyFailed(PlacingsError, RuntimeError):
    """The server behind gave nothing that can be handed on; `status` is what the client is told."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class PeliasProxy:
    """Asks a Pelias server for what we do not answer ourselves, with our key, never with the client's."""

    def __init__(self, engine: str, seconds: float) -> None:
        httpx = need_library("httpx", "the Pelias engine", "places")
        self._seconds = seconds
        self._waiting = 0
        key = os.environ.get(KEY)
        self._own = [("api_key", key)] if key else []
        self._client = httpx.AsyncClient(
            base_url=engine.removeprefix(PREFIX).rstrip("/") + "/",
            headers={"Accept": "application/json"},
            follow_redirects=False,
            timeout=seconds,
            limits=httpx.Limits(max_connections=MOST_AT_ONCE),
        )

    async def ask(self, path: str, params: Sequence[tuple[str, str]]) -> tuple[int, bytes, str]:
        """Status, body and kind of what the server answers to one of `PATHS`."""
        import httpx

        if self._waiting >= 2 * MOST_AT_ONCE:
            raise ProxyFailed(503, "too many requests are waiting for the engine.")
        told = [(name, value) for name, value in params if name != "api_key"] + self._own
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                status, body, kind = await self._read(PATHS[path], told)
        except TimeoutError:
            raise ProxyFailed(503, f"the engine took longer than {self._seconds * 1000:g} ms.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            LOG.warning("engine failed: %s", type(error).__name__)
            raise ProxyFailed(503, "the engine does not answer.") from None
        finally:
            self._waiting -= 1
        if not 200 <= status < 500 or 300 <= status < 400 or not _is_whole(path, body):
            LOG.error("the engine answered %d with %s", status, escape_line(repr(body[:FIRST_BYTES])))
            raise ProxyFailed(502, "the engine answered with something that cannot be handed on.")
        return status, body, "text/plain; charset=utf-8" if path in PLAIN else kind

    async def _read(self, path: str, params: Any) -> tuple[int, bytes, str]:
        async with self._client.stream("GET", path, params=params) as answer:
            parts, size = [], 0
            async for chunk in answer.aiter_bytes():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise ProxyFailed(502, f"the engine answered with more than {MOST_BYTES:,} bytes.")
                parts.append(chunk)
            return answer.status_code, b"".join(parts), "application/json"

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _is_whole(path: str, body: bytes) -> bool:
    """Whether a body is what Pelias gives there: an object, or a text."""
    if path in PLAIN:
        return True
    try:
        return isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return False
