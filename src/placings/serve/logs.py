"""The service's own log: JSON lines on standard error, without keys, typed texts or raw controls."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from placings.core import escape_line

ACCESS = logging.getLogger("placings.access")
EVERY = 0.1  # seconds that the line of a request waits for company
MOST_LINES = 20_000  # of requests that wait to be written; more are dropped, and counted
OURS = ("placings", "uvicorn.error")  # the second is told of requests that are no HTTP


class JsonLines(logging.Formatter):
    """One JSON object a line; what a record brings as `told` stands beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "what": escape_line(record.getMessage())[:2000],
            "process": record.process,
            **getattr(record, "told", {}),
        }
        if record.exc_info is not None:
            told["error"] = escape_line(self._say_where(record.exc_info))[-2000:]
        return json.dumps(told, ensure_ascii=True)

    def _say_where(self, told: object) -> str:
        """The files and lines of an error, and its kind; its message may hold what somebody typed."""
        import traceback

        kind, _, trace = told if isinstance(told, tuple) else (None, None, None)
        frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
        return f"{kind.__name__ if kind is not None else 'error'} at {' < '.join(reversed(frames[-8:]))}"


def write_logs(level: int = logging.INFO) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in OURS:
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(level if name == "placings" else logging.WARNING)
        log.propagate = False


class RequestLines:
    """A line for each request: which list, how long; never what was typed.

    Lines are written some at a time by another thread: while a disk syncs events, or whoever reads the log
    is slow, a line written at once would hold up every reply.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._lines: list[logging.LogRecord] = []
        self._due: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None

    def note(self, path: str, status: int, seconds: float, search_id: str | None) -> None:
        """Write the line of a request soon; its time is now."""
        if not ACCESS.isEnabledFor(logging.INFO):
            return
        if len(self._lines) >= MOST_LINES:
            self.dropped += 1
            return
        told: dict[str, Any] = {"path": path, "status": status, "ms": round(1000 * seconds, 2)}
        if search_id is not None:
            told["search_id"] = search_id
        self._lines.append(_make_record("request", told))
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(EVERY, self._hand_on)

    def _hand_on(self) -> None:
        """Let another thread write what there is; if it still writes what was before, later."""
        loop = asyncio.get_running_loop()
        if self._writing is not None and not self._writing.done():
            self._due = loop.call_later(EVERY, self._hand_on)
            return
        self._due = None
        self._writing = loop.run_in_executor(None, _write_lines, self._take())

    def _take(self) -> list[logging.LogRecord]:
        lines, self._lines = self._lines, []
        if self.dropped:
            lines.append(_make_record(f"{self.dropped} lines of requests were dropped", {}))
            self.dropped = 0
        return lines

    async def close(self) -> None:
        """Write the rest."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._writing is not None:
            await self._writing
        _write_lines(self._take())


def _make_record(what: str, told: dict[str, Any]) -> logging.LogRecord:
    """A record without the search for the line of code that it names."""
    return ACCESS.makeRecord(ACCESS.name, logging.INFO, "", 0, what, (), None, extra={"told": told})


def _write_lines(lines: Sequence[logging.LogRecord]) -> None:
    for line in lines:
        ACCESS.handle(line)
